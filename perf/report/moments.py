"""Tables of operations that come at moments, and of several threads that push: an open loop, a
periodic job, counts."""

from math import ceil

from . import choose
from .compared import rate
from .load import PLACES, PUSHED, WORKLOADS, at_rank
from .numbers import significant
from .pairs import NEAR_AND_FAR, figure
from .tables import Cell, Table


# Up to which rate cores are idle in between, so that what is burnt is waste; and how much of a core
# is much.
BURNT_BELOW_PER_S, BURNT_CORES = 10_000, 0.1


def named(series):
    return Cell(choose.shown(series), "ours" if series.ours else "")


def sorted_series(entrants):
    return sorted(entrants.values(), key=choose.order)


def measured_with(results, measurement, setting):
    """The values of a setting, and all that were measured with any of them, in order."""
    values = results.values_of(measurement, setting)
    entrants = {}
    for value in values:
        entrants.update(results.of(measurement, **{setting: value}))
    return values, sorted_series(entrants)


def percentile(series, rank):
    """In µs. A percentile of so few values that none lies beyond it is not shown."""
    if series is None or series.first["percentiles"].get("count", 0) * (1 - rank / 100) < 1:
        return Cell("–")
    return figure(series, at_rank(rank), 0.001)


def burnt(series):
    """How many cores the threads that wait for work keep busy."""
    measured = series.estimate("burnt_cores") if series else None
    if not measured:
        return Cell("–")
    cores = measured.median
    return Cell(f"{cores:.2f}" if cores >= 0.005 else "< 0.01", "bad" if cores > BURNT_CORES else "")


def open_loop_table(results):
    return arrivals_table(results, "open-loop", "Operations that arrive at a fixed rate", "The rates are the same for all.")


def random_arrivals_table(results):
    told = "The moments are drawn once and are the same for all; the pauses between them have an exponential distribution."
    return arrivals_table(results, "random-arrivals", "Operations that arrive at random", told)


def arrivals_table(results, kind, title, told):
    places = results.measured_on()[0]
    rates, entrants = measured_with(results, kind, "offered_per_s")
    rows = []
    for series in entrants:
        cells = [named(series), series.threads]
        for where in places:
            for offered in rates:
                found = results.on(where).of(kind, offered_per_s=offered).get(series.entrant)
                cells += [percentile(found, 50), percentile(found, 99), reached(found, offered)]
                cells += [burnt(found)] if offered <= BURNT_BELOW_PER_S else []
        rows.append(cells)
    if not rows:
        return None
    return Table(
        kind,
        title,
        [
            "The schedule waits for nobody: time runs from the moment at which an operation was due to the end of its"
            " body of about a quarter of a microsecond, in µs.",
            f"{told} Reached: what was complete a second, of what was offered.",
            "Cores burnt: what all threads but the pushing one use meanwhile; more than a tenth of a core is in bold.",
            "The serial loop is the floor.",
        ],
        [
            "who",
            "threads",
            *(
                text
                for where in places
                for offered in rates
                for text in (
                    f"{where}, {rate(offered)}: p50",
                    "p99",
                    "reached",
                    *(["cores burnt"] if offered <= BURNT_BELOW_PER_S else []),
                )
            ),
        ],
        rows,
    )


def reached(series, offered):
    """What was complete a second, of what was offered."""
    measured = series.estimate("achieved_per_s") if series else None
    if not measured:
        return Cell("–")
    share = measured.median / offered
    return Cell(f"{100 * min(share, 1):.0f} %", "bad" if share < 0.9 else "")


def pooled(series, rank):
    """A percentile of the values of all repetitions together, in µs. A record has its greatest values
    one by one; if those do not reach down to the percentile, or fewer than two values lie beyond
    it, there is none."""
    records = list(series.records.values()) if series else []
    count = sum(record["percentiles"].get("count", 0) for record in records)
    beyond = count - ceil(count * rank / 100)
    kept = [record.get("latest") or [] for record in records]
    whole = all(len(latest) > beyond or len(latest) == record["percentiles"]["count"] for latest, record in zip(kept, records))
    if beyond < 2 or not whole:
        return Cell("–")
    values = sorted((value for latest in kept for value in latest), reverse=True)
    return Cell(significant(values[beyond] * 0.001))


