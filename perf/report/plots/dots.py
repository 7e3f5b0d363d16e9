"""The two pictures: the time of an operation and the granularity, a dot for everybody who has as
many threads."""

from matplotlib.lines import Line2D

from .. import choose
from ..load import PATTERNS, WORKLOADS
from . import drawing


def where_most(results):
    """Near or far: wherever more was measured. None if the hop was not measured."""
    places, counts = results.measured_on()
    return max(places, key=lambda where: counts[where], default=None)


def panels(results, kind, field, values, estimates):
    """{panel: {entrant: (estimate, second estimate)}}, and the entrants: ours by default, and the
    rivals that have as many threads. Ours with other settings stand in tables of their own."""
    found, entrants = {}, {}
    for value in values:
        there = results.of(kind, **{field: value})
        mine = choose.ours(there, "default")
        if not mine:
            continue
        shown = [mine, *choose.rivals(there, mine.threads)]
        found[value] = {series.entrant: estimates(series) for series in shown}
        entrants.update({series.entrant: series for series in shown})
    return found, sorted(entrants.values(), key=choose.order)


def throughput(results):
    """None if there is nothing to show."""
    values = [name for name in results.values_of("throughput", "workload", WORKLOADS) if name != "brief"]
    estimates = lambda series: (series.estimate("ns"), series.estimate("cpu_ns"))
    found, rows = panels(results, "throughput", "workload", values, estimates)
    if not found:
        return None
    drawn, spare = drawing.dot_panels(found, rows, "ns an operation", columns=3)
    ink = drawing.INK
    drawing.legend(
        drawn,
        spare,
        [
            Line2D([], [], color=ink, marker="o", markersize=3.6, linewidth=1.1, label="elapsed time"),
            Line2D([], [], color=ink, marker="|", markersize=5, linewidth=0, label="processor time, all threads"),
            Line2D([], [], color=drawing.ACCENT_LIGHT, linewidth=0.7, label="ours"),
        ],
    )
    return drawn


def metg(results):
    """None if there is nothing to show."""
    estimates = lambda series: (scaled(series), None)
    values = results.values_of("metg", "pattern", PATTERNS)
    found, rows = panels(results, "metg", "pattern", values, estimates)
    return drawing.dot_panels(found, rows, "METG, µs", columns=4)[0] if found else None


def scaled(series):
    measured = series.estimate("metg_ns")
    return measured.scaled(0.001) if measured else None
