"""How throughput and granularity change with the number of threads."""

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from .. import choose
from ..load import PATTERNS, WORKLOADS
from . import drawing, metg


def best_by_threads(entrants, field):
    """{system: [(threads, Series)]}: at each number of threads that system's dynamic entrant with the least median."""
    groups = {}
    for series in entrants.values():
        if series.style == "dynamic":
            groups.setdefault(series.system, {}).setdefault(series.threads, []).append(series)
    found = {
        system: [(threads, choose.best(group, field)) for threads, group in sorted(by_threads.items())]
        for system, by_threads in groups.items()
    }
    found = {system: [(threads, series) for threads, series in points if series] for system, points in found.items()}
    return {system: points for system, points in found.items() if points}


def draw(panels, field, convert, label):
    """`panels` is {title: {entrant: Series}}; `convert` makes what is drawn of a median."""
    panels = {title: best_by_threads(entrants, field) for title, entrants in panels.items()}
    panels = {title: systems for title, systems in panels.items() if systems}
    if not panels:
        return None
    figure, axes, spare = drawing.grid_of(len(panels), 4, 1.6)
    drawn, threads_seen = {}, set()
    for index, (axis, (title, systems)) in enumerate(zip(axes, panels.items())):
        values = []
        for points in systems.values():
            style = dict(drawing.line_style(points[-1][1]), linestyle="-")
            if points[-1][1].ours:
                style.update(color=drawing.ACCENT, marker="o")
            estimates = [series.estimate(field) for _, series in points]
            places = [threads for threads, _ in points]
            middles = [convert(each.median) for each in estimates]
            ends = [sorted((convert(each.low), convert(each.high))) for each in estimates]
            axis.plot(places, middles, **style)
            for place, (low, high) in zip(places, ends):
                axis.plot([place, place], [low, high], color=style["color"], linewidth=0.8, zorder=style["zorder"])
            values += [bound for end in ends for bound in end]
            threads_seen.update(places)
            drawn.setdefault(points[-1][1].system, style)
        low, high = drawing.limits(values)
        axis.set_yscale("log")
        axis.set_ylim(low, high)
        drawing.log_axis(axis.yaxis, low, high)
        axis.set_title(title)
        axis.grid(axis="y")
        if index % 4 == 0:
            axis.set_ylabel(label)
        if index + 4 >= len(panels):
            axis.set_xlabel("threads that run bodies")
    for axis in axes:
        if max(threads_seen) > 8:
            axis.set_xscale("log", base=2)
        shown = (
            sorted(threads_seen)
            if len(threads_seen) <= 6
            else [count for count in sorted(threads_seen) if count & (count - 1) == 0]
        )
        axis.xaxis.set_major_locator(FixedLocator(shown))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:g}"))
        axis.margins(x=0.12)
    drawing.legend(
        figure, spare, [Line2D([], [], label=system, **drawn[system]) for system in choose.SYSTEMS if system in drawn]
    )
    return figure


def throughput(results):
    workloads = results.values_of("throughput", "workload", WORKLOADS)
    return draw(
        {workload: results.of("throughput", workload=workload) for workload in workloads},
        "ns",
        lambda ns: 1000 / ns,
        "million operations a second",
    )


def granularity(results):
    group = metg.main_group(results)
    if not group:
        return None
    kernel, width, _ = group
    patterns = results.values_of("metg", "pattern", PATTERNS)
    return draw(
        {pattern: results.of("metg", pattern=pattern, kernel=kernel, width=width) for pattern in patterns},
        "metg_ns",
        lambda ns: ns / 1000,
        "METG, µs",
    )
