"""The tables of bodies that take a while."""

import unittest

from . import compared, fragments, lasting, load, tables
from .made import OURS, content_of, merged, results_of, small


class Lengths(unittest.TestCase):
    def test_declared_bodies_have_columns_of_their_own(self):
        times = {
            "serial": ("serial", "dynamic", 1, [200, 200, 200]),
            "seriatim-default": ("seriatim", "dynamic", 2, [150, 150, 150]),
            "seriatim-declared": ("seriatim", "dynamic", 2, [220, 220, 220]),
        }
        table = lasting.lengths_table(results_of(times, kind="length", body_ns=250))
        (row,) = table.rows
        shown = {heading: tables.cell(cell) for heading, cell in zip(table.headings, row, strict=True)}
        self.assertEqual((shown["ours over serial"].text, shown["ours over serial"].kind), ("0.75 ×", "good"))
        self.assertEqual(shown["declared, near"].text, "220")
        self.assertEqual((shown["declared over serial"].text, shown["declared over serial"].kind), ("1.1 ×", "bad"))

    def test_a_row_without_figures_is_as_long_as_the_others(self):
        table = lasting.lengths_table(load.Results(small()))
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
        worst, best = lasting.oversubscribed_table(found).rows
        self.assertEqual(
            [tables.cell(cell).text for cell in worst],
            ["random, bodies of 1 µs, 8 threads", "1,000", "963", "718", "0.75 ×", "0.96 ×"],
        )
        self.assertEqual(best[0], "random, empty bodies, 8 threads")
        self.assertIn("in 2 comparisons with the best rival: ahead in 1, behind in 1", compared.sentence(found))
        self.assertIn("loses most: random, bodies of 1 µs, 8 threads", " ".join(fragments.plain_words(found)))

    def test_four_cores_have_a_table_of_their_own_and_count(self):
        found = self.found(250, [900, 900, 900], [400, 400, 400], "four-cores", 4, "seriatim-default")
        (row,) = lasting.four_cores_table(found).rows
        self.assertEqual(row[0], "random, bodies of 250 ns, 4 threads on four cores")
        self.assertIn("behind in 1", compared.sentence(found))

    def test_what_runs_beside_a_busy_process_has_a_table_of_its_own_and_counts(self):
        found = self.found(10_000, [900, 900, 900], [400, 400, 400], "beside-busy", 2, "seriatim-default")
        (row,) = lasting.beside_busy_table(found).rows
        self.assertEqual(row[0], "random, bodies of 10 µs, 2 threads beside a busy process")
        self.assertEqual([tables.cell(cell).text for cell in row[1:3]], ["1,000", "900"])
        self.assertIn("behind in 1", compared.sentence(found))
        self.assertIsNone(lasting.beside_busy_table(results_of(OURS)))

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
        self.assertIsNone(lasting.oversubscribed_table(results_of(OURS)))
        self.assertIsNone(lasting.four_cores_table(results_of(OURS)))
