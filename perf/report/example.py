"""Makes a plausible results.json, to try the report without hours of measuring: `python3 -m report.example FILE`.
Seeded: always the same."""

import json
from math import log2
import random
import sys

from .load import PATTERNS, WORKLOADS

REPETITIONS = 9
HOP_NS = 62.0
RANKS = [0, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.99, 99.999, 100]
# entrant, system, style, workers, threads, ns of an independent operation, of METG, of a round trip
ENTRANTS = [
    ("seriatim-naive", "seriatim", "dynamic", 1, 1, 28, None, 75),
    ("seriatim-naive operators", "seriatim", "operators", 1, 1, 22, None, 60),
    ("seriatim-pooled-1", "seriatim", "dynamic", 1, 2, 90, 1400, 260),
    ("seriatim-pooled-2", "seriatim", "dynamic", 2, 3, 130, 1900, 300),
    ("seriatim-per-device-1", "seriatim", "dynamic", 1, 2, 48, 950, 150),
    ("seriatim-per-device-1 operators", "seriatim", "operators", 1, 2, 35, 800, 140),
    ("seriatim-per-device-1 batches", "seriatim", "batches", 1, 2, 20, None, None),
    ("seriatim-per-device-1 graph", "seriatim", "graph", 1, 2, 25, 520, None),
    ("seriatim-per-device-2", "seriatim", "dynamic", 2, 3, 70, 1200, 190),
    ("baseline-1", "baseline", "dynamic", 1, 1, 374, 7100, 48000),
    ("baseline-2", "baseline", "dynamic", 2, 2, 500, 7900, 50000),
    ("baseline-1 operators", "baseline", "operators", 1, 1, 250, None, None),
    ("mxnet-naive", "mxnet", "dynamic", 1, 1, 260, 1200, 280),
    ("mxnet-per-device-1", "mxnet", "dynamic", 1, 1, 1150, 9500, 47600),
    ("mxnet-per-device-2", "mxnet", "dynamic", 2, 2, 1300, 11000, 4200),
    ("mxnet-per-device-1 operators", "mxnet", "operators", 1, 1, 550, None, None),
    ("libgomp-1", "libgomp", "dynamic", 1, 1, 110, 4000, 230),
    ("libgomp-2", "libgomp", "dynamic", 2, 2, 157, 143000, 230),
    ("libomp-1", "libomp", "dynamic", 1, 1, 51, 540, 80),
    ("libomp-2", "libomp", "dynamic", 2, 2, 337, 12100, 180),
    ("onetbb-dynamic-1", "onetbb", "dynamic", 1, 1, 210, 1300, 90),
    ("onetbb-dynamic-2", "onetbb", "dynamic", 2, 2, 309, 3000, 120),
    ("onetbb-flow-2 graph", "onetbb", "graph", 2, 2, 106, 1400, None),
    ("starpu-1", "starpu", "dynamic", 1, 1, 3800, 28000, 20000),
    ("starpu-2", "starpu", "dynamic", 2, 2, 4070, 30800, 23000),
    ("rayon-2", "rayon", "dynamic", 2, 2, 506, None, 12000),
    ("tokio-2", "tokio", "dynamic", 2, 2, 826, None, 20000),
    ("shred-2 graph", "shred", "graph", 2, 2, 190, None, None),
]
FACTORS = {
    "independent": 1,
    "shared-read": 1.3,
    "chain": 0.9,
    "fan": 1.2,
    "random": 2.1,
    "stencil": 2.3,
    "brief": 2.4,
    "unrelated": 0.8,
}
PATTERN_FACTORS = dict(zip(PATTERNS, [0.6, 0.8, 1, 0.9, 0.8, 1, 3, 1.2, 1.5, 1.1]))
VERSIONS = {
    "seriatim": "0.1.0",
    "mxnet": "1.9.1",
    "onetbb": "2023.2",
    "libomp": "19.1",
    "libgomp": "12",
    "starpu": "1.3.10",
}


def percentiles(chance, middle, tail=1.0, count=20_000):
    """Lognormal in the middle, heavier behind p99."""

    def at(rank):
        rarity = min(5.0, -log2(max(1 - rank / 100, 1e-6)) / log2(10))
        return round(
            middle
            * (0.8 + 0.25 * rarity * rank / 100)
            * (1 + tail * max(0, rarity - 1.7) ** 2)
            * chance.uniform(0.96, 1.05)
        )

    points = sorted(at(rank) for rank in RANKS)
    return {"count": count, "mean": middle * 1.02, "points": [[rank, value] for rank, value in zip(RANKS, points)]}


