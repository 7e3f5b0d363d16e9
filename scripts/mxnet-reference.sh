#!/usr/bin/env bash
# Makes the data that tensor/tests/mxnet.rs compares the tensor crate's operators with: inputs,
# outputs, gradients and states of MXNet 1.9.1, the last release, and the names of what its
# operators take and give.
#
#   scripts/mxnet-reference.sh            writes tensor/tests/data/mxnet-1.9.1.{txt,params.gz} and
#                                         tensor/tests/data/mxnet-1.9.1-lists.txt
#   scripts/mxnet-reference.sh --check    makes them again and compares with the files: the same
#                                         cases, and values that differ by rounding at most
#   scripts/mxnet-reference.sh --digits   only trains networks on the digits with MXNet, and prints
#                                         how many images they read right
#
# The cases are in scripts/mxnet_cases.py and are drawn from fixed seeds. They run on one thread.
# The files lie in the repository, so that the test needs neither MXNet nor this script.
#
# Needs x86-64 Linux, a Python from 3.7 to 3.11 with venv (PYTHON names it) and, the first time,
# PyPI: MXNet and the NumPy that it works with go to <target folder>/mxnet-venv.
#
# Exit status: 0 all is well; 1 something is wrong; 2 wrong arguments; 3 MXNet is not to be had.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
case "${1:-}" in
    "" | --check | --digits) ;;
    *) echo "usage: scripts/mxnet-reference.sh [--check | --digits]" >&2 && exit 2 ;;
esac
skip() {
    echo "mxnet-reference.sh: skipped: $*" >&2
    exit 3
}
[ "$(uname -sm)" = "Linux x86_64" ] || skip "PyPI has mxnet 1.9.1 for x86-64 Linux only"

# NumPy 1.24 has no more numpy.bool, which MXNet 1.9.1 names.
fits() {
    "$1" -c 'import sys; sys.exit(not (3, 7) <= sys.version_info[:2] <= (3, 11))' 2>/dev/null
}
python=${PYTHON:-}
if [ -z "$python" ]; then
    for candidate in python3 python3.11 python3.10 python3.9 python3.8 ~/.pyenv/versions/3.{11,10,9,8}.*/bin/python3; do
        if fits "$candidate"; then python=$candidate && break; fi
    done
fi
[ -n "$python" ] && fits "$python" || skip "there is no Python from 3.7 to 3.11"

target=${CARGO_TARGET_DIR:-target}
environment=$target/mxnet-venv
versions=(mxnet==1.9.1 "numpy<1.24")
made_from="$("$python" -VV) ${versions[*]}"
if [ "$(cat "$environment/made-from" 2>/dev/null)" != "$made_from" ]; then
    rm -rf "$environment"
    mkdir -p "$target"
    if ! { "$python" -m venv "$environment" &&
        "$environment/bin/pip" install --quiet --disable-pip-version-check "${versions[@]}"; }; then
        rm -rf "$environment"
        skip "${versions[*]} could not be installed (needs python3-venv and PyPI)"
    fi
    echo "$made_from" >"$environment/made-from"
fi
# One thread adds in one order. MXNet's own kernels say what an operator means; those of oneDNN are
# other code on each processor.
export OMP_NUM_THREADS=1 MXNET_MKLDNN_ENABLED=0 MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0
export PYTHONPATH=scripts PYTHONDONTWRITEBYTECODE=1
case "${1:-}" in
    --digits) exec "$environment/bin/python" scripts/mxnet_digits.py digits/data/digits.csv.gz ;;
    --check) exec "$environment/bin/python" scripts/mxnet_reference.py --check tensor/tests/data ;;
    *) exec "$environment/bin/python" scripts/mxnet_reference.py tensor/tests/data ;;
esac
