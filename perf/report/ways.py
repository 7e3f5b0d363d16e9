"""Ways of pushing that are not the default one, each in a table of its own: the caller runs
everything, everything is shipped, through C, inside the push, operators, and graphs.
"""

from . import choose
from .compared import throughput
from .load import PLACES, WORKLOADS
from .numbers import percent, significant
from .pairs import Pair, Row, figure, headings, pair, placed, pusher_share, row_cells, rows_on
from .tables import Cell, Table, cell


# The caller runs everything


def alone_table(results):
    """One thread on every side. Where the cores lie makes no difference to it, so all figures are
    taken."""
    rows = []
    for workload in results.values_of("throughput", "workload", WORKLOADS):
        entrants = results.of("throughput", workload=workload)
        mine = choose.ours(entrants, "naive")
        if not mine:
            continue
        rivals = choose.rivals(entrants, 1)
        by_system = {series.system: series for series in rivals}
        compared = pair(entrants, mine, rivals)
        others = [figure(by_system.get(system)) for system in alone_systems(results)]
        rows.append((compared, [workload, *compared.cells(), *others, figure(entrants.get("serial"))]))
    if not rows:
        return None
    rows.sort(key=lambda row: row[0].ahead.median if row[0].ahead else float("inf"))
    return Table(
        "alone",
        "The caller runs everything",
        [
            "One thread on every side: it pushes and it runs. Ours is the naive engine.",
            "Taskflow's one worker pushes, and runs what it has pushed.",
            "Nanoseconds an operation with an empty body; the last column is a loop without any engine.",
        ],
        ["workload", "ours", "best rival", "ratio", *map(choose.NAMES.get, alone_systems(results)), "serial loop"],
        [cells for _, cells in rows],
    )


def alone_systems(results):
    found = {
        series.system
        for workload in results.values_of("throughput", "workload", WORKLOADS)
        for series in choose.rivals(results.of("throughput", workload=workload), 1)
    }
    return [system for system in choose.RIVALS if system in found]


# Shipped


def shipped_table(results):
    """All bodies run on another thread than the one that pushes. Runs in which they did not are
    void."""
    rows, void = [], {}
    for workload in results.values_of("throughput", "workload", WORKLOADS):
        pairs = {}
        for where in PLACES:
            entrants = results.on(where).of("throughput", workload=workload)
            mine = choose.ours(choose.without_void(entrants), "shipped")
            if mine is None:
                continue
            rivals = [series for series in choose.rivals(entrants, mine.threads)]
            kept = choose.without_void({series.entrant: series for series in rivals})
            for series in rivals:
                lost = len(series.records) - (len(kept[series.entrant].records) if series.entrant in kept else 0)
                if lost:
                    before, of = void.get(series.entrant, (0, 0))
                    void[series.entrant] = (before + lost, of + len(series.records))
            pairs[where] = pair(entrants, mine, kept.values())
        if pairs:
            rows.append(Row(workload, "ns", pairs))
    if not rows:
        return None
    rows.sort(key=Row.worst)
    places = placed(results, rows)
    body = []
    for row in rows:
        mxnet = []
        for where in places:
            entrants = choose.without_void(results.on(where).of("throughput", workload=row.what))
            of_mxnet = [s for s in entrants.values() if s.system == "mxnet" and s.threads > 1 and s.style == "dynamic"]
            mxnet.append(figure(choose.best(of_mxnet)))
        body.append([row.what, *row_cells(row, places), *mxnet])
    voided = ", ".join(f"{name} ({lost} of {of})" for name, (lost, of) in sorted(void.items()))
    return Table(
        "shipped",
        "Everything is shipped",
        [
            "Ours with `waiters_help(false)` and without `inline_below`; the thread that pushes runs nothing.",
            "Nanoseconds an operation with an empty body. Who ran each body is counted: a run in which more than 1 % of"
            " the bodies ran on the thread that pushed them is void.",
        ],
        ["workload", *headings(places), *(f"MXNet, {where}" for where in places)],
        body,
        [f"Void: {voided}." if voided else "No run was void."],
    )


# The C interface beside MXNet


