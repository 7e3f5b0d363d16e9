"""Ours beside the best of the others, in three tables that are never mixed: the caller runs
everything, everything is shipped, and the default settings.

A ratio is the rival's figure over ours where less is better, taken within a repetition: above 1 we
are ahead. Near and far cores have columns of their own.
"""

from dataclasses import dataclass

from . import choose
from .intervals import ratio
from .load import PATTERNS, PLACES, WORKLOADS, at_rank
from .numbers import percent, significant
from .tables import Cell, Table, cell

NEAR_AND_FAR = {"near": "near cores", "far": "far cores"}


@dataclass
class Pair:
    """Ours and the best of the rivals at one thing, on near or on far cores."""

    ours: object
    rival: object
    field: object = "ns"
    scale: float = 1.0

    @property
    def ahead(self):
        """The rival's figure over ours, or None."""
        return ratio(self.rival.values(self.field), self.ours.values(self.field)) if self.rival else None

    def outcome(self):
        if not self.ahead:
            return "no rival"
        if not self.ahead.excludes(1):
            return "no difference"
        return "ahead" if self.ahead.median > 1 else "behind"

    def cells(self):
        """Ours, the rival's, and the ratio."""
        ours, ahead = self.ours.estimate(self.field), self.ahead
        kind = {"ahead": "good", "behind": "bad"}.get(self.outcome(), "")
        return [
            Cell(significant(ours.median * self.scale), "ours"),
            figure(self.rival, self.field, self.scale, name=True),
            Cell(f"{significant(ahead.median, 2)} ×", kind) if ahead else Cell("–"),
        ]


def figure(series, field="ns", scale=1.0, name=False):
    measured = series.estimate(field) if series else None
    if not measured:
        return Cell("–")
    return Cell(significant(measured.median * scale), note=choose.shown(series) if name else "")


def pair(entrants, mine, rivals, field="ns", scale=1.0):
    """Ours beside the best of the rivals; None if ours was not measured, or has no figure."""
    if mine is None or not mine.estimate(field):
        return None
    return Pair(mine, choose.best(rivals, field), field, scale)


@dataclass
class Row:
    """One thing that is compared. `pairs` is {near or far: Pair}; `family` is what the README takes
    one row of."""

    what: str
    unit: str
    pairs: dict
    family: str = ""

    def worst(self):
        """The least ratio of the row; what nobody else was measured at comes last."""
        return min((each.ahead.median for each in self.pairs.values() if each.ahead), default=float("inf"))


def rows_on(results, what, unit, family, find):
    """A row of what `find` gives for near and for far cores, if there is anything."""
    pairs = {where: found for where in PLACES if (found := find(results.on(where)))}
    return [Row(what, unit, pairs, family)] if pairs else []


# The default settings


def default_rows(results):
    """Everything that is measured with `Engine::new()`, and what others do with as many threads."""
    rows = []
    for workload in results.values_of("throughput", "workload", WORKLOADS):
        family = "empty bodies"
        rows += rows_on(results, f"{workload}, {family}", "ns", family, lambda on: throughput(on, workload))
    for workload, body in lengths(results):
        family = bodies(body)
        rows += rows_on(results, f"{workload}, {family}", "ns", family, lambda on: lengthened(on, workload, body))
    rows += oversubscribed_rows(results) + four_cores_rows(results)
    for pattern in results.values_of("metg", "pattern", PATTERNS):
        rows += rows_on(results, f"METG, {pattern}", "µs", "METG", lambda on: granularity(on, pattern))
    for pause in results.values_of("round-trip", "pause_us"):
        after = f" after {pause:g} µs of sleep" if pause else ""
        rows += rows_on(results, f"round trip{after}, p50", "µs", "round trip", lambda on: median_us(on, "round-trip", pause_us=pause))
    for pause in results.values_of("push", "pause_us"):
        after = f" after {pause:g} µs of sleep" if pause else ""
        rows += rows_on(results, f"push alone{after}, p50", "µs", "push", lambda on: median_us(on, "push", pause_us=pause))
    for kind, how in (("open-loop", ""), ("random-arrivals", " at random")):
        for offered in results.values_of(kind, "offered_per_s"):
            what = f"arrivals at {rate(offered)}{how}, p50"
            rows += rows_on(results, what, "µs", "arrivals", lambda on: median_us(on, kind, offered_per_s=offered))
    return rows


