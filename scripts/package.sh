#!/usr/bin/env bash
# Whether what would be published holds by itself: packs the crate, unpacks it outside of the
# repository, builds it and its tests by its own lock file and runs them, and counts what a program
# that uses it has to lock.
#
#   scripts/package.sh             all of that: half a minute on two cores
#   scripts/package.sh --doc       the examples of its documentation too, which the
#                                  repository's tests have run as well
#   scripts/package.sh --quick     packs it and counts: some seconds
#
# Exit status: 0 if all holds; 1 if not.
set -euo pipefail
cd "$(dirname "$0")/.."
# So many packages may be in the lock file of a program that uses nothing else, itself among them;
# 18 are built on Linux.
most=26

case "${1:-}" in
    --quick | --doc | "") ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
        [ "$1" = --help ] || [ "$1" = -h ] || exit 2
        exit 0
        ;;
esac
target=${CARGO_TARGET_DIR:-target}
work=$(mktemp -d "${TMPDIR:-/tmp}/seriatim-package.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $1" >&2
    exit 1
}

cargo package --quiet --package seriatim --no-verify --allow-dirty 2>"$work/log" || { cat "$work/log" >&2; fail "it cannot be packed"; }
crates=("$target"/package/seriatim-[0-9]*.crate)
tar -xzf "${crates[-1]}" -C "$work"
unpacked=$(echo "$work"/seriatim-*)

echo "a package of $(find "$unpacked" -type f | wc -l) files, $(du -b "${crates[-1]}" | cut -f1) bytes"
grep -nE '^(path|git) = ' "$unpacked/Cargo.toml" | grep -vE '"(src|tests|benches|examples)/' && fail "the published manifest names a place"
grep -n 'example\.org' "$unpacked/Cargo.toml" && fail "the published manifest names a site that is not there"

mkdir -p "$work/user/src"
cat >"$work/user/Cargo.toml" <<EOF2
[workspace]
[package]
name = "user"
version = "0.0.0"
edition = "2021"
[dependencies]
seriatim = { path = "$unpacked" }
EOF2
# The README's first program.
awk '/^```rust$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$unpacked/README.md" >"$work/user/src/main.rs"
# Of the versions that are tested: a release of another crate changes nothing here.
cp Cargo.lock "$work/user/"
cargo update --quiet --workspace --manifest-path "$work/user/Cargo.toml"
locked=$(grep -c '^\[\[package' "$work/user/Cargo.lock")
built=$(cargo tree --quiet --manifest-path "$work/user/Cargo.toml" --edges normal,build --prefix none | sort -u | wc -l)
echo "a program that uses it locks $locked packages, itself among them, and builds $built"
[ "$locked" -le "$most" ] || fail "more than $most"

[ "${1:-}" != --quick ] || exit 0
cargo run --quiet --manifest-path "$work/user/Cargo.toml" --target-dir "$target/package/user" >"$work/said" || fail "the README's program does not run"
promised=$(sed -n 's,.*println!.* // \([0-9.]*\); or the error.*,\1,p' README.md)
[ "$(cat "$work/said")" = "$promised" ] || fail "the README's program says '$(cat "$work/said")', not '$promised'"
own() {
    cargo test --quiet --locked --manifest-path "$unpacked/Cargo.toml" --target-dir "$target/package/tests" "$@"
}
own --lib
[ "${1:-}" != --doc ] || own --doc
