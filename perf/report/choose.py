"""Which entrants stand in which table: every rule by which the report picks one of several."""

SYSTEMS = [
    "seriatim", "seriatim-c", "serial", "by-hand", "mxnet", "baseline", "onetbb", "libomp",
    "libgomp", "taskflow", "starpu", "floor",
]
# Who is somebody else's: not a loop, not threads by hand, not our own copy of another's design.
RIVALS = ["mxnet", "onetbb", "libomp", "libgomp", "taskflow", "starpu"]
NAMES = {
    "seriatim-c": "Seriatim in C",
    "serial": "a serial loop",
    "by-hand": "threads by hand",
    "mxnet": "MXNet",
    "baseline": "our copy of MXNet's design",
    "onetbb": "oneTBB",
    "libomp": "LLVM's OpenMP",
    "libgomp": "GCC's OpenMP",
    "taskflow": "Taskflow",
    "starpu": "StarPU",
}
SETTINGS = {
    "naive": "the caller runs",
    "default": "default",
    "declared": "declared short",
    "shipped": "all shipped",
    "spinning": "workers spin",
    "inline": "inline_below",
    "per-device": "per-device",
}
# A body that ran on the thread which pushed it was not shipped. A run in which more were than this
# is void.
MOST_ON_PUSHER = 0.01


def shown(series):
    """What a reader calls it."""
    if series.ours:
        setting = next((name for mode, name in SETTINGS.items() if f"-{mode}" in series.entrant), series.entrant)
        name = f"Seriatim, {setting}"
    else:
        name = NAMES.get(series.system, series.entrant)
        more = [text for text in ("shipped", "placement", "async") if text in series.entrant]
        name += "".join(f", {text}" for text in more)
    return name + {"operators": ", operators", "graph": ", graph"}.get(series.style, "")


def order(series):
    """Ours first, then the systems in a fixed order, then by style and threads."""
    system = SYSTEMS.index(series.system) if series.system in SYSTEMS else len(SYSTEMS)
    style = ["dynamic", "operators", "graph"]
    return (
        system,
        series.system,
        series.threads,
        style.index(series.style) if series.style in style else 9,
        series.entrant,
    )


def best(candidates, field="ns"):
    """The one with the least median, or None."""
    measured = [(series.estimate(field), series) for series in candidates]
    measured = [(found.median, series.entrant, series) for found, series in measured if found]
    return min(measured, key=lambda each: each[:2])[2] if measured else None


def ours(entrants, mode, style="dynamic"):
    """Ours with that setting and style; of several numbers of workers the one with the most
    threads."""
    found = [
        series
        for series in entrants.values()
        if series.ours and series.style == style and f"-{mode}" in series.entrant
    ]
    return max(found, key=lambda series: series.threads, default=None)


def rivals(entrants, threads, style="dynamic"):
    """Everybody else's with exactly as many threads, the pushing one counted on both sides."""
    return [
        series
        for series in entrants.values()
        if series.system in RIVALS and series.style == style and series.threads == threads
    ]


def without_void(entrants):
    """The same, of each only the runs in which what was pushed was shipped; who has none is left
    out. A run that does not say is void too."""
    kept = {name: series.where(shipped) for name, series in entrants.items()}
    return {name: series for name, series in kept.items() if series}


def shipped(record):
    share = record.get("pusher_share")
    return share is not None and share <= MOST_ON_PUSHER
