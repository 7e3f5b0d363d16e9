"""Ours beside the best of the others by default settings, all that is measured with them."""

from . import choose
from .load import PATTERNS, WORKLOADS, at_rank
from .numbers import percent
from .pairs import Row, headings, has_share, pair, placed, pusher_share, row_cells, rows_on, said_of, score, threads_of
from .tables import Cell, Table


def default_rows(results):
    """Everything that is measured with `Engine::new()`, and what others do with as many threads."""
    rows = []
    for workload in results.values_of("throughput", "workload", WORKLOADS):
        family = "empty bodies"
        rows += rows_on(results, f"{workload}, {family}", "ns", family, lambda on: throughput(on, workload))
    for workload, body in lengths(results):
        family = bodies(body)
        rows += rows_on(results, f"{workload}, {family}", "ns", family, lambda on: lengthened(on, workload, body))
    rows += oversubscribed_rows(results) + beside_busy_rows(results) + four_cores_rows(results)
    for pattern in results.values_of("metg", "pattern", PATTERNS):
        rows += rows_on(results, f"METG, {pattern}", "µs", "METG", lambda on: granularity(on, pattern))
    for kind, what in (("round-trip", "round trip"), ("push", "push alone")):
        for how in ("", "random-"):
            rows += after_pauses(results, how + kind, what)
    for kind, how in (("open-loop", ""), ("random-arrivals", " at random")):
        for offered in results.values_of(kind, "offered_per_s"):
            what = f"arrivals at {rate(offered)}{how}, p50"
            rows += rows_on(results, what, "µs", "arrivals", lambda on: median_us(on, kind, offered_per_s=offered))
    return rows


def after_pauses(results, kind, what):
    """A row for each length of the pauses before single operations."""
    rows, random = [], " on average" if kind.startswith("random-") else ""
    for pause in results.values_of(kind, "pause_us"):
        after = f" after {pause:g} µs of sleep{random}" if pause else ""
        rows += rows_on(results, f"{what}{after}, p50", "µs", kind, lambda on: median_us(on, kind, pause_us=pause))
    return rows


def throughput(results, workload, mode="default", style="dynamic"):
    entrants = results.of("throughput", workload=workload)
    mine = choose.ours(entrants, mode, style)
    return mine and pair(entrants, mine, choose.rivals(entrants, mine.threads, style))


def oversubscribed_rows(results):
    """More threads than cores, on every side."""
    return body_rows(results, "oversubscribed", "per-device")


def beside_busy_rows(results):
    """A process beside it keeps a core busy."""
    return body_rows(results, "beside-busy", "default")


def four_cores_rows(results):
    return body_rows(results, "four-cores", "default")


def body_rows(results, kind, mode):
    """A row of each workload and length, which names the threads that all have."""
    rows = []
    for workload, body in lengths(results, kind):
        found = rows_on(results, "", "ns", kind, lambda on: lengthened(on, workload, body, kind, mode))
        for row in found:
            threads = max(each.ours.threads for each in row.pairs.values())
            beside = {"four-cores": " on four cores", "beside-busy": " beside a busy process"}.get(kind, "")
            row.what = f"{workload}, {bodies(body)}, {threads} threads{beside}"
        rows += found
    return rows


def lengths(results, kind="length"):
    """(workload, length) of the bodies that take a while."""
    found = results.values_of(kind, "body_ns")
    return [(workload, body) for workload in results.values_of(kind, "workload", WORKLOADS) for body in found]


def bodies(body_ns):
    return f"bodies of {length(body_ns)}" if body_ns else "empty bodies"


def length(body_ns):
    return f"{body_ns} ns" if body_ns < 1000 else f"{body_ns / 1000:g} µs"


def lengthened(results, workload, body, kind="length", mode="default"):
    entrants = results.of(kind, workload=workload, body_ns=body)
    mine = choose.ours(entrants, mode)
    return mine and pair(entrants, mine, choose.rivals(entrants, mine.threads))


def granularity(results, pattern, style="dynamic"):
    entrants = results.of("metg", pattern=pattern)
    mine = choose.ours(entrants, "default", style)
    return mine and pair(entrants, mine, choose.rivals(entrants, mine.threads, style), "metg_ns", 0.001)


