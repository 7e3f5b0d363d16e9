#!/usr/bin/env bash
# Times four programs of rivals' own examples beside ours that do the same job (examples/ports/), and
# prints the tables of docs/src/ports.md. A wrong result is an error.
#
#   scripts/ports.sh                 a few minutes
#   scripts/ports.sh --quick         small sizes, one round: to see that it works
#
# The rivals' programs are not in this tree. These name clones of them, with git; a row whose clone
# is not named is left out: TASKFLOW (taskflow/taskflow), STARPU (starpu-runtime/starpu), BOTS
# (bsc-pm/bots), MXNET (apache/mxnet). The files are those of pinned commits. Taskflow's library
# is that of the clone; StarPU's is Debian's, MXNet's the wheel that scripts/peers.sh has unpacked
# into PEERS (target/peers); OpenMP is the compiler's. OPENMP_CLANG adds a row with that compiler.
#
# Exit status: 0; 1 a wrong result, or it does not build; 2 wrong arguments; 3 no clone is named.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

[ $# = 0 ] || [ "$*" = --quick ] || {
    echo "ports.sh: unknown argument ${!#}; scripts/ports.sh --help says more" >&2
    exit 2
}
[ -n "${TASKFLOW:-}${STARPU:-}${BOTS:-}${MXNET:-}" ] || {
    echo "ports.sh: skipped: none of TASKFLOW, STARPU, BOTS and MXNET names a clone" >&2
    exit 3
}
runs=5 rounds=5
[ $# = 0 ] || runs=1 rounds=1
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/ports
peers=$(realpath -m "${PEERS:-target/peers}")
mkdir -p "$work"
: >"$work/times" >"$work/lines"
# Both sides for any processor of this architecture, as a build without flags is.
fast=(-O3 -pthread)

# of CLONE COMMIT FILE: a file of a rival.
of() { git -C "$1" show "$2:$3"; }
# lines [FROM]: counts lines with code; those of the functions whose heads match, if one is given.
lines() {
    awk -v from="${1:-}" '
        { gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "") }
        inside_comment { if (!sub(/^.*\*\//, "")) next; inside_comment = 0 }
        /\/\*/ { sub(/\/\*.*$/, ""); inside_comment = 1 }
        { sub(/(^|[ \t])\/\/.*$/, "") }
        /^[ \t]*$/ { next }
        from != "" && !within { if ($0 ~ from) within = 1; else next }
        { count++ }
        within && /^}/ { within = 0 }
        END { print count + 0 }'
}
# row NAME LABEL THEIRS OURS ARGUMENT …: times both in turn, and compares their results.
row() {
    local name=$1 label=$2 theirs=$3 ours=$4 run side
    shift 4
    for run in $(seq "$runs"); do
        for side in theirs ours; do
            "${!side}" "$@" "$rounds" >"$work/$side.out"
            printf '%s\t%s\t%s\n' "$name, $label" "$side" "$(awk '/^median/ { print $2 }' "$work/$side.out")" >>"$work/times"
        done
        # C writes 1e+09 where Rust writes 1e9.
        if ! diff <(sed -n '/^sum/s/e\([+-]\)0*/e\1/p' "$work/theirs.out" | tr -d +) <(grep ^sum "$work/ours.out"); then
            echo "ports.sh: $name has another result than its rival" >&2
            exit 1
        fi
    done
}
# counted NAME THEIRS_PART THEIRS_WHOLE OURS PART
counted() {
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$(lines "$5" <"examples/ports/$4.rs")" "$(lines <"examples/ports/$4.rs")" >>"$work/lines"
}
# size FULL QUICK: the arguments of a row.
size() { [ "$runs" = 1 ] && echo "$2" || echo "$1"; }

cargo build --quiet --release --package seriatim --example wavefront --example mult --example sparselu --example random_sums
ours=$target/release/examples

if [ -n "${TASKFLOW:-}" ]; then
    commit=83f90a279a
    rm -rf "$work/taskflow"
    mkdir -p "$work/taskflow"
    git -C "$TASKFLOW" archive $commit taskflow benchmarks/wavefront | tar -x -C "$work/taskflow"
    folder=$work/taskflow/benchmarks/wavefront
    counted "wavefront (Taskflow)" "$(lines '^void wavefront_taskflow' <"$folder/taskflow.cpp")" \
        "$(cat "$folder"/{main.cpp,matrix.hpp,taskflow.cpp} | lines)" wavefront '^fn wavefront'
    # Its blocks are empty as they come; this is the other body that it has.
    sed -i 's/block_computation(i, j);/framework_computation(i, j);/' "$folder/taskflow.cpp"
    g++ -std=c++20 "${fast[@]}" -I "$folder" -isystem "$work/taskflow" perf/ports/taskflow.cpp "$folder/taskflow.cpp" -o "$work/wavefront"
    for block in 8 32; do
        # shellcheck disable=SC2046
        row "wavefront (Taskflow)" "blocks of $block²" "$work/wavefront" "$ours/wavefront" $(size "2048 $block" "256 $block")
    done
fi

if [ -n "${STARPU:-}" ]; then
    commit=3f3cc82a6f
    mkdir -p "$work/starpu"
    of "$STARPU" $commit examples/basic_examples/mult.c >"$work/starpu/mult.c"
    counted "mult (StarPU)" "$(lines '^static (void partition_mult_data|struct starpu_codelet|struct starpu_perfmodel|int launch_tasks)' <"$work/starpu/mult.c")" \
        "$(lines <"$work/starpu/mult.c")" mult '^fn product'
    eval "flags=($(pkg-config --cflags --libs starpu-1.3))"
    gcc "${fast[@]}" -std=gnu17 -I "$work/starpu" perf/ports/starpu.c -o "$work/mult" "${flags[@]}" -lm
    export STARPU_NCPU=2 STARPU_SILENT=1 STARPU_HOME=$work/starpu
    for slices in 4 32; do
        # shellcheck disable=SC2046
        row "mult (StarPU)" "$slices × $slices slices" "$work/mult" "$ours/mult" $(size "512 512 256 $slices" "128 128 32 $slices")
    done
fi

if [ -n "${BOTS:-}" ]; then
    commit=2607a69512
    mkdir -p "$work/bots"
    for file in common/bots.h omp-tasks/sparselu/sparselu_single/sparselu.{c,h}; do
        of "$BOTS" $commit $file >"$work/bots/${file##*/}"
    done
    counted "sparselu (OpenMP)" "$(lines '^void sparselu_par_call' <"$work/bots/sparselu.c")" "$(lines <"$work/bots/sparselu.c")" \
        sparselu '^fn factors'
    export OMP_NUM_THREADS=2
    for compiler in gcc ${OPENMP_CLANG:-}; do
        "$compiler" "${fast[@]}" -std=gnu17 -w -fopenmp -I "$work/bots" perf/ports/bots.c -o "$work/sparselu-${compiler##*/}" -lm
        for blocks in "20 10" "50 40"; do
            # shellcheck disable=SC2046
            row "sparselu (OpenMP, ${compiler##*/})" "${blocks/ /² blocks of }²" "$work/sparselu-${compiler##*/}" "$ours/sparselu" \
                $(size "$blocks" "10 8")
        done
    done
fi

if [ -n "${MXNET:-}" ]; then
    mkdir -p "$work/mxnet"
    wheel=$peers/mxnet/mxnet
    [ -f "$wheel/libmxnet.so" ] || { echo "ports.sh: scripts/peers.sh mxnet has not unpacked MXNet into $peers" >&2; exit 1; }
    of "$MXNET" 1.9.1 tests/cpp/engine/threaded_engine_test.cc >"$work/mxnet/test.cc"
    sed -n '/^struct Workload/,/^TEST(Engine, start_stop)/p' "$work/mxnet/test.cc" | sed '$d' >"$work/mxnet/workload.inc"
    counted "random sums (MXNet)" "$(lines '^double EvaluateWorkloads' <"$work/mxnet/test.cc")" \
        "$(sed '/^void Foo(/,$d' "$work/mxnet/test.cc" | lines)" random_sums '^fn evaluate'
    g++ -std=c++17 "${fast[@]}" -w -I "$work/mxnet" -isystem "$wheel/include" -DMSHADOW_USE_MKL=0 -DMSHADOW_USE_CBLAS=0 \
        -DMSHADOW_USE_CUDA=0 -DLIBMXNET="\"$wheel/libmxnet.so\"" perf/ports/mxnet.cpp -o "$work/random_sums" -ldl
    for time in 0 10; do
        # shellcheck disable=SC2046
        row "random sums (MXNet)" "$([ $time = 0 ] && echo "without sleeps" || echo "sleeps of 1 to 9 µs")" \
            "$work/random_sums" "$ours/random_sums" $(size "10000 $time" "500 $time")
    done
fi

python3 - "$work/lines" "$work/times" <<'PYTHON'
import statistics, sys
print("\n| program | tasks, theirs | ours | whole, theirs | ours |\n|---|---:|---:|---:|---:|")
for line in open(sys.argv[1]):
    name, part, whole, our_part, our_whole = line.strip().split("\t")
    print(f"| {name} | {part} | {our_part} | {whole} | {our_whole} |")
times = {}
for line in open(sys.argv[2]):
    name, side, seconds = line.rstrip("\n").split("\t")
    times.setdefault(name, {}).setdefault(side, []).append(float(seconds) * 1e3)
rows = [(statistics.median(sides["theirs"]), statistics.median(sides["ours"]), name) for name, sides in times.items()]
print("\n| program | theirs (ms) | ours (ms) | ratio |\n|---|---:|---:|---:|")
for theirs, ours, name in sorted(rows, key=lambda row: row[0] / row[1]):
    print(f"| {name} | {theirs:.3g} | {ours:.3g} | {theirs / ours:.2f} × |")
PYTHON
