"""scripts/report.sh --agree A B: whether two runs of the report say the same.

Two figures agree if the intervals of their medians overlap. An interval holds what the repetitions
of one sitting have seen; what changes from sitting to sitting (which cores the machine gives, where
memory lies) it cannot hold, and this says how much that is.
"""

from dataclasses import dataclass
import sys

from . import compared, load
from .numbers import show

FIGURES = [
    ("throughput", ["workload"], "ns"),
    ("length", ["workload", "body_ns"], "ns"),
    ("beside-busy", ["workload", "body_ns"], "ns"),
    *((kind, fields, "ns") for kind, fields in load.REPLAYS.items()),
    ("wakes", ["burst"], load.at_rank(50.0)),
    ("metg", ["pattern", "kernel", "width"], "metg_ns"),
    *((kind, ["pause_us"], load.at_rank(50.0)) for kind in load.SINGLE),
    *((kind, ["offered_per_s"], load.at_rank(50.0)) for kind in load.ARRIVALS),
    ("pushers", ["workload", "pushers"], "per_s"),
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


def rows(results):
    """{(what, near or far): the pair of ours and the best rival}, by default settings."""
    return {(row.what, where): each for row in compared.default_rows(results) for where, each in row.pairs.items()}


def ratio_pairs(first, second):
    """The ratios by default settings: the same rival in both runs."""
    others = rows(second)
    return [
        Pair("ratio to rival", " ".join(key), each.ahead, others[key].ahead)
        for key, each in rows(first).items()
        if key in others
        and each.ahead
        and others[key].ahead
        and each.rival.entrant == others[key].rival.entrant
    ]


def turned(first, second):
    """The rows of that comparison in which one run says ahead and the other behind."""
    others = rows(second)
    return [
        " ".join(key)
        for key, each in rows(first).items()
        if key in others and {each.outcome(), others[key].outcome()} == {"ahead", "behind"}
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
        lines.append(f"  {pair.kind} {pair.name}: {show(pair.first)} and {show(pair.second)}")
    found = turned(first, second)
    verdict = f"rows that say so: {', '.join(found)}" if found else "no row says so"
    return "\n".join(lines + ["", f"Ahead of the best rival in one run and behind in the other: {verdict}."])


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
