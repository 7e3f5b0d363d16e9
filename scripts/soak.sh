#!/usr/bin/env bash
# Runs random programs against the serial replay of tests/oracle.rs, for at least so many minutes (a
# fraction is allowed):
#
#     scripts/soak.sh 10
#     scripts/soak.sh --teeth      # plants bugs, and succeeds only if each is found and its seed
#                                  # shows it again
#     scripts/soak.sh --devices 10       # programs of devices, over the stand-in for CUDA's driver:
#     scripts/soak.sh --devices --teeth  # those of tests/cuda_engine.rs, and drivers without order
#
# It starts at a seed taken from the clock, so every soak tries programs that none has tried before;
# SERIATIM_SOAK_FIRST_SEED chooses it. Every ten seconds it says how far it is. A failure or a hang
# ends it with the seed, and with the command that runs this seed alone. SERIATIM_SOAK_PROCESSES
# chooses how many processes run at once, each with seeds of its own. By default there is one a
# core: on two cores that measured 115,000 operations a second for one process, 165,000 for two and
# 170,000 for three.
#
# The machine changes under the programs: of every minute, the processes have all cores for half,
# one core together for a quarter (threads then lose it in the middle of anything), and one core
# each for a quarter.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

usage="usage: scripts/soak.sh [--devices] MINUTES | --teeth"
# What is run, how its variables begin, and that for a number of operations.
test_name=a_million_random_operations_run_in_one_serial_order
arguments=(--release --test oracle)
target=oracle prefix=SERIATIM_ORACLE operations=OPS
if [ "${1:-}" = --devices ]; then
    shift
    test_name=seeds::random_programs_of_every_sort
    arguments=(--release --package seriatim --features cuda --test cuda_engine)
    target=cuda_engine prefix=CUDA_ENGINE operations=OPERATIONS
fi
cores=$(nproc)
processes=${SERIATIM_SOAK_PROCESSES:-$cores}
logs=$(mktemp -d "${TMPDIR:-/tmp}/seriatim-soak.XXXXXX")
pids=()

# Ends the processes that still run: those beside one that has failed.
clean_processes() {
    local pid
    for pid in "${pids[@]}"; do
        if [ -n "$pid" ]; then
            kill -9 "$pid" 2>/dev/null || true
            wait "$pid" 2>/dev/null || true
        fi
    done
    pids=()
}

clean_up() {
    clean_processes
    rm -rf "$logs"
}
trap clean_up EXIT

# The command that runs the test, to be put behind what it is to do.
again() {
    echo "cargo test ${arguments[*]} $test_name -- --exact --nocapture"
}

# Builds the test, and prints where it is.
build() {
    cargo test "${arguments[@]}" --no-run >&2
    cargo test "${arguments[@]}" --no-run --message-format=json 2>/dev/null |
        sed -n 's/.*"name":"'"$target"'".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# The last value of a word in the lines that a process printed: `word LOG NAME`.
word() {
    { grep -aE '^(oracle|devices): ' "$1" || true; } | tail -n 1 | { grep -o " $2 [0-9]*" || echo ' x 0'; } | awk '{ print $2 }'
}

# The sum of a word over all processes.
sum() {
    local total=0 process
    for ((process = 0; process < processes; process++)); do
        total=$((total + $(word "$logs/$process" "$1")))
    done
    echo "$total"
}

# Gives the processes other cores, by how far the minute is. Threads that come later inherit them.
change_machine() {
    command -v taskset >/dev/null || return 0
    local process cpus
    for ((process = 0; process < processes; process++)); do
        case $(($1 % 60 / 15)) in
        1) cpus=0 ;;
        3) cpus=$((process % cores)) ;;
        *) cpus=0-$((cores - 1)) ;;
        esac
        taskset --all-tasks --cpu-list --pid "$cpus" "${pids[$process]}" >/dev/null 2>&1 || true
    done
}

# Says why a process failed, and how to run its program again.
report_failure() {
    local log=$1 status=$2 seed
    seed=$(sed -n 's/.*'"$prefix"'_SEED=\([0-9]*\).*/\1/p; s/.*the program of seed \([0-9]*\) hangs.*/\1/p' "$log" | head -n 1)
    local from="it failed"
    if [ -z "$seed" ] && [ "$status" != 101 ]; then
        # A crash says nothing: then it was the last seed that is known, or one of those in the ten seconds after.
        seed=$(word "$log" seed)
        from="it ended with status $status without a word; the last seed that is known"
    fi
    echo "---- the end of what the process said ----" >&2
    grep -avE '^(oracle|devices): ' "$log" | tail -n 20 >&2
    if [ -z "$seed" ]; then
        # The run as a whole, such as memory that grows.
        echo "FAILED, and no single program did. Run all of this process again with" >&2
        echo "    ${prefix}_FIRST_SEED=$(word "$log" first) ${prefix}_SECONDS=$seconds $(again)" >&2
        return
    fi
    echo "FAILED: seed $seed ($from). Run it alone with" >&2
    echo "    ${planted:+${prefix}_TEETH=$planted }${prefix}_SEED=$seed $(again)" >&2
    failed_seed=$seed
}

