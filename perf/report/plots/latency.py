"""Round trips, pushes, an open loop of arrivals, and a periodic job: distributions, so percentiles and not means."""

from math import log10

from .. import choose
from ..load import at_rank
from ..intervals import estimate
from . import drawing

RARITIES = [50, 90, 99, 99.9, 99.99, 99.999]
# A percentile with fewer values beyond it is one value's accident.
LEAST_BEYOND = 5


def rarity(rank):
    """Where a percentile lies on the axis: 90 at 1, 99 at 2, 99.9 at 3."""
    return -log10(1 - rank / 100)


def percentile_line(series):
    """[(rank, estimate)] over the repetitions, for the ranks that have enough values beyond them."""
    by_rank = {}
    for record in series.records.values():
        percentiles = record["percentiles"]
        for rank, value in percentiles.get("points", []):
            if 50 <= rank < 100 and percentiles.get("count", 0) * (1 - rank / 100) >= LEAST_BEYOND:
                by_rank.setdefault(rank, []).append(value)
    return [(rank, estimate(values)) for rank, values in sorted(by_rank.items())]


def representatives(panels):
    """{panel: [Series]}: all dynamic ones of ours with one worker, and each other system's best by p50. The first panel
    that has a system chooses, so that a line means the same in all of them."""
    chosen = {}
    for entrants in panels.values():
        for series in best_of_each(entrants):
            chosen.setdefault(series.entrant if series.ours else series.system, series.entrant)
    return {
        panel: sorted((series for series in entrants.values() if series.entrant in chosen.values()), key=choose.order)
        for panel, entrants in panels.items()
    }


def best_of_each(entrants):
    groups = {}
    for series in entrants.values():
        if series.style == "dynamic":
            key = series.entrant if series.ours and series.workers == 1 else series.system
            groups.setdefault(key, []).append(series)
    if any(series.ours and series.workers == 1 for group in groups.values() for series in group):
        groups.pop("seriatim", None)  # Those of ours with more workers.
    chosen = [choose.best(group, at_rank(50)) for group in groups.values()]
    return [series for series in chosen if series]


def draw_percentiles(panels):
    """`panels` is {title: [Series, ...]}."""
    panels = {title: entrants for title, entrants in panels.items() if entrants}
    if not panels:
        return None
    figure, axes, _ = drawing.grid_of(len(panels), 3, 2.4)
    drawn = {}
    for index, (axis, (title, entrants)) in enumerate(zip(axes, panels.items())):
        values, ranks = [], []
        for series in entrants:
            line = [(rank, measured.scaled(0.001)) for rank, measured in percentile_line(series) if measured.median > 0]
            if not line:
                continue
            style = drawing.line_style(series)
            places = [rarity(rank) for rank, _ in line]
            axis.plot(places, [measured.median for _, measured in line], **style)
            axis.fill_between(
                places,
                [measured.low for _, measured in line],
                [measured.high for _, measured in line],
                color=style["color"],
                alpha=0.13,
                linewidth=0,
                zorder=1,
            )
            values += [bound for _, measured in line for bound in (measured.low, measured.high)]
            ranks += places
            drawn.setdefault(series.entrant, series)
        axis.set_title(title)
        finish_rarity(axis, max(ranks, default=3))
        low, high = drawing.limits(values)
        axis.set_yscale("log")
        axis.set_ylim(low, high)
        drawing.log_axis(axis.yaxis, low, high)
        axis.grid(axis="y")
        if index % 3 == 0:
            axis.set_ylabel("time, µs")
    drawing.lines_legend(figure, None, drawn, columns=4)
    return figure


def finish_rarity(axis, end):
    shown = [rank for rank in RARITIES if rarity(rank) <= end + 0.05]
    axis.set_xticks([rarity(rank) for rank in shown], [f"{rank:g}" for rank in shown])
    axis.set_xlabel("percentile")


def round_trips(results):
    panels = {}
    for pause in results.values_of("round-trip", "pause_us"):
        title = "round trip, back to back" if pause == 0 else f"round trip after {pause:g} µs of sleep"
        panels[title] = results.of("round-trip", pause_us=pause)
    panels["the push alone"] = results.of("push")
    return draw_percentiles(representatives(panels))


def jitter(results):
    panels = {}
    for background in results.values_of("jitter", "background", ["none"]):
        title = "nothing else to do" if background == "none" else f"background: {background}"
        panels[title] = results.of("jitter", background=background)
    return draw_percentiles(representatives(panels))


def open_loop(results):
    """p50, p99 and p99.9 against the load."""
    loads = results.values_of("open-loop", "load")
    if not loads:
        return None
    by_load = {load: results.of("open-loop", load=load) for load in loads}
    chosen = representatives({loads[0]: by_load[loads[0]]})[loads[0]]
    figure, axes, _ = drawing.grid_of(3, 3, 2.4, sharey=True)
    values = []
    for axis, rank in zip(axes, (50, 99, 99.9)):
        for series in chosen:
            points = [
                (load, by_load[load][series.entrant].estimate(at_rank(rank)))
                for load in loads
                if series.entrant in by_load[load]
            ]
            points = [(load, measured.scaled(0.001)) for load, measured in points if measured and measured.median > 0]
            style = drawing.line_style(series)
            axis.plot([load for load, _ in points], [measured.median for _, measured in points], **style)
            axis.fill_between(
                [load for load, _ in points],
                [measured.low for _, measured in points],
                [measured.high for _, measured in points],
                color=style["color"],
                alpha=0.13,
                linewidth=0,
                zorder=1,
            )
            values += [bound for _, measured in points for bound in (measured.low, measured.high)]
        axis.axvline(1, color=drawing.FAINT, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1)
        axis.set_title(f"p{rank:g}")
        axis.set_xlabel("offered load, part of the capacity")
        axis.grid(axis="y")
    low, high = drawing.limits(values)
    for axis in axes:
        axis.set_yscale("log")
        axis.set_ylim(low, high)
        drawing.log_axis(axis.yaxis, low, high)
    axes[0].set_ylabel("latency, µs")
    drawing.lines_legend(figure, None, {series.entrant: series for series in chosen}, columns=4)
    return figure


def breaking_load(by_load, entrant, factor=10):
    """The least load at which p99.9 is more than so many times that at the least load; None if it never is."""
    measured = [
        (load, entrants[entrant].estimate(at_rank(99.9)))
        for load, entrants in sorted(by_load.items())
        if entrant in entrants
    ]
    measured = [(load, found.median) for load, found in measured if found]
    return next((load for load, value in measured if value > factor * measured[0][1]), None) if measured else None
