#!/usr/bin/env bash
# Makes a Python environment with MXNet 1.9.1, the last release, and the NumPy that it works with,
# and prints its folder: <target folder>/mxnet-venv. If it is there already it only prints.
#
#   scripts/mxnet-venv.sh
#
# Needs x86-64 Linux, a Python from 3.7 to 3.11 with venv (PYTHON names it) and, the first time,
# PyPI. Exit status: 0 it is there; 3 MXNet is not to be had.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
skip() {
    echo "mxnet-venv.sh: skipped: $*" >&2
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
        "$environment/bin/pip" install --quiet --disable-pip-version-check "${versions[@]}"; } >&2; then
        rm -rf "$environment"
        skip "${versions[*]} could not be installed (needs python3-venv and PyPI)"
    fi
    echo "$made_from" >"$environment/made-from"
fi
echo "$environment"
