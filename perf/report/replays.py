"""Tables of what replays cost beside their operations. All are ours: they stand beside goals, and
beside what else we could do."""

from .intervals import median, ratio
from .load import PLACES
from .numbers import significant
from .pairs import figure
from .tables import Cell, Table

GRAPHS = ["one node", "a node for each name", "64 nodes over arrays", "64 nodes over private arrays"]
# What a replay may take, in ns: so much, and so much for each name or for each node.
REPLAY_NS, NAME_NS = 150, 5
PRIVATE_NS, NODE_NS, NODES = 100, 10, 64
# How much of the time with a wait between replays that without one may take.
WITHOUT_WAIT = 0.7
# By how many µs a replay of few long operations may be later than their pushes.
LATER_US = 1
NAIVE, DEFAULT = "seriatim-naive graph", "seriatim-default graph"


def measured(results, kind):
    return [where for where in PLACES if results.on(where).records[kind]]


def goal(graph, names):
    """In ns, or None."""
    if graph == "one node":
        return REPLAY_NS + NAME_NS * names
    return PRIVATE_NS + NODE_NS * NODES if graph == "64 nodes over private arrays" else None


def against(series, most):
    """Nanoseconds, which are bad above a goal."""
    found = figure(series)
    estimate = series.estimate("ns") if series else None
    if estimate and most:
        found.kind = "bad" if estimate.median > most else "good"
    return found


def names_table(results):
    places, rows = measured(results, "replay-names"), []
    for graph in results.values_of("replay-names", "graph", GRAPHS):
        names_of = {record["names"] for record in results.records["replay-names"] if record["graph"] == graph}
        for names in sorted(names_of):
            cells = [f"{graph}, {names} name{'s' if names > 1 else ''}"]
            most = goal(graph, names)
            for where in places:
                found = results.on(where).of("replay-names", graph=graph, names=names)
                cells += [against(found.get(entrant), most) for entrant in (NAIVE, DEFAULT)]
            rows.append([*cells, str(most) if most else "–"])
    if not rows or not places:
        return None
    return Table(
        "replay-names",
        "A replay by the names of its graph",
        [
            "Nanoseconds a replay of a graph whose operations are empty, waited for after each 64.",
            "One node reads all names but one and writes that; or a node writes each name; or a chain of 64 nodes goes"
            " through 65 arrays, of which all but the last may be private to the graph.",
            f"The goal is {REPLAY_NS} ns and {NAME_NS} ns for each name that others can use, and for private arrays"
            f" {PRIVATE_NS} ns and {NODE_NS} ns a node. What misses it is in bold.",
        ],
        ["graph", *(text for where in places for text in (f"the caller runs, {where}", f"default, {where}")), "goal"],
        rows,
    )


# What is between two replays of what was captured, as records and as the table say it.
STREAMS = {
    "wait": "graph, a wait after each",
    "bound": "graph, `bound(1024)`",
    "nothing": "graph, no wait",
    "pipeline": "pipeline, `bound(1024)`",
    "spells": "pipeline, a wait after 256",
}


def stream_table(results):
    places, rows = measured(results, "replay-stream"), []
    for body in results.values_of("replay-stream", "body_ns"):
        for between, said in STREAMS.items():
            cells = [f"{body / 1000:g} µs, {said}"]
            for where in places:
                of = results.on(where).of
                found, wait = (
                    of("replay-stream", between=how, body_ns=body).get(DEFAULT) for how in (between, "wait")
                )
                cells += [figure(found), "–" if between == "wait" else share(found, wait), grown(found)]
            rows.append(cells)
    if not rows or not places:
        return None
    return Table(
        "replay-stream",
        "Replays that follow each other",
        [
            f"Nanoseconds a replay of a stencil of two points and two steps, {often(results)} in a row, with default"
            " settings; the length of a body, then what is replayed and what is between two replays.",
            "Grown: by how much the peak of resident memory was above what was resident before, in MB.",
            f"Without a wait after each the goal is {WITHOUT_WAIT} of the time with one, and memory that stays flat."
            " More than that share is in bold.",
        ],
        ["stencil", *(text for where in places for text in (f"ns, {where}", "of it", "grown, MB"))],
        rows,
    )


def often(results):
    """How many replays in a row there were, in words."""
    counts = {record.get("replays") for record in results.records["replay-stream"]} - {None}
    return " or ".join(f"{count:,}" for count in sorted(counts)) or "many"


def share(series, whole):
    """Of the time with a wait, within a repetition."""
    found = ratio(series.values("ns"), whole.values("ns")) if series and whole else None
    if not found:
        return Cell("–")
    return Cell(f"{significant(found.median, 2)} ×", "bad" if found.median > WITHOUT_WAIT else "good")


def grown(series):
    return figure(series, "growth_kb", 1 / 1000)


def few_table(results):
    places, rows = measured(results, "few-long"), []
    pairs = {(record["operations"], record["nap_us"]) for record in results.records["few-long"]}
    for operations, nap in sorted(pairs):
        cells = [f"{operations} of {nap / 1000:g} ms"]
        for where in places:
            pushed, *replays = (
                results.on(where).of("few-long", operations=operations, nap_us=nap, how=how).get(DEFAULT)
                for how in ("pushed", "first replay", "later replay")
            )
            cells.append(figure(pushed, "ns", 1e-6))
            for replay in replays:
                cells += [figure(replay, "ns", 1e-6), later(replay, pushed)]
        rows.append(cells)
    if not rows or not places:
        return None
    return Table(
        "few-long",
        "Few long operations",
        [
            "Milliseconds until all are over, on three workers: pushed singly, as a graph that was never replayed, and as"
            " one that was. The bodies sleep, so that three run at once on any machine.",
            f"Later: the replay less the pushes, in µs. More than {LATER_US} is in bold.",
        ],
        [
            "operations",
            *(
                text
                for where in places
                for text in (f"pushed, {where}", "first replay", "later by, µs", "later replays", "later by, µs")
            ),
        ],
        rows,
    )


def later(replay, pushed):
    """By how many µs a replay is over later than the pushes, within a repetition."""
    if not replay or not pushed:
        return Cell("–")
    ns = pushed.values("ns")
    found = replay.values("ns")
    differences = [found[at] - ns[at] for at in found if at in ns]
    if not differences:
        return Cell("–")
    microseconds = median(differences) / 1000
    return Cell(significant(microseconds, 2), "bad" if microseconds > LATER_US else "good")
