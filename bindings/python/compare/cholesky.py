"""A tiled Cholesky factorization by NumPy and SciPy: seriatim beside concurrent.futures, dask, joblib.

All run the same functions on the same tiles, with BLAS on one thread, as many workers as there are
cores, and otherwise default settings. Each round runs all of them, in another order each time; the
table has medians. The first round, which checks the results, is not counted.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from threadpoolctl import threadpool_limits

import seriatim

CORES = len(os.sched_getaffinity(0))


def potrf(a: Any) -> None:
    a[...] = np.linalg.cholesky(a)


def trsm(diagonal: Any, a: Any) -> None:
    a[...] = solve_triangular(diagonal, a.T, lower=True, check_finite=False).T


def syrk(left: Any, a: Any) -> None:
    a -= left @ left.T


def gemm(left: Any, right: Any, a: Any) -> None:
    a -= left @ right.T


Place = tuple[int, int]
Operation = tuple[Callable[..., None], list[Place], Place]


def operations(grid: int) -> Iterator[Operation]:
    """What is to be done, in an order in which one thread could do it: what is read, what changed."""
    for k in range(grid):
        yield potrf, [], (k, k)
        for i in range(k + 1, grid):
            yield trsm, [(k, k)], (i, k)
        for i in range(k + 1, grid):
            yield syrk, [(i, k)], (i, i)
            for j in range(k + 1, i):
                yield gemm, [(i, k), (j, k)], (i, j)


def cut(matrix: Any, tile: int) -> dict[Place, Any]:
    grid = len(matrix) // tile
    return {
        (i, j): matrix[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile] for i in range(grid) for j in range(i + 1)
    }


def by_seriatim(matrix: Any, tile: int) -> None:
    with seriatim.Engine() as engine:
        tiles = engine.array(matrix, tiles=(tile, tile))
        for function, reads, write in operations(len(matrix) // tile):
            engine.run(function, [tiles[at] for at in reads], [tiles[write]])


def by_futures(matrix: Any, tile: int) -> None:
    """A loop over counters of dependencies. A worker goes on with what its function made ready."""
    tiles = cut(matrix, tile)
    plan = list(operations(len(matrix) // tile))
    last: dict[Place, int] = {}
    readers: defaultdict[Place, list[int]] = defaultdict(list)
    behind: list[list[int]] = [[] for _ in plan]
    missing = [0] * len(plan)
    for number, (_, reads, write) in enumerate(plan):
        before = {last[at] for at in [*reads, write] if at in last} | set(readers.pop(write, ()))
        for at in reads:
            readers[at].append(number)
        last[write] = number
        missing[number] = len(before)
        for one in before:
            behind[one].append(number)
    lock, done, left = threading.Lock(), threading.Event(), len(plan)
    failures: list[BaseException] = []

    def call(number: int | None) -> None:
        nonlocal left
        try:
            while number is not None:
                function, reads, write = plan[number]
                function(*(tiles[at] for at in reads), tiles[write])
                ready = []
                with lock:
                    left -= 1
                    for one in behind[number]:
                        missing[one] -= 1
                        if missing[one] == 0:
                            ready.append(one)
                    if left == 0:
                        done.set()
                number = ready.pop(0) if ready else None
                for one in ready:
                    executor.submit(call, one)
        except BaseException as failure:
            failures.append(failure)
            done.set()

    with ThreadPoolExecutor(CORES) as executor:
        for number in [number for number, count in enumerate(missing) if count == 0]:
            executor.submit(call, number)
        done.wait()
    if failures:
        raise failures[0]


def by_dask(matrix: Any, tile: int) -> None:
    from dask.threaded import get

    tiles = cut(matrix, tile)

    def change(function: Callable[..., None], *given: Any) -> Any:
        function(*given)
        return given[-1]

    # The last key of each tile. A change of a tile here never has to wait for its readers: a tile is
    # read only when it is not changed any more.
    graph: dict[Any, Any] = {("tile", *at): a for at, a in tiles.items()}
    key: dict[Place, Any] = {at: ("tile", *at) for at in tiles}
    for number, (function, reads, write) in enumerate(operations(len(matrix) // tile)):
        graph[("run", number)] = (change, function, *(key[at] for at in reads), key[write])
        key[write] = ("run", number)
    get(graph, list(key.values()), num_workers=CORES)


def by_joblib(matrix: Any, tile: int) -> None:
    """joblib has no dependencies: each step ends before the next begins."""
    from joblib import Parallel, delayed

    tiles = cut(matrix, tile)
    steps: list[list[Operation]] = []
    for operation in operations(len(matrix) // tile):
        is_same = steps and (steps[-1][0][0] is operation[0] or operation[0] in (syrk, gemm) and steps[-1][0][0] in (syrk, gemm))
        if is_same:
            steps[-1].append(operation)
        else:
            steps.append([operation])
    with Parallel(n_jobs=CORES, backend="threading") as parallel:
        for step in steps:
            parallel(delayed(function)(*(tiles[at] for at in reads), tiles[write]) for function, reads, write in step)


def by_one_thread(matrix: Any, tile: int) -> None:
    tiles = cut(matrix, tile)
    for function, reads, write in operations(len(matrix) // tile):
        function(*(tiles[at] for at in reads), tiles[write])


WAYS: dict[str, Callable[[Any, int], None]] = {
    "seriatim": by_seriatim,
    "concurrent.futures": by_futures,
    "dask": by_dask,
    "joblib": by_joblib,
    "one thread": by_one_thread,
}


def matrix_of(n: int) -> Any:
    random_numbers = np.random.default_rng(7).standard_normal((n, n))
    return random_numbers @ random_numbers.T + n * np.eye(n)


def check(matrix: Any, result: Any, way: str) -> None:
    lower = np.tril(result)
    error = np.abs(lower @ lower.T - matrix).max() / np.abs(matrix).max()
    if not error < 1e-12:
        raise SystemExit(f"wrong: {way}, relative error {error}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--quick", action="store_true", help="one small matrix, to see that all are right")
    given = arguments.parse_args()
    sizes, sides = ([256], [64]) if given.quick else ([1024, 2048], [64, 128, 256])
    rows = []
    with threadpool_limits(1):
        for n in sizes:
            matrix = matrix_of(n)
            # What is short needs more of them on a machine that is not quiet.
            rounds = 1 if given.quick else given.rounds * (3 if n < 2048 else 1)
            for tile in sides:
                times: dict[str, list[float]] = {way: [] for way in WAYS}
                for turn in range(rounds + 1):
                    for way in random.sample(list(WAYS), len(WAYS)):
                        work = matrix.copy()
                        began = time.perf_counter()
                        WAYS[way](work, tile)
                        took = time.perf_counter() - began
                        if turn == 0:
                            check(matrix, work, way)
                        if turn > 0 or given.quick:
                            times[way].append(took * 1e3)
                rows.append((n, tile, {way: statistics.median(of_way) for way, of_way in times.items()}))
    rivals = list(WAYS)[1:4]
    rows.sort(key=lambda row: min(row[2][rival] for rival in rivals) / row[2]["seriatim"])
    print("| n | tile | " + " | ".join(WAYS) + " | best rival / ours |")
    print("|---:|---:|" + "---:|" * len(WAYS) + "---:|")
    for n, tile, medians in rows:
        ratio = min(medians[rival] for rival in rivals) / medians["seriatim"]
        shown = f"**{ratio:.2f} ×**" if ratio < 1 else f"{ratio:.2f} ×"
        print(f"| {n} | {tile} | " + " | ".join(f"{medians[way]:.1f}" for way in WAYS) + f" | {shown} |")


if __name__ == "__main__":
    main()