# What is compared: its name, our entrant's beginning and style, and MXNet's. Placement runs short operations on the
# caller, so MXNet's engine that does that stands against it too.
THROUGH_C = [
    ("the caller runs", "seriatim-c-naive", "dynamic", ["mxnet-naive"]),
    ("the caller runs, asynchronous", "seriatim-c-naive async", "dynamic", ["mxnet-naive"]),
    ("shipped", "seriatim-c-shipped", "dynamic", ["mxnet-per-device"]),
    ("shipped, operators", "seriatim-c-shipped", "operators", ["mxnet-per-device"]),
    ("placement", "seriatim-c-placement", "dynamic", ["mxnet-naive", "mxnet-per-device"]),
]


# The engine of MXNet that has threads stands beside placement in a column of its own: the caller
# alone may be quicker, but only this one uses the second core, as ours may.
PLACED = ("seriatim-c-placement", "dynamic", ["mxnet-per-device"])


def through_c_rows(results):
    """Ours through C and MXNet, with as many threads (or the caller alone) and the same style of
    pushes. What was to be shipped and was not is void."""
    rows = []
    for workload in results.values_of("throughput", "workload", WORKLOADS):
        for what, *how in THROUGH_C:
            find = lambda on: beside_mxnet(on, workload, *how, shipped=what.startswith("shipped"))
            rows += rows_on(results, f"{workload}, {what}", "ns", what, find)
    return rows


def beside_mxnet(on, workload, ours, style, mxnet, shipped=False):
    """Ours of that name and style beside the best of these engines of MXNet, or None."""
    entrants = on.of("throughput", workload=workload)
    if shipped:
        entrants = choose.without_void(entrants)
    mine = next((series for series in entrants.values() if of(series, ours, style)), None)
    threads = (1, mine.threads) if mine else ()
    rivals = [each for each in entrants.values() if any(of(each, name, style) for name in mxnet) and each.threads in threads]
    return mine and pair(entrants, mine, rivals)


def threaded(results, row, where):
    """MXNet's engine with threads, and how many times our time it takes; of placement only."""
    workload, what = row.what.split(", ", 1)
    found = beside_mxnet(results.on(where), workload, *PLACED) if what == "placement" else None
    if not found or not found.ahead:
        return Cell("–")
    return Cell(figure(found.rival).text, note=f"{significant(found.ahead.median, 2)} ×")


def of(series, beginning, style):
    """Whether an entrant is called so, but for its number and its style."""
    rest = series.entrant.removeprefix(beginning).removesuffix(f" {style}")
    return series.style == style and series.entrant.startswith(beginning) and rest.lstrip("-").isdigit() | (rest == "")


def through_c_table(results):
    rows = sorted((row for row in through_c_rows(results) if row.worst() < float("inf")), key=Row.worst)
    if not rows:
        return None
    places = placed(results, rows)
    headings = [text for where in places for text in (f"ours in C, {where}", f"MXNet, {where}", "ratio")]
    headings += [f"MXNet per-device, {where}" for where in places]
    plain = lambda cells: [Cell(each.text, each.kind) for each in map(cell, cells)]
    return Table(
        "through-c",
        "Through the C interface, beside MXNet",
        [
            "Nanoseconds an operation with an empty body. Ours is pushed through the C interface, as MXNet's is through"
            " its own: as many threads, the same variables, all of them ready.",
            "The caller runs: both naive engines. Asynchronous: ours by `seriatim_push_async`; MXNet has no other push."
            " Shipped: ours with `WAITERS_HELP` off. Placement: ours with `INLINE_BELOW` 300, which has the caller run"
            " what is short, beside the quicker of MXNet's two engines.",
            "A ratio above 1 says how many times longer MXNet takes. What we lose, or win by least, comes first.",
            "The last columns have MXNet's engine with threads beside placement, whichever of its engines is quicker.",
        ],
        ["workload, how", *headings],
        [[row.what, *plain(row_cells(row, places)), *(threaded(results, row, where) for where in places)] for row in rows],
    )


def through_c_sentence(results):
    """How our C interface and MXNet compare, in a sentence, or nothing."""
    compared = {what: [] for what, *_ in THROUGH_C}
    for row in through_c_rows(results):
        compared[row.family] += [each for each in row.pairs.values() if each.ahead]
    said = []
    for what, pairs in compared.items():
        ratios = sorted(each.ahead.median for each in pairs)
        if ratios:
            behind = sum(each.outcome() == "behind" for each in pairs)
            lost = f", behind in {behind} of {len(pairs)}" if behind else ""
            said.append(f"{what} {significant(ratios[0], 2)} to {significant(ratios[-1], 2)} times{lost}")
    return f"Beside our C interface MXNet takes, by way of pushing: {'; '.join(said)}." if said else ""


