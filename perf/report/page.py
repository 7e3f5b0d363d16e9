"""The page: one HTML file with everything in it."""

from html import escape

from . import fragments, intervals, pairs
from .numbers import show, significant
from .plots import dots, drawing
from .tables import grid, html

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1e; --faint: #6b6b70; --line: #dededf; --paper: #fffffe;
  --accent: #0a58ca; --good: #0b6b3a; --bad: #b3400a; --band: #f5f5f6 }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #ececee; --faint: #a2a2a8; --line: #3c3c41;
  --paper: #17171a; --accent: #6eb0ff; --good: #6fcf97; --bad: #ff9a5c; --band: #222226 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .2rem } h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem;
  padding-top: .5rem; border-top: 1px solid var(--line) }
p, ul { max-width: 46rem } a { color: var(--accent) } .faint { color: var(--faint); font-size: .88rem }
.warning { border-left: 4px solid var(--bad); padding: .4rem .8rem; background: var(--band) }
nav { columns: 16rem; max-width: 46rem; padding: .7rem 1rem; background: var(--band); margin: 1.2rem 0 }
nav a { display: block; padding: .12rem 0 }
figure { margin: 1.2rem 0; overflow-x: auto } figure svg { width: 100%; min-width: 40rem; height: auto; display: block }
figcaption { font-size: .87rem; color: var(--faint); max-width: 46rem; margin-top: .3rem }
.wide { overflow-x: auto; margin: .8rem 0 } table { border-collapse: collapse; font-size: .82rem;
  font-variant-numeric: tabular-nums }
th, td { padding: .25rem .45rem; text-align: left; vertical-align: top; background: var(--paper) }
td { white-space: nowrap } .number { text-align: right } th:first-child, td:first-child { position: sticky; left: 0 }
td:first-child { white-space: normal; min-width: 7.5rem } td small { display: block; color: var(--faint) }
thead th { border-bottom: 1.5px solid var(--ink); vertical-align: bottom; font-weight: 600 }
tbody tr + tr td { border-top: 1px solid var(--line) }
.ours { color: var(--accent); font-weight: 600 } .good { color: var(--good); font-weight: 600 }
.bad { color: var(--bad); font-weight: 600 }
@media print { body { max-width: none; padding: 0; font-size: 10px } figure, tr { break-inside: avoid } }
"""


def page(results, raw="results.json.gz"):
    """The whole page as text. `raw` is the file of the data that lies beside it."""
    tables = fragments.all_tables(results)
    sections = [(table.name, table.title, html(table)) for table in tables]
    sections = with_pictures(results, sections)
    sections.append(("origin", "Where the figures come from", origin(results, raw)))
    contents = "".join(f'<a href="#{name}">{escape(title)}</a>\n' for name, title, _ in sections)
    body = "".join(f'<h2 id="{name}">{escape(title)}</h2>\n{content}' for name, title, content in sections)
    machine = results.machine
    about = (
        f"{results.content.get('started', 'at an unknown time')}, commit {machine.get('commit', 'unknown')},"
        f" {machine.get('cores', '?')} cores of {machine.get('processor', 'an unknown processor')}"
    )
    other = fragments.second_sitting(results)
    about += f". {other}" if other else ""
    warned = fragments.warnings(results)
    first = f'<p class="warning">{escape(" ".join(warned))}</p>\n' if warned else ""
    first += "".join(f"<p>{escape(sentence)}</p>\n" for sentence in fragments.plain_words(results))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Seriatim measured</title>\n<style>{STYLE}{drawing.dark_rules()}</style></head>\n<body>\n"
        f'<h1>Seriatim measured</h1>\n<p class="faint">{escape(about)}</p>\n{first}'
        f'<nav aria-label="Contents">\n{contents}</nav>\n{body}\n</body></html>\n'
    )


def with_pictures(results, sections):
    """The same, with the two pictures behind the tables that they belong to."""
    where = dots.where_most(results)
    on = results.on(where) if where else results
    captions = {
        "default": (
            dots.throughput,
            "Time of an operation with an empty body. Dots: the median with its interval; ticks: processor time of the"
            " whole process. A logarithmic scale for each panel; left is better.",
        ),
        "metg": (dots.metg, "METG(50 %) of what is pushed task by task. Left is better; no dot: not reached."),
    }
    done = []
    for name, title, content in sections:
        draw, caption = captions.get(name, (None, ""))
        drawn = draw(on) if draw else None
        if drawn is not None:
            cores = pairs.NEAR_AND_FAR.get(where, "cores of an unknown way")
            content += f"<figure>{drawing.svg(drawn, name)}<figcaption>{escape(caption)} On {cores}.</figcaption></figure>\n"
        done.append((name, title, content))
    return done


def origin(results, raw):
    content, machine = results.content, results.machine
    text = "<h3>Machine</h3>\n" + grid(["", ""], [[name, value] for name, value in machine.items()], texts=(0, 1))
    if results.elsewhere:
        rows = [[name, value] for name, value in results.elsewhere.machine.items()]
        text += "<h3>Machine of the other sitting</h3>\n" + grid(["", ""], rows, texts=(0, 1))
    versions = sorted(results.versions().items())
    if versions:
        rows = [[system, ", ".join(found)] for system, found in versions]
        text += "<h3>Versions</h3>\n" + grid(["system", "version"], rows, texts=(0, 1))
    hops = intervals.estimate(
        record.get("hop_ns") for records in results.records.values() for record in records
    )
    seconds = content.get("seconds")
    method = [
        intervals.method(results.repetitions) if results.repetitions else "No repetitions.",
        "In each repetition every entrant runs once, in a process of its own, one after another. A ratio is taken within"
        " a repetition; what is shown is the median of these ratios.",
        f"{content.get('discarded', 'An unknown number of')} processes were run again because others used more than a"
        f" tenth of a core, and {content.get('moved', 'an unknown number')} because the cores were moved.",
        *pairs.said_of(results),
        f"A cache line took {show(hops, 'ns')} from one core to the other." if hops else "",
        f"The whole run took {significant(seconds / 60)} minutes." if seconds else "",
        "Every body leaves a result that is checked; a wrong one voids the figure. The pushing thread's own work is in"
        " every figure; creating engines, operators and graphs is not.",
        "Rivals that are compiled here are compiled with -O3 -march=native -flto, OpenMP's programs without -flto: of"
        " nine runs in turns with and without it, no workload was faster with it. This engine with cargo's release"
        " profile, its C interface as it is installed.",
    ]
    text += "<h3>Method</h3>\n<ul>" + "".join(f"<li>{escape(line)}</li>" for line in method if line) + "</ul>\n"
    text += "<h3>What is missing</h3>\n<ul>"
    text += "".join(f"<li>{escape(line)}</li>" for line in fragments.left_out(results)) + "</ul>\n"
    return text + f'<h3>Raw data</h3>\n<p><a href="{raw}">{raw}</a>: all records, gzipped JSON.</p>\n'
