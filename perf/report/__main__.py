"""python3 -m report RESULTS FOLDER: writes the report into the folder and prints the headline table."""

from pathlib import Path
import shutil
import sys

from . import headline, load, summary
from .page import page
from .plots import drawing, metg, throughput
from .tables import write_csv


def write(source, folder):
    """Writes every file of the report; gives back the rows of the headline table."""
    source, folder = Path(source), Path(folder)
    results = load.read(source)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(page(results), encoding="utf-8")
    raw = folder / ("results.json.gz" if source.suffix == ".gz" else "results.json")
    if source.resolve() != raw.resolve():
        shutil.copyfile(source, raw)
    for kind in load.KINDS:
        path = folder / f"{kind}.csv"
        path.unlink(missing_ok=True)  # One of an earlier run would be taken for one of this.
        if results.records[kind]:
            write_csv(path, results.records[kind])
    rows = headline.rows(results)
    (folder / "summary.md").write_text(summary.markdown(results, rows), encoding="utf-8")
    for name, drawn in [("throughput", throughput.figure(results, "dynamic")), ("metg", metg.dots(results))]:
        path = folder / f"{name}.svg"
        path.unlink(missing_ok=True)
        if drawn is not None:
            path.write_text(drawing.svg(drawn, name, alone=True), encoding="utf-8")
    return rows


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        rows = write(*arguments)
    except (OSError, ValueError) as problem:
        print(f"report: {arguments[0]}: {problem}", file=sys.stderr)
        return 1
    print(summary.plain(rows) if rows else "No throughput of ours in these results.")
    print(f"\n{Path(arguments[1]) / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
