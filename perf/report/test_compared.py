"""The comparison by default settings, and the columns of near and of far cores."""

from types import SimpleNamespace
import unittest
from unittest import mock

from . import compared, fragments, load, tables
from .made import OURS, content_of, merged, results_of
from .numbers import percent


class Default(unittest.TestCase):
    def rows(self, more, **options):
        return compared.default_rows(results_of({**OURS, **more}, **options))

    def test_a_loss_is_called_one_and_comes_first(self):
        # In the order of the workloads the win would come first.
        win = results_of({**OURS, "libomp-2": ("libomp", "dynamic", 2, [300, 310, 320])})
        loss = results_of({**OURS, "libomp-2": ("libomp", "dynamic", 2, [50, 51, 52])}, workload="fan")
        both = merged(win, loss)
        (worst, best) = compared.default_table(both).rows
        self.assertEqual([worst[0], best[0]], ["fan, empty bodies (ns)", "chain, empty bodies (ns)"])
        self.assertEqual((worst[3].text, worst[3].kind), ("0.50 ×", "bad"))
        self.assertEqual(best[3].kind, "good")
        self.assertIn("ahead in 1, behind in 1", compared.sentence(both))
        words = " ".join(fragments.plain_words(both))
        self.assertIn("loses most: fan, empty bodies, near cores (LLVM's OpenMP takes 0.50 of our time).", words)
        self.assertIn("wins most: chain, empty bodies, near cores (LLVM's OpenMP takes 3.1 times as long).", words)

    def test_the_readme_has_what_is_not_ahead_and_the_least_win_of_each_family(self):
        times = {
            "chain": [300, 310, 320],
            "fan": [50, 51, 52],
            "random": [90, 101, 110],
            "stencil": [200, 210, 220],
        }
        rival = lambda values: {**OURS, "libomp-2": ("libomp", "dynamic", 2, values)}
        found = merged(*(results_of(rival(values), workload=workload) for workload, values in times.items()))
        rows = compared.brief_table(found).rows
        self.assertEqual([row[0].split(",")[0] for row in rows], ["fan", "random", "stencil"])
        self.assertEqual([(row[4].kind, row[4].note) for row in rows[:2]], [("bad", ""), ("", "no difference seen")])
        # The wins keep their place where there are more rows than asked for, and so does each loss.
        for most in (1, 2):
            self.assertEqual([row.what.split(",")[0] for row, _ in compared.brief_rows(found, most)], ["fan", "stencil"])
        self.assertIn("ahead in 2, behind in 1", fragments.readme(found, "x"))

    def test_the_readme_has_every_loss_and_few_wins(self):
        def row(family, ratio):
            outcome = "ahead" if ratio > 1 else "behind"
            pair = SimpleNamespace(ahead=SimpleNamespace(median=ratio), outcome=lambda: outcome)
            return SimpleNamespace(family=family, pairs={"near": pair})

        for losses, wins in ((2, 8), (7, 3), (9, 3)):
            rows = [row(f"won {at}", 2 + at) for at in range(11)] + [row("lost", 0.1) for _ in range(losses)]
            with mock.patch.object(compared, "default_rows", lambda results, rows=rows: rows):
                found = [row.family for row, _ in compared.brief_rows(None)]
            self.assertEqual(found, ["lost"] * losses + [f"won {at}" for at in range(wins)])

    def test_the_readme_leaves_a_busy_machine_to_the_other_document(self):
        found = results_of({**OURS, "libomp-2": ("libomp", "dynamic", 2, [300, 310, 320])})
        found.content["kept_disturbed"] = 1
        said = "1 process had to be kept"
        self.assertNotIn(said, fragments.readme(found, "x"))
        self.assertIn(said, fragments.performance(found, "x"))

    def test_the_readme_says_so_if_nothing_was_compared(self):
        found = results_of(OURS)
        self.assertIsNone(compared.brief_table(found))
        self.assertIn("No rival was measured", fragments.readme(found, "x"))

    def test_no_rival_with_another_number_of_threads_stands_beside_ours(self):
        (row,) = self.rows(
            {
                "libomp-1": ("libomp", "dynamic", 1, [10, 10, 10]),
                "libomp-2": ("libomp", "dynamic", 2, [200, 200, 200]),
                "libomp-3": ("libomp", "dynamic", 3, [20, 20, 20]),
            }
        )
        self.assertEqual(row.pairs["near"].rival.entrant, "libomp-2")
        (row,) = self.rows({"libomp-3": ("libomp", "dynamic", 3, [20, 20, 20])})
        self.assertIsNone(row.pairs["near"].rival)
        self.assertEqual(row.pairs["near"].outcome(), "no rival")

    def test_only_the_default_settings_and_single_pushes_count(self):
        (row,) = self.rows(
            {
                "seriatim-inline-1": ("seriatim", "dynamic", 2, [1, 1, 1]),
                "seriatim-shipped-1": ("seriatim", "dynamic", 2, [2, 2, 2]),
                "seriatim-default graph": ("seriatim", "graph", 2, [3, 3, 3]),
                "baseline-1": ("baseline", "dynamic", 2, [4, 4, 4]),
                "serial": ("serial", "dynamic", 2, [5, 5, 5]),
                "onetbb-flow-2 graph": ("onetbb", "graph", 2, [6, 6, 6]),
                "libgomp-2": ("libgomp", "dynamic", 2, [60, 70, 80]),
            }
        )
        self.assertEqual(row.pairs["near"].ours.entrant, "seriatim-default")
        self.assertEqual(row.pairs["near"].rival.entrant, "libgomp-2")

    def test_an_interval_around_one_is_no_difference(self):
        (row,) = self.rows({"libomp-2": ("libomp", "dynamic", 2, [90, 102, 110])})
        self.assertEqual(row.pairs["near"].outcome(), "no difference")

    def test_the_share_that_the_pusher_ran_is_shown(self):
        ours = {"seriatim-default": ("seriatim", "dynamic", 2, [100, 101, 102], 0.31)}
        self.assertEqual(compared.default_table(results_of(ours)).rows[0][-1], "31 %")

    def test_shares_near_the_ends_do_not_look_like_them(self):
        found = [percent(share) for share in (None, 0, 0.001, 0.5, 0.999, 1)]
        self.assertEqual(found, ["–", "0 %", "< 1 %", "50 %", "> 99 %", "100 %"])


