"""What a small call costs: empty functions, from the push of the first to the end of the last.

The table has medians of interleaved rounds, and the cost of Python's own call is taken off.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import seriatim

CORES = len(os.sched_getaffinity(0))


def nothing() -> None:
    pass


def plain(count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        nothing()
    return time.perf_counter() - began


def by_seriatim(count: int) -> float:
    with seriatim.Engine() as engine:
        engine.run(nothing).result()
        began = time.perf_counter()
        for _ in range(count):
            engine.run(nothing)
        engine.wait()
        return time.perf_counter() - began


def by_seriatim_graph(count: int) -> float:
    with seriatim.Engine() as engine:
        with engine.capture() as graph:
            for _ in range(1000):
                graph.run(nothing)
        graph.replay().result()
        began = time.perf_counter()
        for _ in range(count // 1000):
            graph.replay()
        engine.wait()
        return time.perf_counter() - began


def by_futures(count: int) -> float:
    with ThreadPoolExecutor(CORES) as executor:
        executor.submit(nothing).result()
        began = time.perf_counter()
        for future in [executor.submit(nothing) for _ in range(count)]:
            future.result()
        return time.perf_counter() - began


def by_dask(count: int) -> float:
    from dask.threaded import get

    began = time.perf_counter()
    get({number: (nothing,) for number in range(count)}, list(range(count)), num_workers=CORES)
    return time.perf_counter() - began


def by_asyncio(count: int) -> float:
    async def coroutine() -> None:
        pass

    async def main() -> float:
        began = time.perf_counter()
        await asyncio.gather(*(asyncio.create_task(coroutine()) for _ in range(count)))
        return time.perf_counter() - began

    return asyncio.run(main())


WAYS: dict[str, Callable[[int], float]] = {
    "seriatim": by_seriatim,
    "seriatim, replays of a graph": by_seriatim_graph,
    "asyncio tasks (one thread)": by_asyncio,
    "concurrent.futures": by_futures,
    "dask": by_dask,
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=100_000)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    own = []
    for _ in range(given.rounds):
        own.append(plain(given.count) / given.count)
        for way in random.sample(list(WAYS), len(WAYS)):
            times[way].append(WAYS[way](given.count) / given.count)
    base = statistics.median(own)
    print(f"Python's own call: {base * 1e9:.0f} ns. Beyond that, for each of {given.count} calls:\n")
    print("| way | µs |")
    print("|---|---:|")
    for way, of_way in times.items():
        print(f"| {way} | {(statistics.median(of_way) - base) * 1e6:.2f} |")


if __name__ == "__main__":
    main()
