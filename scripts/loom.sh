#!/usr/bin/env bash
# Explores the models of loom-tests/: three or four threads exhaustively within a bound of
# preemptions (loom), those that rest on the epochs once more with crossbeam's own steps among them,
# and whole engines with 8 to 16 threads under random schedules (shuttle).
#
#   scripts/loom.sh          all of them: some ten minutes on a quiet machine
#   scripts/loom.sh tickets  the models of one file of loom-tests/tests
#
# The lines `model …` are kept in target/models.txt, for the table of scripts/mutants.sh. The exit
# status is 0 if every model holds.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
flags="${RUSTFLAGS:-}"
target="${CARGO_TARGET_DIR:-target}"
lines="$target/models.txt"
mkdir -p "$target"

# explore FOLDER FLAGS FILE…: builds and runs the models of some files.
explore() {
    local folder="$1" cfg="$2" files=()
    shift 2
    for file in "$@"; do files+=(--test "$file"); done
    RUSTFLAGS="$flags $cfg" CARGO_TARGET_DIR="$target/$folder" \
        cargo test --release --package loom-tests "${files[@]}" -- --nocapture --test-threads=1 | tee -a "$lines"
}

known=(tickets owner common mixed inbox surplus handoff pool group at_once engine workers lanes epoch)
known+=(shuttle shuttle_group shuttle_common shuttle_mixed)
[ $# -gt 0 ] || set -- "${known[@]}"
: >"$lines"
for file in "$@"; do
    case "$file" in
    epoch) explore loom-epoch "--cfg loom --cfg crossbeam_loom" epoch ;;
    shuttle*) explore shuttle "--cfg shuttle" "$file" ;;
    *) explore loom "--cfg loom" "$file" ;;
    esac
done
