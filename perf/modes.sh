#!/usr/bin/env bash
# Access modes beside rivals: sums to which many operations add, by writes, by operations that
# commute and by reductions, with perf/examples/modes.rs, GCC's OpenMP and StarPU, in turns on two
# threads. Prints nanoseconds an operation: of each turn the median of nine runs, of the turns the
# least, as other processes only add to it.
#
#   perf/modes.sh          all workloads, three turns of each
#   perf/modes.sh TURNS    so many turns
#
# A rival that cannot be built here is left out, and said: OpenMP needs gcc, StarPU libstarpu-dev.
set -euo pipefail
source "$(dirname "$0")/../scripts/help.sh"
cd "$(dirname "$0")/.."
turns="${1:-3}"
target="${CARGO_TARGET_DIR:-target}"
mkdir -p "$target/modes"
cargo build --release --quiet --package seriatim-perf --example modes
programs=("$target/release/examples/modes")
names=(seriatim)
if gcc -O3 -march=native -std=gnu11 -fopenmp perf/modes/openmp.c -o "$target/modes/openmp"; then
    programs+=("$target/modes/openmp") names+=(libgomp)
else
    echo "left out: OpenMP, as gcc does not build it"
fi
if pkg-config --exists starpu-1.3 && gcc -O3 -march=native -std=gnu11 perf/modes/starpu.c \
    $(pkg-config --cflags --libs starpu-1.3) -o "$target/modes/starpu"; then
    programs+=("$target/modes/starpu") names+=(StarPU)
else
    echo "left out: StarPU, as libstarpu-dev is not here"
fi

# measure WORKLOAD WORK OPERATIONS: a line for each program; their turns alternate.
measure() {
    local at turn least=()
    for ((turn = 0; turn < turns; turn++)); do
        for at in "${!programs[@]}"; do
            case "$1 ${names[at]}" in "sum-ordered "[!s]*) continue ;; esac
            took=$(STARPU_NCPU=2 STARPU_SILENT=1 "${programs[at]}" "$@" 2>/dev/null)
            if [ "$took" -lt "${least[at]:-1000000000}" ]; then least[at]=$took; fi
        done
    done
    for at in "${!least[@]}"; do printf '%-34s %-10s %8d\n' "$1, $2 steps" "${names[at]}" "${least[at]}"; done
}
for steps in 0 300 3000; do
    count=$((steps < 3000 ? 10000 : 3000))
    for workload in accumulate-write accumulate-commute sum-write sum-commute sum-reduce sum-ordered; do
        measure "$workload" "$steps" "$count"
    done
done
