"""Random manifests, built by ninja and by seriatim-make; see make.sh and make_versus_ninja.py.

Each manifest has edges of all kinds: restat, depfiles, deps, order-only inputs, validations, phony
names, several outputs, pools, response files, dyndep. After each random edit the two programs have to
run the same edges, end with the same status and leave the same files. They take turns in two folders.
"""

import os
import random
import shutil
import subprocess

SOURCES = 7
EDGES = 22
HEAD = """ninja_required_version = 1.10
pool one
  depth = 1
rule run
  command = sh run.sh '$salt' '$kind' "$out" $in
  description = $out
rule deps
  command = sh run.sh '$salt' '$kind' "$out" $in $extra && echo "$out: $in $extra" > $out.d
  description = $out
  depfile = $out.d
  deps = $style
rule file
  command = sh run.sh '$salt' '$kind' "$out" $in $extra && echo "$out: $in $extra" > $out.d
  description = $out
  depfile = $out.d
rule rsp
  command = sh run.sh '$salt' '$kind' "$out" $$(cat $out.rsp)
  description = $out
  rspfile = $out.rsp
  rspfile_content = $in
"""
# Keeps an output that would be the same, if it is told so. A salt of 'fail' fails.
RUN = """salt=$1 kind=$2 outs=$3; shift 3
[ "$salt" != fail ] || exit 1
for out in $outs; do
    { echo "$salt"; cat /dev/null "$@"; } | cksum | cut -c1 >"$out.tmp"
    if [ "$kind" = same ] && cmp -s "$out.tmp" "$out"; then rm "$out.tmp"; else mv "$out.tmp" "$out"; fi
done
"""


