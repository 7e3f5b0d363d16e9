#!/usr/bin/env bash
# seriatim-make beside ninja, on a CMake project of 232 compile edges with generated headers,
# response files and restat: the same files, after random edits the same rebuilt edges, each goes on
# with the other's logs. Then the times of a clean build and of one with nothing to do.
#
#   scripts/make.sh [SEED]              a minute on two cores; other edits for each seed (default 1)
#   scripts/make.sh --figures [SEED]    medians of 5 clean builds, and 60 rounds of edits
#   scripts/make.sh --project FOLDER [SEED] [-- CMAKE-ARGUMENT …]
#                                       the figures on a project of yours, which is copied
#
# Needs a C compiler, python3 with venv and, the first time, PyPI for CMake and ninja, of pinned
# versions, which stay in <target folder>/make-venv.
#
# Exit status: 0 if all is the same and the times are within bounds: 1.05 times ninja's for a clean
# build (figures only), 20 ms more for nothing to do; 1 if not; 2 wrong arguments; 3 if CMake, ninja
# or a compiler are not to be had.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
environment=$target/make-venv
versions=(cmake==3.31.6 ninja==1.13.0)
arguments=() seed=1
while [ $# -gt 0 ]; do
    case "$1" in
        --figures) arguments+=(--figures) ;;
        --project)
            [ -d "${2:-}" ] || { echo "make.sh: --project takes a folder" >&2; exit 2; }
            arguments+=(--figures --project "$(realpath "$2")")
            shift
            ;;
        --) break ;;
        *[!0-9]* | "") echo "make.sh: unknown argument $1; scripts/make.sh --help says more" >&2; exit 2 ;;
        *) seed=$1 ;;
    esac
    shift
done
skip() {
    echo "make.sh: skipped: $1" >&2
    exit 3
}
command -v cc >/dev/null || skip "there is no C compiler"
if [ "$(cat "$environment/made-from" 2>/dev/null)" != "${versions[*]}" ]; then
    rm -rf "$environment"
    mkdir -p "$target"
    if ! { python3 -m venv "$environment" &&
        timeout 180 "$environment/bin/pip" install --quiet --disable-pip-version-check "${versions[@]}"; }; then
        rm -rf "$environment"
        skip "${versions[*]} could not be installed (needs python3-venv and PyPI)"
    fi
    echo "${versions[*]}" >"$environment/made-from"
fi
cargo build --quiet --release -p seriatim-make
exec "$environment/bin/python" scripts/make_versus_ninja.py --ours "$target/release/seriatim-make" \
    --tools "$environment/bin" --work "$target/make-project" --seed "$seed" "${arguments[@]}" "$@"
