"""Builds a CMake project with ninja and with seriatim-make; see make.sh.

There are two trees, which are equal and always built at the same path, so that all that is built has
the same bytes. Each edit is made in both. Now and then the two programs exchange their trees.
"""

import argparse
import hashlib
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time

import make_manifests

LIBRARIES = 8
SOURCES = 28
CLEAN_BOUND = 1.05
NOTHING_BOUND = 0.020
LOGS = {".ninja_log", ".ninja_deps", ".ninja_lock"}
LINE = re.compile(r"^\[\d+/\d+\] (.*)$")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def synthetic(source):
    """Eight libraries, each with a header that is generated and used by the next one as well."""
    lists = [
        "cmake_minimum_required(VERSION 3.16)",
        "project(synthetic C)",
        "set(CMAKE_C_FLAGS \"-O1\")",
        "set_property(GLOBAL PROPERTY JOB_POOLS link=2)",
        "set(CMAKE_JOB_POOL_LINK link)",
        "include_directories(include ${CMAKE_BINARY_DIR}/generated)",
    ]
    for library in range(LIBRARIES):
        header = f"${{CMAKE_BINARY_DIR}}/generated/values{library}.h"
        spec = f"${{CMAKE_SOURCE_DIR}}/specs/values{library}.txt"
        names = " ".join(f"lib{library}/part{source}.c" for source in range(SOURCES))
        lists += [
            # The header is written only if it would be another one: its stamp is the command's.
            f"add_custom_command(OUTPUT values{library}.stamp BYPRODUCTS {header}",
            f"  COMMAND sh ${{CMAKE_SOURCE_DIR}}/generate.sh {spec} {header}.new {library}",
            f"  COMMAND ${{CMAKE_COMMAND}} -E copy_if_different {header}.new {header}",
            f"  COMMAND ${{CMAKE_COMMAND}} -E touch values{library}.stamp",
            f"  DEPENDS {spec} ${{CMAKE_SOURCE_DIR}}/generate.sh COMMENT \"Generating values{library}.h\")",
            f"add_custom_target(generate{library} DEPENDS values{library}.stamp)",
            f"add_library(part{library} STATIC {names})",
            f"add_dependencies(part{library} generate{library})",
            f"add_executable(main{library} main{library}.c)",
            f"target_link_libraries(main{library} part{library})",
        ]
        if library > 0:
            lists += [
                f"add_dependencies(generate{library} generate{library - 1})",
                f"target_link_libraries(part{library} part{library - 1})",
            ]
        write(f"{source}/specs/values{library}.txt", f"# what library {library} has\nSIZE {library + 3}\nSTEP 2\n")
        write(f"{source}/include/common{library}.h", f"static inline int common{library}(int x) {{ return x + {library}; }}\n")
        calls = "".join(f"int part{library}_{part}(int);\n" for part in range(SOURCES))
        total = " + ".join(f"part{library}_{part}({part})" for part in range(SOURCES))
        write(f"{source}/main{library}.c", f"{calls}int main(void) {{ return ({total}) == 0; }}\n")
        for part in range(SOURCES):
            used = max(library - part % 2, 0)
            write(
                f"{source}/lib{library}/part{part}.c",
                f'#include "common{(library + part) % LIBRARIES}.h"\n#include "values{used}.h"\n#include <stdio.h>\n'
                f"int part{library}_{part}(int x) {{\n  int table[SIZE{used}];\n"
                f"  for (int i = 0; i < SIZE{used}; i++) table[i] = common{(library + part) % LIBRARIES}(x * i + {part});\n"
                f'  if (x < 0) printf("%d\\n", table[0]);\n  return table[SIZE{used} - 1] * STEP{used};\n}}\n',
            )
    # A command that has the terminal.
    lists += [
        "add_custom_command(OUTPUT report.txt COMMAND ${CMAKE_COMMAND} -E touch report.txt DEPENDS main0 USES_TERMINAL)",
        "add_custom_target(report ALL DEPENDS report.txt)",
    ]
    write(f"{source}/generate.sh", 'grep -v "^#" "$1" | sed "s/^\\([A-Z]*\\) /#define \\1$3 /" >"$2"\n')
    write(f"{source}/CMakeLists.txt", "\n".join(lists) + "\n")


def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Failure(Exception):
    """Something is not the same."""


