"""The tables of replays."""

import unittest

from . import example, fragments, load, replays, tables
from .made import OURS, merged, results_of, small


def of(kind, values, entrant="seriatim-default graph", **fields):
    """Records of ours with these times, one for each repetition."""
    return results_of({entrant: ("seriatim", "graph", 2, values)}, kind=kind, **fields)


def texts(cells):
    return [tables.cell(cell).text for cell in cells]


class Replays(unittest.TestCase):
    def test_a_replay_stands_beside_its_goal(self):
        names = lambda entrant, count, ns: of("replay-names", [ns] * 3, entrant, graph="one node", names=count)
        found = merged(
            names("seriatim-naive graph", 8, 88),
            names("seriatim-default graph", 8, 900),
            names("seriatim-naive graph", 1, 47),
            of("replay-names", [188] * 3, "seriatim-naive graph", graph="64 nodes over private arrays", names=65),
            of("replay-names", [530] * 3, "seriatim-naive graph", graph="64 nodes over arrays", names=65),
        )
        table = replays.names_table(found)
        self.assertEqual(table.headings, ["graph", "the caller runs, near", "default, near", "goal"])
        self.assertEqual(
            [texts(row) for row in table.rows],
            [
                ["one node, 1 name", "47.0", "–", "155"],
                ["one node, 8 names", "88.0", "900", "190"],
                ["64 nodes over arrays, 65 names", "530", "–", "–"],
                ["64 nodes over private arrays, 65 names", "188", "–", "740"],
            ],
        )
        self.assertEqual([cell.kind for cell in table.rows[1][1:3]], ["good", "bad"])
        self.assertEqual(table.rows[2][1].kind, "")

    def test_replays_in_a_row_stand_beside_those_that_are_waited_for(self):
        stream = lambda between, values, growth: of(
            "replay-stream", values, between=between, body_ns=1000, replays=1_000_000, growth_kb=growth
        )
        found = merged(
            stream("wait", [4000, 8000, 4100], 0),
            stream("bound", [3600, 7200, 3690], 300),
            stream("nothing", [2000, 4000, 2050], 200_000),
            stream("pipeline", [2800, 5600, 2870], 200),
        )
        table = replays.stream_table(found)
        self.assertEqual(
            [texts(row) for row in table.rows],
            [
                ["1 µs, graph, a wait after each", "4,100", "–", "0"],
                ["1 µs, graph, `bound(1024)`", "3,690", "0.90 ×", "0.300"],
                ["1 µs, graph, no wait", "2,050", "0.50 ×", "200"],
                ["1 µs, pipeline, `bound(1024)`", "2,870", "0.70 ×", "0.200"],
                ["1 µs, pipeline, a wait after 256", "–", "–", "–"],
            ],
        )
        self.assertEqual([row[2].kind for row in table.rows[1:4]], ["bad", "good", "good"])
        self.assertIn("1,000,000 in a row", " ".join(table.before))

    def test_few_long_operations_are_compared_within_a_repetition(self):
        few = lambda how, values: of("few-long", values, operations=6, nap_us=5000, how=how)
        found = merged(
            few("pushed", [10_000_000, 14_000_000, 10_100_000]),
            few("first replay", [10_000_900, 14_000_500, 10_100_400]),
            few("later replay", [30_000_000, 34_000_000, 30_200_000]),
        )
        (row,) = replays.few_table(found).rows
        self.assertEqual(texts(row), ["6 of 5 ms", "10.1", "10.1", "0.50", "30.2", "20,000"])
        self.assertEqual((row[3].kind, row[5].kind), ("good", "bad"))

    def test_every_row_is_as_long_as_the_headings(self):
        made = [replays.names_table, replays.stream_table, replays.few_table]
        for results in (load.Results(small()), load.Results(example.results(repetitions=1))):
            for table in (make(results) for make in made):
                for row in table.rows:
                    self.assertEqual(len(row), len(table.headings), table.name)

    def test_records_without_them_have_no_such_tables(self):
        found = results_of(OURS)
        shown = [table.name for table in fragments.all_tables(found)]
        for name in ("replay-names", "replay-stream", "few-long", "wakes", "beside-busy", "random-push"):
            self.assertNotIn(name, shown)
            self.assertIn(f"There is no record of the kind “{name}”.", fragments.left_out(found))
