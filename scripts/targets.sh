#!/usr/bin/env bash
# Whether the library compiles for other systems, and without a warning: nothing is linked or run.
#
#   scripts/targets.sh               64-bit Arm Linux, macOS (x86-64 and Arm) and Windows
#   scripts/targets.sh TRIPLE ...    these, as rustup names them, such as x86_64-unknown-freebsd
#
# What this sees is code that only other systems have, and calls that they lack. What the code does
# there is for tests to say: scripts/architectures.sh runs them on 64-bit Arm. The library, the C
# interface and the examples are compiled, the library also with the feature cuda; the tests too, if
# the target is a Unix-like system.
#
# Takes the standard library of each target from rustup.
#
# Exit status: 0 if all is well; 1 if not; 2 wrong arguments; 3 otherwise well, but a target was
# skipped, because its standard library is not to be had.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

for argument in "$@"; do
    case "$argument" in
        -*)
            echo "targets.sh: unknown option $argument; scripts/targets.sh --help says more" >&2
            exit 2
            ;;
    esac
done
triples=("$@")
[ $# -gt 0 ] || triples=(aarch64-unknown-linux-gnu x86_64-apple-darwin aarch64-apple-darwin x86_64-pc-windows-gnu)
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0

sysroot=$(rustc --print sysroot)
has() {
    compgen -G "$sysroot/lib/rustlib/$1/lib/libstd-*" >/dev/null
}
# check TRIPLE ARGUMENT …: clippy, or else the compiler alone.
check() {
    local what=(--locked --quiet --package seriatim --package seriatim_c --target "$@")
    if cargo clippy --version >/dev/null 2>&1; then
        cargo clippy "${what[@]}" -- -D warnings
    else
        RUSTFLAGS="-D warnings" cargo check "${what[@]}"
    fi
}

failed=0 skipped=0
for triple in "${triples[@]}"; do
    has "$triple" || timeout 120 rustup target add "$triple" >/dev/null 2>&1 || true
    if ! has "$triple"; then
        echo "$triple: skipped: its standard library is not to be had; get it with: rustup target add $triple"
        skipped=$((skipped + 1))
        continue
    fi
    parts=(--lib --examples)
    case "$triple" in *-windows-*) ;; *) parts+=(--tests) ;; esac
    if check "$triple" "${parts[@]}" && check "$triple" --features seriatim/cuda --lib; then
        echo "$triple: well"
    else
        echo "$triple: FAILED"
        failed=$((failed + 1))
    fi
done
[ "$failed" = 0 ] || exit 1
[ "$skipped" = 0 ] || exit 3