class NearAndFar(unittest.TestCase):
    def test_a_record_belongs_where_both_hops_say(self):
        found = [load.place({"hop_ns": a, "hop_after_ns": b}) for a, b in [(25, 59.9), (60, 200), (25, 60), (200, 30)]]
        self.assertEqual(found, ["near", "far", "moved", "moved"])
        self.assertEqual(load.place({"hop_ns": 30}), "near")
        self.assertIsNone(load.place({}))

    def test_they_have_columns_of_their_own_and_never_mix(self):
        near = results_of({**OURS, "libomp-2": ("libomp", "dynamic", 2, [200, 202, 204])}, hops=(30.0, 31.0))
        far = results_of(
            {
                "seriatim-default": ("seriatim", "dynamic", 2, [400, 400, 400]),
                "libomp-2": ("libomp", "dynamic", 2, [100, 100, 100]),
            },
            hops=(200.0, 190.0),
        )
        moved = results_of({"seriatim-default": ("seriatim", "dynamic", 2, [1, 1, 1])}, hops=(30.0, 190.0))
        table = compared.default_table(merged(near, far, moved))
        (row,) = table.rows
        self.assertEqual([tables.cell(cell).text for cell in row[1:7]], ["101", "202", "2.0 ×", "400", "100", "0.25 ×"])
        self.assertIn("ours, near", table.headings)
        self.assertIn("ours, far", table.headings)
        self.assertIn("the host moved the cores", " ".join(table.after))

    def test_two_sittings_make_a_column_each_and_mix_nowhere(self):
        near = results_of({**OURS, "libomp-2": ("libomp", "dynamic", 2, [200, 202, 204])}, hops=(30.0, 31.0))
        far = results_of(
            {
                "seriatim-default": ("seriatim", "dynamic", 2, [400, 400, 400]),
                "libomp-2": ("libomp", "dynamic", 2, [100, 100, 100]),
            },
            hops=(200.0, 190.0),
        )
        both = load.Results({**content_of(near), "elsewhere": content_of(far)})
        table = compared.default_table(both)
        (row,) = table.rows
        self.assertEqual([tables.cell(cell).text for cell in row[1:7]], ["101", "202", "2.0 ×", "400", "100", "0.25 ×"])
        self.assertEqual(len(both.records["throughput"]), len(near.records["throughput"]))
        self.assertIn("far cores are of another sitting", " ".join(fragments.described(both)))
        self.assertNotIn("another sitting", " ".join(fragments.described(near)))

    def test_a_sitting_without_far_cores_says_so(self):
        table = compared.default_table(results_of({**OURS, "libomp-2": ("libomp", "dynamic", 2, [200, 202, 204])}))
        self.assertNotIn("ours, far", table.headings)
        self.assertIn("This sitting had no far cores.", " ".join(table.after))

    def test_a_single_repetition_elsewhere_makes_no_figure(self):
        times = {"seriatim-default": ("seriatim", "dynamic", 2, [100] * 9), "libomp-2": ("libomp", "dynamic", 2, [90] * 9)}
        found = results_of(times)
        for record in found.records["throughput"]:
            if record["repetition"] == 4:
                record.update(hop_ns=200.0, hop_after_ns=200.0)
        self.assertNotIn("ours, far", compared.default_table(found).headings)
        for record in found.records["throughput"]:
            if record["repetition"] in (5, 6):
                record.update(hop_ns=200.0, hop_after_ns=200.0)
        again = load.Results({**found.content, "records": found.records["throughput"]})
        self.assertIn("ours, far", compared.default_table(again).headings)
