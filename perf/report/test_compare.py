"""Two commits compared, and two runs."""

from copy import deepcopy
import random
import unittest

from . import agree, compare, example, load


class Comparison(unittest.TestCase):
    def pairs(self, factor, noise, seed=3):
        chance = random.Random(seed)
        return {
            ("chain", "seriatim-naive"): [
                (100 * (1 + chance.gauss(0, noise)), 100 * factor * (1 + chance.gauss(0, noise))) for _ in range(15)
            ]
        }

    def verdict(self, factor, noise, seed=3):
        (line,) = compare.judge(self.pairs(factor, noise, seed))
        return line.verdict

    def test_the_same_is_not_different_and_the_slower_is_found(self):
        self.assertEqual(self.verdict(1.0, 0.05), "no difference seen")
        self.assertEqual(self.verdict(1.2, 0.05), "slower")
        self.assertEqual(self.verdict(0.8, 0.05), "faster")

    def test_false_alarms_are_as_rare_as_said(self):
        alarms = sum(self.verdict(1.0, 0.05, seed) != "no difference seen" for seed in range(300))
        self.assertLess(alarms / 300, 0.09)

    def test_foreign_load_is_what_is_neither_idle_nor_ours(self):
        before, after = compare.parse_stat("cpu  100 0 100 1000 0 0 0 0 0 0\n"), compare.parse_stat(
            "cpu  250 0 150 1100 0 0 0 50 0 0\n"
        )
        # 250 ticks of work, of which 1.5 seconds (150 ticks of a hundredth) were ours, in 2
        # seconds.
        self.assertAlmostEqual(compare.foreign_cores(before, after, own_seconds=1.5, elapsed=2, ticks=100), 0.5)
        self.assertIsNone(compare.foreign_cores(None, after, 1.5, 2, 100))

    def test_lines_that_are_no_records_are_left_out(self):
        found = compare.times(
            'hello\n{"kind":"throughput","workload":"chain","entrant":"a","ns":5.5}\n{"kind":"other"}\n'
        )
        self.assertEqual(found, {("chain", "a"): 5.5})

    def test_turns_alternate(self):
        self.assertEqual([compare.turn(repetition) for repetition in range(4)], ["AB", "BA", "AB", "BA"])


class Agreement(unittest.TestCase):
    def test_a_run_agrees_with_itself_and_with_another_of_the_same_distribution(self):
        first, second = (load.Results(example.results(seed=seed)) for seed in (1, 2))
        self.assertTrue(all(pair.overlap() and pair.change() == 0 for pair in agree.pairs(first, first)))
        compared = agree.pairs(first, second)
        overlapping = sum(pair.overlap() for pair in compared)
        self.assertGreater(overlapping / len(compared), 0.9)
        self.assertEqual(agree.turned(first, first), [])

    def test_what_has_become_slower_is_listed_and_turned(self):
        first = example.results()
        second = deepcopy(first)
        for record in second["records"]:
            if record["kind"] == "throughput" and record["system"] == "seriatim":
                record["ns"] *= 20
        first, second = load.Results(first), load.Results(second)
        self.assertTrue(agree.turned(first, second))
        said = agree.text(first, second)
        self.assertIn("Apart, the farthest", said)
        self.assertIn("throughput ", said)
