#!/usr/bin/env bash
# The files of src/ that the ways through the engine come through, by what callgrind sees them do:
# a push, a push that runs its operation, a completion, a wait, a replay.
#
#   perf/journeys.sh           prints the files of each, and fails if one has more than it may
#   perf/journeys.sh push      of one
#
# What is inlined counts where its text is. Needs valgrind. Exit status: 0 all is well; 1 a way has
# too many files; 2 wrong arguments; 3 skipped, because valgrind is not to be had.
set -euo pipefail
source "$(dirname "$0")/../scripts/help.sh"
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null; then
    echo "skipped: there is no valgrind; get it with: apt-get install valgrind"
    exit 3
fi
target=${CARGO_TARGET_DIR:-target}/journeys
CARGO_TARGET_DIR=$target CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_INCREMENTAL=0 \
    cargo build --quiet --release --package seriatim-perf --example journeys
exec python3 perf/journeys.py "$target/release/examples/journeys" "$@"
