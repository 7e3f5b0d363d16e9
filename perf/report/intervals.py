"""Medians, their intervals, and ratios: the same for every figure of the report.

The interval of a median is the distribution-free one between two order statistics: between the k-th
smallest and the k-th largest of n values, the median of the distribution lies with a probability
that depends on n and k only (the binomial distribution with 1/2). k is as large as 95 % allows;
with 9 repetitions it is 2, and the interval covers 96.1 %. With fewer than 6 no interval covers 95
%; then it is the whole range, which covers less, and the report says so.
"""

from dataclasses import dataclass
from functools import cache
from math import comb
import random

COVERAGE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A median with its interval."""

    median: float
    low: float
    high: float
    count: int

    def scaled(self, factor):
        return Estimate(self.median * factor, self.low * factor, self.high * factor, self.count)

    def excludes(self, value):
        return value < self.low or value > self.high


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def covered(count, rank):
    """The probability that the median lies between the rank-th smallest and the rank-th largest of
    so many values."""
    return 1 - 2 * sum(comb(count, below) for below in range(rank)) / 2**count


@cache
def rank_for(count, coverage=COVERAGE):
    """The largest rank whose interval covers so much, or 1, the whole range, if none does."""
    rank, fewer = 1, 1
    while 2 * (rank + 1) <= count:
        # As `covered`, whose sum grows by one term a step.
        fewer += comb(count, rank)
        if 1 - 2 * fewer / 2**count < coverage:
            break
        rank += 1
    return rank


def estimate(values):
    """The median of the values with its interval, or None if there are no values."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None
    rank = rank_for(len(ordered))
    return Estimate(median(ordered), ordered[rank - 1], ordered[-rank], len(ordered))


def ratios(numerators, denominators):
    """The ratio in each repetition that has both: the two were measured in one sitting. Both are
    {repetition: value}."""
    shared = sorted(set(numerators) & set(denominators))
    return [
        numerators[each] / denominators[each] for each in shared if numerators[each] is not None and denominators[each]
    ]


def ratio(numerators, denominators):
    return estimate(ratios(numerators, denominators))


def bootstrap(values, coverage=COVERAGE, resamples=4000, seed=1):
    """The percentile bootstrap interval of the median. The seed is fixed, so that the same figures
    give the same table."""
    generator = random.Random(seed)
    medians = sorted(median(generator.choices(values, k=len(values))) for _ in range(resamples))
    tail = (1 - coverage) / 2
    return medians[int(tail * resamples)], medians[int((1 - tail) * resamples) - 1]


def method(count):
    """How figures with so many repetitions are summarised, for the reader."""
    if count < 2:
        return "One repetition only: there is no spread to show."
    rank = rank_for(count)
    percent = 100 * covered(count, rank)
    if rank == 1:
        between = "whole range"
        between += (
            "" if percent >= 95 else f", because {count} repetitions are too few for an interval that covers 95 %"
        )
    else:
        between = f"range from the {ordinal(rank)} smallest to the {ordinal(rank)} largest value"
    return (
        f"Every figure is the median of its repetitions, at most {count}; of {count}, the interval is the {between}, which"
        f" covers the true median with {percent:.1f} %, whatever the distribution."
    )


def ordinal(number):
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number if number < 20 else number % 10, 'th')}"
