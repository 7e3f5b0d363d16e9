"""Is one commit faster than another? scripts/compare.sh says how to ask.

Both commits get the present perf/, so that the same harness measures both, and lie in folders of
the same depth with their own targets. They run in turns (A B, B A, A B, ...), so that whatever the
machine does meets both alike. A ratio is taken within a turn; the table has the median of the
ratios with its bootstrap interval of 95 %. An interval without 1 is called a difference: of
comparisons between equal commits, one in twenty will be.
"""

import argparse
from collections import defaultdict
from dataclasses import dataclass
import json
import os
from pathlib import Path
import re
import resource
import shutil
import subprocess
import sys
import time

from . import intervals
from .load import WORKLOADS

ENTRANTS = ["seriatim-naive", "seriatim-per-device-1", "seriatim-per-device-1 operators"]
# The rule of BENCHMARKS.md: more of a core than this used by others, and a turn does not count.
MOST_FOREIGN = 0.1
# So many disturbed turns for each that is wanted are run again, then they are kept: a busy machine
# must not keep us for ever.
RERUNS_FOR_EACH = 2
RUN_SECONDS = 600


class Failure(Exception):
    """Something that the user has to be told, without a trace."""


def run(command, **options):
    """Runs a command whose output is shown only if it fails."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        lines = "\n".join(done.stdout.splitlines()[-25:])
        raise Failure(f"`{' '.join(map(str, command))}` failed:\n{lines}")
    return done.stdout


# Making the two trees


def copy_working_tree(root, folder, part="."):
    """Copies what git knows or would take up, as it is now, and nothing that is ignored."""
    names = (
        subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", part],
            cwd=root,
            check=True,
            stdout=subprocess.PIPE,
        )
        .stdout.decode()
        .split("\0")
    )
    for name in set(filter(None, names)):
        source, target = root / name, folder / name
        if source.is_file():  # A file that was deleted is still in the index.
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def extract(root, revision, folder):
    """The tree of a commit. An archive and not a worktree: it leaves nothing behind in the
    repository when it is interrupted."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", revision], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if archive.returncode != 0:
        raise Failure(f"no such commit: {revision}: {archive.stderr.decode().strip()}")
    # --touch: cargo compares times, and with those of an older commit nothing would seem changed.
    subprocess.run(["tar", "--extract", "--touch", "--directory", folder], input=archive.stdout, check=True)


def with_member(manifest, present):
    """The root Cargo.toml of a commit, with perf in its workspace and the tables that perf inherits
    from."""
    members = re.search(r"members\s*=\s*\[(.*?)\]", manifest, re.S)
    if not members:
        manifest = '[workspace]\nmembers = ["perf"]\n\n' + manifest
    elif '"perf"' not in members.group(1):
        listed = ", ".join(filter(None, [members.group(1).strip().rstrip(","), '"perf"']))
        manifest = manifest[: members.start()] + f"members = [{listed}]" + manifest[members.end() :]
    for table in re.findall(r"^\[workspace\.[^\]]+\]\n(?:(?!\[).*\n)*", present, re.M):
        if table.splitlines()[0] not in manifest:
            manifest += "\n" + table
    return manifest


