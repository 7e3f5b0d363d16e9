"""Pushes, what functions are given, order, settings."""

import threading
import time
from typing import Any

import pytest
import seriatim


def test_a_result_is_what_the_function_returns(engine: seriatim.Engine) -> None:
    pending = engine.run(lambda: 42)
    assert pending.result(10) == 42
    assert pending.done() and pending.result() == 42 and pending.exception() is None


def test_functions_get_reads_then_writes_then_args(engine: seriatim.Engine) -> None:
    a, b, c = engine.value("a"), engine.value("b"), engine.value(["c"])
    got = engine.run(lambda *args: args, [a, b], [c], args=(1, 2))
    assert got.result(10) == ("a", "b", ["c"], 1, 2)
    assert engine.run(lambda one: one, a).result(10) == "a"
    assert engine.run(lambda *all: all, (x for x in (a, b))).result(10) == ("a", "b")


def test_a_variable_is_no_argument(engine: seriatim.Engine) -> None:
    v = engine.variable("v")
    assert engine.run(lambda *args: args, [v], args=(1,)).result(10) == (1,)
    assert v.name == "v" and "v" in repr(v)


def test_operations_on_one_variable_run_in_push_order(engine: seriatim.Engine) -> None:
    seen: list[int] = []
    v = engine.variable()
    for at in range(2000):
        engine.run(seen.append, writes=[v], args=(at,))
    v.wait(20)
    assert seen == list(range(2000)) and v.version == 2000


def test_readers_run_at_once_and_writers_do_not(engine: seriatim.Engine) -> None:
    x = engine.value(0)
    both = threading.Barrier(2, timeout=20)
    readers = [engine.run(lambda _: both.wait(), [x]) for _ in range(2)]
    assert sorted(reader.result(20) for reader in readers) == [0, 1]

    inside: list[int] = []
    most: list[int] = []

    def change(_: Any) -> None:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.001)
        inside.pop()

    for _ in range(20):
        engine.run(change, writes=[x])
    x.get(20)
    assert max(most) == 1 and len(most) == 20


def test_a_result_goes_into_a_value(engine: seriatim.Engine) -> None:
    total = engine.value(0)
    for n in range(100):
        engine.run(lambda total, n: total + n, [total], args=(n,), into=total)
    assert total.get(20) == 4950
    doubled = engine.value(None)
    engine.run(lambda x: 2 * x, [total], into=doubled)
    assert doubled.get(20) == 9900


def test_the_decorator_pushes(engine: seriatim.Engine) -> None:
    x, y = engine.value([1, 2]), engine.value([0])

    @engine.operation(writes="y")
    def add(x: list[int], y: list[int], factor: int = 1) -> int:
        """Adds."""
        y[0] += factor * sum(x)
        return y[0]

    @engine.operation
    def look(y: list[int]) -> int:
        return y[0]

    assert getattr(add, '__name__') == "add" and add.__doc__ == "Adds."
    assert add(x, y).result(10) == 3
    assert add(x, factor=10, y=y).result(10) == 33
    assert look(y).result(10) == 33
    with pytest.raises(TypeError, match="no parameter 'z'"):
        engine.operation(writes="z")(lambda x: x)


def test_priorities_are_kept_among_ready_operations() -> None:
    with seriatim.Engine(1) as engine:
        gate = threading.Event()
        seen: list[int] = []
        engine.run(gate.wait, args=(20,))
        for priority in (0, -3, 5, 0, 7, -1, 5):
            engine.run(seen.append, args=(priority,), priority=priority)
        gate.set()
        engine.wait(20)
    assert seen == [7, 5, 5, 0, 0, -1, -3]


def test_a_bound_holds_pushes_up() -> None:
    gate = threading.Event()
    with seriatim.Engine(1, bound=3, when_full="error") as engine:
        for _ in range(3):
            engine.run(gate.wait, args=(20,))
        with pytest.raises(seriatim.EngineFull, match="bound"):
            engine.run(gate.wait)
        gate.set()
    most = 0
    with seriatim.Engine(2, bound=8) as engine:
        for _ in range(500):
            engine.run(lambda: None)
            most = max(most, engine.stats()["in_flight"])
    assert most <= 8


def test_an_operation_pushes_beyond_the_bound() -> None:
    with seriatim.Engine(1, bound=1) as engine:
        inner = engine.run(lambda: [engine.run(lambda: n) for n in range(3)]).result(20)
        assert len(inner) == 3 and all(one.exception(20) is None for one in inner)


def test_bad_settings_say_what_is_good() -> None:
    for bad, word in (({"workers": 0}, "1 to 1024"), ({"when_full": "perhaps"}, "'wait' or 'error'")):
        with pytest.raises(seriatim.BadSetting, match=word):
            seriatim.Engine(**bad)
    assert issubclass(seriatim.BadSetting, ValueError)


def test_bad_arguments_are_refused(engine: seriatim.Engine) -> None:
    x = engine.value(1)
    with pytest.raises(TypeError, match="not int"):
        engine.run(print, [3])  # type: ignore[list-item]
    with pytest.raises(seriatim.AliasError, match="named twice"):
        engine.run(print, [x], [x])
    engine.run(lambda a, b: None, [x, x])
    with seriatim.Engine(1) as other, pytest.raises(seriatim.ForeignVariable):
        other.run(print, [x])
    with pytest.raises(seriatim.BadSetting, match="at least 0"):
        engine.run(print, start_within=-1.0)


def test_pushes_to_a_closed_engine_are_refused() -> None:
    with seriatim.Engine(1) as engine:
        x = engine.value(1)
    assert engine.closed
    for push in (lambda: engine.run(print), x.ready, engine.capture().replay):
        with pytest.raises(seriatim.Stopped, match="closed"):
            push()
    engine.close()


def test_leaving_waits_for_what_is_in_flight() -> None:
    seen: list[Any] = []
    with seriatim.Engine(2) as engine:
        v = engine.variable()
        for n in range(10):
            engine.run(lambda n: (time.sleep(0.002), seen.append(n)), writes=[v], args=(n,))
    assert seen == list(range(10))


def test_graphs_replay(engine: seriatim.Engine) -> None:
    x, y = engine.value(1), engine.value(0)
    with engine.capture() as graph:
        graph.run(lambda x: x * 2, [x], into=x)
        graph.run(lambda x, y: x + y, [x, y], into=y)
        graph.run(lambda: None)
    assert len(graph) == 3
    for _ in range(5):
        last = graph.replay()
    assert last.result(20) is None
    assert (x.get(20), y.get(20)) == (32, 62)
    with pytest.raises(RuntimeError, match="made"):
        graph.run(print)


def test_stats_count(engine: seriatim.Engine) -> None:
    before = engine.stats()["ended"]
    for _ in range(10):
        engine.run(lambda: None)
    engine.wait(20)
    stats = engine.stats()
    assert stats["ended"] - before == 10 and stats["in_flight"] == 0 and stats["runners"] == 2


def test_many_threads_push(engine: seriatim.Engine) -> None:
    x = engine.value([0])

    def add(x: list[int]) -> None:
        x[0] += 1

    def push() -> None:
        for _ in range(500):
            engine.run(add, writes=[x])

    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.get(20) == [2000]
