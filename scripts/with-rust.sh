#!/usr/bin/env bash
# Runs a command with another Rust than the usual one: `cargo` and `rustc` are of the version that
# is asked for, and have the standard library of the targets that are asked for.
#
#   scripts/with-rust.sh 1.85.0 -- cargo test
#   scripts/with-rust.sh 1.85.0 aarch64-unknown-linux-gnu -- \
#       cargo build --target aarch64-unknown-linux-gnu
#
# Takes the toolchain that rustup has, or lets rustup install it. Where rustup cannot, it unpacks
# the packages of that version that Debian has (its rustc, or rustc-web) under the target folder:
# nothing is installed then, and nobody needs to be root.
#
# Exit status: that of the command; 2 wrong arguments; 3 if that Rust is not to be had.
set -euo pipefail

case "${1:---help}" in
    --help | -h)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
esac
version=$1 targets=()
shift
while [ "${1:---}" != -- ]; do
    targets+=("$1")
    shift
done
[ $# -gt 1 ] || { echo "usage: scripts/with-rust.sh VERSION [TARGET ...] -- COMMAND ..." >&2; exit 2; }
shift
case "$(uname -m)" in
    x86_64) host=x86_64-unknown-linux-gnu ;;
    aarch64) host=aarch64-unknown-linux-gnu ;;
    *) host=$(uname -m) ;;
esac

# complete SYSROOT: whether it has the standard library of all targets.
complete() {
    local target
    for target in "${targets[@]}"; do
        compgen -G "$1/lib/rustlib/$target/lib/libstd-*" >/dev/null || return 1
    done
}

# ---- rustup ----

rustup_has() {
    rustup toolchain list 2>/dev/null | grep -q "^$version-" && complete "$(rustup run "$version" rustc --print sysroot)"
}
if command -v rustup >/dev/null; then
    if ! rustup_has; then
        timeout 300 rustup toolchain install "$version" --profile minimal "${targets[@]/#/--target=}" >/dev/null 2>&1 || true
    fi
    if rustup_has; then RUSTUP_TOOLCHAIN=$version exec "$@"; fi
fi

# ---- Debian ----

folder=${CARGO_TARGET_DIR:-$(cd "$(dirname "$0")/.." && pwd)/target}/rust-$version
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# unpack PACKAGE[:ARCHITECTURE] …: downloads packages and unpacks them.
unpack() {
    (
        mkdir -p "$folder/packages" && cd "$folder/packages" && rm -f ./*.deb
        # Downloads as root say that they run unsandboxed: as here the folder is not the sandbox's.
        timeout 300 apt-get "${apt[@]}" download "$@" >"$folder/log" 2>&1 || return 1
        for package in ./*.deb; do dpkg -x "$package" "$folder/root" || return 1; done
        rm -f ./*.deb
    )
}

# programs: the unpacked programs, which find the libraries beside them.
programs() {
    local tool beside
    beside=$(find "$folder/root/usr/lib" "$folder/root/lib" -maxdepth 2 -name '*.so*' -printf '%h\n' 2>/dev/null | sort -u | paste -sd:)
    mkdir -p "$folder/bin"
    for tool in rustc cargo rustdoc; do
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%q${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec %q "$@"\n' \
            "$beside" "$folder/root/usr/bin/$tool" >"$folder/bin/$tool"
        chmod +x "$folder/bin/$tool"
    done
}

debian_name() {
    case "$1" in
        x86_64-*) echo amd64 ;;
        aarch64-*) echo arm64 ;;
        i686-*) echo i386 ;;
        armv7-*) echo armhf ;;
        riscv64*) echo riscv64 ;;
        *) return 1 ;;
    esac
}

of_debian() {
    command -v apt-get >/dev/null || return 1
    local architectures=() target suffix at
    for target in "$host" "${targets[@]}"; do architectures+=("$(debian_name "$target")") || return 1; done
    # Lists of its own: they name packages of other architectures, which the machine's lists do not.
    apt=(-o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o Dir::State::status=/dev/null
        -o "APT::Architecture=${architectures[0]}" -o "APT::Sandbox::User=")
    for at in "${architectures[@]}"; do apt+=(-o "APT::Architectures::=$at"); done
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    timeout 300 apt-get "${apt[@]}" update >"$folder/log" 2>&1 || true
    for suffix in "" -web; do
        at=$(apt-cache "${apt[@]}" madison "rustc$suffix" 2>/dev/null | awk -v want="$version" '$3 ~ "^" want "[+-]" { print $3; exit }')
        [ -n "$at" ] || continue
        local packages=("rustc$suffix=$at" "cargo$suffix=$at" "libstd-rust$suffix-${version%.*}=$at") target
        for target in "$host" "${targets[@]}"; do packages+=("libstd-rust$suffix-dev:$(debian_name "$target")=$at"); done
        unpack "${packages[@]}" || continue
        # What they are linked to, and a machine may lack.
        for at in libhttp-parser2.9 libpcre3 libllvm19; do unpack "$at" || true; done
        programs
        "$folder/bin/cargo" --version >/dev/null && "$folder/bin/rustc" --version >/dev/null && return 0
    done
    return 1
}

if ! { [ -x "$folder/bin/rustc" ] && complete "$folder/root/usr"; }; then
    of_debian || {
        echo "skipped: Rust $version${targets[*]:+ for ${targets[*]}} is not to be had; get it with: rustup toolchain install $version" >&2
        exit 3
    }
fi
PATH=$folder/bin:$PATH RUSTC=$folder/bin/rustc RUSTDOC=$folder/bin/rustdoc exec "$@"
