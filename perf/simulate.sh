#!/usr/bin/env bash
# Runs the engine on a simulated machine of 2 to 64 cores, and counts the cache lines that move
# (perf/simulation/).
#
#   perf/simulate.sh              tests the model, then writes perf/results/simulation.md: 2 minutes
#   perf/simulate.sh --quick      the same with few operations, to standard output, as a trial
#   perf/simulate.sh --tests      only tests the model
#
# Other options go to the program: --seed=NUMBER (who goes first of those that come at once),
# --socket=CORES (a socket has so many cores, and a trip between two takes three times as long).
# With any, the page goes to standard output.
set -euo pipefail
source "$(dirname "$0")/../scripts/help.sh"
cd "$(dirname "$0")/.."
export RUSTFLAGS="${RUSTFLAGS:-} --cfg seriatim_simulation"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/simulation"
page=perf/results/simulation.md

cargo test --quiet --release --package seriatim-simulation --test model
if [ "${1:-}" = --tests ]; then exit; fi
cargo build --quiet --release --package seriatim-simulation
program="$CARGO_TARGET_DIR/release/seriatim-simulation"
if [ $# -gt 0 ]; then
    "$program" "$@"
    exit
fi
"$program" >"$page.new"
mv "$page.new" "$page"
echo "written: $page"