# One setting that is not the default


def inline_table(results):
    rows = []
    for workload in results.values_of("throughput", "workload", WORKLOADS):
        cells = [workload]
        for where in PLACES:
            mine = choose.ours(results.on(where).of("throughput", workload=workload), "inline")
            if where in results.measured_on()[0]:
                cells += [figure(mine), percent(pusher_share(mine))]
        cells.append(figure(choose.ours(results.of("throughput", workload=workload), "naive")))
        if any(cell not in ("–", workload) and getattr(cell, "text", "–") != "–" for cell in cells[1:-1]):
            rows.append(cells)
    if not rows:
        return None
    places = results.measured_on()[0]
    return Table(
        "inline",
        "A setting: short operations run where they are pushed",
        [
            "With `inline_below(300 ns)` the engine learns which closures are short, and runs those inside their push.",
            "So this is no figure of two threads: it is to be compared with the naive engine, and not with rivals.",
        ],
        ["workload", *(text for where in places for text in (f"ns, {where}", "on the pusher")), "naive engine"],
        rows,
    )


# Ours, declared beforehand and not


def declared_pairs(results):
    """[(mode, workload, near or far, Pair of the operators and the single pushes)], where the
    operators lose most first."""
    found = []
    for where in PLACES:
        on = results.on(where)
        for workload in on.values_of("throughput", "workload", WORKLOADS):
            entrants = on.of("throughput", workload=workload)
            for mode in ("naive", "default"):
                operators, single = choose.ours(entrants, mode, "operators"), choose.ours(entrants, mode)
                both = operators and single and Pair(operators, single)
                if both and both.ahead:
                    found.append((mode, workload, where, both))
    return sorted(found, key=lambda each: each[3].ahead.median)


def operators_table(results):
    rows = []
    for mode, workload, where, both in declared_pairs(results):
        operators, single, against = both.cells()
        rows.append([f"{workload}, {choose.SETTINGS[mode]}", where, operators, Cell(single.text), against])
    if not rows:
        return None
    return Table(
        "operators",
        "Operators beside single pushes",
        [
            "Nanoseconds an operation with an empty body, ours both times: declared once as an operator and pushed"
            " again and again, and pushed singly with its variables each time.",
            "A ratio above 1 says how many times longer the single push takes.",
            "It should always be: an operator knows its variables before. Where it is not comes first.",
        ],
        ["workload, setting", "cores", "operator", "single push", "ratio"],
        rows,
        texts=(0, 1),
    )


def slower_operators(results):
    """Where operators lose to single pushes, in a sentence, or nothing."""
    pairs = declared_pairs(results)
    lost = [found for found in pairs if found[3].outcome() == "behind"]
    if not lost:
        return ""
    said = []
    for mode, workload, where, both in lost[:4]:
        operators, single = (significant(series.estimate("ns").median) for series in (both.ours, both.rival))
        said.append(f"{workload}, {choose.SETTINGS[mode]}, {where} cores ({operators} ns, singly {single})")
    more = f"; {len(lost) - 4} more" if len(lost) > 4 else ""
    return (
        f"Operators, declared beforehand, are slower than our own single pushes in {len(lost)} of {len(pairs)}"
        f" comparisons: {'; '.join(said)}{more}."
    )


# Graphs that are made once and run again


def replay_table(results):
    rows, places = [], results.measured_on()[0]
    for workload in results.values_of("throughput", "workload", WORKLOADS):
        entrants = results.of("throughput", workload=workload)
        mine = choose.ours(entrants, "naive", "graph")
        alone = mine and pair(entrants, mine, choose.rivals(entrants, 1, "graph"))
        cells = [workload, *(alone.cells() if alone else ["–"] * 3)]
        pairs = {where: throughput(results.on(where), workload, style="graph") for where in places}
        for where in places:
            cells += pairs[where].cells() if pairs[where] else ["–"] * 3
        if alone or any(pairs.values()):
            rows.append(cells)
    if not rows:
        return None
    return Table(
        "replay",
        "Captured once and replayed",
        ["Nanoseconds an operation of a graph that is made once and run again, beside the rivals' graphs."],
        ["workload", "ours, one thread", "best rival's graph, one", "ratio", *headings(places)],
        rows,
    )
