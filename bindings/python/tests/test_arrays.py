"""NumPy arrays: what functions are given, which arrays share memory, tiles."""

import gc
import random
from typing import Any

import pytest
import seriatim

np = pytest.importorskip("numpy")


def test_functions_get_arrays_that_they_may_use_as_declared(engine: seriatim.Engine) -> None:
    a, b = np.arange(4.0), np.zeros(4)
    x, y = engine.array(a, name="x"), engine.array(b, name="y")

    def add(x: Any, y: Any) -> tuple[bool, bool]:
        y += x
        return x.flags.writeable, y.flags.writeable

    assert engine.run(add, [x], [y]).result(10) == (False, True)
    assert b.tolist() == [0, 1, 2, 3] and y.get(10).tolist() == b.tolist()
    assert not y.get().flags.writeable and x.shape == (4,)

    def undeclared(x: Any) -> None:
        x[0] = 9

    with pytest.raises(ValueError, match="read-only"):
        engine.run(undeclared, [x]).result(10)
    assert a[0] == 0


def test_the_same_array_is_the_same_resource(engine: seriatim.Engine) -> None:
    a = np.zeros((4, 4))
    x = engine.array(a)
    assert engine.array(a) is x and engine.array(a[:]) is x
    for other in (a[1:], a.T[:2], a.reshape(-1), a.view("int64")):
        with pytest.raises(seriatim.OverlapError, match="tiles="):
            engine.array(other)


def test_disjoint_views_are_resources_of_their_own(engine: seriatim.Engine) -> None:
    a = np.zeros((6, 6))
    parts = [a[:3, :3], a[:3, 3:], a[3:, ::2], a[3:, 1::2]]
    made = [engine.array(part) for part in parts]
    assert len(set(map(id, made))) == 4
    with pytest.raises(seriatim.OverlapError):
        engine.array(a[2:4])


def test_arrays_that_are_gone_are_forgotten(engine: seriatim.Engine) -> None:
    a = np.zeros(8)
    for _ in range(3):
        x = engine.array(a)
        engine.run(lambda a: a.fill(1), writes=[x])
        del x
        engine.wait(10)
        gc.collect()
    engine.array(a[2:])
    engine.array(a[:2])


def test_overlaps_are_found_as_numpy_finds_them(engine: seriatim.Engine) -> None:
    random.seed(7)
    base = np.zeros((12, 12))
    for _ in range(300):
        def cut() -> Any:
            ends = [sorted(random.sample(range(13), 2)) for _ in range(2)]
            (top, bottom), (left, right) = ends
            return base[top : bottom : random.choice([1, 2]), left : right : random.choice([1, 2])]

        one, other = cut(), cut()
        first = engine.array(one)
        layout = [(v.__array_interface__["data"][0], v.shape, v.strides) for v in (one, other)]
        try:
            second = engine.array(other)
            assert not np.shares_memory(one, other) or (second is first and layout[0] == layout[1])
            del second
        except seriatim.OverlapError:
            assert np.shares_memory(one, other)
        del first


def test_tiles_cover_the_array(engine: seriatim.Engine) -> None:
    a = np.zeros((5, 7))
    x = engine.array(a, tiles=(2, 3), name="x")
    assert x.grid == (3, 3) and len(x) == 9 and x[2, 2].shape == (1, 1) and x[0, 1].name == "x[0, 1]"
    assert x[1, 1].whole is x and list(x)[0] is x[0, 0]
    for number, tile in enumerate(x):
        engine.run(lambda tile, n: tile.fill(n), writes=[tile], args=(number,))
    total = engine.run(lambda x: float(x.sum()), [x])
    expected = sum(number * tile.shape[0] * tile.shape[1] for number, tile in enumerate(x))
    assert total.result(10) == expected
    with pytest.raises(IndexError, match="grid is"):
        x[3, 0]
    with pytest.raises(ValueError, match="tiles="):
        engine.array(np.zeros(3), tiles=(1, 1))
    with pytest.raises(seriatim.OverlapError, match="grid"):
        engine.array(a, tiles=(5, 7))
    assert engine.array(a, tiles=(2, 3)) is x
    with pytest.raises(seriatim.AliasError):
        engine.run(print, [x[0, 0]], [x])


def test_an_operation_on_the_whole_waits_for_its_tiles(engine: seriatim.Engine) -> None:
    a = np.zeros((8, 8))
    x = engine.array(a, tiles=(4, 4))
    for turn in range(50):
        for tile in x:
            engine.run(lambda t: np.add(t, 1, out=t), writes=[tile])
        engine.run(lambda x: np.multiply(x, 2, out=x) if (x == x[0, 0]).all() else x.fill(-1), writes=[x])
    assert x.get(20)[0, 0] == 2 * (2**50 - 1)

    failed = engine.run(lambda t: 1 // 0, writes=[x[1, 1]])
    assert isinstance(engine.run(np.sum, [x]).exception(10), seriatim.Skipped)
    assert engine.run(np.sum, [x[0, 0]]).exception(10) is None
    assert isinstance(failed.exception(10), ZeroDivisionError)


def test_an_engine_that_checks_takes_back_what_it_lends() -> None:
    a = np.zeros(3)
    kept: list[Any] = []
    with seriatim.Engine(2, checked=True) as engine:
        x = engine.array(a)
        with pytest.raises(ValueError, match="read-only"):
            a[0] = 1  # The engine has it.
        engine.run(lambda a: (a.fill(1), kept.append(a)), writes=[x])
        engine.run(lambda a: kept.append(a), [x])
        engine.wait(10)
        for view in kept:
            with pytest.raises(ValueError, match="read-only"):
                view[0] = 5
    a[0] = 3
    assert a.tolist() == [3, 1, 1]


def test_only_arrays_are_arrays(engine: seriatim.Engine) -> None:
    with pytest.raises(TypeError, match="value"):
        engine.array([1, 2])  # type: ignore[arg-type]
