"""Tables of single operations on an engine that has nothing else to do: round trips, and the call of
a push alone."""

from .load import at_rank
from .moments import measured_with, named, percentile
from .numbers import significant
from .pairs import figure
from .tables import Cell, Table

# By how many µs a push that wakes a thread may take longer than the wake.
WAKE_AND_US = 0.5
# How many µs a push may take where one thread is awake and another sleeps.
BESIDE_AWAKE_US = 3


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


def after(kind, pause, of=""):
    """How the column of a pause begins."""
    if not pause:
        return "at once"
    return f"after {pause:g} µs{of}{' on average' if kind.startswith('random') else ''}"


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
            for text in (f"{where}, {after(kind, pause, ' of sleep')}: p50", *columns(pause))
        )],
        rows,
    )


def median_of(field):
    """A reader of the median of one of the distributions of a record, which may have counted
    nothing."""

    def read(record):
        found = record.get(field)
        return at_rank(50)({"percentiles": found}) if found and found.get("count") else None

    return read


bare_wake = median_of("bare_wake")


def beyond(series, without=bare_wake):
    """By how much a push takes longer than a bare wake of the same process, in µs."""

    def more(record):
        less, push = without(record), at_rank(50)(record)
        return push - less if less is not None and push is not None else None

    return limited(series, more, WAKE_AND_US)


def limited(series, field, most_us):
    """A figure in µs that is bad above a limit."""
    measured = series.estimate(field) if series else None
    if not measured:
        return Cell("–")
    microseconds = measured.median * 0.001
    return Cell(significant(microseconds, 2), "bad" if microseconds > most_us else "")


def wake_and_awake(record):
    """What a burst on sleeping workers should take: one wake, and what it takes on awake ones."""
    parts = [median_of(field)(record) for field in ("bare_wake", "awake")]
    return None if None in parts else sum(parts)


def wakes_table(results):
    """One push and a burst, on two workers that sleep and on one that is awake."""
    places = [where for where in results.measured_on()[0] if results.on(where).records["wakes"]]
    bursts, entrants = measured_with(results, "wakes", "burst")
    rows = []
    for series in entrants:
        cells = [named(series), series.threads]
        for where in places:
            for burst in bursts:
                found = results.on(where).of("wakes", burst=burst).get(series.entrant)
                cells += [percentile(found, 50), figure(found, bare_wake, 0.001)]
                cells += alone(found) if burst == 1 else in_a_row(found)
        rows.append(cells)
    if not rows:
        return None
    columns = lambda burst: ["beyond it", "one awake", "begins after"] if burst == 1 else ["workers awake", "beyond both"]
    pushes = lambda burst: "one push" if burst == 1 else f"{burst} pushes"
    return Table(
        "wakes",
        "Two workers, asleep and awake",
        [
            "The pusher sleeps for 5 ms on average, at random, so that both workers sleep. It then pushes one operation,"
            " or a burst of them. When those have run, it pushes as many again: after one push that finds one worker"
            " awake, which looks for work, and the other asleep. Medians, in µs.",
            "Bare wake: what `unpark` of a sleeping thread takes in the same process. Beyond it: the push less the wake."
            " Beyond both: the burst on sleeping workers, less one wake and the burst on awake ones."
            f" More than {WAKE_AND_US:g} µs is in bold.",
            f"One awake: the push; more than {BESIDE_AWAKE_US} µs is in bold. Begins after: from that push to its body."
            " What takes as long as a wake had no worker awake.",
        ],
        ["who", "threads", *(
            text
            for where in places
            for burst in bursts
            for text in (f"{where}, {pushes(burst)}: asleep", "bare wake", *columns(burst))
        )],
        rows,
    )


def alone(series):
    """The other cells of single pushes."""
    awake, reached = median_of("awake"), median_of("reached")
    return [beyond(series), limited(series, awake, BESIDE_AWAKE_US), figure(series, reached, 0.001)]


def in_a_row(series):
    """The other cells of a burst."""
    return [figure(series, median_of("awake"), 0.001), beyond(series, wake_and_awake)]
