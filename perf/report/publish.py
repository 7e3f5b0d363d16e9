"""scripts/report.sh --publish FILE: makes FILE's report that of the tree, and writes its figures
into the documents.

The README and PERFORMANCE.md have each a pair of marks, and what lies between them is made of the
results; nothing is copied by hand. With --check nothing is written: it fails if a document says
something else than the report's data.
"""

from pathlib import Path
import shutil
import sys

from . import fragments, load

REPORT = Path("perf/results/report")
RAW = REPORT / "results.json.gz"
BEGIN = "<!-- figures: made by scripts/report.sh --publish, not by hand -->"
END = "<!-- end of figures -->"
DOCUMENTS = {"README.md": fragments.readme, "PERFORMANCE.md": fragments.performance}


def replaced(text, fragment):
    """The text with the fragment between its marks."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"needs one line {BEGIN!r}, and one line {END!r} after it")
    before, rest = text.split(BEGIN)
    said = f"{fragment}\n" if fragment else ""
    return f"{before}{BEGIN}\n\n{said}{END}{rest.split(END)[1]}"


def documents(root, results):
    """{path: text as it should be}."""
    page = str(REPORT / "index.html")
    made = {}
    for name, fragment in DOCUMENTS.items():
        path = root / name
        try:
            made[path] = replaced(path.read_text(encoding="utf-8"), fragment(results, page))
        except ValueError as problem:
            raise ValueError(f"{name}: {problem}") from problem
    return made


def check(root):
    """The documents that differ from what the report's data say. Without a report they must say
    nothing."""
    if (root / RAW).exists():
        made = documents(root, load.read(root / RAW))
    else:
        made = {root / name: replaced((root / name).read_text(encoding="utf-8"), "") for name in DOCUMENTS}
    return [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]


def publish(source, root):
    from .__main__ import write

    folder = root / REPORT
    results = load.read(source)
    made = documents(root, results)  # Before anything is written: a document without marks spoils nothing.
    fresh = folder.with_name("report.new")
    shutil.rmtree(fresh, ignore_errors=True)
    write(source, fresh)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return [folder, *made]


def main(arguments):
    try:
        if len(arguments) == 2 and arguments[0] == "--check":
            stale = check(Path(arguments[1]))
            for name in stale:
                print(f"{name} does not say what {RAW} says: run scripts/report.sh --publish {RAW}", file=sys.stderr)
            return 1 if stale else 0
        if len(arguments) == 2:
            for path in publish(Path(arguments[0]), Path(arguments[1])):
                print(f"written: {path}")
            return 0
    except (OSError, ValueError) as problem:
        print(f"publish: {problem}", file=sys.stderr)
        return 1
    print("usage: python3 -m report.publish RESULTS ROOT | --check ROOT", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
