"""NumPy arrays of an engine: which share memory, their tiles, and what an engine that checks lends."""

from __future__ import annotations

import itertools
import threading
import weakref
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ._access import Array
from ._errors import OverlapError

if TYPE_CHECKING:
    from ._engine import Engine

# How long NumPy may look whether two arrays with common bounds share an element. What it does not
# find out counts as shared. The types of NumPy 2.4 know no such number.
_EFFORT: Any = 10_000


def _shares(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    try:
        return bool(np.shares_memory(one, other, max_work=_EFFORT))
    except np.exceptions.TooHardError:
        return True


def _is_same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    here, there = one.__array_interface__, other.__array_interface__
    return (
        here["data"][0] == there["data"][0]
        and one.shape == other.shape
        and one.strides == other.strides
        and one.dtype == other.dtype
    )


class _Extent:
    """Lives as long as an array or one of its tiles."""


class Registry:
    """The arrays of an engine by their addresses, as long as somebody has them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._places: list[tuple[int, int, int]] = []  # first byte, end, number
        self._arrays: dict[int, tuple[weakref.ref[_Extent], weakref.ref[Array], np.ndarray[Any, Any]]] = {}
        self._locked: list[np.ndarray[Any, Any]] = []
        self._numbers = itertools.count()
        self._longest = 0

    def add(
        self, engine: Engine, array: np.ndarray[Any, Any], tiles: Sequence[int] | None, name: str, is_checked: bool
    ) -> Array:
        """The resource of an array: an old one for an array that is there already."""
        if not isinstance(array, np.ndarray):
            raise TypeError(f"array() is for arrays of NumPy, not {type(array).__name__}: try value()")
        first, end = byte_bounds(array)
        with self._lock:
            found = self._find(array, first, end, tiles)
            if found is not None:
                return found
            write = array.view()
            made = _make(engine, write, tiles, name)
            if is_checked and array.flags.writeable:
                array.flags.writeable = False
                self._locked.append(array)
            number = next(self._numbers)
            place = (first, end, number)
            insort(self._places, place)
            self._longest = max(self._longest, end - first)
            extent = _Extent()
            for one in (made, *made.tiles.values()):
                one._extent = extent
            gone = weakref.ref(extent, lambda _: self._remove(place))
            self._arrays[number] = gone, weakref.ref(made), write
            return made

    def _find(
        self, array: np.ndarray[Any, Any], first: int, end: int, tiles: Sequence[int] | None
    ) -> Array | None:
        at = bisect_left(self._places, (first - self._longest, 0, 0))
        for low, high, number in self._places[at:]:
            if low >= end:
                break
            entry = self._arrays.get(number)
            if high <= first or entry is None or not _shares(array, entry[2]):
                continue
            other = entry[1]()
            if other is not None and _is_same(array, other._read):
                if tiles is None or _grid(array.shape, tiles) == other.grid:
                    return other
                raise OverlapError(f"the array is there already, with the grid {other.grid}")
            raise OverlapError(
                f"the array shares memory with {other or 'tiles of an array'!r}, and is not the same: make one array of both, "
                "with tiles=, and name its tiles"
            )
        return None

    def _remove(self, place: tuple[int, int, int]) -> None:
        with self._lock:
            self._arrays.pop(place[2], None)
            at = bisect_left(self._places, place)
            if at < len(self._places) and self._places[at] == place:
                del self._places[at]

    def give_back(self) -> None:
        """The engine has ended: the program may write to its arrays again."""
        with self._lock:
            for array in self._locked:
                array.flags.writeable = True
            self._locked.clear()


def _grid(shape: tuple[int, ...], tiles: Sequence[int]) -> tuple[int, ...]:
    if len(tiles) != len(shape) or any(side < 1 for side in tiles):
        raise ValueError(f"tiles={tuple(tiles)}: give a side of at least 1 for each of the {len(shape)} dimensions")
    return tuple(-(-length // side) for length, side in zip(shape, tiles, strict=True))


def _read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _make(engine: Engine, array: np.ndarray[Any, Any], tiles: Sequence[int] | None, name: str) -> Array:
    if tiles is None:
        return Array(engine, _read_only(array), array, name, [])
    grid = _grid(array.shape, tiles)
    parts = {}
    for place in itertools.product(*map(range, grid)):
        cut = tuple(slice(at * side, (at + 1) * side) for at, side in zip(place, tiles, strict=True))
        part = array[cut]
        label = f"{name}[{', '.join(map(str, place))}]"
        parts[place] = Array(engine, _read_only(part), part, label, [])
    whole = Array(engine, _read_only(array), array, name, list(parts.values()))
    for part_of in parts.values():
        part_of._whole = weakref.ref(whole)
    whole.tiles, whole.grid = parts, grid
    return whole


def lend(thing: Any, is_write: bool) -> Any:
    """What one operation of an engine that checks is given: a view of its own."""
    if not isinstance(thing, np.ndarray):
        return thing
    view = thing.view()
    if not is_write:
        view.flags.writeable = False
    return view


def take_back(thing: Any, is_write: bool) -> None:
    """The operation has ended: its view is not writable any more."""
    if is_write and isinstance(thing, np.ndarray):
        thing.flags.writeable = False
