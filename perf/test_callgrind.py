"""Tests of what callgrind.py holds to be wrong; `callgrind.sh` runs them first."""

import contextlib
import io
import json
import pathlib
import unittest

import callgrind
from callgrind import Ceiling

COMMITTED = pathlib.Path(__file__).with_name("instructions.json")


def quietly(call, *arguments, **options):
    """What the call returns, and what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        returned = call(*arguments, **options)
    return returned, said.getvalue()


class Ceilings(unittest.TestCase):
    COUNTS = {"operators": {"chain": 430.0, "fan": 419.0}, "dynamic": {"chain": 448.2, "fan": 419.0}}

    def above(self, *ceilings):
        return quietly(callgrind.above, self.COUNTS, ceilings)

    def test_a_difference_at_its_ceiling_holds_and_one_above_it_does_not(self):
        ceiling = Ceiling("less", "operators", "dynamic", ["chain", "fan"], 0)
        self.assertEqual(self.above(ceiling)[0], [])
        self.assertEqual(self.above(ceiling._replace(most=-0.1))[0], [("less", "fan")])
        self.assertEqual(self.above(ceiling._replace(one="dynamic", other="operators"))[0], [("less", "chain")])

    def test_a_count_that_is_missing_is_wrong(self):
        for missing in (Ceiling("x", "gone", "dynamic", ["chain"], 0), Ceiling("x", "operators", "dynamic", ["gone"], 0)):
            wrong, said = self.above(missing)
            self.assertEqual(len(wrong), 1)
            self.assertIn("a count is missing", said)

    def test_a_difference_of_two_workloads_is_divided(self):
        ceiling = Ceiling("each", "dynamic", "dynamic", [("chain", "fan")], 14.6, over=2)
        wrong, said = self.above(ceiling)
        self.assertEqual(wrong, [])
        self.assertRegex(said, r"chain, fan +14\.6 +14\.6$")
        self.assertEqual(self.above(ceiling._replace(most=14.5))[0], [("each", "chain, fan")])

    def test_the_goal_is_shown_and_is_no_ceiling(self):
        wrong, said = self.above(Ceiling("more", "dynamic", "operators", ["chain"], 20, -2))
        self.assertEqual(wrong, [])
        self.assertRegex(said, r"18\.2 +20 +-2$")


class Feature(unittest.TestCase):
    WITHOUT = {"push": {"chain": 400.0}, "replay": {"names-8": 1448.3}}

    def wrong(self, built):
        return quietly(callgrind.feature, self.WITHOUT, built)[0]

    def test_two_instructions_an_operation_hold_and_three_do_not(self):
        self.assertEqual(self.wrong({**self.WITHOUT, "push": {"chain": 402.0}}), [])
        self.assertEqual(self.wrong({**self.WITHOUT, "push": {"chain": 403.0}}), [("push", "chain")])

    def test_a_count_that_is_missing_is_wrong(self):
        self.assertEqual(self.wrong({"push": {"chain": 400.0}}), [("replay", "names-8")])
        self.assertEqual(self.wrong({**self.WITHOUT, "new": {"fan": 1.0}}), [("new", "fan")])


class Committed(unittest.TestCase):
    """The ceilings on the committed counts."""

    def setUp(self):
        self.counts = json.loads(COMMITTED.read_text())["instructions an operation"]

    def test_they_hold(self):
        wrong, said = quietly(callgrind.above, self.counts)
        self.assertEqual(wrong, [], said)

    def test_each_notices_when_its_first_count_grows(self):
        for ceiling in callgrind.CEILINGS:
            for workload in ceiling.workloads:
                first, second = workload if isinstance(workload, tuple) else (workload, workload)
                room = ceiling.most * ceiling.over - self.counts[ceiling.one][first] + self.counts[ceiling.other][second]
                grown = {name: dict(rows) for name, rows in self.counts.items()}
                grown[ceiling.one][first] += room + 0.1 * ceiling.over
                wrong, _ = quietly(callgrind.above, grown)
                self.assertIn(ceiling.what, [what for what, _ in wrong], f"{ceiling.what}, {workload}")
                self.assertGreaterEqual(room, 0)


class Growth(unittest.TestCase):
    def test_more_than_three_per_cent_is_wrong_and_elsewhere_ten(self):
        baseline = {"made with": {"compiler": "a"}, "instructions an operation": {"push": {"chain": 100.0}}}
        wrong = lambda count, compiler="a": quietly(
            callgrind.compare, {"push": {"chain": count}}, baseline, {"compiler": compiler}
        )[0]
        self.assertEqual([bool(wrong(count)) for count in (102.9, 103.1)], [False, True])
        self.assertEqual([bool(wrong(count, "b")) for count in (109.9, 110.1)], [False, True])


if __name__ == "__main__":
    unittest.main()
