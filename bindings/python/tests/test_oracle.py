"""Random programs over arrays and values, against the same programs without an engine.

``SERIATIM_PYTHON_SEED=7`` repeats one; ``SERIATIM_PYTHON_PROGRAMS`` says how many are run.

Each operation reads some arrays and changes others, by a function that does not commute: a change of
their order changes the result. Some raise, and what depends on them must be skipped, and nothing
else. Several threads push, each to arrays of its own and to shared ones that they only read.
"""

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import seriatim

np = pytest.importorskip("numpy")

SEED = int(os.environ.get("SERIATIM_PYTHON_SEED", "0"))
PROGRAMS = int(os.environ.get("SERIATIM_PYTHON_PROGRAMS", "40"))
SIDE = 3


class Planned(Exception):
    pass


def body(number: int, kind: str, reads: list[Any], writes: list[Any]) -> int:
    total = number + sum(int(array.sum()) % 1009 for array in reads)
    if kind == "pure":
        time.sleep(0)
    elif kind == "nap":
        time.sleep(0.0002)
    elif kind == "raise":
        raise Planned(number)
    for place, array in enumerate(writes):
        np.remainder(array * 3 + total + place, 1009, out=array)
    return total


class Program:
    """Operations of one pusher: (kind, reads, writes, priority)."""

    def __init__(self, random: random.Random, own: list[int], shared: list[int], length: int, fails: bool) -> None:
        self.operations = []
        for _ in range(length):
            mine = random.sample(own, random.randint(0, min(3, len(own))))
            cut = random.randint(0, len(mine))
            writes, reads = mine[:cut], mine[cut:] + random.sample(shared, random.randint(0, len(shared)))
            kinds, weights = ["plain", "pure", "nap", "raise"], [6, 2, 1, 0.4 if fails else 0]
            kind = random.choices(kinds, weights)[0]
            self.operations.append((kind, reads, writes, random.choice([0, 0, 0, 1, -1, 5])))


def sequential(programs: list[Program], arrays: list[Any]) -> list[list[object]]:
    """Runs them one after the other; a failure marks what would have been changed, for good."""
    outcomes = []
    for program in programs:
        marked: set[int] = set()
        of_program: list[object] = []
        for number, (kind, reads, writes, _) in enumerate(program.operations):
            if marked & set(reads + writes):
                marked |= set(writes)
                of_program.append("skipped")
                continue
            try:
                of_program.append(body(number, kind, [arrays[at] for at in reads], [arrays[at] for at in writes]))
            except Planned:
                marked |= set(writes)
                of_program.append("failed")
        outcomes.append(of_program)
    return outcomes