def jitter_table(results):
    places = results.measured_on()[0]
    backgrounds, names = results.values_of("jitter", "background", ["none"]), {}
    for background in backgrounds:
        names.update(results.of("jitter", background=background))
    # The floors come first: everything else is to be read beside them.
    rows = []
    for series in sorted(names.values(), key=lambda series: (series.system != "floor", choose.order(series))):
        name = series.entrant if series.system == "floor" else series.entrant.replace("seriatim-", "Seriatim, ")
        cells = [Cell(name.replace("baseline", choose.NAMES["baseline"]), "ours" if series.ours else "")]
        for where in places:
            for background in backgrounds:
                found = results.on(where).of("jitter", background=background).get(series.entrant)
                cells += [percentile(found, 50), percentile(found, 99), pooled(found, 99.9)]
                cells.append(figure(found, at_rank(100.0), 0.001))
        rows.append(cells)
    if not rows:
        return None
    label = {
        "none": "alone",
        "low-priority": "beside 20 µs",
        "low-priority, 2 us": "beside 2 µs",
        "low-priority, 200 us": "beside 200 µs",
    }
    return Table(
        "jitter",
        "A job every millisecond",
        [
            "How late the job starts, in µs, alone and beside a load of lower priority, by the length of its bodies.",
            "The first rows are floors: threads that use no engine. One sleeps to each moment, as cyclictest does; the"
            " other sleeps to shortly before it and spins, as the thread that pushes our job does.",
            "p99.9 is of all repetitions together, each of which has a few values beyond it; the others are medians of"
            " the repetitions, the latest too.",
        ],
        [
            "who",
            *(
                text
                for where in places
                for background in backgrounds
                for text in (f"{where}, {label.get(background, background)}: p50", "p99", "p99.9", "latest")
            ),
        ],
        rows,
    )


def pushers_table(results):
    places = results.measured_on()[0]
    entrants = {}
    for workload in results.values_of("pushers", "workload", PUSHED):
        entrants.update(results.of("pushers", workload=workload))
    entrants = sorted_series(entrants)
    rows = []
    for workload in results.values_of("pushers", "workload", PUSHED):
        for count in results.values_of("pushers", "pushers"):
            cells = [f"{workload}, {count} pusher{'s' if count > 1 else ''}"]
            for where in places:
                found = results.on(where).of("pushers", workload=workload, pushers=count)
                cells += [figure(found.get(series.entrant), "per_s", 1e-6) for series in entrants]
            rows.append(cells)
    if not rows:
        return None
    workers = lambda series: f" + {series.threads - 1}" if series.threads > 1 else ""
    return Table(
        "pushers",
        "Several threads that push",
        [
            "Million operations a second in all; more is better. Disjoint: each thread has 64 variables of its own."
            " Read-mostly: each operation reads 8 of 64 shared variables, and one in 1,000 changes one. Common: all"
            " change one variable.",
            "+ 1: one worker beside the pushing threads. OpenMP, oneTBB and Taskflow take such pushes of one thread only.",
        ],
        ["workload", *(f"{choose.shown(series)}{workers(series)}, {where}" for where in places for series in entrants)],
        rows,
    )


def counts_table(results):
    workloads = results.values_of("counts", "workload", WORKLOADS)
    entrants = {}
    for workload in workloads:
        entrants.update(results.of("counts", workload=workload))
    rows = []
    for series in sorted_series(entrants):
        cells = [named(series)]
        for workload in workloads:
            found = results.of("counts", workload=workload).get(series.entrant)
            both = [found.first.get(field) if found else None for field in ("allocations", "locks")]
            cells.append(" / ".join("–" if value is None else significant(value, 2) for value in both))
        rows.append(cells)
    if not rows:
        return None
    return Table(
        "counts",
        "Allocations and locks",
        ["An operation in steady state: allocations / locks. Counted once; locks that cannot be seen from outside: –."],
        ["who", *workloads],
        rows,
    )


def everybody(results, where):
    """The time of every entrant at every workload, with intervals: nothing is left out of it."""
    from .numbers import show

    on = results.on(where)
    workloads = on.values_of("throughput", "workload", WORKLOADS)
    entrants = {}
    for workload in workloads:
        entrants.update(on.of("throughput", workload=workload))
    rows = []
    for series in sorted_series(entrants):
        shares = [found.estimate("pusher_share") for workload in workloads if (found := on.of("throughput", workload=workload).get(series.entrant))]
        shares = sorted(share.median for share in shares if share)
        rows.append(
            [
                named(series),
                series.threads,
                *(
                    show(found.estimate("ns")) if (found := on.of("throughput", workload=workload).get(series.entrant)) else "–"
                    for workload in workloads
                ),
                f"{100 * shares[0]:.0f}–{100 * shares[-1]:.0f} %" if shares else "–",
            ]
        )
    if not rows:
        return None
    return Table(
        f"everybody-{where}",
        f"Everybody on {NEAR_AND_FAR[where]}",
        ["Nanoseconds an operation with an empty body: median and interval."],
        ["who", "threads", *workloads, "on the pusher"],
        rows,
    )


def everybody_tables(results):
    return [table for where in PLACES if (table := everybody(results, where))]
