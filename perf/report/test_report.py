"""Tests of the report: `target/report-venv/bin/python -m unittest discover -s perf/report -t perf`.

Those that draw are left out where matplotlib is missing; the statistics and the comparison of two
commits need the standard library only.
"""

from copy import deepcopy
from html.parser import HTMLParser
import importlib.util
import json
from pathlib import Path
import random
import re
import tempfile
from types import SimpleNamespace
import unittest
from unittest import mock

from . import agree, choose, compare, compared, example, fragments, intervals, load, moments, publish, tables
from .numbers import percent, significant

CAN_DRAW = importlib.util.find_spec("matplotlib") is not None
# What the tests that draw use: drawing is slow, and they draw often.
FEW = {
    "entrant": [
        "serial",
        "seriatim-naive",
        "seriatim-default",
        "seriatim-default graph",
        "seriatim-shipped-1",
        "seriatim-inline-1",
        "mxnet-naive",
        "mxnet-per-device-2",
        "libomp-1",
        "libomp-2",
        "taskflow-dynamic-2",
        "onetbb-flow-2 graph",
        "a thread that sleeps to the moment",
    ],
    "workload": ["independent", "fan", "disjoint"],
    "pattern": ["stencil_1d", "nearest"],
}


def small():
    content = example.results(repetitions=3)
    content["records"] = [
        record for record in content["records"] if all(record.get(field, few[0]) in few for field, few in FEW.items())
    ]
    return content


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


def results_of(times, hops=(30.0, 30.0), **fields):
    """Throughput records of `chain` by {entrant: (system, style, threads, [times])}, or of what the
    fields say. A fifth item is the share of the bodies that the pusher ran, or one for each
    time."""
    records = []
    for entrant, (system, style, threads, values, *share) in times.items():
        shares = share[0] if share and isinstance(share[0], list) else (share or [0.0]) * len(values)
        for repetition, (ns, by_pusher) in enumerate(zip(values, shares)):
            who = {"entrant": entrant, "system": system, "style": style, "workers": 1, "threads": threads}
            at = {"repetition": repetition, "hop_ns": hops[0], "hop_after_ns": hops[1], "version": "1"}
            what = {"kind": "throughput", "workload": "chain", "ns": ns, "cpu_ns": ns, "pusher_share": by_pusher}
            records.append({**who, **at, **what, **fields})
    return load.Results({"format": 2, "repetitions": 3, "machine": {}, "records": records})


def content_of(results):
    records = [record for found in results.records.values() for record in found]
    return {"format": 2, "repetitions": 3, "machine": {}, "records": records}


def merged(*parts):
    records = [record for part in parts for found in part.records.values() for record in found]
    return load.Results({"format": 2, "repetitions": 3, "machine": {}, "records": records})


OURS = {"seriatim-default": ("seriatim", "dynamic", 2, [100, 101, 102])}


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


class Shipped(unittest.TestCase):
    SHIPPED = {"seriatim-shipped-1": ("seriatim", "dynamic", 2, [120, 121, 122], 0.0)}

    def table(self, times):
        return compared.shipped_table(results_of(times))

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
        self.assertIsNone(compared.shipped_table(found))


