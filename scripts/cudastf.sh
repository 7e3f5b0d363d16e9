#!/usr/bin/env bash
# Runs random programs of NVIDIA's CUDASTF over the stand-in for CUDA's driver, without a GPU
# (tests/cudastf/): the stand-in's checker of order must be silent about another engine than ours
# too, and must find the same programs when the driver swallows waits.
#
#   scripts/cudastf.sh                     half a minute, most of it for the compiler
#   scripts/cudastf.sh --rival             builds the rival of perf/gpu/README.md instead, twice: for
#                                          a GPU (<target folder>/cudastf/rival, which scripts/gpu.sh
#                                          takes along), and over the stand-in, where it is run, and
#                                          its calls of the driver are printed beside the engine's
#   SERIATIM_GPU_SEED=7 scripts/cudastf.sh other random programs
#   LONG_TESTS=1 scripts/cudastf.sh        ten times as many programs
#
# CUDASTF is a part of NVIDIA's CCCL that no package has: CCCL_INCLUDE=FOLDER names a clone of
# github.com/NVIDIA/cccl, or a folder with cuda/experimental/stf.cuh. It is not fetched. CUDA's own
# headers are those of CUDA_INCLUDE=FOLDER; else those that lie installed; else they come from PyPI,
# of pinned versions and hashes, 2.4 MB, and stay in <target folder>/cudastf. CXX is the compiler.
#
# Exit status: 0 if all is well; 1 if not; 2 wrong arguments; 3 skipped: no CUDASTF, no headers of
# CUDA, or no compiler for C++; 124 if the time limit of scripts/timed.sh was reached.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

what=${1:-programs}
[ $# -le 1 ] && [[ $what = programs || $what = --rival ]] || {
    echo "cudastf.sh: unknown argument ${!#}; scripts/cudastf.sh --help says more" >&2
    exit 2
}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$target/cudastf
compiler=${CXX:-g++}
wheels="nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
nvidia-cuda-crt==13.0.88 --hash=sha256:2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4"

skip() {
    echo "cudastf.sh: skipped: $*" >&2
    exit 3
}
command -v "$compiler" >/dev/null || skip "there is no $compiler"

# ---- Headers ----

# first FILE FOLDER …: the first folder that has the file.
first() {
    local file=$1 one
    shift
    for one in "$@"; do
        [ ! -f "$one/$file" ] || { echo "$one"; return; }
    done
}
stf=cuda/experimental/stf.cuh
if [ -n "${CCCL_INCLUDE:-}" ]; then
    cccl=$(first $stf "$CCCL_INCLUDE" "$CCCL_INCLUDE/cudax/include")
else
    cccl=$(first $stf /usr/local/include /usr/include /usr/local/cuda*/include/cccl "${CONDA_PREFIX:-/usr}/include")
fi
[ -n "$cccl" ] || skip "$stf is not in ${CCCL_INCLUDE:-a usual place}; CCCL_INCLUDE can name a clone of NVIDIA/cccl"
# In a clone each library has a folder of its own.
libraries=("$cccl")
clone=${cccl%/cudax/include}
[ "$clone" = "$cccl" ] || libraries+=("$clone/libcudacxx/include" "$clone/thrust" "$clone/cub")

# Made anew when the pinned versions change.
get_cuda() {
    [ "$(cat "$folder/venv/made-from" 2>/dev/null)" != "$wheels" ] || return 0
    rm -rf "$folder/venv"
    python3 -m venv "$folder/venv" || skip "headers of CUDA are not installed, and python3-venv is not either"
    echo "$wheels" >"$folder/venv/wheels"
    if ! timeout 180 "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes --requirement "$folder/venv/wheels" 2>"$folder/said"; then
        cat "$folder/said" >&2
        # Another file under that name is no reason to skip.
        ! grep -q 'DO NOT MATCH THE HASHES' "$folder/said" || exit 1
        skip "headers of CUDA are not installed, and could not be (needs PyPI, and Linux on x86-64)"
    fi
    mv "$folder/venv/wheels" "$folder/venv/made-from"
}
mkdir -p "$folder"
if [ -n "${CUDA_INCLUDE:-}" ]; then
    cuda=$(first cuda_runtime.h "$CUDA_INCLUDE")
    [ -n "$cuda" ] || skip "cuda_runtime.h is not in $CUDA_INCLUDE"
else
    cuda=$(first cuda_runtime.h /usr/local/cuda*/include /usr/local/include /usr/include)
    if [ -z "$cuda" ]; then
        get_cuda
        cuda=$(first cuda_runtime.h "$folder"/venv/lib/python3*/site-packages/nvidia/cu13/include)
    fi
