#!/usr/bin/env bash
# Every test of the workspace, as `cargo test --workspace --release` runs them, with a time limit
# for each test binary: what hangs is ended and named (scripts/timed.sh). Arguments go to cargo.
#
#   scripts/test.sh                        some six minutes on two quiet cores, four of them building
#   LONG_TESTS=1 scripts/test.sh        the long forms of the long tests too, as CI does
#   TEST_LIMIT=120 scripts/test.sh --test life
#
# Exit status: that of cargo.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
    --help | -h)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
esac
host=$(rustc -vV | sed -n 's/^host: //p')
export "CARGO_TARGET_$(echo "$host" | tr 'a-z-' 'A-Z_')_RUNNER=$PWD/scripts/timed.sh"
if [ $# -gt 0 ]; then
    exec cargo test --workspace --release "$@"
fi
# The models' copy of the engine has no tests of its own, but kinds that are asked for by name would
# be taken from it.
cargo test --workspace --exclude seriatim-modelled --release --lib --bins --tests --examples
# Cargo gives no runner to the examples in the documentation.
scripts/timed.sh cargo test --workspace --exclude seriatim-modelled --release --doc
