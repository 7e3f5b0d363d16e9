"""Makes a plausible results.json, to try the report without hours of measuring: `python3 -m
report.example FILE`. Seeded: always the same."""

import json
from math import log2
import random
import sys

from .load import PATTERNS, PUSHED, WORKLOADS

REPETITIONS = 9
# Near cores, and far ones: the host gives one or the other.
HOPS_NS = (28.0, 130.0)
RANKS = [0, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.99, 99.999, 100]
# entrant, system, style, workers, threads, ns of an independent operation, of METG, of a round
# trip, the pusher's share
ENTRANTS = [
    ("serial", "serial", "dynamic", 1, 1, 3, None, None, 1.0),
    ("seriatim-naive", "seriatim", "dynamic", 1, 1, 28, None, 75, 1.0),
    ("seriatim-naive operators", "seriatim", "operators", 1, 1, 22, None, None, 1.0),
    ("seriatim-naive graph", "seriatim", "graph", 1, 1, 12, None, None, 1.0),
    ("seriatim-default", "seriatim", "dynamic", 1, 2, 90, 1400, 260, 0.31),
    ("seriatim-default operators", "seriatim", "operators", 1, 2, 70, None, None, 0.3),
    ("seriatim-default graph", "seriatim", "graph", 1, 2, 25, 520, None, 0.5),
    ("seriatim-shipped-1", "seriatim", "dynamic", 1, 2, 120, 1500, 270, 0.0),
    ("seriatim-declared", "seriatim", "dynamic", 1, 2, 32, None, 85, 1.0),
    ("seriatim-inline-1", "seriatim", "dynamic", 1, 2, 30, None, 80, 1.0),
    ("baseline-1", "baseline", "dynamic", 1, 2, 500, None, 50000, 0.0),
    ("mxnet-naive", "mxnet", "dynamic", 1, 1, 260, None, 280, 1.0),
    ("mxnet-per-device-2", "mxnet", "dynamic", 2, 2, 1300, 11000, 4200, 0.0),
    ("mxnet-per-device-2 operators", "mxnet", "operators", 2, 2, 600, None, None, 0.0),
    ("seriatim-c-naive", "seriatim-c", "dynamic", 1, 1, 40, None, None, 1.0),
    ("seriatim-c-naive async-1", "seriatim-c", "dynamic", 1, 1, 90, None, None, 1.0),
    ("seriatim-c-shipped-2", "seriatim-c", "dynamic", 2, 2, 140, None, None, 0.0),
    ("seriatim-c-shipped-2 operators", "seriatim-c", "operators", 2, 2, 130, None, None, 0.0),
    ("seriatim-c-placement-2", "seriatim-c", "dynamic", 2, 2, 45, None, None, 1.0),
    ("libgomp-1", "libgomp", "dynamic", 1, 1, 110, None, None, 1.0),
    ("libgomp-2", "libgomp", "dynamic", 2, 2, 157, None, 230, 0.4),
    ("libomp-1", "libomp", "dynamic", 1, 1, 51, None, None, 1.0),
    ("libomp-2", "libomp", "dynamic", 2, 2, 337, 12100, 180, 0.5),
    ("onetbb-dynamic-1", "onetbb", "dynamic", 1, 1, 210, None, None, 1.0),
    ("onetbb-dynamic-2", "onetbb", "dynamic", 2, 2, 160, 3000, 120, 0.2),
    ("onetbb-shipped-2", "onetbb", "dynamic", 2, 2, 309, None, 900, 0.0),
    ("onetbb-flow-1 graph", "onetbb", "graph", 1, 1, 140, None, None, 1.0),
    ("onetbb-flow-2 graph", "onetbb", "graph", 2, 2, 106, 1400, None, 0.2),
    ("taskflow-dynamic-1", "taskflow", "dynamic", 1, 1, 129, None, None, 0.0),
    ("taskflow-dynamic-2", "taskflow", "dynamic", 2, 2, 240, 3600, 2000, 0.0),
    ("taskflow-flow-2 graph", "taskflow", "graph", 2, 2, 74, 1100, None, 0.0),
    ("starpu-2", "starpu", "dynamic", 2, 2, 4070, None, 23000, 0.0),
    ("seriatim-per-device-7", "seriatim", "dynamic", 7, 8, 190, None, None, 0.1),
    ("taskflow-dynamic-8", "taskflow", "dynamic", 8, 8, 300, None, None, 0.0),
    ("by-hand-2 graph", "by-hand", "graph", 2, 2, 20, 60, None, 0.5),
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
    for entrant, system, style, workers, threads, ns, metg, trip, share in ENTRANTS:
        who = {
            "repetition": repetition,
            "hop_ns": hop,
            "hop_after_ns": hop * 1.05,
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
            if system == "by-hand" or workload == "unrelated" or threads == 8:
                continue  # As in earnest: not every entrant has every workload.
            quadratic = 15 if system == "libgomp" and workload in ("fan", "stencil") else 1
            far = 1.6 if hop > 60 and threads > 1 else 1
            time = ns * FACTORS[workload] * quadratic * far * chance.lognormvariate(0, 0.08)
            cpu = time * threads * chance.uniform(0.85, 0.99)
            add("throughput", workload=workload, operations=200_000, ns=time, cpu_ns=cpu, pusher_share=share)
        kinds = {8: ["oversubscribed"], 1: ["oversubscribed", "four-cores"]}.get(threads, ["four-cores"])
        for kind in kinds if "default" in entrant or threads == 8 or system in ("serial", "libomp") else []:
            for workload in ("independent", "random"):
                for body in (0, 1000):
                    time = (ns + body / min(threads, 1.8)) * chance.lognormvariate(0, 0.05)
                    add(kind, workload=workload, body_ns=body, ns=time, cpu_ns=2 * time, pusher_share=share)
        if style == "dynamic" and threads < 8 and ("default" in entrant or "declared" in entrant or system in ("serial", "onetbb", "taskflow")):
            for workload in ("independent", "random", "stencil"):
                for body in (100, 250, 1000, 10_000):
                    time = (ns + body / min(threads, 1.8)) * chance.lognormvariate(0, 0.05)
                    add("length", workload=workload, body_ns=body, ns=time, cpu_ns=2 * time, pusher_share=share)
        if system in ("seriatim", "mxnet") and style == "dynamic" and threads < 8:
            for workload in PUSHED:
                for pushers in (1, 2):
                    add("pushers", workload=workload, pushers=pushers, per_s=1e9 / ns * pushers**0.5)
        if metg:
            for pattern in PATTERNS:
                for width in (16,):
                    cost = metg * PATTERN_FACTORS[pattern] * (1.5 if width == 2 else 1) * chance.lognormvariate(0, 0.05)
                    reached = cost < 200_000 and not (pattern == "all_to_all" and system == "libgomp")
                    add(
                        "metg",
                        pattern=pattern,
                        kernel="compute",
                        width=width,
                        steps=1000,
                        cores=min(2, threads),
                        peak=6.6e10,
                        curve=curve(chance, cost),
                        metg_ns=cost if reached else None,
                        floor_ns=cost / 2,
                    )
        if trip:
            for pause in (0, 200):
                add("round-trip", pause_us=pause, percentiles=percentiles(chance, trip * (1 if pause == 0 else 1.6)))
            add("push", pause_us=0, bare_wake=None, percentiles=percentiles(chance, min(ns, 900), 0.5))
            wake = percentiles(chance, 9_000, count=64)
            # What comes at random finds every thread asleep, what comes regularly one that got up.
            for how, slower in (("", 1), ("random-", 3)):
                push = percentiles(chance, slower * (9_000 + 10 * ns), count=63)
                add(f"{how}push", pause_us=5000, bare_wake=wake, percentiles=push)
            for pause in (200, 5000):
                add("random-round-trip", pause_us=pause, percentiles=percentiles(chance, 5_000 + trip, count=250))
            for rate in (1_000, 10_000, 100_000, 1_000_000):
                reached = min(1.0, 1e9 / ns / rate)
                for kind in ("open-loop", "random-arrivals") if rate <= 10_000 else ("open-loop",):
                    add(
                        kind,
                        offered_per_s=float(rate),
                        achieved_per_s=reached * rate,
                        body_ns=250,
                        burnt_cores=min(threads - 1, rate / 20_000),
                        percentiles=percentiles(chance, (250 + trip) * (1 if reached == 1 else 400)),
                    )
        if entrant in ("seriatim-naive graph", "seriatim-default graph"):
            add_replays(add, chance, 4 * ns, "default" in entrant)
        if entrant in ("serial", "seriatim-default", "libomp-2"):
            time = (10_000 + ns) / min(threads, 1.4) * chance.lognormvariate(0, 0.05)
            add("beside-busy", workload="stencil", body_ns=10_000, ns=time, cpu_ns=time, pusher_share=share)
        if repetition == 0 and hop < 60:
            for workload in WORKLOADS[:3]:
                none = system == "seriatim"
                add(
                    "counts",
                    workload=workload,
                    allocations=0 if none else 1.6,
                    deallocations=0 if none else 1.6,
                    locks=0 if none else 10.9,
                )
    for entrant, system, alone in [("seriatim-per-device-2", "seriatim", 9_500), ("libomp-3", "libomp", 9_100)]:
        who = {"repetition": repetition, "hop_ns": hop, "hop_after_ns": hop, "entrant": entrant, "system": system}
        for burst in (1, 100):
            awake = 400 * burst
            more = {"style": "dynamic", "workers": 2, "threads": 3, "burst": burst, "pause_us": 5000}
            more["bare_wake"] = percentiles(chance, 9_000, count=64)
            more["awake"] = percentiles(chance, awake, count=60)
            more["reached"] = percentiles(chance, 700, count=60)
            asleep = percentiles(chance, alone + (awake if burst > 1 else 0), count=63)
            records.append({"kind": "wakes", **who, **more, "percentiles": asleep})
    for entrant, system, middle in [
        ("a thread that sleeps to the moment", "floor", 55_000),
        ("a thread that spins to the moment", "floor", 150),
        ("seriatim-per-device", "seriatim", 900),
    ]:
        who = {"repetition": repetition, "hop_ns": hop, "hop_after_ns": hop, "entrant": entrant, "system": system}
        for background in ("none", "low-priority"):
            late = percentiles(chance, middle, 1 if background == "none" else 4, count=2000)
            more = {"style": "dynamic", "workers": 1, "threads": 2, "background": background, "period_us": 1000}
            more["latest"] = [late["points"][-1][1] * (64 - place) // 64 for place in range(64)]
            records.append({"kind": "jitter", **who, **more, "percentiles": late})
    return records


# What is between replays, how long they take then, and by how much memory grows.
STREAMS = (("wait", 1, 0), ("bound", 0.8, 300), ("nothing", 0.6, 2_000), ("pipeline", 0.7, 300), ("spells", 0.6, 300))


def add_replays(add, chance, ns, all_of_it):
    """What is measured of replays; of the naive engine a part."""
    for graph in ("one node", "a node for each name"):
        for names in (1, 7, 8, 16, 64):
            add("replay-names", graph=graph, names=names, ns=(ns + 5 * names) * chance.uniform(0.95, 1.05))
    for graph, factor in (("64 nodes over arrays", 8), ("64 nodes over private arrays", 3)):
        add("replay-names", graph=graph, names=65, ns=factor * ns * chance.uniform(0.95, 1.05))
    if not all_of_it:
        return
    for body in (1000, 2000):
        for between, factor, growth in STREAMS:
            more = {"replays": 1_000_000, "growth_kb": growth}
            add("replay-stream", between=between, body_ns=body, ns=4 * body * factor * chance.uniform(0.97, 1.03), **more)
    for operations, nap in ((3, 10_000), (6, 5_000), (64, 2_000)):
        for how, factor in (("pushed", 1), ("first replay", 1.001), ("later replay", 0.999)):
            time = 1000 * nap * -(-operations // 3) * factor
            add("few-long", operations=operations, nap_us=nap, how=how, ns=time, longest_ns=2 * time)


def results(seed=1, repetitions=REPETITIONS):
    chance = random.Random(seed)
    records = [
        record
        for repetition in range(repetitions)
        for hop in HOPS_NS
        for record in records_of(repetition, chance, hop * chance.uniform(0.9, 1.1))
    ]
    return {
        "format": 2,
        "started": "2026-11-21T12:00:00Z",
        "seconds": 1234,
        "quick": False,
        "repetitions": repetitions,
        "discarded": 3,
        "kept_disturbed": 0,
        "moved": 2,
        "left_out": [{"entrant": "metg", "why": "libgomp-2, starpu-2"}],
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