def prepare(root, revision, folder):
    """Makes the tree of a commit, or of the working tree for `.`, with the present harness."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    if revision == ".":
        copy_working_tree(root, folder)
    else:
        extract(root, revision, folder)
        shutil.rmtree(folder / "perf", ignore_errors=True)
        copy_working_tree(root, folder, "perf")
        manifest = folder / "Cargo.toml"
        manifest.write_text(with_member(manifest.read_text(), (root / "Cargo.toml").read_text()))
    lock, present = folder / "Cargo.lock", root / "Cargo.lock"
    # A lock that does not know perf would get whatever is newest for it.
    if present.exists() and (not lock.exists() or 'name = "seriatim-perf"' not in lock.read_text()):
        shutil.copy(present, lock)


def build(folder, target):
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target), CARGO_TERM_COLOR="never")
    run(["cargo", "build", "--release", "-p", "seriatim-perf"], cwd=folder, env=environment)
    return target / "release" / "seriatim-perf"


def described(root, revision):
    """What a revision is, for the reader."""
    if revision == ".":
        changed = run(["git", "status", "--porcelain"], cwd=root).strip()
        return (
            "the working tree, "
            + run(["git", "describe", "--always"], cwd=root).strip()
            + (" with changes" if changed else "")
        )
    return run(["git", "log", "-1", "--format=%h %s", revision], cwd=root).strip()


# Measuring


def parse_stat(text):
    """Ticks of all cores that were spent on anything, from /proc/stat. Stolen ticks count: another
    machine had the core."""
    fields = [int(field) for field in text.splitlines()[0].split()[1:]]
    user, nice, system, _, _, interrupt, soft, steal = (fields + [0] * 8)[:8]
    return user + nice + system + interrupt + soft + steal


def busy_ticks():
    try:
        return parse_stat(Path("/proc/stat").read_text())
    except (OSError, ValueError, IndexError):
        return None


def foreign_cores(before, after, own_seconds, elapsed, ticks=os.sysconf("SC_CLK_TCK")):
    """How many cores others used meanwhile; None if the system does not say."""
    if before is None or after is None or elapsed <= 0 or after == 0:
        return None
    return max(0.0, (after - before) / ticks - own_seconds) / elapsed


def times(output):
    """{(workload, entrant): ns} of the lines that the driver prints."""
    found = {}
    for line in output.splitlines():
        if line.startswith("{"):
            record = json.loads(line)
            if record.get("kind") == "throughput":
                found[record["workload"], record["entrant"]] = record["ns"]
    return found


def processor_seconds():
    """Of this process and the children that have ended."""
    return sum(
        use.ru_utime + use.ru_stime for use in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def measure(binary, entrant, options):
    """One process: its times, and how much of a core others used meanwhile."""
    command = [binary, "measure", "throughput", "--entrant", entrant]
    if options.operations:
        command += ["--operations", str(options.operations)]
    for workload in options.workload or []:
        command += ["--workload", workload]
    ticks, own, start = busy_ticks(), processor_seconds(), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=RUN_SECONDS)
    elapsed = time.monotonic() - start
    foreign = foreign_cores(ticks, busy_ticks(), processor_seconds() - own, elapsed)
    if done.returncode != 0 or not times(done.stdout):
        raise Failure(f"{binary} measured nothing for {entrant} (exit {done.returncode}):\n{done.stderr[-2000:]}")
    return times(done.stdout), foreign


def turn(repetition):
    """Who goes first."""
    return "AB" if repetition % 2 == 0 else "BA"


@dataclass
class Sitting:
    """Everything that was measured: {(workload, entrant): [(A ns, B ns), ...]}, a pair a
    repetition."""

    pairs: dict
    discarded: int = 0
    kept_disturbed: int = 0
    foreign_unknown: bool = False


def measure_all(binaries, options):
    sitting = Sitting(defaultdict(list))
    reruns_left = {entrant: RERUNS_FOR_EACH * options.repetitions for entrant in options.entrant}
    for repetition in range(options.repetitions):
        for entrant in options.entrant:
            attempts = []
            while True:
                found = {name: measure(binaries[name], entrant, options) for name in turn(repetition)}
                shares = [share for _, share in found.values()]
                sitting.foreign_unknown |= None in shares
                attempts.append((max(share or 0.0 for share in shares), len(attempts), found))
                if attempts[-1][0] <= MOST_FOREIGN or reruns_left[entrant] == 0:
                    break
                # Both of them again: a pair is one sitting.
                reruns_left[entrant] -= 1
                sitting.discarded += 1
            # If none was quiet, the quietest.
            foreign, _, found = min(attempts, key=lambda attempt: attempt[:2])
            sitting.kept_disturbed += foreign > MOST_FOREIGN
            (a_times, _), (b_times, _) = found["A"], found["B"]
            for key in a_times.keys() & b_times.keys():
                sitting.pairs[key].append((a_times[key], b_times[key]))
        print(
            f"\rrepetition {repetition + 1} of {options.repetitions}, {sitting.discarded} disturbed turns thrown away ",
            end="",
            file=sys.stderr,
            flush=True,
        )
    print(file=sys.stderr)
    return sitting


# Judging


@dataclass
class Line:
    """A row of the table; `ratio` is B's time over A's, so below 1 B is faster."""

    workload: str
    entrant: str
    a_ns: float
    b_ns: float
    ratio: float
    low: float
    high: float

    @property
    def verdict(self):
        if self.low <= 1 <= self.high:
            return "no difference seen"
        return "faster" if self.ratio < 1 else "slower"


def judge(pairs):
    """A line for each workload and entrant that both have."""

    def place(key):
        workload, entrant = key
        return (
            (WORKLOADS.index(workload) if workload in WORKLOADS else len(WORKLOADS), workload),
            ENTRANTS.index(entrant) if entrant in ENTRANTS else len(ENTRANTS),
            entrant,
        )

    lines = []
    for workload, entrant in sorted(pairs, key=place):
        measured = pairs[workload, entrant]
        ratios = [b / a for a, b in measured]
        low, high = intervals.bootstrap(ratios)
        lines.append(
            Line(
                workload,
                entrant,
                intervals.median([a for a, _ in measured]),
                intervals.median([b for _, b in measured]),
                intervals.median(ratios),
                low,
                high,
            )
        )
    return lines


def shown(lines):
    rows = [["workload", "entrant", "A ns", "B ns", "B / A", "95 % interval", "B is"]]
    rows += [
        [
            line.workload,
            line.entrant,
            f"{line.a_ns:.1f}",
            f"{line.b_ns:.1f}",
            f"{line.ratio:.3f}",
            f"{line.low:.3f} to {line.high:.3f}",
            line.verdict,
        ]
        for line in lines
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if 2 <= column <= 5 else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="scripts/compare.sh", description="Compares the throughput of two commits.")
    parser.add_argument("a", nargs="?", default="main~1", help="a commit, or . for the working tree (default main~1)")
    parser.add_argument("b", nargs="?", default=".", help="the same (default .)")
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--operations", type=int, help="operations of a workload; the driver's own number if not given")
    parser.add_argument("--entrant", action="append", help=f"may be repeated; {', '.join(ENTRANTS)} if not given")
    parser.add_argument("--workload", action="append", help="may be repeated; all if not given")
    parser.add_argument("--save", help="a file for the pairs of times, as JSON")
    options = parser.parse_args(arguments)
    options.entrant = options.entrant or ENTRANTS
    if options.repetitions < 6:
        parser.error("an interval needs at least 6 repetitions")
    return options


def compare(root, options):
    work = root / "target" / "compare"
    binaries = {}
    for name, revision in (("A", options.a), ("B", options.b)):
        print(f"{name}: {described(root, revision)}", flush=True)
        prepare(root, revision, work / name)
        binaries[name] = build(work / name, work / f"target-{name}")
    sitting = measure_all(binaries, options)
    lines = judge(sitting.pairs)
    print(shown(lines))
    different = sum(line.verdict != "no difference seen" for line in lines)
    print(
        f"{len(lines)} comparisons, {different} with a difference; of equal programs about {len(lines) * 0.05:.1f}"
        f" would seem to differ by chance. Medians of {options.repetitions} pairs; {sitting.discarded} disturbed pairs"
        f" thrown away, {sitting.kept_disturbed} kept."
    )
    if sitting.kept_disturbed:
        print("The machine was not quiet: the kept ones make the intervals wide, and may hide a difference.")
    if sitting.foreign_unknown:
        print("This system does not say what others use: no pair could be called disturbed.")
    if options.save:
        Path(options.save).write_text(json.dumps([[*key, pairs] for key, pairs in sitting.pairs.items()]))


def main(arguments):
    options = options_of(arguments)
    try:
        compare(Path(__file__).resolve().parents[2], options)
    except (Failure, subprocess.TimeoutExpired) as failure:
        print(f"compare.sh: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
