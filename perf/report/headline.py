"""The comparison that comes first, and the targets of the project judged by this file's figures."""

from dataclasses import dataclass

from . import choose
from .intervals import Estimate, ratio
from .load import PATTERNS, WORKLOADS, at_rank

MXNET = "mxnet-per-device-1"
INLINE = "seriatim-naive"
LEAST_OVER_MXNET = 15
MOST_OVER_INLINE = 1.1


def least_over_peer(workload):
    """How many times the best peer's time ours must go into it."""
    return 2 if workload == "random" else 3


@dataclass
class Row:
    """One workload at one number of threads. Ratios are a peer's time over ours: above 1 we are faster."""

    workload: str
    threads: int
    ours: object
    ns: Estimate
    hops: Estimate
    peer: object = None
    same_threads: bool = True
    over_peer: Estimate = None
    over_mxnet: Estimate = None
    over_inline: Estimate = None

    def outcome(self):
        """Against the best peer, as far as the repetitions can tell."""
        if not self.over_peer:
            return "no peer"
        if not self.over_peer.excludes(1):
            return "no difference"
        return "faster" if self.over_peer.median > 1 else "slower"

    def peer_verdict(self):
        return verdict(self.over_peer, least_over_peer(self.workload), least=True)

    def mxnet_verdict(self):
        return verdict(self.over_mxnet, LEAST_OVER_MXNET, least=True)

    def inline_verdict(self):
        return verdict(self.over_inline, MOST_OVER_INLINE, least=False) if self.threads > 1 else "not measured"


def verdict(measured, bound, least):
    """met, missed, or either of them `within the spread`: judged by the median."""
    if measured is None:
        return "not measured"
    said = "met" if (measured.median >= bound if least else measured.median <= bound) else "missed"
    # A bound inside the interval: another sitting might say otherwise.
    inside = measured.low < bound <= measured.high if least else measured.low <= bound < measured.high
    return said + (" (within the spread)" if inside else "")


def rows(results):
    """The headline table."""
    table = []
    for workload in results.values_of("throughput", "workload", WORKLOADS):
        entrants = results.of("throughput", workload=workload)
        for threads in sorted(
            {series.threads for series in entrants.values() if series.ours and series.style == "dynamic"}
        ):
            ours = choose.best_of_ours(entrants, threads)
            if not ours:
                continue
            times = ours.values("ns")
            row = Row(workload, threads, ours, ours.estimate("ns"), ours.in_hops("ns"))
            row.peer, row.same_threads = choose.best_peer(entrants, threads)
            if row.peer:
                row.over_peer = ratio(row.peer.values("ns"), times)
            if MXNET in entrants:
                row.over_mxnet = ratio(entrants[MXNET].values("ns"), times)
            if INLINE in entrants:
                row.over_inline = ratio(times, entrants[INLINE].values("ns"))
            table.append(row)
    return table


def score(table):
    """{outcome: how many rows}."""
    counts = {"faster": 0, "no difference": 0, "slower": 0, "no peer": 0}
    for row in table:
        counts[row.outcome()] += 1
    return counts


@dataclass
class Judgement:
    """A target, and what was measured for it. `measured` is text, because the units differ."""

    target: str
    measured: str
    verdict: str


def show(measured, unit="", digits=3):
    """A median with its interval, in so many significant digits."""
    if measured is None:
        return "–"
    median, low, high = (significant(value, digits) for value in (measured.median, measured.low, measured.high))
    unit = f" {unit}" if unit else ""
    return f"{median}{unit}" if measured.count < 2 else f"{median}{unit} [{low}, {high}]"


