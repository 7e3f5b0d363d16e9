"""The work of scripts/mutants.sh."""

import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

# A model that finds a mutant does so in seconds; one that hangs has found nothing.
PATIENCE = 120
# Without a mutant a model is explored to its end, which may take a slow machine minutes.
PATIENCE_WITHOUT = 900
MODELS = "--package loom-tests"
COUNTED = "--package seriatim"
DRIVEN = "--package seriatim --features cuda"
TENSOR = "--package seriatim-tensor"
CONFIGURATIONS = {
    "epoch": ("loom-epoch-mutants", "--cfg loom --cfg crossbeam_loom", MODELS),
    "shuttle": ("shuttle-mutants", "--cfg shuttle", MODELS),
    "shuttle_group": ("shuttle-mutants", "--cfg shuttle", MODELS),
    "shuttle_common": ("shuttle-mutants", "--cfg shuttle", MODELS),
    "shuttle_devices": ("shuttle-mutants", "--cfg shuttle", MODELS),
    "shuttle_mixed": ("shuttle-mutants", "--cfg shuttle", MODELS),
    # Not models: they count the steps of the code that ships, or use it as programs do. `lib` are
    # the unit tests.
    "lib": ("counted-mutants", "", COUNTED),
    "run_now": ("counted-mutants", "", COUNTED),
    "tail": ("counted-mutants", "", COUNTED),
    "idle": ("counted-mutants", "", COUNTED),
    "slices": ("counted-mutants", "", COUNTED),
    "graphs": ("counted-mutants", "", COUNTED),
    "gpu": ("counted-mutants", "", COUNTED),
    "cuda_engine": ("counted-mutants", "", DRIVEN),
    "standing": ("counted-mutants", "", COUNTED),
    "life": ("counted-mutants", "", COUNTED),
    "errors": ("counted-mutants", "", COUNTED),
    "faults": ("counted-mutants", "", COUNTED),
    "futures": ("counted-mutants", "", COUNTED),
    "reports": ("counted-mutants", "", COUNTED),
    "interface": ("counted-mutants", "", COUNTED),
    "typed": ("counted-mutants", "", COUNTED),
    "scopes": ("counted-mutants", "", COUNTED),
    "cancellation": ("counted-mutants", "", COUNTED),
    "modes": ("counted-mutants", "", COUNTED),
}
OTHERS = ("loom-mutants", "--cfg loom", MODELS)


def configuration(file):
    """The folder that a file is built in, the flags, and the package. `tensor/` has the arrays' tests."""
    return ("counted-mutants", "", TENSOR) if file.startswith("tensor/") else CONFIGURATIONS.get(file, OTHERS)



TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve()
TREE = TARGET / "mutants" / "tree"
PATCHES = pathlib.Path("mutants")
# What a file of the tree begins its imports with, if a patch is for it.
IMPORT = "#[allow(unused_imports)]\nuse crate::mutants::{mutant, mutate};\n"
# The files that patches are for. The models include some of the C interface's and of the arrays':
# what they name is then that of the models' own package.
SOURCES = ("src/", "capi/src/", "tensor/src/")
INCLUDER = "loom-tests/src/lib.rs"
MODULE = b'\n#[cfg(loom)]\n#[path = "../../src/mutants.rs"]\nmod mutants;\n'
# What a build of the models and of the tests does not need.
LEFT_OUT = ("perf/results/", "docs/", "mutants/", ".github/")


def patch_of(source):
    """The patch that puts the mutants into a file of the source."""
    parts = [part for part in source.with_suffix("").parts if part != "src"]
    return PATCHES / ("-".join(parts) + ".patch")


def sources(root):
    """The files of the source, by their paths in the repository."""
    return {path.relative_to(root) for folder in SOURCES for path in (root / folder).rglob("*.rs")}


