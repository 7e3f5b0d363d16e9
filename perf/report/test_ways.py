"""The tables of other ways of pushing."""

import unittest

from . import compared, fragments, tables, ways
from .made import OURS, merged, results_of


class Shipped(unittest.TestCase):
    SHIPPED = {"seriatim-shipped-1": ("seriatim", "dynamic", 2, [120, 121, 122], 0.0)}

    def table(self, times):
        return ways.shipped_table(results_of(times))

    def test_a_rival_whose_pusher_runs_bodies_is_void(self):
        table = self.table(
            {
                **self.SHIPPED,
                "onetbb-dynamic-2": ("onetbb", "dynamic", 2, [10, 10, 10], 0.02),
                "taskflow-dynamic-2": ("taskflow", "dynamic", 2, [240, 240, 240], 0.01),
            }
        )
        self.assertEqual(table.rows[0][2].note, "Taskflow")
        self.assertIn("Void: onetbb-dynamic-2 (3 of 3).", table.after)

    def test_only_the_runs_that_were_not_shipped_are_void(self):
        share = [0.5, 0.0, 0.0]
        table = self.table({**self.SHIPPED, "onetbb-dynamic-2": ("onetbb", "dynamic", 2, [10, 300, 310], share)})
        self.assertEqual(table.rows[0][2].text, "305")
        self.assertIn("Void: onetbb-dynamic-2 (1 of 3).", table.after)

    def test_ours_is_void_by_the_same_rule(self):
        self.assertIsNone(self.table({"seriatim-shipped-1": ("seriatim", "dynamic", 2, [1, 1, 1], 0.011)}))

    def test_a_run_that_was_not_counted_is_void(self):
        found = results_of(self.SHIPPED)
        for record in found.records["throughput"]:
            del record["pusher_share"]
        self.assertIsNone(ways.shipped_table(found))


class Alone(unittest.TestCase):
    def test_one_thread_on_every_side(self):
        table = ways.alone_table(
            results_of(
                {
                    "seriatim-naive": ("seriatim", "dynamic", 1, [30, 30, 30], 1.0),
                    "seriatim-default": ("seriatim", "dynamic", 2, [1, 1, 1]),
                    "libomp-1": ("libomp", "dynamic", 1, [45, 45, 45], 1.0),
                    "libomp-2": ("libomp", "dynamic", 2, [2, 2, 2]),
                    "serial": ("serial", "dynamic", 1, [3, 3, 3], 1.0),
                }
            )
        )
        (row,) = table.rows
        self.assertEqual([tables.cell(cell).text for cell in row], ["chain", "30.0", "45.0", "1.5 ×", "45.0", "3.00"])


class ThroughC(unittest.TestCase):
    TIMES = {
        "mxnet-naive": ("mxnet", "dynamic", 1, [200, 200, 200], 1.0),
        "mxnet-per-device-2": ("mxnet", "dynamic", 2, [900, 900, 900], 0.0),
        "mxnet-per-device-2 operators": ("mxnet", "operators", 2, [600, 600, 600], 0.0),
        "seriatim-c-naive": ("seriatim-c", "dynamic", 1, [50, 50, 50], 1.0),
        "seriatim-c-naive async-1": ("seriatim-c", "dynamic", 1, [400, 400, 400], 1.0),
        "seriatim-c-shipped-2": ("seriatim-c", "dynamic", 2, [300, 300, 300], 0.0),
        "seriatim-c-shipped-2 operators": ("seriatim-c", "operators", 2, [100, 100, 100], 0.0),
        "seriatim-c-placement-2": ("seriatim-c", "dynamic", 2, [60, 60, 60], 1.0),
    }

    def test_each_way_of_pushing_stands_beside_mxnets_and_losses_come_first(self):
        found = results_of(self.TIMES)
        rows = [[tables.cell(each).text for each in row] for row in ways.through_c_table(found).rows]
        self.assertEqual(
            rows,
            [
                ["chain, the caller runs, asynchronous", "400", "200", "0.50 ×", "–"],
                ["chain, shipped", "300", "900", "3.0 ×", "–"],
                ["chain, placement", "60.0", "200", "3.3 ×", "900"],
                ["chain, the caller runs", "50.0", "200", "4.0 ×", "–"],
                ["chain, shipped, operators", "100", "600", "6.0 ×", "–"],
            ],
        )
        self.assertEqual(ways.through_c_table(found).rows[2][-1].note, "15 ×")
        said = " ".join(fragments.plain_words(found))
        self.assertIn("the caller runs, asynchronous 0.50 to 0.50 times, behind in 1 of 1; shipped 3.0 to", said)

    def test_what_was_not_shipped_is_void(self):
        times = {**self.TIMES, "seriatim-c-shipped-2": ("seriatim-c", "dynamic", 2, [1, 1, 1], 0.5)}
        rows = ways.through_c_table(results_of(times)).rows
        self.assertNotIn("chain, shipped", [row[0] for row in rows])

    def test_placement_has_no_threaded_rival_where_there_is_none(self):
        times = {name: value for name, value in self.TIMES.items() if "mxnet-per-device" not in name}
        rows = {row[0]: row for row in ways.through_c_table(results_of(times)).rows}
        self.assertEqual(tables.cell(rows["chain, placement"][-1]).text, "–")

    def test_ours_in_c_is_no_rival_of_ours(self):
        times = {**OURS, "seriatim-c-placement-2": ("seriatim-c", "dynamic", 2, [1, 1, 1], 1.0)}
        (row,) = compared.default_rows(results_of(times))
        self.assertEqual(row.pairs["near"].outcome(), "no rival")
        self.assertIsNone(ways.through_c_table(results_of(times)))


class Operators(unittest.TestCase):
    def found(self, workload, operators, mode="naive"):
        times = {
            f"seriatim-{mode}": ("seriatim", "dynamic", 1, [27, 27, 27]),
            f"seriatim-{mode} operators": ("seriatim", "operators", 1, operators),
        }
        return results_of(times, workload=workload)

    def test_the_slower_ones_come_first_and_are_named_in_the_losses(self):
        found = merged(self.found("chain", [20, 20, 20]), self.found("random", [58, 58, 58], "default"))
        worst, best = ways.operators_table(found).rows
        self.assertEqual([tables.cell(cell).text for cell in worst], ["random, default", "near", "58.0", "27.0", "0.47 ×"])
        self.assertEqual((worst[-1].kind, best[-1].kind), ("bad", "good"))
        said = " ".join(fragments.plain_words(found))
        self.assertIn("slower than our own single pushes in 1 of 2 comparisons: random, default, near cores (58.0 ns, singly 27.0).", said)

    def test_nothing_is_said_where_none_is_slower(self):
        found = self.found("chain", [20, 20, 20])
        self.assertEqual(ways.slower_operators(found), "")
        self.assertNotIn("Operators", " ".join(fragments.plain_words(found)))
        self.assertIsNone(ways.operators_table(results_of(OURS)))
