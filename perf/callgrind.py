"""Compares counted instructions with the committed ones; `callgrind.sh` calls it.

callgrind.py compare|update COUNTED LENGTHS BASELINE [WHAT=VALUE ...]
callgrind.py teeth COUNTED LENGTHS BASELINE
callgrind.py feature COUNTED LENGTHS WITH-FEATURE
callgrind.py profile ANNOTATED OPERATIONS

COUNTED is the folder where gungraun leaves its summaries, LENGTHS a file with a line 'workload
operations' for each workload. WITH-FEATURE is such a folder of a build with the feature 'cuda'. The pairs say what else the counts depend on: the compiler and so on.
Exit status: 0, 1 if a count has grown too much or a difference is above its ceiling, 3 if the baseline is of another architecture.
"""

import collections
import json
import pathlib
import re
import sys

# By how many per cent a count may grow: with what it was made with, and with something else.
LIMIT, LIMIT_ELSEWHERE = 3.0, 10.0

# How many instructions an operation the feature 'cuda' may add to a program that uses no device.
WITH_FEATURE = 2.0

# Ceilings on differences between counts: what is compared, the two benchmarks (the first less the
# second), the workloads, how much the difference may be, and the goal where that is another. A
# workload of two names is one for each side, and the difference is divided by the last number.
# An operator's push calls through a table what a single push has inlined: 1 to 3 instructions.
ALL = ["chain", "fan", "independent", "random", "shared-read", "stencil", "unrelated"]
IN_C = ["chain", "random"]
Ceiling = collections.namedtuple("Ceiling", "what one other workloads most goal over", defaults=[None, 1])
CEILINGS = [
    Ceiling("operator - push, naive", "naive_operators", "naive_dynamic", [each for each in ALL if each != "fan"], 6, 0),
    Ceiling("operator - push, naive", "naive_operators", "naive_dynamic", ["fan"], 8, 0),
    Ceiling("operator - push, on the pusher", "per_device_operators_push", "per_device_dynamic_push", ALL, 8, 0),
    Ceiling("operator - push, run by a waiter", "per_device_operators_whole", "per_device_dynamic_whole", ALL, 9, 0),
    Ceiling("operator - push, on the worker", "per_device_operators_worker", "per_device_dynamic_worker", ALL, 40, 0),
    Ceiling("operator - push, in C", "c_operators", "c_push", IN_C, 0),
    Ceiling("a name of a replay", "naive_replay", "naive_replay", [("names-64", "names-8")], 90, over=56),
    Ceiling("push in C - in Rust", "c_push", "naive_dynamic", IN_C, 205, 60),
    Ceiling("asynchronous in C - in Rust", "c_push_async", "naive_async", IN_C, 320, 200),
    Ceiling("typed - by address, one value", "naive_one_typed", "naive_one_by_address", ["chain"], 5),
    Ceiling("typed - by address, two values", "naive_two_typed", "naive_two_by_address", ["chain"], 5),
    Ceiling("typed - by address, four values", "naive_four_typed", "naive_four_by_address", ["chain"], 5),
]


def counted(folder, lengths):
    """Instructions an operation: {benchmark: {workload: number}}."""
    operations = dict(line.split() for line in pathlib.Path(lengths).read_text().splitlines())
    found = collections.defaultdict(dict)
    for path in sorted(pathlib.Path(folder).glob("*/*/summary.json")):
        summary = json.loads(path.read_text())
        workload = summary["id"].replace("_", "-")
        total = summary["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"]
        found[summary["function_name"]][workload] = round(total / int(operations[workload]), 1)
    if not found:
        sys.exit(f"callgrind.py: nothing was counted: no summaries in {folder}")
    return {name: dict(sorted(rows.items())) for name, rows in sorted(found.items())}


def compare(now, baseline, made_with, partly=False):
    """Prints the table; returns what has grown too much, and what is only on one side."""
    differing = {what: (baseline["made with"].get(what), value) for what, value in made_with.items()
                 if baseline["made with"].get(what) != value}
    limit = LIMIT_ELSEWHERE if differing else LIMIT
    before = baseline["instructions an operation"]
    print(f"{'benchmark':<28} {'workload':<12} {'instructions':>12} {'committed':>10} {'change':>8}")
    wrong = []
    names = sorted(set(now) | (set() if partly else set(before)))
    for name in names:
        workloads = set(now.get(name, {})) | (set() if partly else set(before.get(name, {})))
        for workload in sorted(workloads):
            new, old = now.get(name, {}).get(workload), before.get(name, {}).get(workload)
            shown = [f"{value:.1f}" if value is not None else "-" for value in (new, old)]
            if new is None or old is None:
                change, note = "", "only on one side: run with --update"
                wrong.append((name, workload))
            else:
                by = 100 * (new - old) / old
                change, note = f"{by:+.2f} %", ""
                if by > limit:
                    note = f"GREW by more than {limit:.0f} %"
                    wrong.append((name, workload))
                elif by < -LIMIT:
                    note = "better: --update keeps it so"
            print(f"{name:<28} {workload:<12} {shown[0]:>12} {shown[1]:>10} {change:>8}  {note}".rstrip())
    for what, (old, new) in differing.items():
        print(f"\n!!! THE COMMITTED COUNTS WERE MADE WITH ANOTHER {what.upper()}: {old}, and not {new}")
    if differing:
        print(f"!!! so only what grew by more than {limit:.0f} % is held to be wrong here; --update makes counts for this machine")
    return wrong


