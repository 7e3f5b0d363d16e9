"""The page: one HTML file with everything in it."""

from html import escape

from . import choose, headline, intervals, summary
from .headline import show, significant
from .load import KINDS, PATTERNS, WORKLOADS, at_rank
from .plots import drawing, latency, metg, scaling, throughput
from .tables import entrants_by, interval_text, table

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1e; --faint: #6b6b70; --line: #dededf; --paper: #fffffe;
  --accent: #0a58ca;
  --good: #0b6b3a; --bad: #b3400a; --band: #f5f5f6 }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #ececee; --faint: #a2a2a8; --line: #3c3c41;
  --paper: #17171a;
  --accent: #6eb0ff; --good: #6fcf97; --bad: #ff9a5c; --band: #222226 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1.2rem 4rem; max-width: 74rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
h1 { font-size: 1.7rem; margin: 0 0 .2rem } h2 { font-size: 1.25rem; margin: 2.8rem 0 .6rem; padding-top: .5rem;
  border-top: 1px solid var(--line) }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem } p, ul { max-width: 50rem } a { color: var(--accent) }
  .faint { color: var(--faint) }
.warning { border-left: 4px solid var(--bad); padding: .4rem .8rem; background: var(--band) }
.score { font-size: 1.15rem; font-weight: 600 }
figure { margin: 1.2rem 0 } figure svg { width: 100%; height: auto; display: block }
figcaption { font-size: .87rem; color: var(--faint); max-width: 50rem; margin-top: .3rem }
.wide { overflow-x: auto; margin: .8rem 0 } table { border-collapse: collapse; font-size: .79rem;
  font-variant-numeric: tabular-nums }
th, td { padding: .2rem .32rem; text-align: left; vertical-align: top } .number { text-align: right;
  white-space: nowrap }
td { white-space: nowrap } td.text { white-space: normal } td small { display: block; color: var(--faint);
  font-weight: 400; font-size: .88em }
.note { display: block; font-size: .9em; white-space: normal; max-width: 8.5rem; margin-left: auto } 
thead th { border-bottom: 1.5px solid var(--ink); vertical-align: bottom }
  tbody tr + tr td { border-top: 1px solid var(--line) }
.ours { color: var(--accent); font-weight: 600 } .good { color: var(--good); font-weight: 600 }
  .bad { color: var(--bad); font-weight: 600 }
.plain { color: var(--faint) } details { margin: .8rem 0 } summary { cursor: pointer; color: var(--accent) }
  dt { font-weight: 600 } dd { margin: 0 0 .4rem }
@media print { body { max-width: none; padding: 0; font-size: 10px } figure, tr { break-inside: avoid }
  h2, h3 { break-after: avoid }
  .wide { overflow: visible } table { font-size: 7.5px } }
