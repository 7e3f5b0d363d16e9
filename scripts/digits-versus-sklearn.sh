#!/usr/bin/env bash
# The digits program beside scikit-learn (`rbf_kernel`, SciPy's `cho_factor` and `cho_solve`): the
# same images, the same sums in float64, the same answer, on one core and on two. Prints medians and
# extremes in milliseconds, and the ratio of the two in each round.
#
#   scripts/digits-versus-sklearn.sh [ROUNDS]   rounds of one run each, in turns (default 15)
#
# Both are timed after a warm-up, without starting and reading the images. All of a run's threads
# share its cores: N threads of OpenBLAS, or N workers and the thread that pushes. OpenBLAS chooses
# its own code for the processor: OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are unset.
#
# Needs Linux, python3 with venv and, the first time, PyPI: the pinned versions go to <target
# folder>/sklearn-venv. Exit status: 0 if both read 286 of 297 images right; 1 if not, or if a run
# fails; 2 wrong arguments; 3 if scikit-learn is not to be had.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
case "${1:-}" in
    "" | [1-9] | [1-9][0-9] | [1-9][0-9][0-9]) ;;
    *) echo "usage: scripts/digits-versus-sklearn.sh [ROUNDS, 1 to 999]" >&2 && exit 2 ;;
esac
target=${CARGO_TARGET_DIR:-target}
environment=$target/sklearn-venv
versions=(numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 threadpoolctl==3.8.0)
if [ "$(cat "$environment/made-from" 2>/dev/null)" != "${versions[*]}" ]; then
    rm -rf "$environment"
    mkdir -p "$target"
    if ! { python3 -m venv "$environment" &&
        "$environment/bin/pip" install --quiet --disable-pip-version-check "${versions[@]}"; }; then
        rm -rf "$environment"
        echo "digits-versus-sklearn.sh: skipped: ${versions[*]} could not be installed (needs python3-venv and PyPI)" >&2
        exit 3
    fi
    echo "${versions[*]}" >"$environment/made-from"
fi
cargo build --quiet --release -p digits
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS OMP_NUM_THREADS
exec "$environment/bin/python" scripts/digits_versus_sklearn.py "$target/release/digits" "${1:-15}"
