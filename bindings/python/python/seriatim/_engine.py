"""``Engine``: the class that programs use, over the one of the extension."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Self, TypeVar, overload

from . import _seriatim
from ._access import Array, Value, Variable
from ._seriatim import Pending, Resource

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
P = ParamSpec("P")


def _cores() -> int:
    count = getattr(os, "process_cpu_count", None)
    return (count() if count else len(os.sched_getaffinity(0))) or 1


class Engine(_seriatim.Engine):
    """Runs functions in parallel: two of which one changes what both use run in the order of pushes.

    ``with Engine() as engine`` waits at its end for all that was pushed, and raises the first
    exception that no wait has raised.

    ``workers``: threads that call functions; as many as there are cores by default. ``bound``: how
    many operations may be in flight; 0 for any number. ``when_full``: whether a push then waits or
    raises EngineFull. ``checked``: lends each operation views of its own, and takes them back, at
    some microseconds for each array.
    """

    def __new__(
        cls,
        workers: int | None = None,
        *,
        bound: int = 0,
        when_full: Literal["wait", "error"] = "wait",
        checked: bool = False,
        name: str = "seriatim",
    ) -> Self:
        return super().__new__(cls, _cores() if workers is None else workers, bound, when_full, checked)

    def __init__(
        self,
        workers: int | None = None,
        *,
        bound: int = 0,
        when_full: Literal["wait", "error"] = "wait",
        checked: bool = False,
        name: str = "seriatim",
    ) -> None:
        self._is_checked = checked
        self._registry: Any = None
        self._threads: list[threading.Thread] = []
        runners = self._runners()
        try:
            for seat, runner in enumerate(runners):
                thread = threading.Thread(target=runner.serve, name=f"{name}-{seat}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except BaseException:
            for refused in runners[len(self._threads) :]:
                refused.give_up()
            self._end()
            raise

    # ---- What operations use ----

    def variable(self, name: str = "") -> Variable:
        """Something that operations read and change, and that is no argument of their functions."""
        return Variable(self, name)

    def value(self, value: T, name: str = "") -> Value[T]:
        """An object that operations read and change. Nobody else must change it."""
        return Value(self, value, name)

    def array(self, array: np.ndarray[Any, Any], *, tiles: Sequence[int] | None = None, name: str = "") -> Array:
        """An array that operations read and change; with ``tiles``, in pieces of that shape.

        The same array gives the same resource. One that shares memory with another array of the
        engine is an OverlapError, which is looked for here, and not at each push.
        """
        if self._registry is None:
            from ._arrays import Registry

            self._registry = Registry()
        made: Array = self._registry.add(self, array, tiles, name, self._is_checked)
        return made

    # ---- Pushes ----

    @overload
    def operation(self, function: Callable[P, T], /) -> Operation[P, T]: ...
    @overload
    def operation(
        self,
        function: None = None,
        /,
        *,
        writes: str | Iterable[str] = (),
        into: Resource | None = None,
        name: str | None = None,
        priority: int = 0,
    ) -> Callable[[Callable[P, T]], Operation[P, T]]: ...
    def operation(
        self,
        function: Any = None,
        /,
        *,
        writes: str | Iterable[str] = (),
        into: Resource | None = None,
        name: str | None = None,
        priority: int = 0,
    ) -> Any:
        """Makes an operation of a function: calling it pushes, and returns the Pending result.

        ``writes`` names the parameters that the function changes. What else is given to it and is a
        resource is read; all other arguments are passed on.
        """
        names = (writes,) if isinstance(writes, str) else tuple(writes)

        def make(function: Callable[P, T]) -> Operation[P, T]:
            return Operation(self, function, names, into, name, priority)

        return make if function is None else make(function)

    def capture(self) -> Graph:
        """``with engine.capture() as graph`` records what ``graph.run`` is told; see Graph."""
        return Graph(self)

    # ---- The end ----

    def wait(self, timeout: float | None = None) -> None:
        """Waits until nothing is in flight; raises the first exception that no wait has raised."""
        self.all().result(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Waits as ``wait`` does, then ends the threads. A second call changes nothing.

        If the wait runs out of time or is interrupted, the engine goes on.
        """
        if self.closed:
            return
        try:
            self.wait(timeout)
        finally:
            if self.stats()["in_flight"] == 0:
                self._end()

    def _end(self) -> None:
        self._close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        if self._registry is not None:
            self._registry.give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"seriatim: an operation failed as well: {failure!r}")
        finally:
            # Interrupted: what has not started is not called.
            self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        try:
            await self.all()
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"seriatim: an operation failed as well: {failure!r}")
        finally:
            self._end()


class Operation(Generic[P, T]):
    """A function of which each call is pushed: see Engine.operation."""

    def __init__(
        self,
        engine: Engine,
        function: Callable[P, T],
        writes: Iterable[str],
        into: Resource | None,
        name: str | None,
        priority: int,
    ) -> None:
        functools.update_wrapper(self, function)
        self._engine, self._function = engine, function
        self._options = (into, name, priority, None, None)
        self._signature = inspect.signature(function)
        places = list(self._signature.parameters)
        self._writes = 0
        for written in writes:
            if written not in places[:64]:
                raise TypeError(f"{function!r} has no parameter {written!r} to write to")
            self._writes |= 1 << places.index(written)

    def __call__(self, *args: Any, **kwargs: Any) -> Pending[T]:
        if kwargs:
            bound = self._signature.bind(*args, **kwargs)
            if bound.kwargs:
                raise TypeError(f"{self._function!r}: operations have no keyword-only arguments")
            args = bound.args
        return self._engine._call(self._function, args, self._writes, *self._options)


class Graph:
    """Operations that are recorded once, and pushed as one by each ``replay``.

    A wait that takes the exception of an operation while a replay is under way ends the skipping of
    what has not begun in that replay.
    """

    def __init__(self, engine: Engine) -> None:
        self._capture = engine._capture()
        self._graph: _seriatim.Graph | None = None
        self.run = self._capture.run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if error is None:
            self._graph = self._capture.finish()

    def replay(self) -> Pending[None]:
        """Pushes all operations of the graph. The result is there when they have ended."""
        if self._graph is None:
            self._graph = self._capture.finish()
        return self._graph.replay()

    def __len__(self) -> int:
        return 0 if self._graph is None else len(self._graph)
