"""Bodies that take a while: what is left of their time, by default settings, with more threads than
cores and on four cores, and how short they may be.
"""

from . import choose
from .compared import beside_busy_rows, four_cores_rows, granularity, length, lengthened, lengths, oversubscribed_rows
from .load import PATTERNS
from .pairs import Row, figure, over, placed
from .tables import Cell, Table


def lengths_table(results):
    rows, places = [], results.measured_on()[0]
    for workload, body in lengths(results):
        cells = [f"{workload}, {length(body)}"]
        for where in places:
            entrants = results.on(where).of("length", workload=workload, body_ns=body)
            found, serial = lengthened(results.on(where), workload, body), entrants.get("serial")
            if found is None:
                cells += ["–"] * 7
                continue
            declared = choose.ours(entrants, "declared")
            cells += [figure(serial), *found.cells(), over(found.ours, serial), figure(declared), over(declared, serial)]
        rows.append(cells)
    if not rows:
        return None
    return Table(
        "lengths",
        "Bodies that take a while",
        [
            "Nanoseconds an operation whose body computes for so long, with default settings.",
            "The serial loop runs the same bodies without any engine; ours over serial below 1 means that the second"
            " thread pays.",
            "Declared: the same bodies pushed with `.short()`, which may run inside their push.",
        ],
        [
            "workload, body",
            *(
                text
                for where in places
                for text in (
                    f"serial, {where}",
                    f"ours, {where}",
                    f"best rival, {where}",
                    "ratio",
                    "ours over serial",
                    f"declared, {where}",
                    "declared over serial",
                )
            ),
        ],
        rows,
    )


def oversubscribed_table(results):
    said = [
        "Nanoseconds an operation, with more threads than cores: ours is the per-device engine with 7 workers and the"
        " thread that pushes, rivals have as many threads in all.",
        "The serial loop has one thread. What we lose, or win by least, comes first.",
        "StarPU is left out: asked for seven workers it starts fewer.",
    ]
    return beside_serial(results, "oversubscribed", "More threads than cores", said, oversubscribed_rows)


def beside_busy_table(results):
    said = [
        "Nanoseconds an operation with default settings on two cores, of which a process beside the measured one keeps"
        " one busy.",
        "The serial loop has one thread, beside the same process. What we lose, or win by least, comes first.",
    ]
    return beside_serial(results, "beside-busy", "Beside a busy process", said, beside_busy_rows)


def four_cores_table(results):
    said = [
        "Nanoseconds an operation with default settings on four cores: the thread that pushes and three workers, beside"
        " rivals with four threads in all.",
        "The serial loop has one thread. What we lose, or win by least, comes first.",
    ]
    return beside_serial(results, "four-cores", "Four cores", said, four_cores_rows)


def beside_serial(results, kind, title, said, find):
    """A table of rows of bodies, with a serial loop of the same sitting."""
    rows = sorted(find(results), key=Row.worst)
    if not rows:
        return None
    places = placed(results, rows)
    body = []
    for row in rows:
        cells = [row.what]
        for where in places:
            found = row.pairs.get(where)
            if found is None:
                cells += ["–"] * 5
                continue
            record = found.ours.first
            measured = results.on(where).of(kind, workload=record["workload"], body_ns=record["body_ns"])
            serial = measured.get("serial")
            cells += [figure(serial), *found.cells(), over(found.ours, serial)]
        body.append(cells)
    headings = lambda where: (f"serial, {where}", f"ours, {where}", f"best rival, {where}", "ratio", "ours over serial")
    return Table(kind, title, said, ["workload, body, threads", *(text for where in places for text in headings(where))], body)


def metg_table(results):
    rows, places = [], results.measured_on()[0]
    for pattern in results.values_of("metg", "pattern", PATTERNS):
        cells = [pattern]
        for where in places:
            on = results.on(where)
            for style in ("dynamic", "graph"):
                found = granularity(on, pattern, style)
                cells += found.cells() if found else unreached(on, pattern, style)
            by_hand = [series for series in on.of("metg", pattern=pattern).values() if series.system == "by-hand"]
            cells.append(figure(choose.best(by_hand, "metg_ns"), "metg_ns", 0.001))
        rows.append(cells)
    if not rows:
        return None
    return Table(
        "metg",
        "How short tasks may be",
        [
            "METG(50 %) of Task Bench: how long a task must be, in µs, for half of the peak of all cores to be reached.",
            "Dynamic: each task is pushed. Graph: made once and run again. By hand: threads that spin on each other's"
            " counters, without any runtime.",
        ],
        [
            "pattern",
            *(
                text
                for where in places
                for text in (
                    f"dynamic: ours, {where}",
                    "best rival",
                    "ratio",
                    f"graph: ours, {where}",
                    "best rival's graph",
                    "ratio",
                    "by hand",
                )
            ),
        ],
        rows,
    )


def unreached(results, pattern, style):
    """Where ours has no METG: whether it was measured at all, and what the best rival has."""
    entrants = results.of("metg", pattern=pattern)
    mine = choose.ours(entrants, "default", style)
    rivals = choose.rivals(entrants, mine.threads, style) if mine else []
    return [Cell("not reached", "bad") if mine else "–", figure(choose.best(rivals, "metg_ns"), "metg_ns", 0.001, True), "–"]