class Ran:
    def __init__(self, finished, seconds, work):
        self.code, self.seconds, self.text = finished.returncode, seconds, finished.stdout
        self.work = work  # processor time of the program and of all that it ran
        self.lines = sorted(match[1] for match in map(LINE.match, finished.stdout.splitlines()) if match)


class Bench:
    def __init__(self, arguments):
        self.arguments, self.root = arguments, arguments.work
        self.place = f"{self.root}/project"
        self.programs = {"ninja": f"{arguments.tools}/ninja", "ours": arguments.ours}
        self.random = random.Random(arguments.seed)
        self.environment = {**os.environ, "PATH": f"{arguments.tools}:{os.environ['PATH']}", "LC_ALL": "C"}
        self.environment.pop("NINJA_STATUS", None)
        self.environment["CMAKE_NINJA_FORCE_RESPONSE_FILE"] = "1"
        # What a project of others builds each time.
        self.always = []

    def configure(self, cmake_arguments):
        shutil.rmtree(self.root, ignore_errors=True)
        if self.arguments.project:
            shutil.copytree(self.arguments.project, f"{self.place}/source", symlinks=True)
        else:
            synthetic(f"{self.place}/source")
        command = ["cmake", "-G", "Ninja", "-S", f"{self.place}/source", "-B", f"{self.place}/build"]
        subprocess.run(command + cmake_arguments, check=True, env=self.environment, stdout=subprocess.DEVNULL)
        os.rename(self.place, f"{self.root}/pristine")
        with open(f"{self.root}/pristine/build/build.ninja") as file:
            rules = [line.split(": ")[1].split(" ")[0] for line in file if line.startswith("build ") and ": " in line]
        self.compiles = sum("_COMPILER__" in rule for rule in rules)
        with open(f"{self.root}/pristine/build/CMakeFiles/rules.ninja") as file:
            responses = file.read().count("rspfile =")
        print(f"{self.compiles} compile edges of {len(rules)} edges, {responses} rules with a response file")
        if self.compiles < 200 or responses == 0:
            raise Failure("a project of less than 200 compile edges, or without response files")

    def configure_by_ours(self):
        """CMake itself calls the program: to try the compiler, and to build and regenerate."""
        folder = f"{self.root}/by-ours"
        lists = ["cmake_minimum_required(VERSION 3.16)", "project(small C)", "add_executable(small main.c)"]
        write(f"{folder}/CMakeLists.txt", "\n".join(lists) + "\n")
        write(f"{folder}/main.c", "int main(void) { return 0; }\n")
        quiet = {"env": self.environment, "stdout": subprocess.DEVNULL, "check": True}
        subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", f"{folder}/build", f"-DCMAKE_MAKE_PROGRAM={self.programs['ours']}"], **quiet)
        for _ in range(2):
            subprocess.run(["cmake", "--build", f"{folder}/build"], **quiet)
            subprocess.run([f"{folder}/build/small"], **quiet)
            os.utime(f"{folder}/CMakeLists.txt")

    def run(self, program, *arguments):
        command = [self.programs[program], "-C", f"{self.place}/build", *arguments]
        before, began = processor_time(), time.monotonic()
        finished = subprocess.run(command, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return Ran(finished, time.monotonic() - began, processor_time() - before)

    def build(self, program, tree, *arguments):
        os.rename(f"{self.root}/{tree}", self.place)
        try:
            return self.run(program, *arguments)
        finally:
            os.rename(self.place, f"{self.root}/{tree}")

    def hashes(self, tree):
        found = {}
        top = f"{self.root}/{tree}/build"
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if name not in LOGS and not os.path.islink(path):
                    with open(path, "rb") as file:
                        found[os.path.relpath(path, top)] = hashlib.sha256(file.read()).hexdigest()
        return found

    def same_files(self, what):
        ninja, ours = self.hashes("ninja"), self.hashes("ours")
        # What CMake itself logs has times in it.
        wrong = sorted(path for path in ninja.keys() | ours.keys() if ninja.get(path) != ours.get(path) and "CMakeConfigureLog" not in path)
        if wrong:
            raise Failure(f"{what}: {len(wrong)} files are not the same: {', '.join(wrong[:5])}")
        return len(ninja)

    def clean_builds(self, rounds):
        times = {"ninja": [], "ours": []}
        self.work = {"ninja": [], "ours": []}
        for number in range(rounds):
            for program in self.random.sample(sorted(times), 2):
                shutil.rmtree(f"{self.root}/{program}", ignore_errors=True)
                subprocess.run(["cp", "-a", f"{self.root}/pristine", f"{self.root}/{program}"], check=True)
                ran = self.build(program, program)
                if ran.code != 0:
                    raise Failure(f"{program} fails with {ran.code}:\n{ran.text[-3000:]}")
                times[program].append(ran.seconds)
                self.work[program].append(ran.work)
            if number == 0:
                self.count = self.same_files("a clean build")
        return times

    def nothing_to_do(self, rounds):
        times = {"ninja": [], "ours": []}
        if self.arguments.project:
            self.always = self.build("ninja", "ninja").lines
        for _ in range(rounds):
            for program in self.random.sample(sorted(times), 2):
                ran = self.build(program, program)
                self.must_be_idle(program, program, ran)
                times[program].append(ran.seconds)
        return times

    def must_be_idle(self, program, tree, ran):
        if ran.code != 0 or ran.lines != self.always or (not self.always and "no work to do" not in ran.text):
            raise Failure(f"{program} finds work in the tree of {tree}:\n{ran.text[-2000:]}")

    def choices(self):
        """The sources and what has been built, by their paths in a tree."""
        top = f"{self.root}/ninja"
        sources = [path for path in self.inputs if path.endswith((".c", ".h", ".cc", ".cpp"))]
        built = [f"build/{path}" for path in self.outputs if os.path.isfile(f"{top}/build/{path}")]
        return sources, built

    def look(self):
        """What is read and what is made, as ninja knows it."""
        os.rename(f"{self.root}/ninja", self.place)
        try:
            tool = lambda *words: self.run("ninja", "-t", *words).text
            targets = (line.rsplit(": ", 1) for line in tool("targets", "all").splitlines() if ": " in line)
            self.outputs = sorted(name for name, rule in targets if rule != "phony" and not name.startswith("/") and name != "build.ninja")
            read = {line.strip() for line in tool("deps").splitlines() if line.startswith("    ")}
            prefix = f"{self.place}/source/"
            self.inputs = sorted(f"source/{path[len(prefix):]}" for path in read if path.startswith(prefix))
        finally:
            os.rename(self.place, f"{self.root}/ninja")

    def edit(self, number):
        """An edit: what it is, and a function that makes it in a tree."""
        sources, built = self.choices()
        source, made, several = self.random.choice(sources), self.random.choice(built), self.random.sample(sources, 3)

        def append(paths, text):
            def do(tree):
                for path in paths:
                    with open(f"{tree}/{path}", "a") as file:
                        file.write(text)

            return do

        def touch(path):
            return lambda tree: os.utime(f"{tree}/{path}")

        def remove(path):
            return lambda tree: os.remove(f"{tree}/{path}")

        def age(path):
            return lambda tree: os.utime(f"{tree}/{path}", (1_000_000_000, 1_000_000_000))

        comment = f"\n/* edit {number} */\n"
        kinds = [
            (f"a comment in {source}", append([source], comment)),
            (f"comments in {', '.join(several)}", append(several, comment)),
            (f"{source} is touched", touch(source)),
            (f"{made} is removed", remove(made)),
            (f"{made} is touched", touch(made)),
            (f"{made} is made old", age(made)),
            ("the log of dependencies is removed", remove("build/.ninja_deps")),
            ("CMakeLists.txt has a comment more", append(["source/CMakeLists.txt"], f"\n# edit {number}\n")),
            (f"{source} has an error", append([source], f"\n#error edit {number}\n")),
        ]
        weights = [4, 3, 3, 4, 2, 2, 0.5, 0.7, 2]
        if not self.arguments.project:
            spec = f"source/specs/values{self.random.randrange(LIBRARIES)}.txt"
            kinds += [
                (f"a comment in {spec}, so that the header stays", append([spec], f"# edit {number}\n")),
                (f"a value in {spec}", append([spec], f"EXTRA {number}\n")),
            ]
            weights += [5, 4]
        return self.random.choices(kinds, weights)[0]

    def edits(self, rounds):
        self.look()
        rebuilt, broken = 0, []
        for number in range(rounds):
            if broken:
                name, error = broken.pop()
                what = f"the error in {name} is taken out"
                change = lambda tree: self.take_out(f"{tree}/{name}", error)
            else:
                what, change = self.edit(number)
                if what.endswith(" has an error"):
                    broken.append((what[: -len(" has an error")], f"\n#error edit {number}\n"))
            for tree in ("ninja", "ours"):
                change(f"{self.root}/{tree}")
            time.sleep(0.02)
            # In every third round each goes on with what the other has built.
            trees = {"ninja": "ours", "ours": "ninja"} if number % 3 == 2 else {"ninja": "ninja", "ours": "ours"}
            ran = {program: self.build(program, tree, "-k", "0") for program, tree in trees.items()}
            if ran["ninja"].lines != ran["ours"].lines or ran["ninja"].code != ran["ours"].code:
                both = [set(ran[program].lines) for program in ("ninja", "ours")]
                raise Failure(
                    f"round {number}: {what}: ninja ends with {ran['ninja'].code}, ours with {ran['ours'].code}; "
                    f"only ninja builds {sorted(both[0] - both[1])[:5]}, only ours {sorted(both[1] - both[0])[:5]}\n"
                    f"{ran['ours'].text[-1000:]}"
                )
            self.same_files(f"round {number}: {what}")
            if ran["ninja"].code == 0:
                for program, tree in (("ninja", "ours"), ("ours", "ninja")):
                    self.must_be_idle(program, tree, self.build(program, tree))
            rebuilt += len(ran["ours"].lines)
            if self.arguments.verbose:
                print(f"  {what}: {len(ran['ours'].lines)} edges, status {ran['ours'].code}")
        return rebuilt

    @staticmethod
    def take_out(path, error):
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace(error, ""))


