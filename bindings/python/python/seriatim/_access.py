"""What operations declare, and how the program itself gets at it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ._seriatim import Held, Pending, Resource

if TYPE_CHECKING:
    import numpy as np

    from ._engine import Engine

T = TypeVar("T")


class Access(Generic[T]):
    """``with x.reading() as value``: an operation that the block is. Also ``async with``."""

    def __init__(self, resource: Resource, value: T, is_write: bool) -> None:
        self._resource, self._value, self._is_write = resource, value, is_write
        self._held: Held | None = None

    def __enter__(self) -> T:
        self._held = self._resource._hold(self._is_write).result()
        return self._value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None

    async def __aenter__(self) -> T:
        self._held = await self._resource._hold(self._is_write)
        return self._value

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.__exit__(kind, error, trace)


class Variable(Resource):
    """Something that operations read and change, and that only the program knows.

    It orders operations, and is no argument of their functions.
    """

    def __new__(cls, engine: Engine, name: str = "") -> Self:
        return super().__new__(cls, engine, name, None, None, [])

    def wait(self, timeout: float | None = None) -> None:
        """Waits for every change that was pushed before."""
        self.ready().result(timeout)

    def __repr__(self) -> str:
        return f"<Variable {self.name!r}>"


class Value(Resource, Generic[T]):
    """An object that operations read and change.

    Functions get the object itself. They change it in place, or replace it: ``into=`` of a push.
    """

    def __new__(cls, engine: Engine, value: T, name: str = "") -> Self:
        return super().__new__(cls, engine, name, value, value, [])

    if TYPE_CHECKING:

        def ready(self) -> Pending[T]: ...

    def get(self, timeout: float | None = None) -> T:
        """Waits for every change that was pushed before, and returns the object."""
        return self.ready().result(timeout)

    def __repr__(self) -> str:
        return f"<Value {self.name!r}>"


class Array(Resource):
    """A NumPy array that operations read and change, or a tile of one.

    Functions that read it get a view that is not writable. ``array[i, j]`` is a tile, if the array
    was made with ``tiles``; an operation on the whole array is one on all tiles.
    """

    tiles: dict[tuple[int, ...], Array]
    grid: tuple[int, ...]
    _read: np.ndarray[Any, Any]
    _write: np.ndarray[Any, Any]
    # What keeps the place of the array in the engine's registry: an array and its tiles have one.
    _extent: object
    _whole: weakref.ref[Array] | None

    def __new__(
        cls, engine: Engine, read: np.ndarray[Any, Any], write: np.ndarray[Any, Any], name: str, parts: list[Array]
    ) -> Self:
        this = super().__new__(cls, engine, name, read, write, parts)
        this._read, this._write = read, write
        this.tiles, this.grid, this._extent, this._whole = {}, (), None, None
        return this

    if TYPE_CHECKING:

        def ready(self) -> Pending[np.ndarray[Any, Any]]: ...

    @property
    def whole(self) -> Array | None:
        """The array that this is a tile of, if somebody has that; otherwise the array itself."""
        return self if self._whole is None else self._whole()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array, in elements."""
        shape: tuple[int, ...] = self._read.shape
        return shape

    def get(self, timeout: float | None = None) -> np.ndarray[Any, Any]:
        """Waits for every change that was pushed before; returns a view that is not writable."""
        return self.ready().result(timeout)

    def reading(self) -> Access[np.ndarray[Any, Any]]:
        """``with array.reading() as a``: nothing changes the array inside of the block."""
        return Access(self, self._read, False)

    def writing(self) -> Access[np.ndarray[Any, Any]]:
        """``with array.writing() as a``: nothing else uses the array inside of the block."""
        return Access(self, self._write, True)

    def __getitem__(self, at: int | tuple[int, ...]) -> Array:
        place = at if isinstance(at, tuple) else (at,)
        try:
            return self.tiles[place]
        except KeyError:
            raise IndexError(f"there is no tile {place}: the grid is {self.grid}") from None

    def __iter__(self) -> Iterator[Array]:
        return iter(self.tiles.values())

    def __len__(self) -> int:
        return len(self.tiles)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Array {self.name!r} {self.shape}>"
