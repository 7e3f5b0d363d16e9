from collections.abc import Callable, Generator, Iterable
from types import GenericAlias
from typing import Any, Generic, Self, TypeVar, final

from typing_extensions import disjoint_base

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

__all__ = ["CancelToken", "Capture", "Engine", "Graph", "Held", "Pending", "Resource", "Runner", "_at_exit", "_forked"]

_Resources = Resource | Iterable[Resource] | None

@disjoint_base
class Engine:
    def __new__(cls, workers: int, bound: int, when_full: str, checked: bool) -> Self: ...
    def run(
        self,
        fn_: Callable[..., _T],
        /,
        reads: _Resources = None,
        writes: _Resources = None,
        *,
        args: tuple[Any, ...] | None = None,
        into: Resource | None = None,
        name: str | None = None,
        priority: int = 0,
        token: CancelToken | None = None,
        start_within: float | None = None,
    ) -> Pending[_T]: ...
    def all(self) -> Pending[None]: ...
    def stats(self) -> dict[str, int]: ...
    @property
    def closed(self) -> bool: ...
    def _call(
        self,
        fn_: Callable[..., _T],
        args: tuple[Any, ...],
        writes: int,
        into: Resource | None,
        name: str | None,
        priority: int,
        token: CancelToken | None,
        start_within: float | None,
    ) -> Pending[_T]: ...
    def _capture(self) -> Capture: ...
    def _close(self) -> None: ...
    def _runners(self) -> list[Runner]: ...

@disjoint_base
class Resource:
    def __new__(cls, engine: Engine, name: str, read: Any, write: Any, parts: Iterable[Resource]) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    def ready(self) -> Pending[Any]: ...
    def _hold(self, is_write: bool) -> Pending[Held]: ...

@final
class Pending(Generic[_T_co]):
    def result(self, timeout: float | None = None) -> _T_co: ...
    def exception(self, timeout: float | None = None) -> BaseException | None: ...
    def done(self) -> bool: ...
    def add_done_callback(self, function: Callable[[Pending[_T_co]], object]) -> None: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __await__(self) -> Generator[Any, Any, _T_co]: ...

@final
class CancelToken:
    def __new__(cls) -> CancelToken: ...
    def cancel(self) -> None: ...
    @property
    def cancelled(self) -> bool: ...

@final
class Capture:
    def run(
        self,
        fn_: Callable[..., Any],
        /,
        reads: _Resources = None,
        writes: _Resources = None,
        *,
        args: tuple[Any, ...] | None = None,
        into: Resource | None = None,
        name: str | None = None,
        priority: int = 0,
    ) -> None: ...
    def finish(self) -> Graph: ...

@final
class Graph:
    def replay(self) -> Pending[None]: ...
    def __len__(self) -> int: ...

@final
class Held:
    def release(self) -> None: ...

@final
class Runner:
    def serve(self) -> None: ...
    def give_up(self) -> None: ...

def _at_exit() -> None: ...
def _forked() -> None: ...
