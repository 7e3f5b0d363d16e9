#!/usr/bin/env bash
# Builds the Python binding (bindings/python/) and tests it: a wheel for every Python from 3.12 on
# (abi3); one for Python 3.11, as `pip install` builds it; and, where PYTHON_FREE_THREADED names a
# free-threaded Python, one for that. Lints it, checks its types and its stubs against the module,
# and runs the programs of its documents.
#
#   scripts/python.sh            all of it
#   scripts/python.sh --quick    fewer random programs: for CI, six minutes on two cores
#   scripts/python.sh --teeth    also shows that the tests find mistakes that are built in
#   scripts/python.sh --compare  only prints the tables: a tiled Cholesky factorization and small
#                                calls, beside concurrent.futures, dask, joblib and asyncio
#
# PYTHON names the Python, by default the newest of 3.11 to 3.14 that is found. PYTHON_311 names the
# Python 3.11, by default one that is found; if it is set and empty, pip is not tried. The packages
# come from PyPI, into target/python/. If PyPI has no NumPy for the free-threaded Python, the tests
# of arrays are left out there.
#
# Exit status: 0 all is well; 1 something is wrong; 2 wrong arguments; 3 there is no Python of 3.11
# or newer, or PyPI cannot be reached.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

what=all
case "${1:-}" in
    "") ;;
    --quick | --teeth | --compare) what=${1#--} ;;
    *) echo "usage: scripts/python.sh [--quick | --teeth | --compare]" >&2 && exit 2 ;;
esac
wrong() {
    echo "wrong: $*" >&2
    exit 1
}
skip() {
    echo "skipped: $*"
    exit 3
}
begin=$SECONDS
say() {
    printf '[%3d s] %s\n' "$((SECONDS - begin))" "$*"
}

# ---- The Pythons ----

# is_of PYTHON MINOR MINOR: whether it is a Python from the first 3.x to the second.
is_of() {
    "$1" -c 'import sys; v = sys.version_info; sys.exit(not (3, int(sys.argv[1])) <= v[:2] <= (3, int(sys.argv[2])))' \
        "$2" "$3" 2>/dev/null
}
# newest MINOR MINOR: the newest Python from the first 3.x to the second.
newest() {
    local minor candidate
    for ((minor = $2; minor >= $1; minor--)); do
        for candidate in "python3.$minor" python3 ~/.pyenv/versions/"3.$minor".*/bin/python3; do
            if is_of "$candidate" "$minor" "$minor"; then command -v "$candidate" && return; fi
        done
    done
}
python=${PYTHON:-$(newest 11 14)}
[ -n "$python" ] && is_of "$python" 11 99 || skip "there is no Python of 3.11 or newer"
old=${PYTHON_311-$(newest 11 11)}
[ -z "$old" ] || is_of "$old" 11 11 || wrong "$old is not Python 3.11"
free=${PYTHON_FREE_THREADED:-}
[ -z "$free" ] || "$free" -c 'import sys; sys.exit(sys._is_gil_enabled())' || wrong "$free is not free-threaded"

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/python"
work=$(cd "$target/python" && pwd) binding=bindings/python
# What PyO3 makes differs with the Python: each wheel has a folder of its own.
build_in=$work/build
unset PYO3_PYTHON

# Newest on PyPI when this was written; no other version comes in unasked.
tools=(maturin==1.16.0 mypy==2.4.1)
tests=(pytest==9.2.0)
numpy=numpy==2.5.5 scipy=scipy==1.18.1
old_numpy=numpy==2.4.6 old_scipy=scipy==1.17.1 # The last ones for Python 3.11.
rivals=(dask==2026.8.0 joblib==1.6.0 threadpoolctl==3.8.0)
# NumPy 2.5 has wheels for free-threaded 3.14, and 2.4 has some for 3.13.
free_numpy=numpy
[ -z "$free" ] || free_numpy=$("$free" -c 'import sys; print("numpy==2.5.5" if sys.version_info >= (3, 14) else "numpy==2.4.6")')

