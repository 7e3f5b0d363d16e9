"""Nanoseconds an operation, by workload and entrant."""

from matplotlib.lines import Line2D

from .. import choose
from ..load import WORKLOADS
from . import drawing

TITLES = {"dynamic": ["dynamic"], "prepared": ["operators", "batches", "graph"]}


def figure(results, which):
    """`which` is dynamic (a function with every push) or prepared (operators, batches and graphs). None if there is
    nothing to show."""
    styles = TITLES[which]
    panels, entrants = {}, {}
    for workload in results.values_of("throughput", "workload", WORKLOADS):
        found = {
            name: series
            for name, series in results.of("throughput", workload=workload).items()
            if series.style in styles
        }
        if found:
            panels[workload] = {
                name: (series.estimate("ns"), series.estimate("cpu_ns")) for name, series in found.items()
            }
            entrants.update(found)
    if not panels:
        return None
    rows = sorted(choose.few_workers(entrants.values()), key=choose.order)
    drawn, spare = drawing.dot_panels(panels, rows, "ns an operation", columns=4)
    drawing.legend(
        drawn,
        spare,
        [
            Line2D(
                [],
                [],
                color=drawing.INK,
                marker="o",
                markersize=3.6,
                linewidth=1.1,
                label="elapsed time: median,\ninterval",
            ),
            Line2D(
                [],
                [],
                color=drawing.INK,
                marker="|",
                markersize=5,
                linewidth=0,
                label="processor time of the\nwhole process: median",
            ),
            Line2D([], [], color=drawing.ACCENT_LIGHT, linewidth=0.7, label="the least of ours"),
        ],
    )
    return drawn
