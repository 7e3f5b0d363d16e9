#!/usr/bin/env bash
# Runs tests on other architectures: 64-bit Arm (aarch64), under qemu, and 32-bit x86 (i686), which
# an x86-64 system runs itself.
#
#   scripts/architectures.sh                     both, all that can run there
#   scripts/architectures.sh --quick [NAME ...]  builds all, and runs some: for every change
#   scripts/architectures.sh aarch64             one of them
#
# What this sees is code that only those have: sizes of pointers and of cache lines, atomics that
# are made otherwise, fences instead of `membarrier`, a clock instead of a counter. qemu orders
# memory as the machine below it does, so it says nothing about orderings.
#
# Takes Rust from rustup or from Debian (scripts/with-rust.sh); linkers and qemu are installed by
# apt-get if the caller is root.
#
# Exit status: 0 if all holds; 1 if not; 2 wrong arguments; 3 otherwise well, but an architecture
# was skipped for want of a tool.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=no names=()
for argument in "$@"; do
    case "$argument" in
        --quick) quick=yes ;;
        aarch64 | i686) names+=("$argument") ;;
        *)
            sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
            [ "$argument" = --help ] || [ "$argument" = -h ] || exit 2
            exit 0
            ;;
    esac
done
[ ${#names[@]} -gt 0 ] || names=(aarch64 i686)
version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
case "$version" in *.*.*) ;; *) version+=.0 ;; esac
target=${CARGO_TARGET_DIR:-target}
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0

# ensure COMMAND PACKAGE …: whether the command is there, if need be after installing the packages.
ensure() {
    local command=$1
    shift
    command -v "$command" >/dev/null && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq >/dev/null 2>&1 || true
        apt-get install -y -qq "$@" >/dev/null 2>&1 || true
    fi
    command -v "$command" >/dev/null
}

# Without what starts child processes (qemu would have to start them) and without what asks the system for things that qemu does not
# have. Slow machines take longer: the tests that measure are left out.
tests=(--lib --test errors --test forms --test graphs --test hazards --test life --test oracle --test peer_semantics)
[ "$quick" = no ] || tests=(--lib --test forms --test oracle)

failed=0 skipped=0
for name in "${names[@]}"; do
    triple=$name-unknown-linux-gnu
    variable=CARGO_TARGET_$(echo "$triple" | tr 'a-z-' 'A-Z_')
    runner=
    [ "$name" = i686 ] || runner=qemu-$name
    if ! ensure "$name-linux-gnu-gcc" "gcc-$name-linux-gnu" || { [ -n "$runner" ] && ! ensure "$runner" qemu-user; }; then
        echo "$name: skipped: there is no $name-linux-gnu-gcc or no qemu; get them with: apt-get install gcc-$name-linux-gnu qemu-user"
        skipped=$((skipped + 1))
        continue
    fi
    [ -z "$runner" ] || export "${variable}_RUNNER=$runner"
    # Static, so that nobody needs that architecture's libraries in order to start.
    export "${variable}_LINKER=$name-linux-gnu-gcc" "${variable}_RUSTFLAGS=-Ctarget-feature=+crt-static"
    # A tenth of what is usual, under qemu.
    export SERIATIM_ORACLE_OPS=$([ "$quick" = yes ] && echo 20000 || echo 100000)
    log=$(mktemp "${TMPDIR:-/tmp}/seriatim-$name.XXXXXX")
    # A test of the library starts a child process.
    left_out=()
    [ -z "$runner" ] || left_out=(-- --skip a_program_that_forgets_wakers)
    for attempt in 1 2; do
        status=0
        CARGO_TARGET_DIR=$target/architectures scripts/with-rust.sh "$version" "$triple" -- \
            cargo test --locked --release --package seriatim --target "$triple" "${tests[@]}" "${left_out[@]}" 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
        # qemu itself crashes now and then where many threads start and end.
        [ "$status" != 0 ] && [ -n "$runner" ] && grep -q 'signal: 11' "$log" || break
        echo "$name: $runner has crashed$([ "$attempt" = 2 ] || echo ": once more")"
    done
    rm -f "$log"
    case "$status" in
        0) echo "$name: well" ;;
        3) skipped=$((skipped + 1)) ;;
        *)
            echo "$name: FAILED"
            failed=$((failed + 1))
            ;;
    esac
done
[ "$failed" = 0 ] || exit 1
[ "$skipped" = 0 ] || exit 3
