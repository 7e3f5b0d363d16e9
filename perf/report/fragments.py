"""What the README, PERFORMANCE.md and the page say: all of it made of the results, nothing written
by hand."""

from . import choose, compared, intervals, lasting, load, moments, pairs, replays, singly, ways
from .numbers import significant
from .tables import markdown, wrapped

# The order of the page and of PERFORMANCE.md. The three comparisons are never mixed.
COMPARISONS = [compared.default_table, ways.shipped_table, ways.alone_table, ways.inline_table]
MORE = [
    lasting.lengths_table,
    ways.through_c_table,
    lasting.oversubscribed_table,
    lasting.beside_busy_table,
    lasting.four_cores_table,
    lasting.metg_table,
    ways.replay_table,
    replays.names_table,
    replays.stream_table,
    replays.few_table,
    ways.operators_table,
    singly.round_trip_table,
    singly.random_round_trip_table,
    singly.push_table,
    singly.random_push_table,
    singly.wakes_table,
    moments.open_loop_table,
    moments.random_arrivals_table,
    moments.jitter_table,
    moments.pushers_table,
    moments.counts_table,
]


def all_tables(results):
    made = [make(results) for make in COMPARISONS + MORE]
    return [table for table in made if table] + moments.everybody_tables(results)


def warnings(results, brief=False):
    """Why the figures should not be quoted, if there is a reason; `brief` leaves out what makes none
    of them wrong."""
    said = []
    if results.content.get("quick"):
        said.append("This was a quick run: its figures are not to be quoted.")
    if results.machine.get("changed"):
        said.append("The working tree had changes that are in no commit.")
    sittings = [found.content for found in (results, results.elsewhere) if found]
    disturbed = sum(content.get("kept_disturbed") or 0 for content in sittings)
    if disturbed and not brief:
        processes = "process" if disturbed == 1 else "processes"
        said.append(f"{disturbed} {processes} had to be kept though others used more than a tenth of a core meanwhile.")
    if 0 < results.repetitions < 9:
        said.append(f"Only {results.repetitions} of the nine repetitions that are the rule.")
    return said


def plain_words(results):
    """What is measured, who wins and who loses, for a reader who knows none of our words."""
    said = [
        "A program hands over many small functions, and says of each which data it reads and which it changes. A"
        " runtime runs them on several processor cores, in an order that keeps the result right. Each function costs"
        " some time on top of its own work: that time is what this page compares, in nanoseconds (a billionth of a"
        f" second), for Seriatim and for {others(results)}.",
        compared.sentence(results),
    ]
    lost, won = (compared.extremes(results, outcome) for outcome in ("behind", "ahead"))
    if lost:
        said.append(f"Where Seriatim loses most: {listed(lost, 4)}.")
    elif compared.default_rows(results):
        said.append("No comparison was lost.")
    slower = ways.slower_operators(results)
    if slower:
        said.append(slower)
    through_c = ways.through_c_sentence(results)
    if through_c:
        said.append(through_c)
    if won:
        said.append(f"Where it wins most: {listed(won, 2)}.")
    return said


def listed(found, most):
    """The first of them in words, and how many more there are."""
    shown = []
    for ratio, what, where, who in found[:most]:
        times = f"{significant(ratio, 2)} times as long" if ratio > 1 else f"{significant(ratio, 2)} of our time"
        shown.append(f"{what}, {where} cores ({who} takes {times})")
    more = [f"{len(found) - most} more"] if len(found) > most else []
    return "; ".join(shown + more)


def others(results):
    systems = {record["system"] for records in results.records.values() for record in records}
    names = [choose.NAMES[system] for system in choose.RIVALS if system in systems]
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else (names or ["nobody else"])[0]


def described(results):
    """How and on what it was measured, in one paragraph."""
    machine, versions = results.machine, results.versions()
    peers = ", ".join(
        f"{choose.NAMES[system]} {'/'.join(versions[system])}" for system in choose.RIVALS if system in versions
    )
    said = [
        intervals.method(results.repetitions) if results.repetitions else "",
        f"{machine_and_commit(results)}.",
        second_sitting(results),
        f"Beside: {peers}." if peers else "",
        "All run the same programs, in processes that take turns; every result is checked.",
    ]
    return [sentence for sentence in said if sentence]


def machine_and_commit(results):
    machine = results.machine
    hypervisor = f" ({machine['hypervisor']})" if machine.get("hypervisor") else ""
    processor = f"{machine.get('cores', '?')} cores of {machine.get('processor', 'an unknown processor')}{hypervisor}"
    return f"{processor}, commit {machine.get('commit', 'unknown')}, {str(results.content.get('started', ''))[:10]}"


def second_sitting(results):
    """Which columns are of the other sitting, if there is one."""
    other = [pairs.NEAR_AND_FAR[where] for where in load.PLACES if results.sitting(where) is not results]
    if not other:
        return ""
    whose = " and ".join(other)
    here, there = (found.versions() for found in (results, results.elsewhere))
    lacking = [choose.NAMES[system] for system in choose.RIVALS if system in here and system not in there]
    without = f", without {' and '.join(lacking)}" if lacking else ""
    return f"The figures of {whose} are of another sitting: {machine_and_commit(results.elsewhere)}{without}."


def warned(results, brief=False):
    said = warnings(results, brief)
    return [[f"**{' '.join(said)}**"]] if said else []


def readme(results, page):
    """The README's fragment: a short table, by default settings, losses first."""
    table = compared.brief_table(results)
    warning = [sentence for paragraph in warned(results, brief=True) for sentence in paragraph]
    after = [
        f"{machine_and_commit(results)}.",
        second_sitting(results),
        f"The rivals are {others(results)}.",
        "Near cores pass a cache line in less than 60 ns.",
        f"[PERFORMANCE.md](PERFORMANCE.md) and [the report]({page}) have the rest.",
    ]
    after = [sentence for sentence in [*warning, *after] if sentence]
    if table:
        table.after = after
        return markdown(table)
    return "\n".join(wrapped([compared.sentence(results), *after])) + "\n"


def performance(results, page):
    """PERFORMANCE.md's fragment: every table."""
    paragraphs = warned(results)
    paragraphs += [[sentence] for sentence in plain_words(results)] + [described(results)]
    paragraphs.append([f"[The report]({page}) has two pictures; the data lie beside it as `results.json.gz`."])
    text = "\n\n".join("\n".join(wrapped(sentences)) for sentences in paragraphs) + "\n"
    for table in all_tables(results):
        text += f"\n## {table.title}\n\n{markdown(table)}"
    return text + "\n## What is not in here\n\n" + "".join(f"- {line}\n" for line in left_out(results))


def left_out(results):
    """What was not measured, and why, a line each."""
    said = [f"{each.get('entrant')}: not had here: {each.get('why')}" for each in results.skipped]
    said += [
        f"{each.get('entrant')} leaves out, for want of time: {each.get('why')}"
        for each in results.content.get("left_out") or []
    ]
    said += results.missing()
    return said or ["Nothing is missing."]
