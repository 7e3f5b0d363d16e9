#!/usr/bin/env bash
# Runs the tests of GPUs over OpenCL (tests/opencl.rs): a back end that is not CUDA's, real kernels,
# and random programs. The device is the processor, by PoCL, so no GPU is needed.
#
#   scripts/opencl.sh                     half a minute the first time, then some seconds
#   SERIATIM_GPU_SEED=7 scripts/opencl.sh other random programs
#   LONG_TESTS=1 scripts/opencl.sh        ten times as many programs
#
# PoCL comes from PyPI, of a pinned version and hash, 58 MB for Linux on x86-64; it stays in
# <target folder>/pocl. SERIATIM_TEST_OPENCL=FILE takes another driver: the library that a file of
# /etc/OpenCL/vendors names. TEST_LIMIT is the time limit of scripts/timed.sh.
#
# Exit status: 0 if all is well; 1 if not; 2 wrong arguments; 3 if PoCL is not to be had, and
# nothing was tested; 124 if the time limit was reached.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

[ $# = 0 ] || {
    echo "opencl.sh: unknown argument $1; scripts/opencl.sh --help says more" >&2
    exit 2
}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
environment=$target/pocl
wheel="pocl-binary-distribution==3.0 --hash=sha256:b70c3d7835afd9aabc43dcffe0035d6a71d54eb35d8d55fc2fd4eb1e037128a9"

skip() {
    rm -rf "$environment"
    echo "opencl.sh: skipped: ${wheel% --*} could not be installed (needs python3-venv, PyPI, and Linux on x86-64)" >&2
    exit 3
}
# Made anew when the pinned version changes.
get_pocl() {
    [ "$(cat "$environment/made-from" 2>/dev/null)" != "$wheel" ] || return 0
    rm -rf "$environment"
    mkdir -p "$target"
    python3 -m venv "$environment" || skip
    echo "$wheel" >"$environment/wheel"
    if ! timeout 180 "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes --requirement "$environment/wheel" 2>"$environment/said"; then
        cat "$environment/said" >&2
        # Another file under that name is no reason to skip.
        ! grep -q 'DO NOT MATCH THE HASHES' "$environment/said" || exit 1
        skip
    fi
    mv "$environment/wheel" "$environment/made-from"
}
if [ -z "${SERIATIM_TEST_OPENCL:-}" ]; then
    get_pocl
    libraries=("$environment"/lib/python3*/site-packages/pyopencl/.libs/libpocl-*.so)
    export SERIATIM_TEST_OPENCL=${libraries[0]}
fi
# Two devices, and threads enough for kernels to run at the same time on any machine. What PoCL has
# compiled is kept.
export POCL_DEVICES="pthread pthread" POCL_MAX_PTHREAD_COUNT=4 POCL_CACHE_DIR=$environment/cache
mkdir -p "$POCL_CACHE_DIR"
# The packages of scripts/test.sh, so that nothing is built twice.
scripts/timed.sh cargo test --workspace --exclude seriatim-modelled --release --test opencl -- --nocapture
