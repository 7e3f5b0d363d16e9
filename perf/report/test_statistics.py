"""Medians, intervals, ratios and how numbers are shown."""

import random
import unittest

from . import intervals
from .numbers import significant


class Statistics(unittest.TestCase):
    def test_medians(self):
        self.assertEqual(intervals.median([3, 1, 2]), 2)
        self.assertEqual(intervals.median([4, 1, 2, 3]), 2.5)

    def test_the_interval_of_nine_is_from_the_second_to_the_eighth(self):
        self.assertEqual(intervals.rank_for(9), 2)
        self.assertAlmostEqual(intervals.covered(9, 2), 0.9609375)
        found = intervals.estimate([9, 8, 7, 6, 5, 4, 3, 2, 1])
        self.assertEqual((found.median, found.low, found.high), (5, 2, 8))

    def test_known_ranks(self):
        # From tables of the distribution-free interval of the median at 95 %.
        self.assertEqual(
            [intervals.rank_for(count) for count in (6, 8, 9, 11, 12, 15, 20, 25)], [1, 1, 2, 2, 3, 4, 6, 8]
        )

    def test_few_values_get_their_range_and_the_page_says_what_it_covers(self):
        found = intervals.estimate([1, 2, 3])
        self.assertEqual((found.low, found.high), (1, 3))
        self.assertIn("75.0 %", intervals.method(3))
        self.assertIsNone(intervals.estimate([]))

    def test_the_interval_covers_as_often_as_it_says(self):
        chance = random.Random(5)
        covers = sum(
            not intervals.estimate([chance.expovariate(1) for _ in range(9)]).excludes(0.693147) for _ in range(4000)
        )
        self.assertAlmostEqual(covers / 4000, 0.961, delta=0.01)

    def test_ratios_stay_within_a_repetition(self):
        # The machine becomes ten times slower in the second repetition; the ratio is 2 in each.
        found = intervals.ratio({0: 20, 1: 200, 2: 22, 7: 1}, {0: 10, 1: 100, 2: 11})
        self.assertEqual((found.median, found.low, found.high, found.count), (2, 2, 2, 3))

    def test_bootstrap(self):
        self.assertEqual(intervals.bootstrap([1.5] * 15), (1.5, 1.5))
        low, high = intervals.bootstrap(list(range(1, 16)))
        self.assertTrue(3 <= low <= 6 and 10 <= high <= 13, (low, high))
        self.assertEqual((low, high), intervals.bootstrap(list(range(1, 16))))

    def test_numbers_are_shown_in_three_digits(self):
        shown = [significant(value) for value in (0, 0.0456, 0.456, 4.56, 45.6, 456, 4560.4)]
        self.assertEqual(shown, ["0", "0.0456", "0.456", "4.56", "45.6", "456", "4,560"])