class Manifest:
    """What a manifest is made of, so that it can be changed a little."""

    def __init__(self, chance):
        self.chance, self.edges = chance, []
        files, names = [f"s{number}" for number in range(SOURCES)], []
        for number in range(EDGES):
            some = lambda most, of: chance.sample(of, min(chance.randint(0, most), len(of)))
            edge = {
                "outputs": [f"o{number}"] + ([f"p{number}"] if chance.random() < 0.15 else []),
                "inputs": some(3, files),
                "implicit": some(1, files + names) if chance.random() < 0.4 else [],
                "order": some(2, files + names) if chance.random() < 0.4 else [],
                "validations": some(1, files[SOURCES:]) if chance.random() < 0.1 else [],
                "rule": chance.choices(["run", "deps", "file", "rsp", "phony"], [8, 4, 2, 2, 3])[0],
                "same": chance.random() < 0.4,
                "restat": chance.random() < 0.5,
                "generator": chance.random() < 0.06,
                "pool": chance.random() < 0.1,
                "salt": str(chance.randint(0, 3)),
                "extra": [],
                "dyndep": None,
            }
            if edge["rule"] in ("deps", "file"):
                edge["outputs"] = edge["outputs"][:1]
                edge["extra"] = some(2, files)
                # What is made has to be made before it is read.
                edge["order"] = sorted(set(edge["order"] + [name for name in edge["extra"] if name[0] != "s"]))
            if edge["rule"] in ("run", "rsp") and chance.random() < 0.1:
                edge["dyndep"] = (f"dd{number}", some(2, files[:SOURCES] + files[SOURCES:]))
            if edge["rule"] == "phony":
                edge["outputs"] = [f"n{number}"]
                names.append(f"n{number}")
            else:
                files += edge["outputs"]
            self.edges.append(edge)

    def text(self):
        lines = [HEAD]
        for edge in self.edges:
            order = list(edge["order"])
            if edge["dyndep"]:
                name, _ = edge["dyndep"]
                lines.append(f"build {name}: run {name}.in\n  kind = copy\n  command = cp {name}.in $out")
                order.append(name)
            words = [f"build {edge['outputs'][0]}", *(["|", *edge["outputs"][1:]] if edge["outputs"][1:] else [])]
            words += [":", edge["rule"], *edge["inputs"]]
            for separator, names in (("|", edge["implicit"]), ("||", order), ("|@", edge["validations"])):
                words += [separator, *names] if names else []
            lines.append(" ".join(words).replace(" : ", ": ", 1))
            if edge["rule"] == "phony":
                continue
            lines += [f"  salt = {edge['salt']}", f"  kind = {'same' if edge['same'] else 'new'}", "  style = gcc"]
            lines += [f"  extra = {' '.join(edge['extra'])}"] if edge["extra"] else []
            lines += ["  restat = 1"] if edge["restat"] else []
            lines += ["  generator = 1"] if edge["generator"] else []
            lines += ["  pool = one"] if edge["pool"] else []
            lines += [f"  dyndep = {edge['dyndep'][0]}"] if edge["dyndep"] else []
        return "\n".join(lines) + "\n"

    def write(self, folders):
        for folder in folders:
            with open(f"{folder}/build.ninja", "w") as file:
                file.write(self.text())
            for edge in self.edges:
                if edge["dyndep"]:
                    name, inputs = edge["dyndep"]
                    text = f"ninja_dyndep_version = 1\nbuild {edge['outputs'][0]}: dyndep"
                    put(f"{folder}/{name}.in", text + (f" | {' '.join(inputs)}\n" if inputs else "\n"))

    def edit(self, folders):
        """Changes something in both folders; says what."""
        chance = self.chance
        commands = [edge for edge in self.edges if edge["rule"] != "phony"]
        edge, source = chance.choice(commands), f"s{chance.randrange(SOURCES)}"
        made = chance.choice([name for edge in commands for name in edge["outputs"]])
        kind = chance.choices(
            ["content", "touch", "remove", "touch made", "salt", "fail", "deps", "log", "extra", "dyndep"],
            [6, 3, 4, 2, 3, 2, 0.5, 0.3, 2, 2],
        )[0]
        if kind == "content":
            content = str(chance.randint(0, 2))
            for folder in folders:
                put(f"{folder}/{source}", content)
            return f"{source} has {content}"
        if kind == "touch":
            for folder in folders:
                os.utime(f"{folder}/{source}")
            return f"{source} is touched"
        if kind in ("remove", "touch made"):
            for folder in folders:
                if os.path.exists(f"{folder}/{made}"):
                    (os.remove if kind == "remove" else os.utime)(f"{folder}/{made}")
            return f"{made}: {kind}"
        if kind in ("deps", "log"):
            for folder in folders:
                if os.path.exists(f"{folder}/.ninja_{kind}"):
                    os.remove(f"{folder}/.ninja_{kind}")
            return f".ninja_{kind} is removed"
        if kind == "extra":
            edge["extra"] = [name for name in edge["extra"] if chance.random() < 0.5] + ([source] if edge["rule"] in ("deps", "file") else [])
            edge["extra"] = sorted(set(edge["extra"]))
        elif kind == "dyndep" and edge["dyndep"]:
            edge["dyndep"] = (edge["dyndep"][0], [source])
        else:
            edge["salt"] = "fail" if kind == "fail" else str(chance.randint(0, 3))
        self.write(folders)
        return f"{edge['outputs'][0]}: {kind}"

    def mend(self, folders):
        """No edge fails any more; whether one did."""
        broken = [edge for edge in self.edges if edge["salt"] == "fail"]
        for edge in broken:
            edge["salt"] = "0"
        if broken:
            self.write(folders)
        return bool(broken)


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def files(folder):
    found = {}
    for name in os.listdir(folder):
        if not name.startswith(".ninja_"):
            with open(f"{folder}/{name}", "rb") as file:
                found[name] = file.read()
    return found


def check(programs, root, seed, count, rounds, line):
    """Builds so many manifests. Returns how many edges have run; raises what is not the same."""
    edges = 0
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        shutil.rmtree(root, ignore_errors=True)
        folders = [f"{root}/{name}" for name in ("one", "other")]
        for folder in folders:
            os.makedirs(folder)
            put(f"{folder}/run.sh", RUN)
            for source in range(SOURCES):
                put(f"{folder}/s{source}", "0")
        manifest, what = Manifest(chance), "all is new"
        manifest.write(folders)
        for turn in range(rounds):
            subprocess.run(["sleep", "0.015"], check=True)
            ran = {}
            for program, folder in zip(chance.sample(sorted(programs), 2), folders):
                command = [programs[program], "-C", folder, "-k", "0", "-j", "3"]
                done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                lines = sorted(match[1] for match in map(line.match, done.stdout.splitlines()) if match)
                ran[program] = (done.returncode, lines)
                texts = {**ran.get("texts", {}), program: done.stdout}
                ran["texts"] = texts
            if ran["ninja"] != ran["ours"] or files(folders[0]) != files(folders[1]):
                ran.pop("texts")
                raise AssertionError(f"manifest {number}, turn {turn}, {what}: {ran}; look into {root}\n{texts}")
            edges += len(ran["ours"][1])
            if turn % 3 == 2 and manifest.mend(folders):
                what = "nothing fails any more"
            else:
                what = manifest.edit(folders)
    return edges
