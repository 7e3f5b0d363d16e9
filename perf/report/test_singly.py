"""The tables of single operations on an engine that has nothing else to do."""

import unittest

from . import compared, fragments, load, pairs, singly, tables
from .made import content_of, merged, results_of


class Singly(unittest.TestCase):
    def pushes(self, times, count=63, kind="push"):
        """Push records by {entrant: (system, [(ns, ns of a bare wake or None)])}, after a sleep."""
        percentiles = lambda ns: {"count": count, "mean": ns, "points": [[50, ns], [90, 2 * ns]]}
        return merged(
            *(
                results_of({entrant: (system, "dynamic", 2, [ns])}, kind=kind, pause_us=5000, repetition=repetition,
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
        table = singly.push_table(found)
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
        self.assertEqual(pairs.score(compared.default_rows(load.Results(both)))["behind"], 1)
        for record in both["records"]:
            if record["system"] == "libgomp":
                record["percentiles"]["count"] = 0
        found = load.Results(both)
        self.assertEqual(pairs.score(compared.default_rows(found))["no rival"], 1)
        self.assertIn("Left out: a push record of libgomp-2 that counted nothing.", fragments.left_out(found))
        self.assertEqual([row[0].text for row in singly.push_table(found).rows], ["Seriatim, default"])

    def test_pauses_at_random_have_rows_and_tables_of_their_own(self):
        regular = {"seriatim-default": ("seriatim", [(500, 9_000)] * 3), "libomp-2": ("libomp", [(900, 9_000)] * 3)}
        random = {"seriatim-default": ("seriatim", [(9_900, 9_000)] * 3), "libomp-2": ("libomp", [(950, 9_000)] * 3)}
        found = merged(self.pushes(regular), self.pushes(random, kind="random-push"))
        rows = {row.what: row.pairs["near"].outcome() for row in compared.default_rows(found)}
        self.assertEqual(
            rows,
            {
                "push alone after 5000 µs of sleep, p50": "ahead",
                "push alone after 5000 µs of sleep on average, p50": "behind",
            },
        )
        (ours, _) = singly.random_push_table(found).rows
        self.assertEqual([tables.cell(cell).text for cell in ours[2:]], ["9.90", "19.8", "9.00", "0.90"])
        self.assertEqual(ours[-1].kind, "bad")
        self.assertEqual(singly.push_table(found).rows[0][-1].text, "-8.5")

    def test_round_trips_after_pauses_at_random_have_a_table_of_their_own(self):
        trips = lambda kind, ns: results_of(
            {"seriatim-default": ("seriatim", "dynamic", 2, [1, 1, 1])}, kind=kind, pause_us=200,
            percentiles={"count": 250, "mean": ns, "points": [[50, ns], [90, 2 * ns], [99, 3 * ns]]},
        )
        found = merged(trips("round-trip", 400), trips("random-round-trip", 6_000))
        table = singly.random_round_trip_table(found)
        self.assertEqual(table.headings[2:], ["near, after 200 µs on average: p50", "p90"])
        self.assertEqual([tables.cell(cell).text for cell in table.rows[0][2:]], ["6.00", "12.0"])
        self.assertEqual(singly.round_trip_table(found).headings[2:], ["near, after 200 µs: p50", "p99"])
        self.assertIsNone(singly.random_round_trip_table(trips("round-trip", 400)))

    def test_a_burst_on_sleeping_workers_stands_beside_one_wake_and_the_burst_on_awake_ones(self):
        percentiles = lambda ns: {"count": 63, "mean": ns, "points": [[50, ns]]}
        wakes = lambda burst, asleep, awake, entrant="seriatim-per-device-2": merged(
            *(
                results_of(
                    {entrant: ("seriatim", "dynamic", 3, [1])}, kind="wakes", burst=burst, repetition=repetition,
                    percentiles=percentiles(asleep + slow), bare_wake=percentiles(9_000 + slow),
                    awake=percentiles(awake), reached=percentiles(700),
                )
                for repetition, slow in enumerate((0, 20_000, 1_000))
            )
        )
        found = merged(wakes(1, 9_400, 3_200), wakes(100, 25_000, 14_000))
        table = singly.wakes_table(found)
        self.assertEqual(
            table.headings[2:],
            ["near, one push: asleep", "bare wake", "beyond it", "one awake", "begins after",
             "near, 100 pushes: asleep", "bare wake", "workers awake", "beyond both"],
        )
        (row,) = table.rows
        self.assertEqual(
            [tables.cell(cell).text for cell in row[2:]],
            ["10.4", "10.0", "0.40", "3.2", "0.700", "26.0", "10.0", "14.0", "2.0"],
        )
        self.assertEqual([tables.cell(cell).kind for cell in row[4:6] + row[-1:]], ["", "bad", "bad"])

    def test_a_worker_that_was_never_seen_awake_has_no_figure(self):
        none = {"count": 0, "mean": 0, "points": [[50, 0]]}
        some = {"count": 63, "mean": 1, "points": [[50, 9_000]]}
        found = results_of(
            {"libomp-3": ("libomp", "dynamic", 3, [1, 1])}, kind="wakes", burst=1, percentiles=some, bare_wake=some,
            awake=none, reached=none,
        )
        (row,) = singly.wakes_table(found).rows
        self.assertEqual([tables.cell(cell).text for cell in row[-3:]], ["0", "–", "–"])
