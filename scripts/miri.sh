#!/usr/bin/env bash
# Runs tests of the library under Miri, which finds undefined behaviour: uses of memory that Rust's
# rules of aliasing forbid (Tree Borrows), data races, and uses after the end. It runs another
# interleaving, and lets loads see other old values, for each seed.
#
#   scripts/miri.sh                    the oracle, programs over arrays of devices, over typed
#                                      values and of scopes, and the storage, files and DLPack of
#                                      tensor/, with 92 seeds: hours
#   scripts/miri.sh 2                  with so many seeds
#   scripts/miri.sh --tensor 1         only what is of tensor/
#   scripts/miri.sh --engine 1         only what is not
#   SERIATIM_MIRI_FIRST_SEED=40 scripts/miri.sh 2
#   scripts/miri.sh --teeth            only the mistakes of tests/sanitizer_stress/plant.rs:
#                                      each must be reported
#
# Tree Borrows and not Stacked Borrows, which fails inside crossbeam-epoch. Needs a nightly Rust
# with miri and rust-src; rustup adds those if it can.
#
# Exit status: 0 clean, and every planted mistake reported; 1 not; 2 wrong arguments; 3 if Miri is
# not to be had.
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=92 engine=yes tensor=yes
case "${1:-}" in
    --tensor) engine=no && shift ;;
    --engine) tensor=no && shift ;;
esac
case "${1:-}" in
    "") ;;
    --teeth) seeds=0 ;;
    *[!0-9]*)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
        [ "$1" = --help ] || [ "$1" = -h ] || exit 2
        exit 0
        ;;
    *) seeds=$1 ;;
esac
first=${SERIATIM_MIRI_FIRST_SEED:-0}
package=scripts/sanitizers/Cargo.toml
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri" CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 RUST_BACKTRACE=0

say() {
    printf '[%3d s] %s\n' "$SECONDS" "$*"
}

cargo +nightly miri --version >/dev/null 2>&1 ||
    timeout 300 rustup component add --toolchain nightly miri rust-src >/dev/null 2>&1 || true
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "skipped: there is no Miri; get it with: rustup toolchain install nightly --component miri,rust-src"
    exit 3
fi
mkdir -p "$CARGO_TARGET_DIR"
log=$CARGO_TARGET_DIR/log
# The small package has no lock file of its own: it takes the versions that the workspace has.
cp Cargo.lock scripts/sanitizers/Cargo.lock

# miri SEED ARGUMENTS: runs tests. Miri's own clock goes by what has been run, and no file is read: a seed always does the same.
miri() {
    # Leaks are for scripts/sanitizers.sh: the thread that watches the oracle is still there at the end.
    local seed=$1 flags="-Zmiri-tree-borrows -Zmiri-isolation-error=hide -Zmiri-ignore-leaks" variable
    shift
    for variable in PLANT ORACLE_OPS ORACLE_FIRST_SEED ORACLE_PATIENCE; do flags+=" -Zmiri-env-forward=SERIATIM_$variable"; done
    flags+=" -Zmiri-env-forward=ARRAYS_SEED -Zmiri-env-forward=TYPED_SEED -Zmiri-env-forward=MIXED_SEED"
    MIRIFLAGS="$flags -Zmiri-seed=$seed" cargo +nightly miri test "$@" >"$log" 2>&1
}

# Built without the variables: Miri prefers what they were when it built to what they are when it runs.
env -u SERIATIM_PLANT -u SERIATIM_ORACLE_OPS -u SERIATIM_ORACLE_FIRST_SEED -u SERIATIM_ORACLE_PATIENCE \
    -u ARRAYS_SEED -u TYPED_SEED -u MIXED_SEED cargo +nightly miri test --quiet --manifest-path "$package" --test sanitizer_stress --test oracle --test arrays --test typed --test scopes --no-run
[ "$tensor" = no ] || cargo +nightly miri test --quiet --package seriatim-tensor --lib --test dlpack --test endings --no-run

# ---- The planted mistakes ----

plant() {
    if SERIATIM_PLANT=$1 miri 0 --manifest-path "$package" --test sanitizer_stress || ! grep -qE "$2" "$log"; then
        echo "FAILED: Miri does not report the planted mistake '$1':"
        tail -n 15 "$log" | cut -c1-200
        exit 1
    fi
    say "reports the planted mistake '$1'"
}
plant use-after-free 'Undefined Behavior: .*(dangling|freed)'
plant race 'Undefined Behavior: Data race'
plant uninitialised 'Undefined Behavior: .*uninitialized'
[ "$seeds" -gt 0 ] || exit 0

# ---- The tests ----

failures=0
try() {
    local what=$1
    shift
    if miri "$@"; then
        say "$what: $(sed -n 's/^test result: //p' "$log" | paste -sd' ' | cut -c1-60)"
    else
        failures=$((failures + 1))
        say "$what: FAILED"
        grep -A 30 -E '^error|panicked' "$log" | head -40 | cut -c1-200
    fi
}
for ((seed = first; seed < first + seeds; seed++)); do
    if [ "$tensor" = yes ]; then
        try "storage and files of tensor/, seed $seed" "$seed" --package seriatim-tensor --lib -- storage:: serialize::
        try "DLPack, seed $seed" "$seed" --package seriatim-tensor --test dlpack
        try "ends of arrays, seed $seed" "$seed" --package seriatim-tensor --test endings
    fi
    [ "$engine" = yes ] || continue
    export SERIATIM_ORACLE_OPS=1 SERIATIM_ORACLE_FIRST_SEED=$seed SERIATIM_ORACLE_PATIENCE=100000
    # The kind of engine, the type and the length are the seed's.
    for of in "$seed" $((seed + 1)) $((seed + 2)); do
        ARRAYS_SEED=$of try "arrays of devices, seed $of" "$seed" --manifest-path "$package" --test arrays
    done
    TYPED_SEED=$seed try "typed values, seed $seed" "$seed" --manifest-path "$package" --test typed programs::
    MIXED_SEED=$seed try "results, guards, futures and scopes, seed $seed" "$seed" --manifest-path "$package" --test typed mixed::
    try "scopes, seed $seed" "$seed" --manifest-path "$package" --test scopes oracle::
    try "oracle, seed $seed" "$seed" --manifest-path "$package" --test oracle a_million_random_operations_run_in_one_serial_order
done
[ "$failures" = 0 ] || { echo "NOT CLEAN: $failures failures, see above"; exit 1; }
echo "clean"
