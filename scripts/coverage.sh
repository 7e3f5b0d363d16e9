#!/usr/bin/env bash
# Runs the tests of the library and of the C interface with coverage counters, and prints which part
# of the lines of src/ they reach, by file, worst first. Arguments go to `cargo llvm-cov`, for
# example: scripts/coverage.sh --test errors
#
# Takes about ten minutes on two cores, mostly for building. Needs Rust stable from rustup;
# cargo-llvm-cov is installed with cargo if it is missing, and the tools that read the counters with
# rustup or, where that cannot be, with apt-get.
#
# Exit status: 0 if at least COVERAGE_LEAST percent (90 if not set) of the lines are reached; 1 if
# not, or if a test fails; 3 if a tool is missing and cannot be installed.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
least=${COVERAGE_LEAST:-90}
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0
# A hundred thousand operations reach what a million do.
export SERIATIM_ORACLE_OPS="${SERIATIM_ORACLE_OPS:-100000}"

step() {
    printf '[%3d s] %s\n' "$SECONDS" "$*"
}

if ! command -v cargo-llvm-cov >/dev/null; then
    step "installing cargo-llvm-cov"
    # A target folder of its own: the counters of this project are none of its business.
    tools=$(mktemp -d)
    CARGO_TARGET_DIR=$tools cargo install --quiet cargo-llvm-cov --locked || {
        echo "no cargo-llvm-cov: get it with: cargo install cargo-llvm-cov --locked" >&2
        exit 3
    }
    rm -rf "$tools"
fi

# The tools that read the counters: those of the toolchain, or those of a Debian package.
if [ -z "${LLVM_COV:-}" ]; then
    beside=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
    if [ ! -x "$beside/llvm-cov" ] && ! timeout 120 rustup component add llvm-tools >/dev/null 2>&1; then
        if ! command -v llvm-cov-19 >/dev/null && [ "$(id -u)" = 0 ]; then
            step "installing llvm-19"
            apt-get update -qq >/dev/null && apt-get install -y -qq llvm-19 >/dev/null || true
        fi
        command -v llvm-cov-19 >/dev/null || {
            echo "no llvm-cov: get it with: rustup component add llvm-tools, or apt-get install llvm-19" >&2
            exit 3
        }
        export LLVM_COV=llvm-cov-19 LLVM_PROFDATA=llvm-profdata-19
        LLVM_COV=$(command -v llvm-cov-19) LLVM_PROFDATA=$(command -v llvm-profdata-19)
    fi
fi

# Left out: the models, which are built for another world, and what counts allocations and locks.
# Examples and benches are not tests, and the examples in the documentation need a nightly compiler to be counted.
step "running the tests"
if [ $# = 0 ]; then
    set -- --workspace --exclude loom-tests --lib
    for test in errors forms hazards life memory oracle peer_semantics reports sanitizer_stress deleters engine environment refusals; do
        set -- "$@" --test "$test"
    done
fi
summary=$(mktemp)
trap 'rm -f "$summary"' EXIT
cargo llvm-cov --json --summary-only --output-path "$summary" "$@"

python3 - "$summary" "$PWD/src/" "$least" <<'PYTHON'
import json, sys

summary, source, least = sys.argv[1], sys.argv[2], float(sys.argv[3])
rows = []
for file in json.load(open(summary))["data"][0]["files"]:
    if file["filename"].startswith(source):
        lines = file["summary"]["lines"]
        rows.append((lines["percent"], lines["count"] - lines["covered"], lines["count"], file["filename"][len(source):]))
rows.sort()
if not rows:
    sys.exit("no file of src/ was counted")
print(f"\n{'lines reached':>13} {'missed':>7} {'of':>6}  file of src/")
for percent, missed, count, name in rows:
    print(f"{percent:>12.1f}% {missed:>7} {count:>6}  {name}")
missed, count = sum(row[1] for row in rows), sum(row[2] for row in rows)
total = 100 * (1 - missed / count)
print(f"{total:>12.1f}% {missed:>7} {count:>6}  total")
if total < least:
    sys.exit(f"less than {least:g} % of the lines are reached")
PYTHON