def throughput(results, workload, mode="default", style="dynamic"):
    entrants = results.of("throughput", workload=workload)
    mine = choose.ours(entrants, mode, style)
    return mine and pair(entrants, mine, choose.rivals(entrants, mine.threads, style))


def oversubscribed_rows(results):
    """More threads than cores, on every side."""
    return body_rows(results, "oversubscribed", "per-device")


def four_cores_rows(results):
    return body_rows(results, "four-cores", "default")


def body_rows(results, kind, mode):
    """A row of each workload and length, which names the threads that all have."""
    rows = []
    for workload, body in lengths(results, kind):
        found = rows_on(results, "", "ns", kind, lambda on: lengthened(on, workload, body, kind, mode))
        for row in found:
            threads = max(each.ours.threads for each in row.pairs.values())
            cores = " on four cores" if kind == "four-cores" else ""
            row.what = f"{workload}, {bodies(body)}, {threads} threads{cores}"
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


def pusher_share(series):
    found = series.estimate("pusher_share") if series else None
    return found.median if found else None


def score(rows):
    """{outcome: how many}, over near and far cores."""
    counts = {"ahead": 0, "no difference": 0, "behind": 0, "no rival": 0}
    for row in rows:
        for each in row.pairs.values():
            counts[each.outcome()] += 1
    return counts


def placed(results, rows):
    """The places that any row has, in order."""
    return [where for where in PLACES if any(where in row.pairs for row in rows)]


def headings(places):
    return [text for where in places for text in (f"ours, {where}", f"best rival, {where}", "ratio")]


def row_cells(row, places):
    return [text for where in places for text in (row.pairs[where].cells() if where in row.pairs else ["–"] * 3)]


def said_of(results):
    """Which cores there were, a sentence or two."""
    places, counts = results.measured_on()
    total = sum(counts.values())
    if not total:
        return ["The way between the cores was not measured."]
    parts = [f"{100 * counts[where] / total:.0f} % of the records are of {NEAR_AND_FAR[where]}" for where in places]
    said = "Near cores pass a cache line in less than 60 ns, far ones take longer; measured before and after each process. "
    said += " and ".join(parts) + "." if parts else "None was measured on cores that stayed near or far."
    if counts["moved"]:
        said += f" {100 * counts['moved'] / total:.0f} % are left out, because the host moved the cores meanwhile."
    missing = [NEAR_AND_FAR[where] for where in PLACES if where not in places]
    if parts and missing:
        said += f" This sitting had no {missing[0]}."
    if results.least > 1:
        said += f" A figure needs {results.least} repetitions on such cores."
    return [said]


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


def has_share(row):
    return any(pusher_share(each.ours) is not None for each in row.pairs.values())


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


def through_c_rows(results):
    """Ours through C and MXNet, with as many threads (or the caller alone) and the same style of
    pushes. What was to be shipped and was not is void."""
    rows = []
    for workload in results.values_of("throughput", "workload", WORKLOADS):
        for what, ours, style, mxnet in THROUGH_C:

            def find(on):
                entrants = on.of("throughput", workload=workload)
                if what.startswith("shipped"):
                    entrants = choose.without_void(entrants)
                mine = next((series for series in entrants.values() if of(series, ours, style)), None)
                threads = (1, mine.threads) if mine else ()
                rivals = [each for each in entrants.values() if any(of(each, name, style) for name in mxnet) and each.threads in threads]
                return mine and pair(entrants, mine, rivals)

            rows += rows_on(results, f"{workload}, {what}", "ns", what, find)
    return rows


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
        ],
        ["workload, how", *headings],
        [[row.what, *plain(row_cells(row, places))] for row in rows],
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


# Bodies that take a while


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


def over(series, serial):
    """How many times as long as the serial loop."""
    found = ratio(series.values("ns"), serial.values("ns")) if series and serial else None
    return Cell(f"{significant(found.median, 2)} ×", "bad" if found.median > 1 else "good") if found else Cell("–")


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


# Granularity


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