def shown(name, times, unit, factor):
    return f"{name} {statistics.median(times) * factor:.{1 if factor > 1 else 2}f} {unit}"


def main():
    parser = argparse.ArgumentParser()
    for name in ("--ours", "--tools", "--work"):
        parser.add_argument(name, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--project")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("cmake", nargs="*")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    try:
        bench.configure(arguments.cmake)
        bench.configure_by_ours()
        clean = bench.clean_builds(5 if arguments.figures else 1)
        nothing = bench.nothing_to_do(5)
        rounds = 20 if arguments.project else 60 if arguments.figures else 14
        rebuilt = bench.edits(rounds)
        count = 100 if arguments.figures else 12
        edges = make_manifests.check(bench.programs, f"{bench.root}/manifests", arguments.seed, count, 8, LINE)
    except (Failure, AssertionError, subprocess.CalledProcessError) as failure:
        sys.exit(f"FAILED, seed {arguments.seed}: {failure}")
    ratio = statistics.median(clean["ours"]) / statistics.median(clean["ninja"])
    more = statistics.median(nothing["ours"]) - statistics.median(nothing["ninja"])
    print(f"a clean build: the same {bench.count} files")
    print(f"{rounds} rounds of edits, seed {arguments.seed}: the same {rebuilt} edges rebuilt, the same files, logs in turns")
    print(f"{count} random manifests with 8 edits each: the same {edges} edges, statuses and files")
    print(f"clean: {shown('ninja', clean['ninja'], 's', 1)}, {shown('ours', clean['ours'], 's', 1)}: {ratio:.3f} x, of {len(clean['ours'])}")
    used = statistics.median(bench.work["ours"]) / statistics.median(bench.work["ninja"])
    print(f"processor time: {shown('ninja', bench.work['ninja'], 's', 1)}, {shown('ours', bench.work['ours'], 's', 1)}: {used:.3f} x")
    print(f"nothing to do: {shown('ninja', nothing['ninja'], 'ms', 1000)}, {shown('ours', nothing['ours'], 'ms', 1000)}: {more * 1000:+.1f} ms, of {len(nothing['ours'])}")
    missed = []
    if arguments.figures and ratio > CLEAN_BOUND:
        missed.append(f"a clean build takes more than {CLEAN_BOUND} times as long")
    if more > NOTHING_BOUND:
        missed.append(f"nothing to do takes more than {NOTHING_BOUND * 1000:.0f} ms more")
    if missed:
        sys.exit(f"MISSED: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