"""


def page(results):
    """The whole page as text."""
    rows = headline.rows(results)
    sections = [
        comparison(results, rows),
        throughput_section(results),
        metg_section(results),
        latency_section(results),
        scaling_section(results),
        counts_section(results),
        origin(results),
    ]
    machine = results.machine
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        f' content="width=device-width">\n'
        f"<title>Seriatim measured</title>\n<style>{STYLE}{drawing.dark_rules()}</style></head>\n<body>\n"
        "<h1>Seriatim measured</h1>\n<p"
        f" class=\"faint\">{escape(str(results.content.get('started', 'at an unknown time')))}, commit "
        f"{escape(str(machine.get('commit', 'unknown')))}, {machine.get('cores', '?')} cores of "
        f"{escape(str(machine.get('processor', 'an unknown processor')))}</p>\n"
        + warnings(results)
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def warnings(results):
    said = []
    if results.content.get("quick"):
        said.append("This was a quick run: its figures are too few to be quoted.")
    if results.machine.get("changed"):
        said.append("The working tree had changes that are in no commit.")
    disturbed = results.content.get("kept_disturbed") or 0
    if disturbed:
        said.append(
            f"{disturbed} disturbed repetitions had to be kept: other processes used more than a tenth of a core during"
            " them."
        )
    if 0 < results.repetitions < 6:
        said.append(f"Only {results.repetitions} repetitions: " + intervals.method(results.repetitions))
    return "".join(f'<p class="warning">{escape(sentence)}</p>\n' for sentence in said)


def heading(text, name):
    return f'<h2 id="{name}">{escape(text)}</h2>\n'


def figure(drawn, name, caption):
    """A figure, or a line that says that there is none."""
    if drawn is None:
        return f'<p class="plain">Not measured: {escape(name)}.</p>\n'
    return f"<figure>{drawing.svg(drawn, name)}<figcaption>{escape(caption)}</figcaption></figure>\n"


def folded(title, content):
    return f"<details><summary>{escape(title)}</summary>{content}</details>\n"


def absent(kind):
    return f'<p class="plain">Not measured: these results have no record of the kind “{escape(kind)}”.</p>\n'


def coloured(text):
    return (text, "good" if text.startswith("met") else "bad" if text.startswith("missed") else "plain")


def ratio_text(measured, word=""):
    return show(measured, f"× {word}".strip()) if measured else "–"


def judged(verdict, bound):
    """The note below a ratio: whether it reaches the target, and its class."""
    return (f"target {bound}: {verdict}", coloured(verdict)[1]) if verdict != "not measured" else ("", "")


def comparison(results, rows):
    text = heading("Ours and the best of the others", "headline")
    if not rows:
        return text + absent("throughput") + targets_table(results, rows)
    text += f'<p class="score">{escape(summary.sentence(rows))}</p>\n'
    text += (
        "<p>Nanoseconds from the first push to the end of the wait, divided by the operations. A ratio is the other’s"
        f" time over ours: above 1 we are faster, below 1 slower; mxnet is {headline.MXNET}."
        f" {escape(choose.BEST_OF_OURS)} {escape(choose.BEST_PEER)}</p>\n"
    )
    body = []
    outcomes = {"faster": "good", "slower": "bad"}
    previous = None
    for row in rows:
        body.append(
            [
                row.workload if row.workload != previous else "",
                row.threads,
                (row.ours.entrant, "ours"),
                show(row.ns),
                show(row.hops),
                (row.peer.entrant + ("" if row.same_threads else " †")) if row.peer else "–",
                interval_text(row.peer, "ns") if row.peer else "–",
                (
                    ratio_text(row.over_peer, row.outcome()),
                    outcomes.get(row.outcome(), "plain"),
                    *judged(row.peer_verdict(), headline.least_over_peer(row.workload)),
                ),
                (ratio_text(row.over_mxnet), "", *judged(row.mxnet_verdict(), headline.LEAST_OVER_MXNET)),
            ]
        )
        previous = row.workload
    text += table(
        ["workload", "threads", "ours", "ns", "hops", "best peer", "ns", "peer / ours", "mxnet / ours"],
        body,
        texts=(0, 2, 5),
    )
    return text + targets_table(results, rows)


def targets_table(results, rows):
    judged = headline.targets(results, rows)
    said = {name: sum(each.verdict.startswith(name) for each in judged) for name in ("met", "missed", "not measured")}
    text = (
        f"<h3>The project’s targets</h3>\n<p>{said['met']} met, {said['missed']} missed, {said['not measured']} not"
        " measured. Judged by the medians; “within the spread” means that the bound lies inside the interval.</p>\n"
    )
    return text + table(
        ["target", "measured", "verdict"],
        [[(each.target, "text"), (each.measured, "text"), coloured(each.verdict)] for each in judged],
        texts=(0, 1, 2),
    )


def throughput_section(results):
    text = heading("Throughput", "throughput")
    if not results.records["throughput"]:
        return text + absent("throughput")
    text += figure(
        throughput.figure(results, "dynamic"),
        "throughput-dynamic",
        "Time of an operation with an empty body, a new function with every push. Dots: median elapsed time with its"
        " interval; ticks: processor time of the whole process, which shows what spinning and helping cost. Logarithmic"
        " axes, a scale for each panel; left is better. The vertical line is the least of ours. With more than two"
        " numbers of workers, the least and the greatest are shown.",
    )
    text += figure(
        throughput.figure(results, "prepared"),
        "throughput-prepared",
        "The same for what is made beforehand: reusable operators, batches, and graphs that are captured once and"
        " replayed. Only entrants of the same style are to be compared.",
    )
    workloads = results.values_of("throughput", "workload", WORKLOADS)
    for title, unit, measure in [
        ("nanoseconds an operation", "ns", lambda series: interval_text(series, "ns")),
        ("hops", "hops", lambda series: show(series.in_hops("ns"))),
        ("processor time", "processor ns", lambda series: interval_text(series, "cpu_ns")),
    ]:
        text += folded(
            f"All figures: {title}",
            table([f"entrant, {unit}", *workloads], entrants_by(results, "throughput", "workload", workloads, measure)),
        )
    return text


def metg_section(results):
    text = heading("Granularity: how small tasks may be", "metg")
    if not results.records["metg"]:
        return text + absent("metg")
    main = metg.main_group(results)
    kernel, width, cores = main
    named = f"kernel “{kernel}”, width {width}, {cores} core{'' if cores == 1 else 's'}"
    text += (
        "<p>Task Bench: METG(50 %) is the mean task duration, overhead included, at which half of the peak of all cores"
        " is still reached. The peak is measured with the same kernel on all cores at once.</p>\n"
    )
    text += figure(
        metg.curves(results),
        "metg-curves",
        f"Efficiency against task granularity by pattern: {named}. Medians; for ours a band "
        f"for the interval. METG is where a curve crosses the dashed line. {choose.ONE_A_SYSTEM}",
    )
    text += figure(
        metg.dots(results),
        "metg-dots",
        f"METG(50 %) by pattern: {named}. Medians with their intervals; left is better. The vertical line is the "
        "least of ours. No dot: 50 % was not reached, or the pattern not measured.",
    )
    groups = {(record["kernel"], record["width"], record["cores"]) for record in results.records["metg"]}
    for group in sorted(groups, key=lambda group: (group != main, group)):
        wanted = dict(zip(("kernel", "width", "cores"), group))
        patterns = [
            pattern
            for pattern in results.values_of("metg", "pattern", PATTERNS)
            if results.of("metg", pattern=pattern, **wanted)
        ]
        rows = entrants_by(results, "metg", "pattern", patterns, metg_text, **wanted)
        content = table(["METG, µs", *patterns], rows)
        title = "Kernel “{}”, width {}, {} core{}".format(*group, "" if group[2] == 1 else "s")
        text += f"<h3>METG in µs</h3>{content}" if group == main else folded(f"{title}: METG in µs", content)
        floors = entrants_by(
            results, "metg", "pattern", patterns, lambda series: interval_text(series, "floor_ns"), **wanted
        )
        text += folded(
            f"{title}: time of a task with the smallest kernel, ns",
            table(["elapsed · cores / tasks, ns", *patterns], floors),
        )
    return text


def metg_text(series):
    reached = series.values("metg_ns")
    if not reached:
        return "not reached"
    note = "" if len(reached) == len(series.records) else f" ({len(reached)} of {len(series.records)})"
    return interval_text(series, "metg_ns", 0.001) + note


PERCENTILE_COLUMNS = [50, 90, 99, 99.9, 99.99]


def percentile_table(results, kind, title, **wanted):
    entrants = results.of(kind, **wanted)
    rows = [
        [
            (series.entrant, "ours" if series.ours else ""),
            *(interval_text(series, at_rank(rank), 0.001) for rank in PERCENTILE_COLUMNS),
            show(series.in_hops(at_rank(50))),
        ]
        for series in sorted(entrants.values(), key=choose.order)
    ]
    if not rows:
        return ""
    return folded(title, table(["µs", *(f"p{rank:g}" for rank in PERCENTILE_COLUMNS), "p50 in hops"], rows))


def latency_section(results):
    text = heading("Latency", "latency")
    bands = (
        "Medians of the repetitions, with bands for their intervals; percentiles with fewer than five values beyond"
        " them are left out. "
    )
    chosen = "Ours with one worker, and of every other system the entrant with the least p50."
    text += figure(
        latency.round_trips(results),
        "round-trips",
        "Push one operation on an idle engine and wait for its variable; and the push alone. The axis is stretched"
        " towards the rare: each step is ten times rarer. "
        + bands
        + chosen,
    )
    for pause in results.values_of("round-trip", "pause_us"):
        text += percentile_table(
            results, "round-trip", f"Round trip, {pause:g} µs of sleep between: figures", pause_us=pause
        )
    text += percentile_table(results, "push", "The push alone: figures")
    text += "<h3>An open loop of arrivals</h3>\n" + figure(
        latency.open_loop(results),
        "open-loop",
        "Operations arrive on a schedule, whatever the engine does; latency runs from the scheduled time to the"
        " completion, so that a stall counts against every operation it delays (no coordinated omission). The load is a"
        " part of that engine’s own capacity. "
        + bands,
    )
    text += open_loop_table(results)
    text += "<h3>A periodic job</h3>\n" + figure(
        latency.jitter(results),
        "jitter",
        "How late the job of each period starts, with nothing else to do and with a background of low priority. "
        + bands,
    )
    for background in results.values_of("jitter", "background", ["none"]):
        text += percentile_table(
            results, "jitter", f"Lateness, background {background}: figures", background=background
        )
    return text


def open_loop_table(results):
    loads = results.values_of("open-loop", "load")
    if not loads:
        return ""
    by_load = {load: results.of("open-loop", load=load) for load in loads}
    entrants = {}
    for found in by_load.values():
        entrants.update(found)
    rows = []
    for series in sorted(entrants.values(), key=choose.order):
        breaks = latency.breaking_load(by_load, series.entrant)
        late = [
            (load, by_load[load][series.entrant].estimate(at_rank(99.9)))
            for load in loads
            if series.entrant in by_load[load]
        ]
        shown = {load: show(measured.scaled(0.001)) for load, measured in late if measured}
        capacity = series.estimate("capacity_per_s")
        rows.append(
            [
                (series.entrant, "ours" if series.ours else ""),
                significant(capacity.median / 1e6) if capacity else "–",
                f"{breaks:g}" if breaks else f"not up to {loads[-1]:g}",
                *(shown.get(load, "–") for load in loads),
            ]
        )
    return (
        "<p>p99.9 breaks at the least load at which it is more than ten times that at the least load measured.</p>\n"
        + table(["p99.9 in µs", "capacity, million/s", "breaks at", *(f"load {load:g}" for load in loads)], rows)
    )


def scaling_section(results):
    text = heading("Scaling", "scaling")
    caption = (
        "Each system’s best dynamic entrant at each number of threads that run bodies; where the pushing thread runs"
        " none, it works beside them. Medians with their intervals. "
    )
    if not results.records["throughput"] and not results.records["metg"]:
        return text + absent("throughput")
    text += figure(
        scaling.throughput(results),
        "scaling-throughput",
        caption + "Up is better; empty bodies gain nothing from threads, so flat is good.",
    )
    text += figure(scaling.granularity(results), "scaling-metg", caption + "Down is better.")
    return text


def counts_section(results):
    text = heading("Counts", "counts")
    if not results.records["counts"]:
        return text + absent("counts")
    text += "<p>In steady state, an operation; counted, not timed, so one repetition is enough.</p>\n"
    workloads = results.values_of("counts", "workload", WORKLOADS)

    def counted(series):
        return " / ".join(
            "–" if series.first.get(field) is None else significant(series.first[field])
            for field in ("allocations", "deallocations", "locks")
        )

    return text + table(
        ["allocations / deallocations / locks", *workloads],
        entrants_by(results, "counts", "workload", workloads, counted),
    )


def origin(results):
    content, machine = results.content, results.machine
    text = heading("Where the figures come from", "origin")
    described = [
        (
            name.replace("memory_gib", "memory, GiB"),
            (
                "none seen"
                if name == "hypervisor" and value is None
                else ("yes" if value else "no") if isinstance(value, bool) else value
            ),
        )
        for name, value in machine.items()
    ]
    text += (
        "<h3>Machine</h3>\n" + table(["", ""], described, texts=(0, 1))
        if described
        else '<p class="plain">The machine is not described.</p>\n'
    )
    versions = sorted(results.versions().items())
    if versions:
        text += "<h3>Versions</h3>\n" + table(
            ["system", "version"], [[system, ", ".join(found)] for system, found in versions], texts=(0, 1)
        )
    hops = intervals.estimate(
        {
            record.get("repetition", 0): record.get("hop_ns")
            for records in results.records.values()
            for record in records
        }.values()
    )
    seconds = content.get("seconds")
    method = [
        intervals.method(results.repetitions) if results.repetitions else "No repetitions.",
        (
            "In each repetition every entrant runs once, in a process of its own, one after another. A ratio is taken"
            " within a repetition, so both sides sat on the same machine at nearly the same time; what is shown is the"
            " median of these ratios with its interval."
        ),
        (
            f"{content.get('discarded', 'An unknown number of')} measurements were thrown away because other processes"
            f" used more than a tenth of a core; {content.get('kept_disturbed', 'an unknown number')} disturbed ones"
            " had to be kept."
        ),
        (
            "A hop is the time a cache line takes from one core to another, measured in each repetition:"
            f" {show(hops, 'ns')}. A figure in hops is divided by the hop of its own repetition."
            if hops
            else "The time of a hop was not measured."
        ),
        f"The whole run took {significant(seconds / 60)} minutes." if seconds else "",
        (
            "Every body leaves a result that is checked; a wrong one voids the figure. Throughput and granularity"
            " include the pushing thread’s own work; creating engines, operators and graphs lies outside."
        ),
    ]
    text += (
        "<h3>Method</h3>\n<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in method if sentence) + "</ul>\n"
    )
    text += "<h3>What is missing</h3>\n"
    missing = [f"{each.get('entrant')}: {each.get('why')}" for each in results.skipped] + results.missing()
    text += (
        "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in missing) + "</ul>\n"
        if missing
        else "<p>Nothing.</p>\n"
    )
    links = ["results.json", "summary.md"] + [f"{kind}.csv" for kind in KINDS if results.records[kind]]
    return text + "<h3>Raw data</h3>\n<p>" + ", ".join(f'<a href="{name}">{name}</a>' for name in links) + "</p>\n"
