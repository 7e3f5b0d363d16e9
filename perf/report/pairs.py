"""What two figures are beside each other, and the cells and rows that are made of such pairs.

A ratio is the rival's figure over ours where less is better, taken within a repetition: above 1 we
are ahead. Near and far cores have columns of their own.
"""

from dataclasses import dataclass

from . import choose
from .intervals import ratio
from .load import PLACES
from .numbers import significant
from .tables import Cell

NEAR_AND_FAR = {"near": "near cores", "far": "far cores"}


@dataclass
class Pair:
    """Ours and the best of the rivals at one thing, on near or on far cores."""

    ours: object
    rival: object
    field: object = "ns"
    scale: float = 1.0

    @property
    def ahead(self):
        """The rival's figure over ours, or None."""
        return ratio(self.rival.values(self.field), self.ours.values(self.field)) if self.rival else None

    def outcome(self):
        if not self.ahead:
            return "no rival"
        if not self.ahead.excludes(1):
            return "no difference"
        return "ahead" if self.ahead.median > 1 else "behind"

    def cells(self):
        """Ours, the rival's, and the ratio."""
        ours, ahead = self.ours.estimate(self.field), self.ahead
        kind = {"ahead": "good", "behind": "bad"}.get(self.outcome(), "")
        return [
            Cell(significant(ours.median * self.scale), "ours"),
            figure(self.rival, self.field, self.scale, name=True),
            Cell(f"{significant(ahead.median, 2)} ×", kind) if ahead else Cell("–"),
        ]


def figure(series, field="ns", scale=1.0, name=False):
    measured = series.estimate(field) if series else None
    if not measured:
        return Cell("–")
    return Cell(significant(measured.median * scale), note=choose.shown(series) if name else "")


def pair(entrants, mine, rivals, field="ns", scale=1.0):
    """Ours beside the best of the rivals; None if ours was not measured, or has no figure."""
    if mine is None or not mine.estimate(field):
        return None
    return Pair(mine, choose.best(rivals, field), field, scale)


def over(series, serial):
    """How many times as long as the serial loop."""
    found = ratio(series.values("ns"), serial.values("ns")) if series and serial else None
    return Cell(f"{significant(found.median, 2)} ×", "bad" if found.median > 1 else "good") if found else Cell("–")


@dataclass
class Row:
    """One thing that is compared. `pairs` is {near or far: Pair}; `family` is what the README takes
    one row of."""

    what: str
    unit: str
    pairs: dict
    family: str = ""

    def worst(self):
        """The least ratio of the row; what nobody else was measured at comes last."""
        return min((each.ahead.median for each in self.pairs.values() if each.ahead), default=float("inf"))


def rows_on(results, what, unit, family, find):
    """A row of what `find` gives for near and for far cores, if there is anything."""
    pairs = {where: found for where in PLACES if (found := find(results.on(where)))}
    return [Row(what, unit, pairs, family)] if pairs else []


def pusher_share(series):
    found = series.estimate("pusher_share") if series else None
    return found.median if found else None


def score(rows):
    """{outcome: how many}, over near and far cores."""
    counts = {"ahead": 0, "no difference": 0, "behind": 0, "no rival": 0}
    for row in rows:
        for each in row.pairs.values():
            counts[each.outcome()] += 1
    return counts


def placed(results, rows):
    """The places that any row has, in order."""
    return [where for where in PLACES if any(where in row.pairs for row in rows)]


def headings(places):
    return [text for where in places for text in (f"ours, {where}", f"best rival, {where}", "ratio")]


def row_cells(row, places):
    return [text for where in places for text in (row.pairs[where].cells() if where in row.pairs else ["–"] * 3)]


def threads_of(rows):
    """How many threads each side has, sorted: two, and those that rows name."""
    return sorted({each.ours.threads for row in rows for each in row.pairs.values()})


def has_share(row):
    return any(pusher_share(each.ours) is not None for each in row.pairs.values())


def said_of(results):
    """Which cores there were, a sentence or two."""
    places, counts = results.measured_on()
    total = sum(counts.values())
    if not total:
        return ["The way between the cores was not measured."]
    parts = [f"{100 * counts[where] / total:.0f} % of the records are of {NEAR_AND_FAR[where]}" for where in places]
    said = "Near cores pass a cache line in less than 60 ns, far ones take longer; measured before and after each process. "
    said += " and ".join(parts) + "." if parts else "None was measured on cores that stayed near or far."
    if counts["moved"]:
        said += f" {100 * counts['moved'] / total:.0f} % are left out, because the host moved the cores meanwhile."
    missing = [NEAR_AND_FAR[where] for where in PLACES if where not in places]
    if parts and missing:
        said += f" This sitting had no {missing[0]}."
    if results.least > 1:
        said += f" A figure needs {results.least} repetitions on such cores."
    return [said]
