"""Tests of the report: `target/report-venv/bin/python -m unittest discover -s perf/report -t perf`.

Those that draw are left out where matplotlib is missing; the statistics and the comparison of two commits need the
standard library only.
"""

from copy import deepcopy
from html.parser import HTMLParser
import importlib.util
import json
from pathlib import Path
import random
import re
import tempfile
import unittest

from . import agree, choose, compare, example, headline, intervals, load, summary

CAN_DRAW = importlib.util.find_spec("matplotlib") is not None
# What the tests that draw use: drawing is slow, and they draw often.
FEW = {
    "entrant": [
        "seriatim-naive",
        "seriatim-per-device-1",
        "seriatim-per-device-1 graph",
        "seriatim-per-device-2",
        "mxnet-per-device-1",
        "libomp-1",
        "libomp-2",
        "onetbb-flow-2 graph",
        "starpu-2",
        "tokio-2",
    ],
    "workload": ["independent", "fan", "unrelated"],
    "pattern": ["stencil_1d", "nearest"],
    "load": [0.1, 0.9, 1.1],
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
        shown = [headline.significant(value) for value in (0, 0.0456, 0.456, 4.56, 45.6, 456, 4560.4)]
        self.assertEqual(shown, ["0", "0.0456", "0.456", "4.56", "45.6", "456", "4,560"])


class Headline(unittest.TestCase):
    def records(self, times):
        """Throughput records of `chain` by {entrant: (system, style, threads, [times])}."""
        records = [
            {
                "kind": "throughput",
                "repetition": repetition,
                "hop_ns": 50.0,
                "entrant": entrant,
                "system": system,
                "style": style,
                "workers": 1,
                "threads": threads,
                "version": "1",
                "workload": "chain",
                "operations": 1,
                "ns": ns,
                "cpu_ns": ns,
            }
            for entrant, (system, style, threads, values) in times.items()
            for repetition, ns in enumerate(values)
        ]
        return load.Results({"format": 1, "repetitions": 3, "machine": {}, "records": records})

    def test_a_loss_is_called_one(self):
        (row,) = headline.rows(
            self.records(
                {
                    "seriatim-naive": ("seriatim", "dynamic", 1, [100, 101, 102]),
                    "libomp-1": ("libomp", "dynamic", 1, [50, 51, 52]),
                }
            )
        )
        self.assertEqual((row.outcome(), row.peer_verdict()), ("slower", "missed"))
        self.assertIn("slower in 1", summary.sentence([row]))
        self.assertIn("slower", summary.markdown(self.records({}), [row]))
        self.assertIn("SLOWER", summary.plain([row]))

    def test_the_best_of_each_side_is_found(self):
        (row,) = headline.rows(
            self.records(
                {
                    "seriatim-per-device-1": ("seriatim", "dynamic", 2, [20, 20, 20]),
                    "seriatim-pooled-1": ("seriatim", "dynamic", 2, [40, 40, 40]),
                    "seriatim-per-device-1 batches": ("seriatim", "batches", 2, [1, 1, 1]),
                    "mxnet-per-device-1": ("mxnet", "dynamic", 1, [400, 400, 400]),
                    "libgomp-2": ("libgomp", "dynamic", 2, [60, 70, 80]),
                    "onetbb-flow-2 graph": ("onetbb", "graph", 2, [5, 5, 5]),
                }
            )
        )
        self.assertEqual(
            (row.ours.entrant, row.peer.entrant, row.same_threads), ("seriatim-per-device-1", "libgomp-2", True)
        )
        self.assertEqual((row.over_peer.median, row.over_mxnet.median, row.outcome()), (3.5, 20, "faster"))
        self.assertEqual((row.peer_verdict(), row.mxnet_verdict()), ("met", "met"))
        self.assertEqual(row.hops.median, 20 / 50)

    def test_a_bound_inside_the_interval_is_said_to_be(self):
        near = intervals.Estimate(3.1, 2.8, 3.4, 9)
        self.assertEqual(headline.verdict(near, 3, least=True), "met (within the spread)")
        self.assertEqual(headline.verdict(near, 3, least=False), "missed (within the spread)")
        self.assertEqual(headline.verdict(None, 3, least=True), "not measured")

    def test_an_interval_around_one_is_no_difference(self):
        (row,) = headline.rows(
            self.records(
                {
                    "seriatim-naive": ("seriatim", "dynamic", 1, [100, 101, 102]),
                    "libomp-1": ("libomp", "dynamic", 1, [90, 102, 110]),
                }
            )
        )
        self.assertEqual(row.outcome(), "no difference")

    def test_more_threads_than_any_peer_compare_with_the_nearest(self):
        found = self.records(
            {
                "seriatim-per-device-2": ("seriatim", "dynamic", 3, [30]),
                "libomp-1": ("libomp", "dynamic", 1, [10]),
                "libomp-2": ("libomp", "dynamic", 2, [90]),
                "libomp-8": ("libomp", "dynamic", 8, [20]),
            }
        )
        self.assertEqual(
            [
                each.entrant if hasattr(each, "entrant") else each
                for each in choose.best_peer(found.of("throughput", workload="chain"), 3)
            ],
            ["libomp-2", False],
        )


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
        """{name: text} of the files of the report."""
        from .__main__ import write

        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "given.json")
            source.write_text(json.dumps(content), encoding="utf-8")
            write(source, Path(folder, "out"))
            return {path.name: path.read_text(encoding="utf-8") for path in Path(folder, "out").iterdir()}

    def page(self, content):
        from .page import page

        return page(load.Results(deepcopy(content)))

    def test_everything_is_there_and_nothing_is_fetched(self):
        files = self.made(small())
        self.assertEqual(
            set(files),
            {"index.html", "results.json", "summary.md", "throughput.svg", "metg.svg"}
            | {f"{kind}.csv" for kind in load.KINDS},
        )
        parser = References()
        parser.feed(files["index.html"])
        self.assertEqual(parser.found, [])
        self.assertEqual(parser.open, [])
        self.assertEqual(len(parser.names), len(set(parser.names)), "two elements share a name")
        self.assertIsNone(re.search(r"https?://|@import|url\((?!#)", files["index.html"]))
        for name in ("throughput.svg", "metg.svg"):
            self.assertIsNone(re.search(r'(href|src)="(?!#)|@import|url\((?!#)', files[name]))
        self.assertEqual(files["index.html"].count("<figure>"), 9)
        order = [
            files["index.html"].index(f'id="{name}"')
            for name in ("headline", "throughput", "metg", "latency", "scaling", "counts", "origin")
        ]
        self.assertEqual(order, sorted(order))

    def test_the_same_results_make_the_same_files(self):
        self.assertEqual(self.made(small()), self.made(small()))

    def test_csv_has_a_row_for_each_record_and_point(self):
        content = small()
        files = self.made(content)
        for kind in load.KINDS:
            expected = sum(len(record.get("curve", [0])) for record in content["records"] if record["kind"] == kind)
            self.assertEqual(len(files[f"{kind}.csv"].splitlines()) - 1, expected, kind)
        self.assertIn("p99.9", files["push.csv"].splitlines()[0])

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
        page = self.made({"format": 1, "records": []})["index.html"]
        self.assertIn("Not measured", page)

    def test_any_system_may_be_missing(self):
        for system in ("seriatim", "mxnet"):
            with self.subTest(system):
                self.without(lambda record: record["system"] == system)
        self.without(lambda record: record["system"] != "seriatim")

    def test_holes_are_named(self):
        page = self.without(lambda record: record["entrant"] == "libomp-2" and record.get("workload") == "fan")
        self.assertIn("No throughput of fan: libomp-2.", page)
        page = self.without(lambda record: record["entrant"] == "libomp-2" and record["repetition"] == 2)
        self.assertIn("libomp-2 (2)", page)

    def test_damaged_records_and_empty_curves_are_left_out_and_named(self):
        content = small()
        for record in content["records"]:
            if record["kind"] == "metg" and record["system"] == "starpu":
                record.update(curve=[], metg_ns=None)
            if record.get("percentiles") and record["system"] == "starpu":
                record["percentiles"] = {"count": 0, "mean": 0, "points": []}
            if record["system"] == "tokio":
                record["hop_ns"] = None
        content["records"] += [{"kind": "weather"}, {"kind": "push", "entrant": "x"}]
        page = self.page(content)
        self.assertIn("unknown kind &#x27;weather&#x27;", page)
        self.assertIn("a push record of x without system", page)

    def test_one_repetition_and_many_workers(self):
        content = small()
        content["records"] = [record for record in content["records"] if record["repetition"] == 0]
        content.update(quick=True, repetitions=1)
        for record in list(content["records"]):
            if record["entrant"] == "seriatim-per-device-2":
                for workers in (4, 8, 16):
                    more = deepcopy(record)
                    more.update(entrant=f"seriatim-per-device-{workers}", workers=workers, threads=workers + 1)
                    content["records"].append(more)
        page = self.page(content)
        self.assertIn("quick run", page)

    def test_names_cannot_smuggle_markup(self):
        content = small()
        content["machine"]["processor"] = "<script>alert(1)</script>"
        content["skipped"] = [{"entrant": "<b>", "why": "&"}]
        page = self.page(content)
        self.assertNotIn("<script", page)
        self.assertNotIn("<b>", page)

    def test_another_format_is_refused(self):
        with self.assertRaises(ValueError):
            load.Results({"format": 2})


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
        # 250 ticks of work, of which 1.5 seconds (150 ticks of a hundredth) were ours, in 2 seconds.
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
        self.assertIn("throughput independent seriatim-", said)

if __name__ == "__main__":
    unittest.main()
