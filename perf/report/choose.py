"""Which entrants stand for whom: every rule by which the report picks one of several, with the sentence that tells the
reader."""

SYSTEMS = ["seriatim", "mxnet", "baseline", "onetbb", "libomp", "libgomp", "starpu", "rayon", "tokio", "shred", "by-hand"]

BEST_OF_OURS = (
    "Ours, at each number of threads that run bodies: the engine with the least median among those that get a new"
    " function with every push (no operators, no batches, no graphs)."
)
BEST_PEER = (
    "Best peer: the same rule over every other system, our in-tree copy of MXNet's design included, at the same number"
    " of threads; where no peer ran with as many (†), at the nearest number below, or else above. Both are picked by"
    " the medians of all repetitions, not anew in each."
)
ONE_A_SYSTEM = "Each other system is shown by the one of its dynamic entrants that is best on most panels."


def order(series):
    """Ours first, then the systems in a fixed order, then by style and threads."""
    system = SYSTEMS.index(series.system) if series.system in SYSTEMS else len(SYSTEMS)
    style = ["dynamic", "operators", "batches", "graph"]
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


def best_of_ours(of_workload, threads):
    return best(
        series
        for series in of_workload.values()
        if series.ours and series.style == "dynamic" and series.threads == threads
    )


def best_peer(of_workload, threads, style="dynamic"):
    """The best peer, and whether it ran with as many threads."""
    peers = [series for series in of_workload.values() if not series.ours and series.style == style]
    # Nearest from below first: an engine on three threads is not to be measured against runtimes that use no second
    # one.
    counts = sorted({series.threads for series in peers}, key=lambda count: (count > threads, abs(count - threads)))
    for count in counts:
        found = best(series for series in peers if series.threads == count)
        if found:
            return found, count == threads
    return None, False


def few_workers(entrants):
    """For plots with a row an entrant: only the least and the greatest number of workers of each mode, when there are
    more than two."""
    by_mode = {}
    for series in entrants:
        by_mode.setdefault((series.system, mode(series), series.style), []).append(series)
    kept = []
    for group in by_mode.values():
        counts = sorted({series.workers for series in group})
        kept.extend(series for series in group if len(counts) <= 2 or series.workers in (counts[0], counts[-1]))
    return kept


def mode(series):
    """The entrant's name without its number of workers: `seriatim-per-device`, `onetbb-flow`."""
    bare = series.entrant.split(" ")[0]
    suffix = f"-{series.workers}"
    return bare[: -len(suffix)] if bare.endswith(suffix) else bare


def one_a_system(panels, field):
    """Of panels ({panel: {entrant: Series}}), the entrants to draw: for each peer system the dynamic one that is best
    on most panels, and of ours also the best replayed graph."""
    wins = {}
    for entrants in panels.values():
        groups = {}
        for series in entrants.values():
            if series.style == "dynamic" or (series.ours and series.style == "graph"):
                groups.setdefault((series.system, series.style), []).append(series)
        for key, group in groups.items():
            winner = best(group, field) or group[0]
            wins.setdefault(key, {}).setdefault(winner.entrant, [0, winner])[0] += 1
    chosen = [max(count.values(), key=lambda each: (each[0], each[1].entrant))[1] for count in wins.values()]
    return [series.entrant for series in sorted(chosen, key=order)]
