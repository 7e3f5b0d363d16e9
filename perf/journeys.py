"""journeys.py PROGRAM [WAY ...]: the work of journeys.sh."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

# The most files that a way may come through with a step in each: as many as it does. A new one is
# argued, or done without.
MOST = {"push": 21, "inline": 20, "completion": 15, "wait": 11, "replay": 27}
# So many instructions are a step. One or two are what is left of a test of a flag or of a call, and
# come and go as the compiler inlines.
STEP = 3
# The files with most of the instructions, until they have so much of them, are the ones to read.
MAIN = 0.9
# Files that hold no step: the compiler puts lines of constants and wrappers there.
NO_STEP = {"sync/mod.rs"}


def files(program, way):
    """The files of src/ with instructions that were executed on the way, by the number of these."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", f"--toggle-collect=*journey_{way}*", program, way]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"journeys.py: {way}: {done.stdout}")
        text = out.read_text()
    names, counts, current, called = {}, {}, None, False
    for line in text.splitlines():
        # The file of what follows; a number stands for a name that was given once.
        where = re.match(r"(fl|fi|fe|cfi|cfl)=\((\d+)\)(?: (.*))?$", line)
        if where:
            if where[3]:
                names[where[2]] = where[3]
            if where[1] in ("fl", "fi", "fe"):
                current = names[where[2]]
        elif line.startswith("calls="):
            called = True
        elif re.match(r"[+*-]?\d* ?\d+", line) and current:
            # The line behind 'calls' is what the callee took, which counts there.
            if not called:
                counts[current] = counts.get(current, 0) + int(line.split()[-1])
            called = False
    root = str(pathlib.Path("src").resolve()) + "/"
    ours = {(name.removeprefix(root) if name.startswith(root) else name.removeprefix("src/")): count
            for name, count in counts.items() if name.startswith((root, "src/"))}
    return {name: count for name, count in ours.items() if name not in NO_STEP}


def main():
    program, *ways = sys.argv[1:]
    unknown = set(ways) - set(MOST)
    if unknown:
        print(f"no such way: {', '.join(sorted(unknown))}; there are {', '.join(MOST)}", file=sys.stderr)
        sys.exit(2)
    # Another compiler inlines other functions: then the files are only shown.
    counts = json.loads((pathlib.Path(__file__).parent / "instructions.json").read_text())
    compiler = subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    is_known = counts["made with"]["compiler"] == compiler
    if not is_known:
        print(f"the bounds are of {counts['made with']['compiler']}: here they are only shown")
    wrong = False
    for way in ways or MOST:
        found = files(program, way)
        steps = sum(count >= STEP for count in found.values())
        wrong = wrong or steps > MOST[way] or not steps
        total, seen, main_ones = sum(found.values()), 0, 0
        ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        for _, count in ordered:
            main_ones += seen < MAIN * total
            seen += count
        print(f"{way}: {total} instructions in {len(found)} files, steps in {steps} (at most {MOST[way]}), {MAIN:.0%} of them in {main_ones}")
        for name, count in ordered:
            print(f"  {count:>5} in {name}")
    sys.exit(wrong and is_known)


main()
