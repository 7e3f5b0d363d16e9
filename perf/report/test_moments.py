"""The tables of operations that come at moments."""

import unittest

from . import compared, load, moments
from .made import merged, results_of, small


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
