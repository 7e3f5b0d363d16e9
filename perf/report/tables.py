"""Tables as HTML and as CSV."""

import csv
from html import escape
import re

from . import choose
from .headline import show


def table(headings, rows, texts=(0,)):
    """An HTML table. A cell is text, (text, class), or (text, class, note, class of the note). The columns `texts` hold
    text, the others numbers. Text is escaped here, and an interval at its end goes to a line of its own, so that wide
    tables fit a page."""

    def cell(content, column, tag="td"):
        text, css, note, note_css = (
            ((*content, "", "", "")[:4]) if isinstance(content, tuple) else (content, "", "", "")
        )
        number = "" if column in texts else "number"
        text = escape(str(text))
        if number:
            text = re.sub(r"\s*(\[[^\]]*\])", r"<small>\1</small>", text)
        if note:
            text += f'<span class="note {note_css}">{escape(note)}</span>'
        classes = " ".join(filter(None, [css, number]))
        attribute = f' class="{classes}"' if classes else ""
        return f"<{tag}{attribute}>{text}</{tag}>"

    head = "".join(cell(heading, column, "th") for column, heading in enumerate(headings))
    body = "\n".join(
        "<tr>" + "".join(cell(content, column) for column, content in enumerate(row)) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def entrants_by(results, kind, field, columns, measure, **wanted):
    """Rows of an entrant each, with a cell for each of the columns (values of `field`). `measure` makes text of a
    Series."""
    by_column = {column: results.of(kind, **{field: column}, **wanted) for column in columns}
    entrants = {}
    for found in by_column.values():
        entrants.update(found)
    rows = []
    for series in sorted(entrants.values(), key=choose.order):
        cells = [
            measure(by_column[column][series.entrant]) if series.entrant in by_column[column] else "–"
            for column in columns
        ]
        rows.append([(series.entrant, "ours" if series.ours else ""), *cells])
    return rows


def interval_text(series, field, scale=1.0):
    measured = series.estimate(field)
    return show(measured.scaled(scale)) if measured else "–"


def flatten(record):
    """Rows of a CSV file of one record: one, or one a point of its curve; percentiles become columns."""
    flat = {}
    for field, value in record.items():
        if field == "percentiles":
            flat.update(count=value.get("count"), mean=value.get("mean"))
            flat.update({f"p{rank:g}": at for rank, at in value.get("points", [])})
        elif field != "curve":
            flat[field] = value
    return [{**flat, **point} for point in record["curve"]] if "curve" in record else [flat]


def write_csv(path, records):
    rows = [row for record in records for row in flatten(record)]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
