"""python3 -m report RESULTS FOLDER: writes the report into the folder and prints the comparison by
default settings."""

from pathlib import Path
import sys

from . import compared, fragments, load
from .tables import markdown

RAW = "results.json.gz"


def write(source, folder):
    """Writes the files of the report: the page, what it links, and the tables as Markdown. Gives
    back the results."""
    from .page import page

    source, folder = Path(source), Path(folder)
    results = load.read(source)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(page(results, RAW), encoding="utf-8")
    (folder / "summary.md").write_text("# Seriatim measured\n\n" + fragments.performance(results, "index.html"), encoding="utf-8")
    load.write(results.content, folder / RAW)
    return results


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        results = write(*arguments)
    except (OSError, ValueError) as problem:
        print(f"report: {arguments[0]}: {problem}", file=sys.stderr)
        return 1
    table = compared.default_table(results)
    print(markdown(table) if table else "No figure of ours by default settings in these results.")
    print(f"{compared.sentence(results)}\n\n{Path(arguments[1]) / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