def above(now, ceilings=CEILINGS):
    """Prints the differences beside their ceilings; returns those that are above them, or that
    cannot be told because a count is missing."""
    print(f"\n{'difference':<33} {'workload':<20} {'instructions':>12} {'at most':>8} {'goal':>6}")
    wrong = []
    for ceiling in ceilings:
        for workload in ceiling.workloads:
            first, second = workload if isinstance(workload, tuple) else (workload, workload)
            counts = now.get(ceiling.one, {}).get(first), now.get(ceiling.other, {}).get(second)
            name = first if first == second else f"{first}, {second}"
            if None in counts:
                shown, note = "-", "a count is missing"
            else:
                difference = round((counts[0] - counts[1]) / ceiling.over, 1)
                shown, note = f"{difference:.1f}", "ABOVE its ceiling" if difference > ceiling.most else ""
            if note:
                wrong.append((ceiling.what, name))
            goal = "" if ceiling.goal is None else ceiling.goal
            print(f"{ceiling.what:<33} {name:<20} {shown:>12} {ceiling.most:>8} {goal:>6}  {note}".rstrip())
    return wrong


def feature(without, built):
    """Prints what the feature costs; returns the counts that are above what it may cost, or that are
    missing on one side."""
    print(f"{'benchmark':<26} {'workload':<10} {'without':>8} {'with':>8} {'more':>6}")
    wrong = []
    for name in sorted(set(without) | set(built)):
        for workload in sorted(set(without.get(name, {})) | set(built.get(name, {}))):
            counts = without.get(name, {}).get(workload), built.get(name, {}).get(workload)
            if None in counts:
                shown, note = "", f"a count is missing: {counts}"
            else:
                more = round(counts[1] - counts[0], 1)
                shown = f"{counts[0]:>8.1f} {counts[1]:>8.1f} {more:>+6.1f}"
                note = "ABOVE what the feature may cost" if more > WITH_FEATURE else ""
            if note:
                wrong.append((name, workload))
            print(f"{name:<26} {workload:<10} {shown}  {note}".rstrip())
    return wrong


def top(annotated, operations):
    """Prints the functions with the most instructions of their own, from the output of
    callgrind_annotate."""
    functions, files = collections.Counter(), collections.Counter()
    for line in pathlib.Path(annotated).read_text().splitlines():
        match = re.match(r"\s*([\d,]+)\s(?:\(.*?%\))?\s*(\S+?):(.+?)(?: \[[^\]]*\])?$", line)
        if match:
            own = int(match[1].replace(",", ""))
            functions[re.sub(r"::h[0-9a-f]{16}$", "", match[3])] += own
            # Inlined functions count where they were written, so that files tell more than
            # functions.
            files[re.sub(r"^.*/(?=[^/]+/src/|library/|sysdeps/)", "", match[2])] += own
    total = sum(functions.values())
    for title, counts in (("function, with what is inlined into it", functions), ("written in", files)):
        print(f"\n{'an operation':>12} {'share':>7}  {title}")
        for name, own in counts.most_common(25):
            if own >= total / 200:
                print(f"{own / operations:>12.1f} {100 * own / total:>6.1f}%  {name}")
    print(f"{total / operations:>12.1f} {100:>6.1f}%  all")


def main():
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "profile":
        top(arguments[0], int(arguments[1]))
        return 0
    now = counted(*arguments[:2])
    if what == "feature":
        wrong = feature(now, counted(arguments[2], arguments[1]))
        print(f"\n{len(wrong)} counts are wrong" if wrong else
              f"\nwith the feature at most {WITH_FEATURE:.0f} instructions an operation more")
        return 1 if wrong else 0
    path = pathlib.Path(arguments[2])
    made_with = dict(pair.split("=", 1) for pair in arguments[3:])
    if what == "update":
        content = {"made with": made_with, "instructions an operation": now}
        path.write_text(json.dumps(content, indent=2) + "\n")
        print(f"wrote {path}: {sum(map(len, now.values()))} counts")
        return 0
    baseline = json.loads(path.read_text())
    if what == "teeth":
        # Against a baseline of the same build without the seeded work, so with the strict limit.
        wrong = compare(now, baseline, {}, partly=True)
        missed = sum(map(len, now.values())) - len(wrong)
        print(f"\nseeded work noticed in {len(wrong)} counts, missed in {missed}")
        return 0 if wrong and not missed else 1
    if baseline["made with"]["architecture"] != made_with["architecture"]:
        print(f"skipped: the committed counts are of {baseline['made with']['architecture']}")
        return 3
    wrong, over = compare(now, baseline, made_with), above(now)
    print(f"\n{len(wrong)} counts are wrong" if wrong else f"\nall {sum(map(len, now.values()))} counts hold")
    print(f"{len(over)} differences are above their ceilings" if over else "all differences hold")
    if baseline["made with"] != made_with:
        over = []
        print("the ceilings are of the committed counts' compiler and C library: here they are only shown")
    return 1 if wrong or over else 0


if __name__ == "__main__":
    sys.exit(main())
