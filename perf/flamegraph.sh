#!/usr/bin/env bash
# Where the time goes: samples a release build with `perf` and draws a flamegraph.
#
#   perf/flamegraph.sh                      the throughput comparison, to out/flamegraph.svg
#   perf/flamegraph.sh --example digits     any other target and its arguments: --example NAME or --bench NAME, then -- ARGS
#
# Needs `perf` (Debian: linux-perf) and `inferno` (cargo install inferno); says so if one is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

need() {
    command -v "$1" >/dev/null || { echo "flamegraph.sh: '$1' is missing: $2" >&2; exit 1; }
}
need perf "install Debian's package linux-perf"
need inferno-flamegraph "run: cargo install inferno"

target=(--bench compare)
arguments=(--bench --quick)
if [ $# -gt 0 ]; then
    target=("$1" "${2:?give the name of the target}")
    shift 2
    [ "${1:-}" = -- ] && shift
    arguments=("$@")
fi

export CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_BENCH_DEBUG=line-tables-only
export RUSTFLAGS="${RUSTFLAGS:-} -C force-frame-pointers=yes"
profile=--release
[ "${target[0]}" = --bench ] && profile=--profile=bench
executable=$(cargo build "$profile" "${target[@]}" --message-format=json |
    python3 -c 'import json,sys
for line in sys.stdin:
    found = json.loads(line).get("executable")
    if found: print(found)' | tail -n 1)

mkdir -p out
perf record --call-graph fp --freq 2999 --output out/perf.data -- "$executable" "${arguments[@]}"
perf script --input out/perf.data | inferno-collapse-perf | inferno-flamegraph --title "seriatim ${target[*]}" >out/flamegraph.svg
echo "wrote out/flamegraph.svg"