# Runs all processes for so many seconds; returns 1 on a failure, with its seed in `failed_seed`.
soak() {
    local seconds=$1 first=$2 binary=$3 process status
    echo "soak: $seconds s, $processes processes on $cores cores, from seed $first (SERIATIM_SOAK_FIRST_SEED)" >&2
    pids=()
    for ((process = 0; process < processes; process++)); do
        # Far enough apart that no two soaks meet, whenever they start.
        env "${prefix}_FIRST_SEED=$((first + process * 10 ** 17))" "${prefix}_SECONDS=$seconds" \
            "$binary" --exact "$test_name" --nocapture >"$logs/$process" 2>&1 &
        pids+=($!)
    done
    local begin=$SECONDS before=0 running=$processes
    while ((running > 0)); do
        for ((tick = 0; tick < 10 && running > 0; tick++)); do
            sleep 1
            running=0
            for ((process = 0; process < processes; process++)); do
                if [ -z "${pids[$process]}" ]; then continue; fi
                if kill -0 "${pids[$process]}" 2>/dev/null; then
                    running=$((running + 1))
                    continue
                fi
                status=0
                wait "${pids[$process]}" || status=$?
                pids[$process]=
                if ((status != 0)); then
                    clean_processes
                    report_failure "$logs/$process" "$status"
                    return 1
                fi
            done
        done
        change_machine $((SECONDS - begin))
        local operations=$(sum operations)
        printf 'soak: %d.%d min, %d programs, %d operations, seed %s, %d operations a second\n' \
            $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60 / 6)) "$(sum programs)" "$operations" \
            "$(word "$logs/0" seed)" $(((operations - before) / 10)) >&2
        before=$operations
        # The watchdog inside each process finds hangs; this is for one that hangs so that even that does not run.
        if ((SECONDS - begin > seconds + 300)); then
            echo "the processes do not end" >&2
            for ((process = 0; process < processes; process++)); do
                if [ -n "${pids[$process]}" ]; then report_failure "$logs/$process" hangs; fi
            done
            return 1
        fi
    done
    local peak=0 ranges=
    for ((process = 0; process < processes; process++)); do
        local own=$(word "$logs/$process" peak-MiB)
        peak=$((own > peak ? own : peak))
        ranges+=" $(word "$logs/$process" first) to $(word "$logs/$process" seed)"
    done
    echo "soak: $(sum operations) operations in $(sum programs) programs, $(sum skipped) skipped, $(sum refused) refused," \
        "$(sum failed) failed as they were meant to; seeds${ranges}; $peak MiB at most in a process; no check failed"
}

# Plants a bug: a soak must find it, its seed must show it again, and without the bug the seed must be well. `teeth BUG BEFORE AFTER`, with
# what the process says when it has found it, before and after the seed.
teeth() {
    local bug=$1 before=$2 after=$3 run=("$binary" --exact "$test_name" --nocapture) again
    planted=$bug
    export "${prefix}_TEETH=$bug" "${prefix}_PATIENCE=15"
    if soak 120 "$first" "$binary"; then
        echo "the planted bug '$bug' was NOT found" >&2
        return 1
    fi
    again=("${prefix}_SEED=$failed_seed" "${prefix}_$operations=100000")
    if env "${again[@]}" "${run[@]}" >"$logs/again" 2>&1; then
        echo "seed $failed_seed did NOT show the planted bug '$bug' again" >&2
        return 1
    fi
    if ! grep -aq "$before$failed_seed$after" "$logs/again"; then
        echo "the second run of seed $failed_seed failed otherwise:" >&2
        tail -n 20 "$logs/again" >&2
        return 1
    fi
    planted=""
    unset "${prefix}_TEETH" "${prefix}_PATIENCE"
    if ! env "${again[@]}" "${run[@]}" >"$logs/well" 2>&1; then
        echo "seed $failed_seed fails without the planted bug as well:" >&2
        tail -n 20 "$logs/well" >&2
        return 1
    fi
    echo "teeth: the planted bug '$bug' was found at seed $failed_seed, which shows it again and is well without it"
}

case "${1:-}" in
--teeth | [0-9]*) ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac
binary=$(build)
planted=""
first=${SERIATIM_SOAK_FIRST_SEED:-$(date +%s%6N)}
if [ "$1" = --teeth ] && [ "$target" = cuda_engine ]; then
    for bug in waits marks answers; do teeth "$bug" 'CUDA_ENGINE_SEED=' ' '; done
elif [ "$1" = --teeth ]; then
    teeth claims 'SERIATIM_ORACLE_SEED=' ':'
    teeth graphs 'SERIATIM_ORACLE_SEED=' ':'
    teeth hang 'the program of seed ' ' hangs'
else
    soak "$(awk -v minutes="$1" 'BEGIN { printf "%d", minutes * 60 + 0.5 }')" "$first" "$binary"
fi
