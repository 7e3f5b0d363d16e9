"""The headline table as Markdown, for the README, and as plain text, for a terminal."""

from . import headline
from .headline import significant

HEADINGS = ["workload", "threads", "ours", "ns", "best peer", "ns", "ratio", "to MXNet"]


def cells(row):
    peer_ns = row.peer.estimate("ns").median if row.peer else None
    return [
        row.workload,
        str(row.threads),
        row.ours.entrant,
        significant(row.ns.median),
        (row.peer.entrant + ("" if row.same_threads else " †")) if row.peer else "–",
        significant(peer_ns) if peer_ns else "–",
        f"{significant(row.over_peer.median, 2)}×" if row.over_peer else "–",
        f"{significant(row.over_mxnet.median, 2)}×" if row.over_mxnet else "–",
    ]


def sentence(table):
    """Wins and losses in one breath."""
    score = headline.score(table)
    compared = len(table) - score["no peer"]
    if not compared:
        return "No peer was measured beside us."
    said = (
        f"Against the best peer, in {compared} comparisons: faster in {score['faster']}, slower in {score['slower']}, "
        f"no difference seen in {score['no difference']}."
    )
    own = sum(row.peer is not None and row.peer.system == "baseline" for row in table)
    if own:
        # Beating one's own copy of a design is not beating a peer.
        said += f" In {own} of them the best other was only our own copy of MXNet's design."
    return said + (f" {score['no peer']} rows have no peer." if score["no peer"] else "")


def markdown(results, table):
    lines = [sentence(table), "", "| " + " | ".join(HEADINGS) + " |", "|---|---:|---|---:|---|---:|---:|---:|"]
    for row in table:
        texts = cells(row)
        if row.outcome() in ("faster", "slower"):
            # Wins and losses alike.
            texts[6] = f"**{texts[6]}**" + (" slower" if row.outcome() == "slower" else "")
        lines.append("| " + " | ".join(texts) + " |")
    machine = results.machine
    changed = " with changes" if machine.get("changed") else ""
    lines += [
        "",
        (
            f"Ratios are the other's time over ours: above 1 we are faster. Medians of {results.repetitions}"
            f" repetitions, on {machine.get('cores', '?')} cores of {machine.get('processor', 'an unknown processor')},"
            f" commit {machine.get('commit', 'unknown')}{changed}."
        ),
    ]
    if any(not row.same_threads for row in table):
        lines.append("† No peer ran with as many threads; this is the best at the nearest number.")
    if 0 < results.repetitions < 6:
        lines.append(f"Only {results.repetitions} repetitions: too few for an interval that covers 95 %.")
    if results.content.get("quick"):
        lines.append("A quick run: not to be quoted.")
    return "\n".join(lines) + "\n"


def plain(table):
    rows = [HEADINGS] + [cells(row) + ([f"SLOWER"] if row.outcome() == "slower" else []) for row in table]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    left = (0, 2, 4)
    lines = []
    for row in rows:
        lines.append(
            "  ".join(
                text.ljust(width) if column in left else text.rjust(width)
                for column, (text, width) in enumerate(zip(row, widths))
            )
            + "  "
            + "".join(row[len(HEADINGS) :])
        )
    return "\n".join(line.rstrip() for line in lines) + "\n" + sentence(table)
