"""What the figures share: one style, the colours of the systems, panels of dots, and SVG that a
page can hold and a dark screen can show.

Colours: one accent for us, muted colours for the others, each with a marker of its own, so that
nothing rests on colour alone. The SVG holds the colours for a white page, which every viewer
understands; a style sheet replaces each of them on a dark screen.
"""

import io
import re

import matplotlib

from .. import choose

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402: the backend has to be chosen first
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator  # noqa: E402

INK, FAINT, GRID, PAPER, GUIDE = "#1c1c1e", "#6b6b70", "#dededf", "#fffffe", "#f1f1f2"
ACCENT, ACCENT_LIGHT = "#0a58ca", "#5b93e0"
# system: (colour on white, colour on dark, marker)
SYSTEM_STYLES = {
    "seriatim": (ACCENT, "#6eb0ff", "o"),
    "mxnet": ("#a1661f", "#d9a25f", "D"),
    "baseline": ("#85858a", "#a5a5aa", "s"),
    "onetbb": ("#80609a", "#bd9cd8", "P"),
    "libomp": ("#3f7f86", "#7cc0c6", "v"),
    "libgomp": ("#5e8460", "#9ac59c", "^"),
    "starpu": ("#a05a5e", "#dd989b", "X"),
    "taskflow": ("#84803c", "#c5c078", "<"),
    "serial": ("#5c5c9e", "#a3a3e0", ">"),
    "by-hand": ("#77706a", "#b3aca6", "h"),
}
OTHER_STYLE = ("#68686d", "#acacb1", "d")
ON_DARK = {
    INK: "#ececee",
    FAINT: "#a2a2a8",
    GRID: "#3c3c41",
    PAPER: "#17171a",
    GUIDE: "#222226",
    ACCENT_LIGHT: "#3f7cc8",
    **{light: dark for light, dark, _ in [*SYSTEM_STYLES.values(), OTHER_STYLE]},
}

WIDTH = 7.2  # inches: two columns of a paper
pyplot.rcParams.update(
    {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 7,
        "svg.fonttype": "none",
        "svg.hashsalt": "report",
        "axes.titlesize": 7.5,
        "axes.titleweight": "bold",
        "axes.titlepad": 4,
        "axes.titlelocation": "left",
        "axes.labelsize": 7,
        "xtick.labelsize": 6.5,
        "ytick.labelsize": 6.5,
        "legend.fontsize": 6.5,
        "legend.frameon": False,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.minor.width": 0.4,
        "ytick.minor.width": 0.4,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "xtick.minor.size": 1.5,
        "ytick.minor.size": 1.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "lines.linewidth": 1.0,
        "lines.markersize": 3.2,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.edgecolor": INK,
        "figure.facecolor": PAPER,
        "axes.facecolor": "none",
        "savefig.facecolor": PAPER,
        "grid.color": GRID,
        "grid.linewidth": 0.5,
    }
)


def colour(system):
    return SYSTEM_STYLES.get(system, OTHER_STYLE)[0]


def plain(value, _=None):
    """Tick labels: 0.5, 10, 2,000; never a power."""
    return f"{value:g}" if value < 1000 else f"{value:,.0f}"


def log_axis(axis, low, high):
    """Ticks on a logarithmic axis from low to high, as dense as its range allows."""
    decades = high / low
    steps = (1, 2, 5) if decades < 30 else (1, 3) if decades < 200 else (1,)
    axis.set_major_locator(LogLocator(subs=steps, numticks=30))
    axis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=30) if decades > 30 else NullLocator())
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_formatter(NullFormatter())


def limits(values, room=1.25):
    """Limits of a logarithmic axis that show all the values."""
    values = [value for value in values if value and value > 0]
    return (min(values) / room, max(values) * room) if values else (1, 10)


def grid_of(count, columns, height, **options):
    """So many panels in rows of `columns`; the cells without a panel are hidden and handed back."""
    columns = min(columns, count) or 1
    rows = -(-count // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(WIDTH, rows * height), squeeze=False, layout="constrained", **options
    )
    flat = list(axes.flat)
    for axis in flat[count:]:
        axis.set_axis_off()
    return figure, flat[:count], flat[count:]


