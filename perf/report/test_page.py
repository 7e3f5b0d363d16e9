"""The documents and the page. Those that draw are left out where matplotlib is missing."""

from copy import deepcopy
from html.parser import HTMLParser
import json
from pathlib import Path
import re
import tempfile
import unittest

from . import fragments, load, publish
from .made import CAN_DRAW, small


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
