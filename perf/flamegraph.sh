#!/usr/bin/env bash
# Where the time goes: samples a release build with `perf` and draws flamegraphs, one a thread and
# one for all threads.
#
#   perf/flamegraph.sh WORKLOAD                    a throughput workload: chain, random, ...
#                                                  (perf/src/workloads.rs)
#     --entrant NAME                               who runs it (default per-device-1): naive,
#                                                  'per-device-1 operators', baseline-2, ...
#     --seconds N                                  for how long (default 5)
#   perf/flamegraph.sh --package NAME [-- ARGS]    a program of the workspace, such as digits
#
# Writes <target folder>/flamegraph/WORKLOAD/{all,<thread>}.svg and prints the share that each
# thread has of the samples. Of a program, WORKLOAD is its name. The thread is at the top, what it
# calls below. Samples are of time on a processor: a thread that sleeps has none.
#
# Needs `perf`, Python 3, addr2line (Debian: binutils) to show the functions that are inlined, and
# `inferno`, which is installed into the target folder if it is missing.
set -euo pipefail
source "$(dirname "$0")/../scripts/help.sh"
cd "$(dirname "$0")/.."

fail() {
    echo "flamegraph.sh: $*" >&2
    exit 2
}

entrant=per-device-1 seconds=5 workload="" package="" arguments=()
while [ $# -gt 0 ]; do
    case "$1" in
        --entrant) entrant=${2:?--entrant needs a name} && shift 2 ;;
        --seconds) seconds=${2:?--seconds needs a number} && shift 2 ;;
        --package) package=${2:?--package needs a name} && shift 2 ;;
        --) shift && arguments=("$@") && break ;;
        -*) fail "no option $1; see --help" ;;
        *) [ -z "$workload" ] || fail "one workload at a time"; workload=$1 && shift ;;
    esac
done
[ -n "$workload$package" ] || fail "which workload? Or --package NAME; see --help"
[ -z "$workload" ] || [ -z "$package" ] || fail "a workload, or a package"

mkdir -p "${CARGO_TARGET_DIR:-target}"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
export PATH=$target/tools/bin:$PATH
command -v perf >/dev/null || fail "there is no 'perf': install Debian's package linux-perf, as root: apt-get install linux-perf"
command -v inferno-flamegraph >/dev/null || cargo install inferno --locked --root "$target/tools"

# Whole stacks: frame pointers to walk by, line tables to tell inlined functions apart. In a folder
# of its own, since other flags build everything anew.
export CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
export RUSTFLAGS="${RUSTFLAGS:-} -C force-frame-pointers=yes"
if [ -n "$package" ]; then
    cargo build --release --package "$package" --target-dir "$target/flamegraph/build"
    command=("$target/flamegraph/build/release/$package" "${arguments[@]}")
    title="$package ${arguments[*]}"
else
    cargo build --release --package seriatim-perf --example steady --target-dir "$target/flamegraph/build"
    command=("$target/flamegraph/build/release/examples/steady" "$entrant" "$workload" "$seconds")
    title="$workload, $entrant"
fi

folder=$target/flamegraph/${workload:-$package}
rm -rf "$folder"
mkdir -p "$folder"
# Not `perf record`: that falls back silently.
event=cycles
if perf stat --event cycles true 2>&1 | grep -q '<not supported>\|<not counted>' || ! perf stat --event cycles true 2>/dev/null; then
    event=cpu-clock
    echo "NOTE: this machine has no hardware counter of cycles: sampling by a software clock. Its samples fall where interrupts are next"
    echo "      let through, and not finer than the kernel's timer allows: trust the shares of functions, not those of single lines."
fi
perf record --event "$event" --call-graph fp --freq 2999 --output "$folder/perf.data" -- "${command[@]}"
# Without the period: every sample counts as one.
perf script --input "$folder/perf.data" --no-inline --fields comm,pid,tid,time,event,ip,sym,dso 2>"$folder/perf.log" |
    python3 perf/inlined.py "${command[0]}" | inferno-collapse-perf >"$folder/all.folded"
[ -s "$folder/all.folded" ] || fail "not one sample was taken: let it run for longer, see --seconds"

# Upside down: a drawing that grows from below is higher than a screen where stacks are deep, and
# opens on its empty top.
draw() {
    inferno-flamegraph --inverted --title "$1" --countname samples --hash "$2" >"${2%.folded}.svg"
    python3 perf/first_screen.py "${2%.folded}.svg"
}

total=$(awk '{ sum += $NF } END { print sum }' "$folder/all.folded")
draw "$title: all threads" "$folder/all.folded"
printf '\n%-20s %8s %7s  %s\n' thread samples share file
printf '%-20s %8d %6.1f%%  %s\n' all "$total" 100 "$folder/all.svg"
# The first frame of a stack is the thread's name.
cut -d ';' -f 1 "$folder/all.folded" | sort -u | while read -r thread; do
    file=$folder/$(printf '%s' "$thread" | tr -c '[:alnum:]_.-' _).folded
    awk -F ';' -v thread="$thread" '$1 == thread' "$folder/all.folded" >"$file"
    samples=$(awk '{ sum += $NF } END { print sum }' "$file")
    draw "$title: $thread" "$file"
    printf '%-20s %8d %6.1f%%  %s\n' "$thread" "$samples" "$(awk "BEGIN { print 100 * $samples / $total }")" "${file%.folded}.svg"
done
