"""Results that the tests make: an example, and records that say what a test is about."""

import importlib.util

from . import example, load

CAN_DRAW = importlib.util.find_spec("matplotlib") is not None
# What the tests that draw use: drawing is slow, and they draw often.
FEW = {
    "entrant": [
        "serial",
        "seriatim-naive",
        "seriatim-default",
        "seriatim-default graph",
        "seriatim-shipped-1",
        "seriatim-inline-1",
        "mxnet-naive",
        "mxnet-per-device-2",
        "libomp-1",
        "libomp-2",
        "taskflow-dynamic-2",
        "onetbb-flow-2 graph",
        "seriatim-per-device-2",
        "libomp-3",
        "a thread that sleeps to the moment",
    ],
    "workload": ["independent", "fan", "disjoint"],
    "pattern": ["stencil_1d", "nearest"],
}


def small():
    content = example.results(repetitions=3)
    content["records"] = [
        record for record in content["records"] if all(record.get(field, few[0]) in few for field, few in FEW.items())
    ]
    return content


def results_of(times, hops=(30.0, 30.0), **fields):
    """Throughput records of `chain` by {entrant: (system, style, threads, [times])}, or of what the
    fields say. A fifth item is the share of the bodies that the pusher ran, or one for each
    time."""
    records = []
    for entrant, (system, style, threads, values, *share) in times.items():
        shares = share[0] if share and isinstance(share[0], list) else (share or [0.0]) * len(values)
        for repetition, (ns, by_pusher) in enumerate(zip(values, shares)):
            who = {"entrant": entrant, "system": system, "style": style, "workers": 1, "threads": threads}
            at = {"repetition": repetition, "hop_ns": hops[0], "hop_after_ns": hops[1], "version": "1"}
            what = {"kind": "throughput", "workload": "chain", "ns": ns, "cpu_ns": ns, "pusher_share": by_pusher}
            records.append({**who, **at, **what, **fields})
    return load.Results({"format": 2, "repetitions": 3, "machine": {}, "records": records})


def content_of(results):
    records = [record for found in results.records.values() for record in found]
    return {"format": 2, "repetitions": 3, "machine": {}, "records": records}


def merged(*parts):
    records = [record for part in parts for found in part.records.values() for record in found]
    return load.Results({"format": 2, "repetitions": 3, "machine": {}, "records": records})


OURS = {"seriatim-default": ("seriatim", "dynamic", 2, [100, 101, 102])}
