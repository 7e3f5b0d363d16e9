"""A table, as Markdown for the README and PERFORMANCE.md and as HTML for the page: the same cells
in all of them."""

from dataclasses import dataclass, field
from html import escape
import re


@dataclass
class Cell:
    """Text, how it is to be seen (good, bad, ours or nothing), and what explains it."""

    text: str
    kind: str = ""
    note: str = ""


@dataclass
class Table:
    """What is compared: sentences before it, headings, rows of cells or text, sentences below
    it."""

    name: str
    title: str
    before: list
    headings: list
    rows: list
    after: list = field(default_factory=list)
    # Columns of text; the others hold numbers.
    texts: tuple = (0,)


def cell(content):
    return content if isinstance(content, Cell) else Cell(str(content))


def markdown(table):
    """The table alone, with the sentences around it and without its title."""
    escaped = lambda text: text.replace("|", "\\|")
    lines = [*wrapped(table.before), *([""] if table.before else [])]
    lines.append("| " + " | ".join(escaped(heading) for heading in table.headings) + " |")
    lines.append("|" + "|".join("---" if column in table.texts else "---:" for column in range(len(table.headings))) + "|")
    for row in table.rows:
        texts = []
        for content in map(cell, row):
            text = escaped(content.text) + (f" ({escaped(content.note)})" if content.note else "")
            texts.append(f"**{text}**" if content.kind == "bad" else text)
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines + ([""] if table.after else []) + wrapped(table.after)) + "\n"


def wrapped(sentences, width=100):
    """The sentences as one paragraph, in lines of at most so many characters."""
    lines = []
    for word in " ".join(sentences).split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def html(table):
    """The table with its sentences. All text is escaped here."""
    code = lambda text: re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
    paragraph = lambda sentences: f"<p>{code(' '.join(sentences))}</p>\n" if sentences else ""
    return paragraph(table.before) + grid(table.headings, table.rows, table.texts) + paragraph(table.after)


def grid(headings, rows, texts=(0,)):
    def drawn(content, column, tag):
        content = cell(content)
        classes = " ".join(filter(None, [content.kind, "" if column in texts else "number"]))
        note = f"<small>{escape(content.note)}</small>" if content.note else ""
        attribute = f' class="{classes}"' if classes else ""
        return f"<{tag}{attribute}>{escape(content.text)}{note}</{tag}>"

    head = "".join(drawn(heading, column, "th") for column, heading in enumerate(headings))
    body = "\n".join(
        "<tr>" + "".join(drawn(content, column, "td") for column, content in enumerate(row)) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n'
