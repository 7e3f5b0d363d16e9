#!/usr/bin/env bash
# The oldest Rust that the library promises to build with (rust-version in Cargo.toml): builds the
# library, the C interface and their tests with just that, as Cargo.lock says, and runs them. Also
# builds a program of edition 2021 that uses the library, as docs/src/limits.md says to write it,
# and checks the feature `cuda` with the Rust that its library asks for.
#
#   scripts/msrv.sh            all their tests
#   scripts/msrv.sh --quick    checks all, and builds and runs some: for every change
#
# Takes that Rust from rustup or from Debian (scripts/with-rust.sh). The benches, the models and
# what measures ask for more.
#
# Exit status: 0 if all holds; 1 if not; 3 if that Rust is not to be had.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
    --quick | "") ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
        [ "$1" = --help ] || [ "$1" = -h ] || exit 2
        exit 0
        ;;
esac
version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
case "$version" in *.*.*) ;; *) version+=.0 ;; esac
# The lock file's own choice is tested: not what that Rust would choose.
old() {
    CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/msrv" scripts/with-rust.sh "$version" -- "$@"
}
old cargo --version
# A test that hangs is ended and named.
tests() {
    TEST_LIMIT="${TEST_LIMIT:-1200}" old scripts/timed.sh cargo test --locked --release "$@"
}
user=$(mktemp -d "${TMPDIR:-/tmp}/seriatim-msrv.XXXXXX")
trap 'rm -rf "$user"' EXIT
mkdir "$user/src"
{
    sed -n '/^```toml$/,/^```$/p' docs/src/limits.md | grep -v '^```'
    printf '%s\n' 'name = "user"' 'version = "0.0.0"' 'edition = "2021"' '[dependencies]' "seriatim = { path = \"$PWD\" }"
} >"$user/Cargo.toml"
echo 'fn main() { seriatim::Engine::new().unwrap().wait_for_all().unwrap(); }' >"$user/src/main.rs"
old cargo run --quiet --manifest-path "$user/Cargo.toml"
if [ "${1:-}" = --quick ]; then
    old cargo check --locked --release --package seriatim --package seriatim_c --lib --tests
    # Both packages, as above: for one of them the libraries would be built anew.
    SERIATIM_ORACLE_OPS=100000 tests --package seriatim --package seriatim_c \
        --lib --test errors --test forms --test graphs --test oracle --test engine
else
    tests --package seriatim --package seriatim_c --lib --tests
    tests --package seriatim --doc
fi
old cargo check --locked --package seriatim-tensor --all-targets
# As src/lib.rs says. If that Rust is not to be had, the feature is left out.
with_cuda=$(sed -n 's/.*(\[`gpu`\]); it needs Rust \(1\.[0-9]*\)\..*/\1/p' src/lib.rs)
[ -n "$with_cuda" ] || { echo "msrv.sh: src/lib.rs does not say which Rust the feature cuda needs" >&2; exit 1; }
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/msrv-cuda" scripts/with-rust.sh "$with_cuda.0" -- \
    cargo check --locked --package seriatim --features cuda --lib || [ $? -eq 3 ]