fi

# ---- Build ----

# A library that C++ can be linked to, of the driver that tests in Rust load.
cargo rustc --quiet --release --package cuda-standin --lib --crate-type staticlib
flags=(-std=c++17 -Wall -Wextra -I "$folder")
for one in "${libraries[@]}" "$cuda"; do
    flags+=(-isystem "$one")
done
# compile LEVEL FILE …: adds to `objects`.
compile() {
    local level=$1 source object
    shift
    for source in "$@"; do
        object=$folder/$(basename "$(dirname "$source")")-$(basename "$source" .cpp).o
        "$compiler" "${flags[@]}" "$level" -c "$source" -o "$object"
        objects+=("$object")
    done
}
# over_standin PROGRAM: links `objects`.
over_standin() {
    "$compiler" -o "$folder/$1" "${objects[@]}" "$target/release/libcuda_standin.a" -lpthread -ldl -lm
}

# ---- The rival ----

fail() {
    echo "cudastf.sh: $*" >&2
    exit 1
}
# For a GPU: CUDA's runtime is linked in; the driver is the machine's own, so that a library of its
# name stands for it here.
for_gpu() {
    local cudart functions
    cudart=$(first libcudart_static.a "$cuda/../lib" "$cuda/../lib64" /usr/local/cuda*/lib64 /usr/lib/*-linux-gnu)
    [ -n "$cudart" ] || {
        echo "the rival for a GPU is not linked: there is no libcudart_static.a"
        return
    }
    functions=$(nm --undefined-only "${objects[@]}" | sed -n 's/^ *U \(cu[A-Z].*\)$/\1/p' | sort -u)
    sed 's/.*/void &(void) {}/' <<<"$functions" >"$folder/driver.c"
    "$compiler" -x c -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$folder/libcuda-stub.so" "$folder/driver.c"
    "$compiler" -s -o "$folder/rival" "${objects[@]}" "$folder/libcuda-stub.so" "$cudart/libcudart_static.a" \
        -static-libstdc++ -static-libgcc -lpthread -ldl -lrt -lm
    echo "built: $folder/rival, $(stat -c %s "$folder/rival") bytes, for SERIATIM_CUDASTF"
}
rival() {
    local folder_of=tests/cudastf/rival program answer shared
    { echo 'R"PTX('; cat perf/gpu/src/kernels/kernels.ptx; echo ')PTX"'; } >"$folder/kernels.inc"
    flags+=(-DNDEBUG)
    objects=()
    compile -O2 $folder_of/main.cpp
    shared=("${objects[@]}")
    compile -O2 $folder_of/on_gpu.cpp
    for_gpu
    objects=("${shared[@]}")
    compile -O2 $folder_of/on_standin.cpp tests/cudastf/runtime/*.cpp
    over_standin rival-standin
    for program in chain two-streams fan-{1,4,16,64} random readers pushers-{2,4} asleep; do
        answer=$(echo "$program 40" | scripts/timed.sh "$folder/rival-standin")
        [[ $answer = *'"right":true'* ]] || fail "the rival is not right over the stand-in: $answer"
    done
    # It would notice.
    answer=$(echo "random 400" | scripts/timed.sh "$folder/rival-standin" --forgets)
    [[ $answer = *'"right":false'* ]] || fail "the rival is right though the driver forgets waits: $answer"
    cargo build --quiet --release --package seriatim-gpu-bench --package cuda-standin \
        --features seriatim-gpu-bench/cuda --bins --lib
    SERIATIM_CUDASTF=$folder/rival-standin scripts/timed.sh "$target/release/seriatim-gpu-bench" calls --standin
}
echo "CUDASTF of $cccl, CUDA of $cuda"
if [ "$what" = --rival ]; then
    rival
    exit
fi

# ---- The programs ----

objects=()
compile -O1 tests/cudastf/*.cpp tests/cudastf/runtime/*.cpp
over_standin programs
seed=${SERIATIM_GPU_SEED:-1}
many=${LONG_TESTS:+0}
run() {
    scripts/timed.sh "$folder/programs" "$@"
}
run "$seed" "500$many"
# Faults of the driver, as tests/cuda-standin/src/planted.rs numbers them. CUDASTF asks no event
# whether it is done, so that one is not there.
run "$seed" "100$many" 0 20 # waits swallowed
run "$seed" "100$many" 1 4  # events recorded too early
run "$seed" "100$many" 3 1  # streams that are not waited for
