#!/usr/bin/env bash
# Runs the test binaries of the workspace again and again, under the conditions of a user's machine.
# It finds what fails once in twenty runs, beside other work, or on one core only.
#
#   scripts/repeat.sh quiet 20             one binary after the other: forty minutes on two cores
#   scripts/repeat.sh busy 20              beside two processes, a run on each core
#   scripts/repeat.sh pinned 20            each on one core; on all cores at once
#   scripts/repeat.sh pinned 20 life gpu   these binaries only
#
# The output of a run that fails is kept in <target folder>/repeat. A run ends after TEST_LIMIT
# seconds (scripts/timed.sh).
#
# Exit status: 0 if every run passed, 1 if not, 2 wrong arguments.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

way=${1:-} rounds=${2:-}
if [[ ! $way =~ ^(quiet|busy|pinned)$ || ! $rounds =~ ^[1-9][0-9]*$ ]]; then
    echo "repeat.sh: which way, and how often? scripts/repeat.sh --help says more" >&2
    exit 2
fi
shift 2
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
logs=$target/repeat
rm -rf "$logs"
mkdir -p "$logs"

# One line for each binary: its name, its path, and the folder of its package, where cargo runs it.
cargo test --workspace --exclude seriatim-modelled --exclude loom-tests --release --lib --bins --tests \
    --no-run --quiet --message-format=json-render-diagnostics | python3 -c '
import json, os, sys

wanted, found = sys.argv[1:], {}
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["profile"]["test"]:
        name = message["target"]["name"]
        found[message["executable"]] = (name, os.path.dirname(message["manifest_path"]))
unknown = set(wanted) - {name for name, _ in found.values()}
if unknown or not found:
    sys.exit(f"repeat.sh: no such test binaries: {sorted(unknown)}")
for path, (name, folder) in sorted(found.items()):
    if not wanted or name in wanted:
        print(name, path, folder, sep="\t")' "$@" >"$logs/binaries"
mapfile -t binaries <"$logs/binaries"

# run ROUND WRAPPER…: each binary once, by the wrapper. From a place on that differs from round to
# round, so that two rounds at once mostly run different ones; one binary runs once at a time.
run() {
    local round=$1 count=${#binaries[@]} place number name path folder log
    shift
    for ((place = 0; place < count; place++)); do
        number=$(((place + round * count / 2) % count))
        IFS=$'\t' read -r name path folder <<<"${binaries[number]}"
        log=$logs/$name-$number.$round
        if (cd "$folder" && CARGO_MANIFEST_DIR=$folder LD_LIBRARY_PATH=$target/release/deps \
            flock "$path" "$@" "$OLDPWD/scripts/timed.sh" "$path") >"$log" 2>&1; then
            rm "$log"
        else
            echo "FAILED: $name in round $round: $log"
        fi
    done
    echo "round $round of $rounds, after $SECONDS s"
}
# lanes: as many rounds at once as there are cores, on a core each if they are pinned.
lanes() {
    local core cores=$(nproc) round wrapper=(env) lanes=()
    for ((core = 0; core < cores; core++)); do
        [ "$way" != pinned ] || wrapper=(taskset -c "$core")
        for ((round = 1 + core; round <= rounds; round += cores)); do run "$round" "${wrapper[@]}"; done &
        lanes+=($!)
    done
    wait "${lanes[@]}"
}

case "$way" in
    quiet) for ((round = 1; round <= rounds; round++)); do run "$round" env; done ;;
    busy)
        for _ in 1 2; do while :; do :; done & done
        trap 'kill $(jobs -p)' EXIT
        lanes
        ;;
    pinned) lanes ;;
esac
failed=$(find "$logs" -name '*.[0-9]*' | wc -l)
echo "$way: $rounds rounds of ${#binaries[@]} binaries, $failed runs failed"
[ "$failed" = 0 ]
