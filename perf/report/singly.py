"""Tables of single operations on an engine that has nothing else to do: round trips, and the call of
a push alone."""

from .load import at_rank
from .moments import measured_with, named, percentile
from .numbers import significant
from .pairs import figure
from .tables import Cell, Table

# By how many µs a push that wakes a thread may take longer than the wake.
WAKE_AND_US = 0.5


def round_trip_table(results):
    told = (
        "On an idle engine, back to back (at once) and after a pause in which workers go to sleep. All pauses are of one"
        " length, so a runtime can foresee the next. Microseconds."
    )
    return trips_table(results, "round-trip", "One operation, pushed and waited for", told)


def random_round_trip_table(results):
    told = (
        "The same after pauses that no runtime can foresee: their lengths have an exponential distribution, and are drawn"
        " once, the same for all. What a wake takes is in these. Microseconds."
    )
    return trips_table(results, "random-round-trip", "One operation, after pauses at random", told, 90)


def trips_table(results, kind, title, told, rank=99):
    """Two percentiles of a round trip. Of those at random there are too few for p99."""
    places = results.measured_on()[0]
    pauses, entrants = measured_with(results, kind, "pause_us")
    rows = []
    for series in entrants:
        cells = [named(series), series.threads]
        for where in places:
            for pause in pauses:
                found = results.on(where).of(kind, pause_us=pause).get(series.entrant)
                cells += [percentile(found, 50), percentile(found, rank)]
        rows.append(cells)
    if not rows:
        return None
    return Table(
        kind,
        title,
        [told],
        [
            "who",
            "threads",
            *(
                text
                for where in places
                for pause in pauses
                for text in (f"{where}, {after(kind, pause)}: p50", f"p{rank}")
            ),
        ],
        rows,
    )


def after(kind, pause):
    """How the column of a pause begins."""
    if not pause:
        return "at once"
    return f"after {pause:g} µs on average" if kind.startswith("random") else f"after {pause:g} µs"


def push_table(results):
    """The call of a push alone, and what waking a thread costs beside it."""
    return pushes_table(results, "push", "A push where all threads sleep", [
        "How long the call of a push takes, in µs: one after another (at once), and after a pause in which all"
        " threads go to sleep.",
    ])


def random_push_table(results):
    """The same after pauses at random: the push wakes somebody, for no thread is up in time."""
    return pushes_table(results, "random-push", "A push where all threads sleep, after pauses at random", [
        "How long the call of a push takes, in µs, after a pause in which all threads go to sleep.",
        "The pauses have an exponential distribution, the same for all: no runtime can have a thread up in time, so"
        " this push has to wake one.",
    ])


def pushes_table(results, kind, title, told):
    places = [where for where in results.measured_on()[0] if results.on(where).records[kind]]
    pauses, entrants = measured_with(results, kind, "pause_us")
    rows = []
    for series in entrants:
        cells = [named(series), series.threads]
        for where in places:
            for pause in pauses:
                found = results.on(where).of(kind, pause_us=pause).get(series.entrant)
                cells += [percentile(found, 50), percentile(found, 90)]
                cells += [figure(found, bare_wake, 0.001), beyond(found)] if pause else []
        rows.append(cells)
    if not rows:
        return None
    slept = lambda pause: f"{after(kind, pause)} of sleep" if pause else "at once"
    columns = lambda pause: ["p90", "bare wake, p50", "beyond it"] if pause else ["p90"]
    return Table(
        kind,
        title,
        [
            *told,
            "Bare wake: what `unpark` of a sleeping thread takes in the same process, in turns with the pushes.",
            f"Beyond it: the push less the wake. More than {WAKE_AND_US:g} µs is in bold.",
            "Less than nothing: most pushes wake nobody, or the push leaves the wake to the wait.",
        ],
        ["who", "threads", *(
            text
            for where in places
            for pause in pauses
            for text in (f"{where}, {slept(pause)}: p50", *columns(pause))
        )],
        rows,
    )


def bare_wake(record):
    """The median of the wakes that were measured beside a push, or None."""
    wakes = record.get("bare_wake")
    return at_rank(50)({"percentiles": wakes}) if wakes and wakes.get("count") else None


def beyond(series):
    """By how much a push takes longer than a bare wake of the same process, in µs."""

    def more(record):
        wake, push = bare_wake(record), at_rank(50)(record)
        return push - wake if wake is not None and push is not None else None

    measured = series.estimate(more) if series else None
    if not measured:
        return Cell("–")
    microseconds = measured.median * 0.001
    return Cell(significant(microseconds, 2), "bad" if microseconds > WAKE_AND_US else "")
