"""scripts/report.sh --agree A B: whether two runs of the report say the same.

Two figures agree if the intervals of their medians overlap. An interval holds what the repetitions of one sitting have
seen; what changes from sitting to sitting (which cores the machine gives, where memory lies) it cannot hold, and this
says how much that is.
"""

from dataclasses import dataclass
import sys

from . import headline, load

FIGURES = [
    ("throughput", ["workload"], "ns"),
    ("metg", ["pattern", "kernel", "width"], "metg_ns"),
    ("round-trip", ["pause_us"], load.at_rank(50.0)),
    ("push", [], load.at_rank(50.0)),
    ("jitter", ["background"], load.at_rank(50.0)),
]
WORST = 12


@dataclass
class Pair:
    """One figure in both runs."""

    kind: str
    name: str
    first: object
    second: object

    def overlap(self):
        return self.first.low <= self.second.high and self.second.low <= self.first.high

    def change(self):
        """The larger median over the smaller, less 1."""
        small, large = sorted((self.first.median, self.second.median))
        return large / small - 1 if small else 0.0


def pairs(first, second):
    """Every figure that both runs have."""
    found = []
    for kind, fields, value in FIGURES:
        others = second.series(kind, *fields)
        for key, series in first.series(kind, *fields).items():
            ours, theirs = series.estimate(value), others[key].estimate(value) if key in others else None
            if ours and theirs:
                found.append(Pair(kind, " ".join(str(part) for part in key), ours, theirs))
    return found


def ratio_pairs(first, second):
    """The ratios of the headline table: the same entrants in both runs."""
    others = {(row.workload, row.threads): row for row in headline.rows(second)}
    found = []
    for row in headline.rows(first):
        other = others.get((row.workload, row.threads))
        if other and row.over_mxnet and other.over_mxnet and row.ours.entrant == other.ours.entrant:
            found.append(Pair("ratio to MXNet", f"{row.workload} {row.threads}", row.over_mxnet, other.over_mxnet))
        same = other and row.peer and other.peer and row.peer.entrant == other.peer.entrant
        if same and row.ours.entrant == other.ours.entrant:
            found.append(Pair("ratio to peer", f"{row.workload} {row.threads}", row.over_peer, other.over_peer))
    return found


def turned(first, second):
    """The rows of the headline table in which one run says faster and the other slower."""
    others = {(row.workload, row.threads): row.outcome() for row in headline.rows(second)}
    return [
        f"{row.workload} {row.threads}"
        for row in headline.rows(first)
        if {row.outcome(), others.get((row.workload, row.threads))} == {"faster", "slower"}
    ]


def text(first, second):
    lines = ["figures           number  intervals overlap  median change  9 of 10 change by less than"]
    figures = pairs(first, second) + ratio_pairs(first, second)
    for kind in dict.fromkeys(pair.kind for pair in figures):
        of_kind = [pair for pair in figures if pair.kind == kind]
        changes = sorted(pair.change() for pair in of_kind)
        overlapping = sum(pair.overlap() for pair in of_kind)
        lines.append(
            f"{kind:<16}{len(of_kind):>8}{overlapping / len(of_kind):>18.0%}"
            f"{changes[len(changes) // 2]:>15.1%}{changes[int(0.9 * len(changes))]:>15.1%}"
        )
    apart = sorted((pair for pair in figures if not pair.overlap()), key=Pair.change, reverse=True)
    if apart:
        lines += ["", f"Apart, the farthest {min(WORST, len(apart))} of {len(apart)}:"]
    for pair in apart[:WORST]:
        lines.append(f"  {pair.kind} {pair.name}: {headline.show(pair.first)} and {headline.show(pair.second)}")
    rows = turned(first, second)
    verdict = f"rows that say so: {', '.join(rows)}" if rows else "no row says so"
    return "\n".join(lines + ["", f"Faster than the best peer in one run and slower in the other: {verdict}."])


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(text(*(load.read(path) for path in arguments)))
    except (OSError, ValueError) as problem:
        print(f"report: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