def legend(figure, spare, handles, columns=5):
    """One legend for all panels: in a free cell if there is one, or below. None if nothing was
    drawn."""
    if not handles:
        return
    labels = [handle.get_label() for handle in handles]
    if spare:
        spare[0].legend(handles, labels, loc="center left", borderaxespad=0, handlelength=2.4)
    else:
        lines = -(-len(handles) // columns) * max(label.count("\n") + 1 for label in labels)
        figure.set_figheight(figure.get_figheight() + 0.1 + 0.15 * lines)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=2.4, columnspacing=1.6)


def dot_panels(panels, rows, unit, columns):
    """Small multiples with a row for each entrant, on a logarithmic axis.

    `panels` is {title: {entrant: (estimate, second estimate or None)}}, `rows` the entrants' Series
    in order. Dots and not bars: a bar's length on a logarithmic axis means nothing, and on a linear
    one the slowest would squeeze the rest together.
    """
    height = 0.75 + 0.125 * len(rows)
    figure, axes, spare = grid_of(len(panels), columns, height, sharey=True)
    for index, (axis, (title, measured)) in enumerate(zip(axes, panels.items())):
        seen = []
        for place, series in enumerate(rows):
            estimate, second = measured.get(series.entrant, (None, None))
            if estimate is None:
                continue
            shade = colour(series.system)
            seen += [estimate.low, estimate.high] + ([second.median] if second else [])
            axis.plot(
                [estimate.low, estimate.high],
                [place, place],
                color=shade,
                linewidth=1.1,
                solid_capstyle="butt",
                zorder=3,
            )
            axis.plot(estimate.median, place, "o", color=shade, markersize=3.6, markeredgewidth=0, zorder=4)
            if second:
                axis.plot(second.median, place, "|", color=shade, markersize=5, markeredgewidth=0.9, zorder=3)
        ours = [
            measured[series.entrant][0].median
            for series in rows
            if series.ours and measured.get(series.entrant, (None,))[0]
        ]
        if ours:
            axis.axvline(min(ours), color=ACCENT_LIGHT, linewidth=0.7, zorder=1)
        finish_dots(axis, index, columns, title, rows, seen, unit)
        # The last panel of each column says the unit.
        axis.set_xlabel(unit if index + columns >= len(panels) else "")
    return figure, spare


def finish_dots(axis, index, columns, title, rows, seen, unit):
    low, high = limits(seen, 1.35)
    axis.set_xscale("log")
    axis.set_xlim(low, high)
    log_axis(axis.xaxis, low, high)
    if high / low > 8:
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 3) if high / low < 60 else (1,), numticks=20))
    axis.set_title(title)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_yticks(range(len(rows)), [choose.shown(series) for series in rows])
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    for place in range(0, len(rows), 2):
        axis.axhspan(place - 0.5, place + 0.5, color=GUIDE, zorder=0, linewidth=0)
    if index % columns == 0:
        for label, series in zip(axis.get_yticklabels(), rows):
            label.set_color(colour(series.system) if series.ours else INK)
            label.set_fontweight("bold" if series.ours else "normal")


def svg(figure, name, alone=False):
    """The figure as SVG text: to be put into a page, or as a file that stands alone."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    # Many figures in one page must not share names.
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    text = re.sub(r"(\d+\.\d\d)\d+", r"\1", text)
    text = "\n".join(line.strip() for line in text.splitlines() if line.strip())
    if alone:
        return re.sub(r"(<svg[^>]*>)", lambda start: f"{start.group(1)}\n<style>{dark_rules()}</style>", text, count=1)
    # Inside HTML these are known.
    text = re.sub(r'\s+xmlns(:xlink)?="[^"]*"', "", text).replace("xlink:href", "href")
    return re.sub(r'<svg[^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-label="{name}">', text, count=1)


def dark_rules():
    """Style rules that replace each colour on a dark screen; on paper the light ones stay."""
    rules = "".join(
        f'[style*="{part}: {light}"]{{{part}:{dark} !important}}'
        for light, dark in ON_DARK.items()
        for part in ("fill", "stroke")
    )
    return f"@media screen and (prefers-color-scheme: dark){{{rules}}}"
