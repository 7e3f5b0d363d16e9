#!/usr/bin/env bash
# Runs on a GPU what can only be known there: checks, random programs, the examples, and the table
# of figures beside those of bare driver calls (perf/gpu/README.md). Writes gpu.json and gpu.md.
#
#   scripts/gpu.sh                builds, then runs: under 8 minutes
#   scripts/gpu.sh --build        stripped programs in <target folder>/gpu, packed as gpu.tar.gz
#   scripts/gpu.sh --run          runs what was built; on another machine, in the unpacked folder:
#                                 ./gpu.sh --run
#   scripts/gpu.sh --check        all of it over a stand-in for the driver, without a GPU: every
#                                 row runs, and says 'stand-in, no time'
#   SERIATIM_CUDASTF=FILE …       a program of CUDASTF, measured in turn with ours; if not set, what
#                                 'scripts/cudastf.sh --rival' has built before, if it has
#   SERIATIM_OUTPUT=FOLDER …      where the results go: 'results' beside the programs, if not set
#
# compute-sanitizer is used where it is on the path or in /usr/local/cuda; cuBLAS and cuSOLVER also
# from Python's wheels.
#
# Exit status: 0 if all is well; 1 if not; 2 wrong arguments; 3 skipped: no CUDA device.
set -euo pipefail
source "$(dirname "$0")/help.sh"
here=$(cd "$(dirname "$0")" && pwd)

MOST=$((64 << 20))                  # bytes of the archive
LONGEST=470                         # seconds of a run
program=seriatim-gpu-bench
began=$SECONDS                      # of a check: when all is built

fail() {
    echo "gpu.sh: $*" >&2
    exit 1
}
# In the unpacked folder the programs lie beside this script.
if [ -x "$here/$program" ]; then
    folder=$here
else
    cd "$here/.."
    target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
    folder=$target/gpu
fi
results=${SERIATIM_OUTPUT:-$folder/results}

compile() {
    [ "$folder" != "$here" ] || fail "--build and --check are for the repository"
    cargo build --release --package seriatim-gpu-bench --package cuda-standin \
        --features seriatim-gpu-bench/cuda --bins --lib --examples
}
build() {
    compile
    rm -rf "$folder" "$target/gpu.tar.gz"
    mkdir -p "$folder"
    cp "$target/release/$program" "$target"/release/examples/{digits_gpu,pipeline_gpu} \
        digits/data/digits.csv.gz scripts/gpu.sh scripts/help.sh "$folder"
    [ ! -x "$target/cudastf/rival" ] || cp "$target/cudastf/rival" "$folder"
    if command -v strip >/dev/null; then
        strip "$folder/$program" "$folder/digits_gpu" "$folder/pipeline_gpu"
    fi
    tar -czf "$target/gpu.tar.gz" -C "$target" gpu
    size=$(stat -c %s "$target/gpu.tar.gz")
    [ "$size" -le "$MOST" ] || fail "the archive has $size bytes, more than $MOST"
    echo "packed: $target/gpu.tar.gz, $size bytes"
}

# Folders of Python's wheels that have libraries of CUDA.
wheels() {
    local python
    for python in python3 python; do
        command -v "$python" >/dev/null || continue
        "$python" -c 'import glob, sys
print(":".join(found for path in sys.path if path for found in sorted(glob.glob(path + "/nvidia/*/lib"))))' && return
    done 2>/dev/null || true
}
# left SECONDS COMMAND …: for at most so long, and not beyond the end of the run.
left() {
    local most=$1 rest=$((LONGEST - (SECONDS - began)))
    shift
    [ "$rest" -gt 5 ] || { echo "gpu.sh: no time is left for $*" >&2; return 124; }
    timeout --kill-after=5 "$((most < rest ? most : rest))" "$@"
}
# The path of compute-sanitizer, if there is one.
sanitizer() {
    local found
    for found in "$(command -v compute-sanitizer || true)" /usr/local/cuda*/bin/compute-sanitizer; do
        [ ! -x "$found" ] || { echo "$found"; return; }
    done
}
run() {
    [ -x "$folder/$program" ] || fail "nothing is built: scripts/gpu.sh --build"
    local libraries status=0
    libraries=$(wheels)
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}${libraries:+:$libraries}
    [ ! -x "$folder/rival" ] || export SERIATIM_CUDASTF=${SERIATIM_CUDASTF:-$folder/rival}
    local said
    said=$(left 60 "$folder/$program" found) || { status=$?; echo "$said"; exit "$status"; }
    mkdir -p "$results"
    local facts=() checker name part
    if command -v nvidia-smi >/dev/null; then
        name=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1) || name=unknown
        facts+=(--fact "device and driver=$name")
    fi
    checker=$(sanitizer)
    if [ -n "$checker" ]; then
        for part in checks "programs --quick --seconds 15"; do
            # shellcheck disable=SC2086
            if left 90 "$checker" --tool memcheck --error-exitcode 9 "$folder/$program" $part; then
                facts+=(--fact "compute-sanitizer, ${part%% *}=silent")
            else
                status=1
                facts+=(--fact "compute-sanitizer, ${part%% *}=FAILED")
            fi
        done
    else
        facts+=(--fact "compute-sanitizer=not available")
    fi
    local example arguments
    for example in digits_gpu pipeline_gpu; do
        arguments=(cuda)
        [ "$example" != digits_gpu ] || arguments+=("$folder/digits.csv.gz")
        # Where the vendor's libraries are not to be had, the table says so.
        if left 60 "$folder/$example" "${arguments[@]}" >"$results/$example.txt" 2>&1; then
            facts+=(--fact "$example=as it should be")
        else
            facts+=(--fact "$example=$(tail -1 "$results/$example.txt")")
            grep -q 'is not to be had' "$results/$example.txt" || status=1
        fi
        cat "$results/$example.txt"
    done
    left "$LONGEST" "$folder/$program" all "${facts[@]}" --output "$results" || status=1
    echo "results: $results/gpu.json and gpu.md, after $((SECONDS - began)) s"
    return "$status"
}
check() {
    compile
    began=$SECONDS
    local release=$target/release example
    for example in digits_gpu pipeline_gpu; do
        left 60 "$release/examples/$example"
    done
    rm -rf "$folder-check"
    left 300 "$release/$program" all --standin --quick --output "$folder-check"
    left 60 "$release/$program" calls --standin
    # Every row has a figure without a time, or says why it has none.
    python3 - "$folder-check/gpu.json" <<'PYTHON'
import json
import sys

rows = json.load(open(sys.argv[1]))["rows"]
wrong = [row for row in rows if row["verdict"] != "stand-in, no time" and not row["verdict"].startswith("not available")]
bare = [row for row in rows if row["verdict"] == "stand-in, no time" and row["ours"] is None]
if wrong or bare or len(rows) < 30 or sum(row["ours"] is not None for row in rows) < 30:
    sys.exit(f"gpu.sh: {len(rows)} rows, of which these are not as they should be: {wrong + bare}")
PYTHON
    echo "checked over the stand-in: $folder-check/gpu.md"
}

case "${1:-}" in
    "")
        build
        run
        ;;
    --build) build ;;
    --run) run ;;
    --check) check ;;
    *)
        echo "gpu.sh: unknown argument $1; scripts/gpu.sh --help says more" >&2
        exit 2
        ;;
esac
