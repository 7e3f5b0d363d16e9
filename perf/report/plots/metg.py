"""Efficiency against task granularity, and the minimum effective task granularity that follows."""

from .. import choose
from ..intervals import estimate
from ..load import PATTERNS
from . import drawing


def main_group(results):
    """(kernel, width, cores) that the figures show: compute at width 16 on the most cores, or else what was measured
    most. Figures of different numbers of cores do not belong into one panel: one core has no other to wait for."""
    counts = {}
    for record in results.records["metg"]:
        key = (record["kernel"], record["width"], record["cores"])
        counts[key] = counts.get(key, 0) + 1
    return max(counts, key=lambda key: (key[:2] == ("compute", 16), key[2], counts[key], str(key))) if counts else None


def panels_of(results, kernel, width, cores):
    patterns = results.values_of("metg", "pattern", PATTERNS)
    panels = {
        pattern: results.of("metg", pattern=pattern, kernel=kernel, width=width, cores=cores) for pattern in patterns
    }
    return {pattern: entrants for pattern, entrants in panels.items() if entrants}


def middle_curve(series):
    """The curve of medians: [(granularity in µs, efficiency as an estimate)] by iterations."""
    by_iterations = {}
    for record in series.records.values():
        for point in record["curve"]:
            by_iterations.setdefault(point["iterations"], []).append(point)
    return [
        (
            estimate(point["granularity_ns"] for point in points).median / 1000,
            estimate(point["efficiency"] for point in points),
        )
        for _, points in sorted(by_iterations.items())
    ]


def curves(results):
    group = main_group(results)
    if not group:
        return None
    panels = panels_of(results, *group)
    chosen = choose.one_a_system(panels, "metg_ns")
    figure, axes, spare = drawing.grid_of(len(panels), 4, 1.5, sharex=True, sharey=True)
    seen, drawn = [], {}
    for index, (axis, (pattern, entrants)) in enumerate(zip(axes, panels.items())):
        axis.axhline(50, color=drawing.FAINT, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1)
        for entrant in chosen:
            if entrant not in entrants:
                continue
            points = middle_curve(entrants[entrant])
            sizes = [size for size, _ in points]
            style = drawing.line_style(entrants[entrant])
            axis.plot(sizes, [100 * efficiency.median for _, efficiency in points], **style)
            if entrants[entrant].ours:
                axis.fill_between(
                    sizes,
                    [100 * efficiency.low for _, efficiency in points],
                    [100 * efficiency.high for _, efficiency in points],
                    color=style["color"],
                    alpha=0.18,
                    linewidth=0,
                )
            seen += sizes
            drawn[entrant] = entrants[entrant]
        axis.set_title(pattern)
        axis.set_xscale("log")
        axis.set_ylim(0, 105)
        axis.set_yticks([0, 25, 50, 75, 100])
        if index % 4 == 0:
            axis.set_ylabel("efficiency, %")
        if index + 4 >= len(panels):
            axis.set_xlabel("task granularity, µs")
            axis.tick_params(labelbottom=True)
    low, high = drawing.limits(seen, 1.1)
    for axis in axes:
        axis.set_xlim(low, high)
        drawing.log_axis(axis.xaxis, low, high)
    drawing.lines_legend(figure, spare, {name: drawn[name] for name in chosen if name in drawn})
    return figure


def dots(results):
    group = main_group(results)
    if not group:
        return None
    panels, entrants = {}, {}
    for pattern, found in panels_of(results, *group).items():
        panels[pattern] = {
            name: (series.estimate(lambda record: scaled(record.get("metg_ns"))), None)
            for name, series in found.items()
        }
        entrants.update(found)
    rows = sorted(choose.few_workers(entrants.values()), key=choose.order)
    return drawing.dot_panels(panels, rows, "METG, µs", columns=5)[0]


def scaled(value):
    return None if value is None else value / 1000
