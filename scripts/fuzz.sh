#!/usr/bin/env bash
# Fuzzes the library: scripts/fuzz.sh [SECONDS_PER_TARGET] [TARGET…]. Targets are `oracle`,
# `c_interface` and `formats`, see fuzz/; without any, all run. Prints one line a target, and fails if
# one finds something.
#
# scripts/fuzz.sh --teeth [TARGET…] has the harness make a mistake instead (an operation does not
# declare what it reads, a reader loses an array), and fails if the fuzzer does not notice within a
# minute or so.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

teeth=
seconds=60
if [[ ${1:-} == --teeth ]]; then
    teeth=1
    seconds=90
    shift
elif [[ ${1:-} =~ ^[0-9]+$ ]]; then
    seconds=$1
    shift
fi
targets=("$@")
((${#targets[@]})) || targets=(oracle c_interface formats)

command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked
# Unstable options of the compiler, the sanitizer and the coverage: a stable one takes them so.
export RUSTC_BOOTSTRAP=1
# The reclaimer collects early and often, so that the sanitizer sees uses that come too late.
export RUSTFLAGS="${RUSTFLAGS:-} --cfg crossbeam_sanitize"
# Which engine is broken is told by the settings of the programs, not by those of the environment.
unset "${!SERIATIM_@}"
# Failures should name the line.
export RUST_BACKTRACE=${RUST_BACKTRACE:-1}

# Programs to start from: random bytes, of lengths that the fuzzer would need minutes to come to.
make_seeds() {
    local number length text
    RANDOM=7
    for number in {1..64}; do
        text=
        for ((length = number * 3; length > 0; length--)); do
            text+=$(printf '\\x%02x' $((RANDOM % 256)))
        done
        printf '%b' "$text" >"$1/seed-$number"
    done
}

# Leaks are not looked for: engines stay alive from program to program, and the sanitizer takes what their threads own for lost. What
# C hands over is counted by the target itself.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
# A hang is a failure.
options=(-timeout=20 -rss_limit_mb=4096 -detect_leaks=0 -print_final_stats=1 "-max_total_time=$seconds")

failed=0
for target in "${targets[@]}"; do
    cargo fuzz build "$target"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mkdir "$scratch/seeds" "$scratch/corpus" "$scratch/found"
    # Files of arrays are written by the target itself, and longer.
    unset FUZZ_SEEDS
    longest=512
    if [[ $target == formats ]]; then
        export FUZZ_SEEDS=$scratch/seeds
        longest=4096
    else
        make_seeds "$scratch/seeds"
    fi
    log=$scratch/log
    status=0
    if [[ $teeth ]]; then
        FUZZ_TEETH=1 cargo fuzz run "$target" "$scratch/corpus" "$scratch/seeds" -- "${options[@]}" "-max_len=$longest" \
            "-artifact_prefix=$scratch/found/" >"$log" 2>&1 || status=$?
    else
        corpus=fuzz/corpus/$target
        mkdir -p "$corpus" "fuzz/artifacts/$target"
        cargo fuzz run "$target" "$corpus" "$scratch/seeds" -- "${options[@]}" "-max_len=$longest" >"$log" 2>&1 || status=$?
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
    coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 || true)
    # Of a crash: what the check said. Of a hang, or of what the sanitizer found: its own words.
    words=$(grep -A 1 -m 1 ' panicked at ' "$log" | tail -n 1 || true)
    words=${words:-$(grep -m 1 -E 'ERROR: |SUMMARY: ' "$log" || true)}
    summary="$target: ${executions:-no} executions, ${coverage:-no coverage}"
    if [[ $teeth ]]; then
        if ((status == 0)) || ! compgen -G "$scratch/found/crash-*" >/dev/null; then
            tail -n 20 "$log"
            echo "$summary: the planted mistake was NOT found: ${words:-status $status}"
            failed=1
        else
            echo "$summary: the planted mistake was found: $words"
        fi
    elif ((status)); then
        kept=fuzz/artifacts/$target.log
        cp "$log" "$kept"
        artifact=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
        echo "$summary: FAILED: ${words:-see the log}"
        echo "  input: ${artifact:-none}, log: $kept"
        [[ $artifact ]] && echo "  again: RUSTC_BOOTSTRAP=1 RUSTFLAGS='--cfg crossbeam_sanitize' cargo fuzz run $target $artifact -- -runs=1000"
        failed=1
    else
        echo "$summary: nothing found in $seconds s"
    fi
    rm -rf "$scratch"
done
exit "$failed"