def significant(value, digits=3):
    """A number in so many significant digits, and never as an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    decimals = digits - 1
    while abs(value) < 10 ** (digits - 1 - decimals) and decimals < 6:
        decimals += 1
    size = abs(value)
    while size >= 10 and decimals > 0:
        size /= 10
        decimals -= 1
    return f"{value:.{decimals}f}"


def judged_rows(table, name, measure, judge, reached):
    """One target over all rows of the headline. The row that reaches the least part of it is named."""
    measured = [row for row in table if measure(row)]
    if not measured:
        return Judgement(name, "–", "not measured")
    misses = [row for row in measured if judge(row).startswith("missed")]
    worst = min(measured, key=reached)
    text = (
        f"met in {len(measured) - len(misses)} of {len(measured)} rows; worst: {worst.workload}, {worst.threads} "
        f"thread{'s' if worst.threads > 1 else ''}, {show(measure(worst))}×"
    )
    return Judgement(name, text, "missed" if misses else "met")


def targets(results, table):
    """Every target of BENCHMARKS.md, in its order."""
    judgements = [
        judged_rows(
            table,
            "1. Dynamic: at most a third of the best peer's time (half for random), every workload and thread count",
            lambda row: row.over_peer,
            Row.peer_verdict,
            lambda row: row.over_peer.median / least_over_peer(row.workload),
        ),
        judged_rows(
            table,
            f"1. Dynamic: at least {LEAST_OVER_MXNET}× ahead of MXNet's per-device engine",
            lambda row: row.over_mxnet,
            Row.mxnet_verdict,
            lambda row: row.over_mxnet.median,
        ),
        judged_rows(
            [row for row in table if row.threads > 1],
            "1. Dynamic: never slower than 1.1× our own inline run",
            lambda row: row.over_inline,
            Row.inline_verdict,
            lambda row: 1 / row.over_inline.median,
        ),
    ]
    judgements += inline(results) + replayed(results) + round_trips(results) + granularity(results) + counts(results)
    judgements += scaling(results)
    return judgements


def inline(results):
    found = []
    for bound, variables, workloads in [
        (30, "one variable", ["independent", "chain", "fan"]),
        (50, "three variables", ["random"]),
    ]:
        for workload in workloads:
            series = results.of("throughput", workload=workload).get(INLINE)
            measured = series.estimate("ns") if series else None
            found.append(
                Judgement(
                    f"2. Inline, {variables} ({workload}): at most {bound} ns",
                    show(measured, "ns"),
                    verdict(measured, bound, least=False),
                )
            )
    return found


def replayed(results):
    found = []
    for threads in (1, 2):
        pairs = []
        for workload in results.values_of("throughput", "workload", WORKLOADS):
            entrants = results.of("throughput", workload=workload)
            ours = choose.best(
                series
                for series in entrants.values()
                if series.ours and series.style == "graph" and series.threads == threads
            )
            peer, same = choose.best_peer(entrants, threads, style="graph")
            if ours and peer and same:
                pairs.append((workload, ratio(peer.values("ns"), ours.values("ns"))))
        pairs = [pair for pair in pairs if pair[1]]
        name = (
            f"3. Captured and replayed, {threads} thread{'s' if threads > 1 else ''}: at most half of the best peer's"
            " replay"
        )
        if not pairs:
            found.append(Judgement(name, "–", "not measured"))
            continue
        workload, worst = min(pairs, key=lambda pair: pair[1].median)
        misses = sum(measured.median < 2 for _, measured in pairs)
        found.append(
            Judgement(
                name,
                f"met in {len(pairs) - misses} of {len(pairs)} workloads; worst: {workload}, {show(worst)}×",
                "missed" if misses else "met",
            )
        )
    return found


def round_trips(results):
    entrants = results.of("round-trip", pause_us=0)
    ours = [series for series in entrants.values() if series.ours and series.style == "dynamic"]
    spinning = choose.best((series for series in ours if series.threads > 1), at_rank(50))
    helping = choose.best((series for series in ours if series.threads == 1), at_rank(50))
    hops = spinning.in_hops(at_rank(50)) if spinning else None
    own = helping.estimate(at_rank(50)) if helping else None
    found = [
        Judgement(
            "4. Round trip with a spinning worker, back to back: p50 at most 2.5 hops",
            f"{spinning.entrant}: {show(hops, 'hops')}" if hops else "–",
            verdict(hops, 2.5, least=False),
        ),
        Judgement(
            "4. Round trip where the waiter runs the operation: p50 at most 80 ns",
            f"{helping.entrant}: {show(own, 'ns')}" if own else "–",
            verdict(own, 80, least=False),
        ),
    ]
    for series in [spinning, helping]:
        if series:
            tail = ratio(series.values(at_rank(99.9)), series.values(at_rank(50)))
            found.append(
                Judgement(
                    f"4. Round trip of {series.entrant}: p99.9 at most 20 × p50",
                    show(tail, "×"),
                    verdict(tail, 20, least=False),
                )
            )
    return found


def granularity(results):
    found = []
    most = max((record["cores"] for record in results.records["metg"]), default=None)
    wanted = [(16, pattern, 1000) for pattern in ("stencil_1d", "nearest", "fft", "tree")] + [
        (16, "spread", 2000),
        (2, "stencil_1d", 1500),
    ]
    for width, pattern, bound in wanted:
        entrants = results.of("metg", pattern=pattern, kernel="compute", width=width, cores=most)
        best = choose.best(
            (series for series in entrants.values() if series.ours and series.style == "dynamic"), "metg_ns"
        )
        measured = best.estimate("metg_ns") if best else None
        text = f"{best.entrant}: {show(measured.scaled(0.001), 'µs')}" if measured else "–"
        found.append(
            Judgement(
                f"5. METG(50 %), width {width}, {pattern}: at most {bound / 1000:g} µs",
                text,
                verdict(measured, bound, least=False),
            )
        )
    return found + [replayed_granularity(results, most)]


# What hand-written MPI scored on two cores of another machine (a Xeon of 2.1 GHz), in µs.
MPI = {
    (16, "stencil_1d"): 0.42,
    (16, "nearest"): 0.51,
    (16, "spread"): 1.7,
    (16, "fft"): 0.55,
    (16, "tree"): 0.53,
    (2, "stencil_1d"): 1.2,
}


def replayed_granularity(results, cores):
    """Ours against what MPI scored elsewhere, and against threads by hand in the same sitting."""
    name = "5. METG replayed: at or below hand-written MPI (measured on another machine), pattern by pattern"
    said, misses = [], 0
    for (width, pattern), bound in MPI.items():
        entrants = results.of("metg", pattern=pattern, kernel="compute", width=width, cores=cores)
        ours = choose.best((s for s in entrants.values() if s.ours and s.style == "graph"), "metg_ns")
        by_hand = choose.best((s for s in entrants.values() if s.system == "by-hand"), "metg_ns")
        if not ours:
            continue
        measured = ours.estimate("metg_ns").scaled(0.001)
        misses += measured.median > bound
        hand = f"; by hand {show(by_hand.estimate('metg_ns').scaled(0.001))}" if by_hand else ""
        said.append(f"{pattern} {width}: {show(measured)} of {bound}{hand}")
    if not said:
        return Judgement(name, "–", "not measured")
    return Judgement(name, "; ".join(said), "missed" if misses else "met")


def counts(results):
    found = []
    for field, name in [("allocations", "allocations"), ("locks", "mutex locks")]:
        values = [
            (record[field], record["entrant"], record["workload"])
            for record in results.records["counts"]
            if record["system"] == "seriatim" and record.get(field) is not None
        ]
        if not values:
            found.append(Judgement(f"6. No {name} an operation in steady state", "–", "not measured"))
            continue
        most, entrant, workload = max(values)
        text = "0 in every workload" if most == 0 else f"worst: {significant(most)} ({entrant}, {workload})"
        found.append(Judgement(f"6. No {name} an operation in steady state", text, "met" if most == 0 else "missed"))
    return found


def scaling(results):
    name = "7. 16 cores: tasks of 2 µs keep 15 workers at least 90 % busy"
    cores = results.machine.get("cores") or 0
    if cores < 16:
        return [Judgement(name, f"this machine has {cores} cores", "not measured")]
    efficiencies = []
    for pattern in results.values_of("metg", "pattern", PATTERNS):
        for series in results.of("metg", pattern=pattern, kernel="compute").values():
            if series.ours and series.style == "dynamic" and series.workers == 15:
                efficiencies.append(series.estimate(lambda record: efficiency_at(record["curve"], 2000)))
    efficiencies = [each for each in efficiencies if each]
    if not efficiencies:
        return [Judgement(name, "no efficiency with 15 workers", "not measured")]
    worst = min(efficiencies, key=lambda each: each.median)
    return [Judgement(name, f"worst pattern: {show(worst.scaled(100), '%')}", verdict(worst, 0.9, least=True))]


def efficiency_at(curve, granularity_ns):
    """The efficiency at a task length, between the two neighbouring points; None outside the curve."""
    points = sorted((point["granularity_ns"], point["efficiency"]) for point in curve)
    for (left, low), (right, high) in zip(points, points[1:]):
        if left <= granularity_ns <= right and right > left:
            return low + (high - low) * (granularity_ns - left) / (right - left)
    return None