def put(path, content):
    """Writes a file, if it would change: cargo builds again what is newer."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def make_tree(strict=True):
    """Copies the repository into TREE, with the mutants in it."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, stdout=subprocess.PIPE, check=True, text=True).stdout.split("\0")
    files = {name for name in names if name and not name.startswith(LEFT_OUT) and pathlib.Path(name).is_file()}
    patched = pathlib.Path(f"{TREE}.new")
    shutil.rmtree(patched, ignore_errors=True)
    content = {}
    for name in files:
        content[name] = pathlib.Path(name).read_bytes()
        if name.startswith(SOURCES):
            put(patched / name, content[name])
    # Outside of any repository, as far as git knows: else it would look for the files in ours.
    environment = dict(os.environ, GIT_CEILING_DIRECTORIES=str(patched.parent))
    failed = []
    for patch in sorted(PATCHES.glob("*.patch")):
        command = ["git", "apply", "-C1", "--recount", *([] if strict else ["--reject"]), str(patch.resolve())]
        done = subprocess.run(command, cwd=patched, env=environment, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            failed.append(f"{patch} does not apply:\n{done.stderr}")
    for source in sources(patched):
        text = (patched / source).read_text()
        if patch_of(source).exists() and source.name != "lib.rs":
            text = re.sub(r"^use ", IMPORT + "use ", text, count=1, flags=re.M)
        content[str(source)] = text.encode()
    content["src/mutants.rs"] = (PATCHES / "mutants.rs").read_bytes()
    content[INCLUDER] += MODULE
    for name, bytes_ in content.items():
        put(TREE / name, bytes_)
    for source in sources(TREE):
        if str(source) not in content:
            (TREE / source).unlink()
    if failed and strict:
        sys.exit("\n".join(failed) + "\nmutants/README.md says how to mend that")
    print("\n".join(failed), end="")


def record():
    """Writes the patches anew, from TREE."""
    written = set()
    for source in sorted(sources(TREE) - {pathlib.Path("src/mutants.rs")}):
        ours, theirs = (path.read_text().replace(IMPORT, "").splitlines(True) for path in (source, TREE / source))
        difference = "".join(difflib.unified_diff(ours, theirs, f"a/{source}", f"b/{source}"))
        if difference:
            patch_of(source).write_text(difference)
            written.add(patch_of(source))
    for patch in set(PATCHES.glob("*.patch")) - written:
        patch.unlink()
    print(f"{len(written)} patches in {PATCHES}/")


def listed():
    """The mutants of the list: (name, invariant, file, model)."""
    lines = (PATCHES / "list.txt").read_text().splitlines()
    return [tuple(line.split()) for line in lines if line.strip() and not line.startswith("#")]


def in_source():
    """The mutants that the tree knows."""
    text = "".join((TREE / path).read_text() for path in sources(TREE) if path.name != "mutants.rs")
    return set(re.findall(r'\bmut(?:ate!|ant)\("([^"]+)"', text))


def build(files):
    """Builds the models of some files with the mutants in them; returns the program of each file."""
    programs = {}
    for folder, cfg, which in sorted({configuration(file) for file in files}):
        flags = f"{os.environ.get('RUSTFLAGS', '')} {cfg}"
        environment = dict(os.environ, RUSTFLAGS=flags, CARGO_TARGET_DIR=f"{TARGET}/{folder}")
        wanted = {pathlib.Path(file).name: file for file in sorted(files) if configuration(file) == (folder, cfg, which)}
        targets = [word for name in wanted for word in (["--lib"] if name == "lib" else ["--test", name])]
        command = ["cargo", "test", "--release", *which.split(), *targets, "--no-run"]
        built = subprocess.run(command, cwd=TREE, env=environment, stderr=subprocess.PIPE, text=True)
        if built.returncode != 0:
            sys.exit(built.stderr)
        for name, path in re.findall(r"(?:tests/|unittests src/)(\w+)\.rs \((\S+)\)", built.stderr):
            if name in wanted:
                programs[wanted[name]] = path
    return programs


def run(program, model, mutant):
    """Runs one model; returns whether it held ('held', 'failed', 'hung'), the seconds, and the execution in which it failed."""
    environment = dict(os.environ, CHOSEN_MUTANT=mutant, RUST_BACKTRACE="0")
    command = [program, model, "--exact", "--nocapture", "--test-threads=1"]
    begin = time.time()
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE if mutant else PATIENCE_WITHOUT,
            text=True, errors="replace",
        )
    except subprocess.TimeoutExpired:
        return "hung", time.time() - begin, ""
    seconds = time.time() - begin
    output = done.stdout
    if "running 1 test" not in output:
        return "no such model", seconds, ""
    # A mutant that only makes a model shorter than its floor was not found.
    if done.returncode == 0 or (mutant and "is vacuous" in output):
        return "held", seconds, ""
    reason = re.findall(
        r"^(Causality violation.*|deadlock[;!].*|assertion .*|.*(?:lost|twice|early|reused|vacuous|overlap|exceeded|steps).*)$", output, re.M
    )
    execution = re.findall(r"fails in execution (\d+)", output)
    return "failed", seconds, (f"execution {execution[0]}: " if execution else "") + (reason[0] if reason else "it fails")


def tried(file, program, model, mutant):
    """Runs a finder, again if need be: what uses real threads may lose its core in the moment that tells."""
    expected = "failed" if mutant else "held"
    for attempt in range(1 if configuration(file)[2] == MODELS else 3):
        outcome, seconds, how = run(program, model, mutant)
        if outcome == expected:
            break
    return outcome, seconds, how + (f" (at try {attempt + 1})" if attempt else "")


def slice_of(mutants, which, slices):
    """One of so many slices of the mutants, with all that one file finds: so each slice builds few files.
    The tests of the arrays are all in one."""
    of = defaultdict(list)
    for mutant in mutants:
        of[mutant[2].split("/")[0]].append(mutant)
    dealt = [[] for _ in range(slices)]
    for file in sorted(of, key=lambda file: (-len(of[file]), file)):
        min(dealt, key=len).extend(of[file])
    return dealt[which]


