#!/usr/bin/env bash
# Explores the models of loom-tests/: three or four threads exhaustively within a bound of
# preemptions (loom), those that rest on the epochs once more with crossbeam's own steps among them,
# and whole engines with 8 to 16 threads under random schedules (shuttle).
#
#   scripts/loom.sh          all of them, a file to each core: some 15 minutes on two quiet cores
#   scripts/loom.sh tickets  the models of one file of loom-tests/tests
#   scripts/loom.sh tickets::NAME
#                            of these the models whose names have NAME in them
#   scripts/loom.sh --first 5 --within 600
#                            all of them from the fifth file on, but begins none after 600 seconds
#                            and says which were left out
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
first=0 until=$(($(date +%s) + 1000000))
while :; do
    case "${1:-}" in
    --first) first=$2 ;;
    --within) until=$(($(date +%s) + $2)) ;;
    *) break ;;
    esac
    shift 2
done

# build FOLDER FLAGS FILE…: builds the models of some files; prints each file with its program.
build() {
    local folder="$1" cfg="$2" files=() said
    shift 2
    for file in "$@"; do files+=(--test "$file"); done
    said=$(RUSTFLAGS="$flags $cfg" CARGO_TARGET_DIR="$target/$folder" \
        cargo test --release --package loom-tests "${files[@]}" --no-run 2>&1) || { echo "$said" >&2 && return 1; }
    sed -n 's|.*Executable tests/\(.*\)\.rs (\(.*\))$|\1 \2|p' <<<"$said"
}

# explore FILE PROGRAM [NAME]: runs the models of one file, or those with NAME in theirs, if it is not
# too late; prints what they say when all have run, so that those of several files do not mix.
explore() {
    local status=0 log="$target/models.$1"
    if [ "$(date +%s)" -ge "$until" ]; then
        echo "== left out for time: the models of $1"
        return
    fi
    "$2" --nocapture --test-threads=1 "${@:3}" >"$log" 2>&1 || status=1
    if grep -qx 'running 0 tests' "$log"; then echo "$1: no model has $3 in its name" >>"$log" && status=1; fi
    (
        flock 9
        printf '== models of %s\n' "$1"
        cat "$log"
        cat "$log" >>"$lines"
    ) 9>"$target/models.lock"
    rm "$log"
    return $status
}
export -f explore
export target lines until

# The longest first.
known=(mixed owner engine tickets common phases at_once workers group shuttle shuttle_group shuttle_mixed)
known+=(shuttle_devices lanes pipelines epoch inbox stealable handoff handles devices device_tickets watchers)
known+=(storage pool wait_list joins thread_handle shuttle_common failures wakers handovers)
[ $# -gt 0 ] || set -- "${known[@]:first % ${#known[@]}}" "${known[@]:0:first % ${#known[@]}}"
: >"$lines"
loom=() epoch=() shuttle=()
for wanted in "$@"; do
    file=${wanted%%::*}
    case "$file" in
    epoch) epoch+=("$file") ;;
    shuttle*) shuttle+=("$file") ;;
    *) loom+=("$file") ;;
    esac
done
programs=()
# add FOLDER FLAGS FILE…
add() {
    local built
    [ $# -gt 2 ] || return 0
    built=$(build "$@") && mapfile -t -O "${#programs[@]}" programs <<<"$built"
}
add loom "--cfg loom" "${loom[@]}"
add loom-epoch "--cfg loom --cfg crossbeam_loom" "${epoch[@]}"
add shuttle "--cfg shuttle" "${shuttle[@]}"
# In the order in which they were named.
for wanted in "$@"; do
    file=${wanted%%::*} name=
    [ "$file" = "$wanted" ] || name=" ${wanted#*::}"
    # Without `grep -m`: a pipe that closes early would be a failure.
    program=$(printf '%s\n' "${programs[@]}" | grep "^$file ") || { echo "no models: $file" >&2 && exit 2; }
    echo "$program$name"
done |
    xargs -P "$(nproc)" -L 1 bash -c 'explore "$@"' explore