# The wheel of the Python: the limited API has what it needs from 3.12 on.
kind=abi3 features=(--features abi3) tag=-cp312-abi3-
if ! is_of "$python" 12 99; then
    kind=cp311 features=() tag=-cp311-cp311- numpy=$old_numpy scipy=$old_scipy
fi

# environment NAME PYTHON PACKAGE…: a fresh one, or an old one if it was made for the same.
environment() {
    local folder=$work/$1 python=$2 made
    shift 2
    made="$("$python" -VV) $*"
    [ "$(cat "$folder/made" 2>/dev/null)" != "$made" ] || return 0
    rm -rf "$folder"
    "$python" -m venv "$folder"
    timeout 300 "$folder/bin/python" -m pip install --quiet --retries 1 --only-binary :all: "$@" >"$work/pip.log" 2>&1 || return 1
    echo "$made" >"$folder/made"
}
environment tools "$python" "${tools[@]}" || skip "PyPI has no ${tools[*]} for this machine, or cannot be reached: $work/pip.log"
tool=$work/tools/bin

# wheel NAME PYTHON FOLDER ARGUMENT…: builds the wheel of the crate in FOLDER, as $work/wheels-NAME/*.whl.
wheel() {
    local name=$1 python=$2 folder=$3
    shift 3
    rm -rf "$work/wheels-$name"
    CARGO_TARGET_DIR=$build_in-$name "$tool/maturin" build --quiet --release --locked --manifest-path "$folder/Cargo.toml" \
        --interpreter "$python" --out "$work/wheels-$name" "$@" >"$work/wheel.log" 2>&1 || { cat "$work/wheel.log" && return 1; }
}
# install NAME ENVIRONMENT
install() {
    "$work/$2/bin/python" -m pip install --quiet --force-reinstall --no-deps "$work/wheels-$1"/*.whl
}
# pytest_in ENVIRONMENT ARGUMENT…
pytest_in() {
    local folder=$work/$1
    shift
    (cd "$binding" && timeout 600 "$folder/bin/python" -B -m pytest -q --no-header -p no:cacheprovider "$@")
}

if [ "$what" = compare ]; then
    environment rivals "$python" "$numpy" "$scipy" "${rivals[@]}" || skip "PyPI has not all of the rivals, or cannot be reached"
    wheel "$kind" "$python" "$binding" "${features[@]}" || wrong "the wheel"
    install "$kind" rivals
    # Settings for old OpenBLAS slow a new one down.
    unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
    "$work/rivals/bin/python" -VV
    "$work/rivals/bin/python" -B "$binding/compare/cholesky.py"
    echo
    "$work/rivals/bin/python" -B "$binding/compare/calls.py"
    exit 0
fi

# ---- The wheel for all Pythons, or for 3.11 ----

cargo fmt --version >/dev/null 2>&1 && (cd "$binding" && cargo fmt --check)
wheel "$kind" "$python" "$binding" "${features[@]}" || wrong "the wheel"
[[ $(echo "$work/wheels-$kind"/*.whl) == *"$tag"* ]] || wrong "the wheel is not tagged $tag"
say "the wheel is built: $tag"
environment plain "$python" "${tests[@]}" "$numpy" || skip "PyPI has no NumPy for this Python, or cannot be reached"
install "$kind" plain
[ "$what" = all ] || export SERIATIM_PYTHON_PROGRAMS=${SERIATIM_PYTHON_PROGRAMS:-20}
pytest_in plain || wrong "the tests"
say "the tests pass on $("$python" -V)"

# ---- Lints, types and stubs ----

if cargo clippy --version >/dev/null 2>&1; then
    PYO3_PYTHON=$(command -v "$python") CARGO_TARGET_DIR=$build_in-$kind \
        cargo clippy --quiet --locked --manifest-path "$binding/Cargo.toml" "${features[@]}" -- -D warnings
fi
install "$kind" tools
"$tool/python" -m pip install --quiet --only-binary :all: "$numpy" "${tests[@]}"
(cd "$work" && "$tool/python" -m mypy --strict --package seriatim)
(cd "$work" && "$tool/python" -m mypy.stubtest seriatim)
(cd "$binding/tests" && "$tool/python" -m mypy --strict --disable-error-code func-returns-value --cache-dir "$work/mypy" .)
say "the types are right, and the stubs are as the module is"

# ---- Python 3.11, by pip ----

if [ -z "$old" ]; then
    echo "skipped: Python 3.11: there is none"
else
    environment old "$old" "${tests[@]}" "$old_numpy" || skip "PyPI has no NumPy for Python 3.11, or cannot be reached"
    CARGO_TARGET_DIR=$build_in-cp311 "$work/old/bin/python" -m pip install --quiet "./$binding[arrays]" ||
        wrong "pip install on Python 3.11"
    pytest_in old || wrong "the tests on Python 3.11"
    say "pip install, and the tests, on $("$old" -V)"
fi

# ---- The wheel for free-threaded Python ----

if [ -z "$free" ]; then
    echo "skipped: free-threaded Python: PYTHON_FREE_THREADED names none"
else
    wheel free "$free" "$binding" || wrong "the wheel for free-threaded Python"
    if ! environment free "$free" "${tests[@]}" "$free_numpy"; then
        environment free "$free" "${tests[@]}" || skip "PyPI has no pytest, or cannot be reached"
        echo "skipped: arrays on free-threaded Python: PyPI has no NumPy for it"
    fi
    install free free
    pytest_in free || wrong "the tests on free-threaded Python"
    say "the tests pass on $("$free" -VV)"
fi
[ "$what" = teeth ] || exit 0

# ---- Mistakes that the tests must find ----

environment bitten "$python" "${tests[@]}" "$numpy"
# bite NAME FILE FROM TO TESTS: a copy of the binding with one change; the tests must fail, or hang.
bite() {
    local name=$1 file=$2 from=$3 to=$4 changed
    shift 4
    case "$file" in
        python/*)
            install "$kind" bitten
            changed=$(echo "$work/bitten"/lib/python3*/site-packages)/${file#python/}
            ;;
        *)
            rm -rf "$work/bitten-source" && mkdir -p "$work/bitten-source"
            cp -r "$binding"/{src,python,Cargo.toml,Cargo.lock,pyproject.toml,README.md} "$work/bitten-source"
            sed -i "s|path = \"../..\"|path = \"$PWD\"|" "$work/bitten-source/Cargo.toml"
            changed=$work/bitten-source/$file
            ;;
    esac
    "$tool/python" - "$changed" "$from" "$to" <<'END'
import sys
path, before, after = sys.argv[1:]
text = open(path).read()
sys.exit(f"{path} does not have: {before}") if before not in text else open(path, "w").write(text.replace(before, after, 1))
END
    if [[ $file != python/* ]]; then
        # Quick to build, and in a folder of its own.
        CARGO_PROFILE_RELEASE_OPT_LEVEL=1 wheel bitten "$python" "$work/bitten-source" "${features[@]}" ||
            wrong "the wheel with '$name'"
        install bitten bitten
    fi
    local status=0
    timeout 60 "$work/bitten/bin/python" -B -m pytest -q -x --no-header -p no:cacheprovider -c "$binding/pyproject.toml" \
        --rootdir "$binding" "${@/#/$binding/tests/}" >"$work/bitten.log" 2>&1 || status=$?
    # A test fails, the process is ended by the mistake, or it hangs.
    [ "$status" = 124 ] || [ "$status" -gt 128 ] || grep -q '^FAILED' "$work/bitten.log" ||
        wrong "the tests do not find '$name' (status $status): $work/bitten.log"
    say "found: $name"
}
source "$binding/teeth/list.sh"
say "all mistakes are found"