class Alone(unittest.TestCase):
    def test_one_thread_on_every_side(self):
        table = compared.alone_table(
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


class Moments(unittest.TestCase):
    def test_the_floors_come_first_beside_the_periodic_job(self):
        rows = moments.jitter_table(load.Results(small())).rows
        self.assertEqual(rows[0][0].text, "a thread that sleeps to the moment")

    def test_the_rate_that_was_reached_is_shown_and_a_low_one_marked(self):
        table = moments.open_loop_table(load.Results(small()))
        self.assertIn("near, 1 M/s: p50", table.headings)
        (mxnet,) = [row for row in table.rows if row[0].text == "MXNet" and row[1] == 2]
        self.assertEqual((mxnet[-1].text, mxnet[-1].kind), ("77 %", "bad"))

    def test_the_cores_that_are_burnt_are_shown_at_low_rates_and_many_are_marked(self):
        content = small()
        for record in content["records"]:
            if record["kind"] == "open-loop" and record["offered_per_s"] == 1000:
                record["burnt_cores"] = {"libomp-2": 7e-7, "mxnet-per-device-2": 0.07}.get(record["entrant"], 0.62)
        table = moments.open_loop_table(load.Results(content))
        self.assertEqual(table.headings.count("cores burnt"), 4)
        column = table.headings.index("cores burnt")
        self.assertEqual(table.headings[column - 3 : column], ["near, 1 k/s: p50", "p99", "reached"])
        shown = {(row[0].text, row[1]): (row[column].text, row[column].kind) for row in table.rows}
        self.assertEqual(shown["LLVM's OpenMP", 2], ("< 0.01", ""))
        self.assertEqual(shown["MXNet", 2], ("0.07", ""))
        self.assertEqual(shown["Seriatim, default", 2], ("0.62", "bad"))

    def moments_of(self, kind, hop, ns, **fields):
        """Three repetitions of ours with percentiles, on cores of that hop."""
        percentiles = {"count": 2000, "mean": ns, "points": [[50, ns], [99, 2 * ns], [100, 9 * ns]]}
        times = {"seriatim-default": ("seriatim", "dynamic", 2, [1, 1, 1])}
        return results_of(times, hops=(hop, hop), kind=kind, percentiles=percentiles, **fields)

    def test_arrivals_have_columns_of_near_and_of_far_cores(self):
        found = merged(
            self.moments_of("open-loop", 30.0, 1_000, offered_per_s=1e5, achieved_per_s=1e5),
            self.moments_of("open-loop", 200.0, 4_000, offered_per_s=1e5, achieved_per_s=5e4),
        )
        table = moments.open_loop_table(found)
        self.assertEqual(
            table.headings[2:],
            ["near, 100 k/s: p50", "p99", "reached", "far, 100 k/s: p50", "p99", "reached"],
        )
        (row,) = table.rows
        self.assertEqual([cell.text for cell in row[2:]], ["1.00", "2.00", "100 %", "4.00", "8.00", "50 %"])

    def test_the_periodic_job_has_columns_of_near_and_of_far_cores(self):
        latest = lambda ns: [ns * (20 - place) for place in range(20)]
        found = merged(
            self.moments_of("jitter", 30.0, 1_000, background="none", latest=latest(1_000)),
            self.moments_of("jitter", 200.0, 4_000, background="none", latest=latest(4_000)),
        )
        table = moments.jitter_table(found)
        self.assertEqual(
            table.headings[1:],
            ["near, alone: p50", "p99", "p99.9", "latest", "far, alone: p50", "p99", "p99.9", "latest"],
        )
        (row,) = table.rows
        # Of 6,000 values 6 lie beyond it: two of each repetition, so it is the first of the third.
        self.assertEqual(
            [cell.text for cell in row[1:]], ["1.00", "2.00", "18.0", "9.00", "4.00", "8.00", "72.0", "36.0"]
        )

    def test_a_rare_percentile_needs_two_values_beyond_it_and_all_down_to_it(self):
        series = lambda count, latest: load.Series(
            [{**who, "percentiles": {"count": count}, "latest": latest} for who in self.moments_of("jitter", 30.0, 1, background="none").records["jitter"]]
        )
        self.assertEqual(moments.pooled(series(2000, [5000, 4000, 3000, 2000, 1000] + [1] * 15), 99.9).text, "3.00")
        self.assertEqual(moments.pooled(series(2000, [5000, 4000]), 99.9).text, "–")
        self.assertEqual(moments.pooled(series(300, [5000] * 20), 99.9).text, "–")
        self.assertEqual(moments.pooled(series(2000, None), 99.9).text, "–")
        self.assertEqual(moments.pooled(None, 99.9).text, "–")

    def pushes(self, times, count=63):
        """Push records by {entrant: (system, [(ns, ns of a bare wake or None)])}, after a sleep."""
        percentiles = lambda ns: {"count": count, "mean": ns, "points": [[50, ns], [90, 2 * ns]]}
        return merged(
            *(
                results_of({entrant: (system, "dynamic", 2, [ns])}, kind="push", pause_us=5000, repetition=repetition,
                           percentiles=percentiles(ns), bare_wake=wake and percentiles(wake))
                for entrant, (system, values) in times.items()
                for repetition, (ns, wake) in enumerate(values)
            )
        )

    def test_a_push_that_wakes_a_thread_stands_beside_the_bare_wake_of_its_own_process(self):
        found = self.pushes(
            {
                "seriatim-default": ("seriatim", [(12_000, 9_000), (30_000, 27_000), (13_000, 10_500)]),
                "libomp-2": ("libomp", [(3_000, 11_000)] * 3),
                "mxnet-per-device-2": ("mxnet", [(5_000, None)] * 3),
            }
        )
        table = moments.push_table(found)
        self.assertEqual(
            table.headings[2:], ["near, after 5000 µs of sleep: p50", "p90", "bare wake, p50", "beyond it"]
        )
        ours, mxnet, libomp = [[tables.cell(cell).text for cell in row] for row in table.rows]
        # The difference is taken within a repetition: of the medians it would be 2.5.
        self.assertEqual(ours[2:], ["13.0", "26.0", "10.5", "3.0"])
        self.assertEqual(table.rows[0][-1].kind, "bad")
        self.assertEqual(libomp[2:], ["3.00", "6.00", "11.0", "-8.0"])
        self.assertEqual(mxnet[2:], ["5.00", "10.0", "–", "–"])

    def test_a_record_that_counted_nothing_is_void_and_no_win(self):
        nothing = {"libgomp-2": ("libgomp", [(0, 9_000)] * 3)}
        found = merged(self.pushes({"seriatim-default": ("seriatim", [(12_000, 9_000)] * 3)}))
        both = {**content_of(found), "records": found.records["push"]}
        both["records"] = both["records"] + self.pushes(nothing).records["push"]
        self.assertEqual(compared.score(compared.default_rows(load.Results(both)))["behind"], 1)
        for record in both["records"]:
            if record["system"] == "libgomp":
                record["percentiles"]["count"] = 0
        found = load.Results(both)
        self.assertEqual(compared.score(compared.default_rows(found))["no rival"], 1)
        self.assertIn("Left out: a push record of libgomp-2 that counted nothing.", fragments.left_out(found))
        self.assertEqual([row[0].text for row in moments.push_table(found).rows], ["Seriatim, default"])

    def test_arrivals_are_compared_though_the_lengths_of_their_bodies_are_measured(self):
        percentiles = lambda ns: {"count": 250, "mean": ns, "points": [[50, ns]]}
        records = []
        for repetition in range(9):
            more = {"kind": "open-loop", "offered_per_s": 1000.0, "achieved_per_s": 1000.0, "repetition": repetition}
            for entrant, system, ns in [("seriatim-default", "seriatim", 24_000), ("libgomp-2", "libgomp", 900)]:
                made = results_of({entrant: (system, "dynamic", 2, [1])}).records["throughput"][0]
                made.update(more, body_ns=240 + 0.1 * repetition, percentiles=percentiles(ns))
                records.append(made)
        (row,) = compared.default_rows(load.Results({"format": 2, "repetitions": 9, "records": records}))
        self.assertEqual((row.what, row.pairs["near"].outcome()), ("arrivals at 1 k/s, p50", "behind"))

    def test_pushers_are_named_with_the_workers_beside_them(self):
        table = moments.pushers_table(load.Results(small()))
        self.assertIn("Seriatim, default + 1, near", table.headings)
        self.assertIn("Seriatim, the caller runs, near", table.headings)


class Lengths(unittest.TestCase):
    def test_declared_bodies_have_columns_of_their_own(self):
        times = {
            "serial": ("serial", "dynamic", 1, [200, 200, 200]),
            "seriatim-default": ("seriatim", "dynamic", 2, [150, 150, 150]),
            "seriatim-declared": ("seriatim", "dynamic", 2, [220, 220, 220]),
        }
        table = compared.lengths_table(results_of(times, kind="length", body_ns=250))
        (row,) = table.rows
        shown = {heading: tables.cell(cell) for heading, cell in zip(table.headings, row, strict=True)}
        self.assertEqual((shown["ours over serial"].text, shown["ours over serial"].kind), ("0.75 ×", "good"))
        self.assertEqual(shown["declared, near"].text, "220")
        self.assertEqual((shown["declared over serial"].text, shown["declared over serial"].kind), ("1.1 ×", "bad"))

    def test_a_row_without_figures_is_as_long_as_the_others(self):
        table = compared.lengths_table(load.Results(small()))
        for row in table.rows:
            self.assertEqual(len(row), len(table.headings))


class MoreThanTwoThreads(unittest.TestCase):
    def found(self, body, ours, rival, kind="oversubscribed", threads=8, name="seriatim-per-device-7"):
        times = {
            "serial": ("serial", "dynamic", 1, [1000, 1000, 1000]),
            name: ("seriatim", "dynamic", threads, ours),
            "taskflow-dynamic-8": ("taskflow", "dynamic", threads, rival),
            "taskflow-dynamic-2": ("taskflow", "dynamic", 2, [1, 1, 1]),
        }
        return results_of(times, kind=kind, body_ns=body, workload="random")

    def test_more_threads_than_cores_have_a_table_of_their_own_and_count(self):
        found = merged(self.found(0, [100, 101, 102], [300, 301, 302]), self.found(1000, [963, 963, 963], [718, 718, 718]))
        worst, best = compared.oversubscribed_table(found).rows
        self.assertEqual(
            [tables.cell(cell).text for cell in worst],
            ["random, bodies of 1 µs, 8 threads", "1,000", "963", "718", "0.75 ×", "0.96 ×"],
        )
        self.assertEqual(best[0], "random, empty bodies, 8 threads")
        self.assertIn("in 2 comparisons with the best rival: ahead in 1, behind in 1", compared.sentence(found))
        self.assertIn("loses most: random, bodies of 1 µs, 8 threads", " ".join(fragments.plain_words(found)))

    def test_four_cores_have_a_table_of_their_own_and_count(self):
        found = self.found(250, [900, 900, 900], [400, 400, 400], "four-cores", 4, "seriatim-default")
        (row,) = compared.four_cores_table(found).rows
        self.assertEqual(row[0], "random, bodies of 250 ns, 4 threads on four cores")
        self.assertIn("behind in 1", compared.sentence(found))

    def test_a_machine_without_four_cores_is_told_once(self):
        content = {**content_of(results_of(OURS)), "skipped": [{"entrant": "four-cores", "why": "it needs 4 cores"}]}
        said = [line for line in fragments.left_out(load.Results(content)) if "four-cores" in line]
        self.assertEqual(said, ["four-cores: not had here: it needs 4 cores"])

    def test_the_documents_say_that_some_rows_have_more_threads(self):
        usual = results_of({**OURS, "libomp-2": ("libomp", "dynamic", 2, [50, 51, 52])})
        both = merged(usual, self.found(0, [300, 300, 300], [100, 100, 100]))
        self.assertIn("with 2 threads in all", " ".join(compared.default_table(both).before))
        self.assertIn("A row that names more threads", " ".join(compared.default_table(both).before))
        self.assertIn("2 threads in all, or as many as a row names.", fragments.readme(both, "x").replace("\n", " "))
        self.assertIn("2 threads in all.", fragments.readme(usual, "x").replace("\n", " "))

    def test_nothing_is_shown_where_nothing_was_measured(self):
        self.assertIsNone(compared.oversubscribed_table(results_of(OURS)))
        self.assertIsNone(compared.four_cores_table(results_of(OURS)))


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
        rows = [[tables.cell(each).text for each in row] for row in compared.through_c_table(found).rows]
        self.assertEqual(
            rows,
            [
                ["chain, the caller runs, asynchronous", "400", "200", "0.50 ×"],
                ["chain, shipped", "300", "900", "3.0 ×"],
                ["chain, placement", "60.0", "200", "3.3 ×"],
                ["chain, the caller runs", "50.0", "200", "4.0 ×"],
                ["chain, shipped, operators", "100", "600", "6.0 ×"],
            ],
        )
        said = " ".join(fragments.plain_words(found))
        self.assertIn("the caller runs, asynchronous 0.50 to 0.50 times, behind in 1 of 1; shipped 3.0 to", said)

    def test_what_was_not_shipped_is_void(self):
        times = {**self.TIMES, "seriatim-c-shipped-2": ("seriatim-c", "dynamic", 2, [1, 1, 1], 0.5)}
        rows = compared.through_c_table(results_of(times)).rows
        self.assertNotIn("chain, shipped", [row[0] for row in rows])

    def test_ours_in_c_is_no_rival_of_ours(self):
        times = {**OURS, "seriatim-c-placement-2": ("seriatim-c", "dynamic", 2, [1, 1, 1], 1.0)}
        (row,) = compared.default_rows(results_of(times))
        self.assertEqual(row.pairs["near"].outcome(), "no rival")
        self.assertIsNone(compared.through_c_table(results_of(times)))


class Operators(unittest.TestCase):
    def found(self, workload, operators, mode="naive"):
        times = {
            f"seriatim-{mode}": ("seriatim", "dynamic", 1, [27, 27, 27]),
            f"seriatim-{mode} operators": ("seriatim", "operators", 1, operators),
        }
        return results_of(times, workload=workload)

    def test_the_slower_ones_come_first_and_are_named_in_the_losses(self):
        found = merged(self.found("chain", [20, 20, 20]), self.found("random", [58, 58, 58], "default"))
        worst, best = compared.operators_table(found).rows
        self.assertEqual([tables.cell(cell).text for cell in worst], ["random, default", "near", "58.0", "27.0", "0.47 ×"])
        self.assertEqual((worst[-1].kind, best[-1].kind), ("bad", "good"))
        said = " ".join(fragments.plain_words(found))
        self.assertIn("slower than our own single pushes in 1 of 2 comparisons: random, default, near cores (58.0 ns, singly 27.0).", said)

    def test_nothing_is_said_where_none_is_slower(self):
        found = self.found("chain", [20, 20, 20])
        self.assertEqual(compared.slower_operators(found), "")
        self.assertNotIn("Operators", " ".join(fragments.plain_words(found)))
        self.assertIsNone(compared.operators_table(results_of(OURS)))


class Documents(unittest.TestCase):
    def test_what_lies_between_the_marks_is_replaced_and_the_rest_stays(self):
        text = f"before\n{publish.BEGIN}\nold 123\n{publish.END}\nafter\n"
        new = publish.replaced(text, "new")
        self.assertEqual(new, f"before\n{publish.BEGIN}\n\nnew\n{publish.END}\nafter\n")
        self.assertEqual(publish.replaced(new, "new"), new)

    def test_missing_or_doubled_marks_are_an_error(self):
        for text in ("", publish.BEGIN, publish.END + publish.BEGIN, 2 * (publish.BEGIN + publish.END)):
            with self.assertRaises(ValueError):
                publish.replaced(text, "new")

    def tree(self, folder):
        for name in publish.DOCUMENTS:
            Path(folder, name).write_text(f"# Head\n\n{publish.BEGIN}\n{publish.END}\n", encoding="utf-8")
        source = Path(folder, "given.json")
        source.write_text(json.dumps(small()), encoding="utf-8")
        return source

    @unittest.skipUnless(CAN_DRAW, "needs matplotlib")
    def test_a_number_that_is_changed_by_hand_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            publish.publish(self.tree(folder), Path(folder))
            self.assertEqual(publish.check(Path(folder)), [])
            readme = Path(folder, "README.md")
            text = readme.read_text(encoding="utf-8")
            self.assertRegex(text, r"\d ×")
            another = lambda found: f"{(int(found[1]) + 1) % 10} ×"
            readme.write_text(re.sub(r"(\d) ×", another, text, count=1), encoding="utf-8")
            self.assertEqual(publish.check(Path(folder)), ["README.md"])

    def test_figures_without_a_report_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            self.tree(folder)
            for name in publish.DOCUMENTS:
                path = Path(folder, name)
                path.write_text(publish.replaced(path.read_text(encoding="utf-8"), ""), encoding="utf-8")
            self.assertEqual(publish.check(Path(folder)), [])
            readme = Path(folder, "README.md")
            readme.write_text(publish.replaced(readme.read_text(encoding="utf-8"), "| chain | 13 |"), encoding="utf-8")
            self.assertEqual(publish.check(Path(folder)), ["README.md"])

    @unittest.skipUnless(CAN_DRAW, "needs matplotlib")
    def test_everything_that_the_page_and_the_documents_link_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            publish.publish(self.tree(folder), Path(folder))
            for name in ["README.md", "PERFORMANCE.md", f"{publish.REPORT}/index.html"]:
                path = Path(folder, name)
                text = path.read_text(encoding="utf-8")
                links = re.findall(r"\]\(([^)#]+)\)", text) if name.endswith(".md") else re.findall(r'href="([^"#]+)"', text)
                self.assertTrue(links, name)
                for link in links:
                    self.assertTrue((path.parent / link).exists(), f"{name} links {link}")

    def test_paragraphs_are_wrapped(self):
        for line in fragments.performance(load.Results(small()), "x").splitlines():
            if not line.startswith(("|", "- ")):
                self.assertLessEqual(len(line), 100)


class References(HTMLParser):
    """Collects whatever would make a browser fetch something, and what is not in pairs."""

    VOID = {"meta", "br"}

    def __init__(self):
        super().__init__()
        self.found, self.open, self.names = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe", "object", "embed", "image"):
            self.found.append(tag)
        for name, value in attributes:
            if name == "id":
                self.names.append(value)
            if name in ("src", "srcset", "data") or (name.endswith("href") and ":" in (value or "")):
                self.found.append(f"{name}={value}")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
            self.open.pop()


@unittest.skipUnless(CAN_DRAW, "needs matplotlib: run scripts/report.sh once, and use target/report-venv")
class Page(unittest.TestCase):
    def made(self, content):
        """{name: bytes} of the files of the report."""
        from .__main__ import write

        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "given.json")
            source.write_text(json.dumps(content), encoding="utf-8")
            write(source, Path(folder, "out"))
            return {path.name: path.read_bytes() for path in Path(folder, "out").iterdir()}

    def page(self, content):
        from .page import page

        return page(load.Results(deepcopy(content)))

    def test_everything_is_there_and_nothing_is_fetched(self):
        files = self.made(small())
        self.assertEqual(set(files), {"index.html", "results.json.gz", "summary.md"})
        text = files["index.html"].decode()
        parser = References()
        parser.feed(text)
        self.assertEqual(parser.found, [])
        self.assertEqual(parser.open, [])
        self.assertEqual(len(parser.names), len(set(parser.names)), "two elements share a name")
        self.assertIsNone(re.search(r"https?://|@import|url\((?!#)", text))
        self.assertEqual(text.count("<figure>"), 2)
        self.assertIn('content="width=device-width, initial-scale=1"', text)

    def test_what_is_wider_than_a_telephone_scrolls_in_a_frame_of_its_own(self):
        text = self.page(small())
        rules = re.findall(r"([\w., :+-]+?) \{([^}]*)\}", text[text.index("<style>") : text.index("</style>")])
        said = lambda what: {where.strip() for where, rule in rules if what in rule}
        self.assertEqual(said("overflow-x: auto"), {"figure", ".wide"})
        # 40rem within a figure, and a column of a table.
        self.assertEqual(said("min-width:"), {"figure svg", "td:first-child"})
        self.assertEqual(text.count("<table>"), text.count('<div class="wide"><table>'))

    def test_the_contents_name_every_section_in_its_order(self):
        text = self.page(small())
        contents = re.findall(r'href="#([a-z-]+)"', text[text.index("<nav") : text.index("</nav>")])
        self.assertEqual(contents, re.findall(r'<h2 id="([a-z-]+)"', text))
        self.assertEqual(contents[:4], ["default", "shipped", "alone", "inline"])

    def test_the_first_screen_says_who_wins_and_who_loses_in_plain_words(self):
        text = self.page(small())
        first = text[: text.index("<nav")]
        for words in ("many small functions", "ahead in", "billionth of a second"):
            self.assertIn(words, first)

    def test_the_data_can_be_read_again(self):
        content = small()
        packed = self.made(content)["results.json.gz"]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "results.json.gz")
            path.write_bytes(packed)
            self.assertEqual(load.read(path).content, json.loads(json.dumps(content)))

    def test_the_same_results_make_the_same_files(self):
        self.assertEqual(self.made(small()), self.made(small()))

    def without(self, leave_out):
        content = small()
        content["records"] = [record for record in content["records"] if not leave_out(record)]
        return self.page(content)

    def test_every_kind_may_be_missing(self):
        for kind in load.KINDS:
            with self.subTest(kind):
                self.assertIn(
                    f"There is no record of the kind “{kind}”.", self.without(lambda record: record["kind"] == kind)
                )

    def test_every_kind_may_be_alone(self):
        for kind in load.KINDS:
            with self.subTest(kind):
                self.without(lambda record: record["kind"] != kind)

    def test_nothing_at_all_is_a_page_too(self):
        page = self.made({"format": 2, "records": []})["index.html"].decode()
        self.assertIn("No rival was measured beside us.", page)

    def test_any_system_may_be_missing(self):
        for system in ("seriatim", "mxnet"):
            with self.subTest(system):
                self.without(lambda record: record["system"] == system)
        self.without(lambda record: record["system"] != "seriatim")

    def test_holes_are_named(self):
        page = self.without(lambda record: record["entrant"] == "libomp-2" and record.get("workload") == "fan" and record["kind"] == "throughput")
        self.assertTrue("No throughput of fan: libomp-2." in page)
        page = self.without(lambda record: record["entrant"] == "libomp-2" and record["repetition"] == 2)
        self.assertTrue("libomp-2 (4)" in page)

    def test_damaged_records_and_empty_curves_are_left_out_and_named(self):
        content = small()
        for record in content["records"]:
            if record["kind"] == "metg" and record["system"] == "libomp":
                record.update(curve=[], metg_ns=None)
            if record.get("percentiles") and record["system"] == "libomp":
                record["percentiles"] = {"count": 0, "mean": 0, "points": []}
            if record["system"] == "taskflow":
                record["hop_ns"] = None
        content["records"] += [{"kind": "weather"}, {"kind": "push", "entrant": "x"}]
        page = self.page(content)
        self.assertIn("unknown kind &#x27;weather&#x27;", page)
        self.assertIn("a push record of x without system", page)

    def test_one_repetition(self):
        content = small()
        content["records"] = [record for record in content["records"] if record["repetition"] == 0]
        content.update(quick=True, repetitions=1)
        page = self.page(content)
        self.assertIn("quick run", page)
        self.assertIn("Only 1 of the nine repetitions", page)

    def test_names_cannot_smuggle_markup(self):
        content = small()
        content["machine"]["processor"] = "<script>alert(1)</script>"
        content["skipped"] = [{"entrant": "<b>", "why": "&"}]
        page = self.page(content)
        self.assertNotIn("<script", page)
        self.assertNotIn("<b>", page)

    def test_another_format_is_refused(self):
        with self.assertRaises(ValueError):
            load.Results({"format": 1})


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

if __name__ == "__main__":
    unittest.main()