def curve(chance, metg_ns, cores=2, base_ns=150):
    """A runtime whose cost a task is what its METG says: efficiency = work / (work + cost)."""
    points = []
    for power in range(0, 15):
        iterations = 2**power
        work = 2.0 * iterations + base_ns / 8
        elapsed_each = work + metg_ns / 2 * chance.uniform(0.95, 1.08)
        points.append(
            {
                "iterations": iterations,
                "granularity_ns": elapsed_each,
                "efficiency": min(1.0, work / elapsed_each),
                "elapsed_ns": elapsed_each * 16_000 / cores,
                "cpu_ns": elapsed_each * 16_000,
            }
        )
    return points


def records_of(repetition, chance, hop):
    """All records of a repetition."""
    records = []
    for entrant, system, style, workers, threads, ns, metg, trip in ENTRANTS:
        who = {
            "repetition": repetition,
            "hop_ns": hop,
            "entrant": entrant,
            "system": system,
            "style": style,
            "workers": workers,
            "threads": threads,
            "version": VERSIONS.get(system, "1.12"),
        }

        def add(kind, **fields):
            records.append({"kind": kind, **who, **fields})

        for workload in WORKLOADS:
            if (system in ("rayon", "tokio")) != (workload == "unrelated") and (
                system in ("rayon", "tokio") or threads == 3
            ):
                continue  # As in earnest: not every entrant has every workload.
            quadratic = 15 if system == "libgomp" and workload in ("fan", "stencil") else 1
            time = ns * FACTORS[workload] * quadratic * chance.lognormvariate(0, 0.08)
            add(
                "throughput",
                workload=workload,
                operations=200_000,
                ns=time,
                cpu_ns=time * threads * chance.uniform(0.85, 0.99),
            )
        if metg:
            for pattern in PATTERNS:
                for width in (16, 2):
                    cost = metg * PATTERN_FACTORS[pattern] * (1.5 if width == 2 else 1) * chance.lognormvariate(0, 0.05)
                    reached = cost < 200_000 and not (pattern == "all_to_all" and system == "libgomp")
                    add(
                        "metg",
                        pattern=pattern,
                        kernel="compute",
                        width=width,
                        steps=1000,
                        cores=min(2, threads + (system in ("mxnet", "baseline", "starpu"))),
                        peak=6.6e10,
                        curve=curve(chance, cost),
                        metg_ns=cost if reached else None,
                        floor_ns=cost / 2,
                    )
        if trip:
            for pause in (0, 200):
                add("round-trip", pause_us=pause, percentiles=percentiles(chance, trip * (1 if pause == 0 else 1.6)))
            add("push", percentiles=percentiles(chance, min(ns, 900), 0.5))
            for background in ("none", "low-priority"):
                add(
                    "jitter",
                    background=background,
                    period_us=1000,
                    percentiles=percentiles(chance, 800 + trip / 10, 1 if background == "none" else 4),
                )
            for load in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2):
                queueing = 1 / max(1 - load, 0.004) if load < 1 else 400 * load
                add(
                    "open-loop",
                    load=load,
                    offered_per_s=load * 4e5,
                    achieved_per_s=min(load, 0.99) * 4e5,
                    capacity_per_s=4e5,
                    body_ns=2000,
                    percentiles=percentiles(chance, (2000 + trip) * (1 + queueing * 0.3), 1 + 0.4 * queueing**0.5),
                )
        if repetition == 0 and threads < 3:
            for workload in WORKLOADS[:3]:
                none = system == "seriatim"
                add(
                    "counts",
                    workload=workload,
                    allocations=0 if none else 1.6,
                    deallocations=0 if none else 1.6,
                    locks=0 if none else 10.9,
                )
    return records


def results(seed=1, repetitions=REPETITIONS):
    chance = random.Random(seed)
    records = [
        record
        for repetition in range(repetitions)
        for record in records_of(repetition, chance, HOP_NS * chance.uniform(0.9, 1.1))
    ]
    return {
        "format": 1,
        "started": "2026-11-21T12:00:00Z",
        "seconds": 1234,
        "quick": False,
        "repetitions": repetitions,
        "discarded": 3,
        "kept_disturbed": 0,
        "machine": {
            "processor": "An example, not a machine",
            "cores": 2,
            "memory_gib": 23,
            "kernel": "6.1",
            "hypervisor": "KVM",
            "rustc": "1.95.0",
            "commit": "3e95cc3",
            "changed": False,
        },
        "skipped": [{"entrant": "starpu-4", "why": "starpu is not built: run scripts/peers.sh"}],
        "records": records,
    }


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(results(), file)