def explored():
    """What scripts/loom.sh wrote down, if it has run: with a line for each model that it began."""
    path = TARGET / "models.txt"
    return path.read_text(errors="replace") if path.exists() else ""


def table_of_models(killed):
    """Every model that was explored last, with what it found."""
    lines = explored()
    if not lines:
        print("(no table of models: scripts/loom.sh has not run)")
        return
    print(f"\n{'model':<86} {'executions':>10} {'bound':<14} {'seconds':>7}  mutants")
    file, test, shown = "", "", set()
    for line in lines.splitlines():
        test = (re.match(r"test (\w+) \.\.\.", line) or [None, test])[1]
        model = re.search(r"model (.*): (\d+) (executions|schedules)(?:, (at most \d+) preemptions| of (\d+ threads))?.*, ([\d.]+) s", line)
        if not model:
            continue
        name, count, _, bound, threads, seconds = model.groups()
        found = [] if test in shown else killed[test]
        shown.add(test)
        print(f"{name[:86]:<86} {count:>10} {bound or threads or '':<14} {seconds:>7}  {len(found) or ''}")
        for mutant in found:
            print(f"{'':<86} {'':>10} {'':<14} {'':>7}    {mutant}")


def main():
    if sys.argv[1:] in (["--tree"], ["--record"]):
        return make_tree(strict=False) if sys.argv[1] == "--tree" else record()
    make_tree()
    mutants = listed()
    names = {name for name, *_ in mutants}
    wrong = sorted(names ^ in_source())
    if wrong:
        sys.exit(f"in the patches and not in mutants/list.txt, or the other way round: {', '.join(wrong)}")
    arguments = sys.argv[1:]
    if arguments == ["--check"]:
        return
    known, within = set(), None
    if arguments[:1] == ["--slice"]:
        # Who takes a slice has just explored the models, and would have stopped if one had not held.
        known = set(re.findall(r"^test (\w+) \.\.\.", explored(), re.M))
        which, slices = map(int, arguments[1].split("/"))
        mutants = slice_of(mutants, which % slices, slices)
        # Where there is not time for all of them, they are not the same ones each time.
        first = which // slices % len(mutants)
        mutants = mutants[first:] + mutants[:first]
        left = names - {name for name, *_ in mutants}
        print(f"slice {which % slices} of {slices}: {len(left)} mutants are left out", flush=True)
        within = int(arguments[3]) if arguments[2:3] == ["--within"] else None
        arguments = []
    chosen = [mutant for mutant in mutants if not arguments or mutant[0] in arguments]
    unknown = set(arguments) - names
    if unknown or not chosen:
        sys.exit(f"no such mutant: {', '.join(sorted(unknown))}")
    programs = build({file for _, _, file, _ in chosen})
    # What one model finds, together: without a mutant, it holds. So what fails with one fails because of it.
    found_by = defaultdict(list)
    for name, invariant, file, model in chosen:
        found_by[file, model].append((name, invariant))
    end = time.time() + within if within else float("inf")

    def try_all(of):
        """The outcome of a model without a mutant, if that is not known, and with each of its mutants."""
        (file, model), mutants = of
        names = ([] if model in known else [""]) + [name for name, _ in mutants]
        late = ("late", 0, "")
        return {name: tried(file, programs[file], model, name) if time.time() < end else late for name in names}

    failures = left_out = held = 0
    killed = defaultdict(list)
    print(f"{'mutant':<40} {'breaks':<7} {'seconds':>7}  found by", flush=True)
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        for ((file, model), mutants), outcomes in zip(found_by.items(), pool.map(try_all, found_by.items())):
            outcome, seconds, _ = outcomes.get("", ("held", 0, ""))
            if outcome not in ("held", "late"):
                failures += 1
                print(f"{file}::{model} does not hold without a mutant ({outcome}, {seconds:.1f} s)", flush=True)
            held += "" in outcomes and outcome == "held"
            for name, invariant in mutants:
                outcome, seconds, how = outcomes[name]
                if outcome == "late":
                    left_out += 1
                elif outcome == "failed":
                    killed[model].append(name)
                    print(f"{name:<40} {invariant:<7} {seconds:>7.1f}  {file}::{model}: {how[:110]}", flush=True)
                else:
                    failures += 1
                    print(f"{name:<40} {invariant:<7} {seconds:>7.1f}  SURVIVES {file}::{model} ({outcome})", flush=True)
    print(f"\n{held} models were explored without a mutant, and hold")
    if not sys.argv[1:]:
        table_of_models(killed)
    if left_out:
        print(f"\nleft out for time: {left_out} mutants of the slice")
    print(f"\n{len(chosen) - left_out} mutants, {sum(map(len, killed.values()))} found, {failures} failures")
    sys.exit(1 if failures else 0)


main()