def concurrent(programs: list[Program], arrays: list[Any], workers: int, checked: bool) -> list[list[object]]:
    pendings: list[list[Any]] = [[] for _ in programs]
    engine = seriatim.Engine(workers, checked=checked)
    resources = [engine.array(array) for array in arrays]
    start = threading.Barrier(len(programs))

    def push(at: int) -> None:
        start.wait()
        for number, (kind, reads, writes, priority) in enumerate(programs[at].operations):
            count = len(reads)

            def call(*given: Any, number: int = number, kind: str = kind, count: int = count) -> int:
                return body(number, kind, list(given[:count]), list(given[count:]))

            pendings[at].append(
                engine.run(call, [resources[r] for r in reads], [resources[w] for w in writes], priority=priority)
            )

    threads = [threading.Thread(target=push, args=(at,)) for at in range(len(programs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    def outcome(pending: Any, number: int) -> object:
        try:
            return pending.result(60)
        except Planned as error:
            assert error.args == (number,)
            return "failed"
        except seriatim.Skipped as error:
            assert isinstance(error.__cause__, Planned)
            return "skipped"

    until = time.monotonic() + 60
    while engine.stats()["in_flight"] and time.monotonic() < until:
        time.sleep(0.0005)
    outcomes = [[outcome(p, number) for number, p in enumerate(of_one)] for of_one in pendings]
    engine.close(60)
    return outcomes


def one(seed: int) -> None:
    chance = random.Random(seed)
    pushers, each = chance.choice([(1, 6), (2, 4), (4, 3)])
    shared_count = chance.choice([0, 2])
    shared = list(range(shared_count))
    first = [np.array([chance.randrange(1009) for _ in range(SIDE)]) for _ in range(shared_count + pushers * each)]
    programs = []
    for pusher in range(pushers):
        own = list(range(shared_count + pusher * each, shared_count + (pusher + 1) * each))
        programs.append(Program(chance, own, shared, chance.choice([5, 60, 300]), chance.random() < 0.6))
    expected_arrays = [array.copy() for array in first]
    expected = sequential(programs, expected_arrays)
    arrays = [array.copy() for array in first]
    got = concurrent(programs, arrays, chance.choice([1, 2, 4]), chance.random() < 0.2)
    again = f"SERIATIM_PYTHON_SEED={seed}"
    assert got == expected, again
    for at, (one_of, other) in enumerate(zip(arrays, expected_arrays, strict=True)):
        assert one_of.tolist() == other.tolist(), f"array {at}: {again}"


@pytest.mark.parametrize("seed", [SEED] if SEED else range(1, PROGRAMS + 1))
def test_programs_are_as_without_an_engine(seed: int) -> None:
    one(seed)


def test_pushers_of_one_value_have_one_order(engine: seriatim.Engine) -> None:
    # What several threads push to one array runs in some order, the same for each of their arrays.
    nothing: list[Any] = []
    x, y = engine.value(nothing.copy()), engine.value(nothing.copy())
    start = threading.Barrier(3)

    def append(x: list[Any], y: list[Any], what: Any) -> None:
        x.append(what)
        time.sleep(0)
        y.append(what)

    def push(pusher: int) -> None:
        start.wait()
        for n in range(200):
            engine.run(append, writes=[x, y] if n % 2 else [y, x], args=((pusher, n),))

    def ordered(x: list[Any], y: list[Any], what: Any) -> None:
        append(x, y, what)

    threads = [threading.Thread(target=push, args=(pusher,)) for pusher in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    a, b = x.get(30), y.get(30)
    assert a == b and len(a) == 600
    for pusher in range(3):
        assert [n for who, n in a if who == pusher] == list(range(200))


def test_operations_push_operations(engine: seriatim.Engine) -> None:
    total = engine.value([0])

    def add(total: list[int], n: int) -> None:
        total[0] += n

    def tree(depth: int) -> None:
        engine.run(add, writes=[total], args=(1,))
        for _ in range(2 if depth else 0):
            engine.run(tree, args=(depth - 1,))

    engine.run(tree, args=(8,))
    engine.wait(30)
    assert total.get(10) == [2**9 - 1]


def test_under_stress_all_kinds_of_calls_meet() -> None:
    """Pushes, waits, awaits, accesses, failures, cancellations and graphs from several threads."""
    import asyncio

    counts = np.zeros(4, dtype=np.int64)
    expected = [0] * 4
    with seriatim.Engine(3, bound=64) as engine:
        tiles = [engine.array(counts[at : at + 1]) for at in range(4)]

        def add(tile: Any) -> None:
            tile += 1

        def pushes(at: int) -> None:
            for n in range(150):
                engine.run(add, writes=[tiles[at]], priority=n % 3 - 1).result(30)

        def fails(at: int) -> None:
            for _ in range(100):
                assert isinstance(engine.run(lambda: 1 // 0).exception(30), ZeroDivisionError)
                engine.run(add, writes=[tiles[at]])

        def holds(at: int) -> None:
            for _ in range(100):
                with tiles[at].writing() as tile:
                    tile += 1

        def graphs(at: int) -> None:
            with engine.capture() as graph:
                graph.run(add, writes=[tiles[at]])
                graph.run(add, writes=[tiles[at]])
            for _ in range(50):
                graph.replay().result(30)

        def awaits(at: int) -> None:
            async def main() -> None:
                for _ in range(100):
                    await engine.run(add, writes=[tiles[at]])

            asyncio.run(main())

        jobs: list[tuple[Callable[[int], None], int]] = [(pushes, 150), (fails, 100), (holds, 100), (graphs, 100), (awaits, 100)]
        threads = []
        errors: list[BaseException] = []

        def guarded(job: Callable[[int], None], at: int) -> None:
            try:
                job(at)
            except BaseException as error:
                errors.append(error)

        for job, count in jobs:
            for at in range(4):
                expected[at] += count
                threads.append(threading.Thread(target=guarded, args=(job, at)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert errors == []
    assert counts.tolist() == expected