def median_us(results, measurement, **setting):
    """Our default beside its rivals, in µs, of a measurement that has percentiles."""
    entrants = results.of(measurement, **setting)
    mine = choose.ours(entrants, "default")
    return mine and pair(entrants, mine, choose.rivals(entrants, mine.threads), at_rank(50), 0.001)


def rate(per_s):
    return f"{per_s / 1e6:g} M/s" if per_s >= 1e6 else f"{per_s / 1e3:g} k/s"


def default_table(results):
    rows = sorted(default_rows(results), key=Row.worst)
    if not rows:
        return None
    places = placed(results, rows)
    body = []
    for row in rows:
        share = max((pusher_share(each.ours) or 0 for each in row.pairs.values()), default=0) if has_share(row) else None
        body.append([f"{row.what} ({row.unit})", *row_cells(row, places), percent(share)])
    least, *more = threads_of(rows)
    named = ["A row that names more threads has those: ours by `cpu_workers` where that is not the default."] if more else []
    return Table(
        "default",
        "Default settings",
        [
            f"`Engine::new()` and every rival with {least} threads in all, the one that pushes counted.",
            *named,
            "Less is better; a ratio above 1 says how many times longer the best rival takes.",
            "What we lose, or win by least, comes first.",
            "The last column is the share of the bodies that ran on the thread which pushed them.",
        ],
        ["what (unit)", *headings(places), "on the pusher"],
        body,
        said_of(results),
    )


def threads_of(rows):
    """How many threads each side has, sorted: two, and those that rows name."""
    return sorted({each.ours.threads for row in rows for each in row.pairs.values()})


def brief_rows(results, most=10):
    """What the README shows of the default settings, as (row, near or far): first the comparisons
    in which ours is not ahead, then the least win of each family; the least ratios come first in
    both. The first part leaves room for the second in `most` rows, but no loss is left out, and
    three wins stay beside any number of losses."""
    compared = [(row, where) for row in default_rows(results) for where, each in row.pairs.items() if each.ahead]
    compared.sort(key=lambda found: found[0].pairs[found[1]].ahead.median)
    won, rest = [], []
    for row, where in compared:
        (won if row.pairs[where].outcome() == "ahead" else rest).append((row, where))
    least = {}
    for row, where in won:
        least.setdefault(row.family, (row, where))
    lost = sum(row.pairs[where].outcome() == "behind" for row, where in rest)
    rest.sort(key=lambda found: found[0].pairs[found[1]].outcome() != "behind")
    return [*rest[: max(lost, most - len(least))], *list(least.values())[: max(3, most - lost)]]


def brief_table(results):
    """The README's table: a few rows of the default table, one comparison each."""
    found = brief_rows(results)
    if not found:
        return None
    body = []
    for row, where in found:
        each = row.pairs[where]
        ours, rival, against = each.cells()
        if each.outcome() == "no difference":
            against = Cell(against.text, note="no difference seen")
        body.append([f"{row.what} ({row.unit})", where, ours, rival, against])
    least, *more = threads_of([row for row, _ in found])
    return Table(
        "brief",
        "Default settings",
        [
            sentence(results),
            f"Each side has {least} threads in all{', or as many as a row names' if more else ''}.",
            "A ratio is the rival's time over ours.",
            "Every loss comes first, then the least wins, one of a family.",
        ],
        ["what (unit)", "cores", "ours", "best rival", "ratio"],
        body,
        texts=(0, 1),
    )


def sentence(results):
    """Wins and losses in one breath, by default settings."""
    rows = default_rows(results)
    counts = score(rows)
    compared = sum(counts.values()) - counts["no rival"]
    if not compared:
        return "No rival was measured beside us."
    return (
        f"With default settings, in {compared} comparisons with the best rival: ahead in {counts['ahead']}, behind in "
        f"{counts['behind']}, no difference seen in {counts['no difference']}."
    )


def extremes(results, outcome):
    """What we lose (`behind`), worst first, or win (`ahead`), best first: [(ratio, what, near or
    far, the rival)]."""
    found = [
        (each.ahead.median, row.what, where, choose.shown(each.rival))
        for row in default_rows(results)
        for where, each in row.pairs.items()
        if each.outcome() == outcome
    ]
    return sorted(found, reverse=outcome == "ahead")
