#!/usr/bin/env bash
# Instructions an operation, counted by callgrind (benches/instructions.rs), against those that are
# committed in perf/instructions.json.
#
#   perf/callgrind.sh                   counts, prints a table; fails if one is more than 3 % up, or
#                                       a difference between two is above its ceiling (CEILINGS in
#                                       callgrind.py)
#   perf/callgrind.sh --update          counts, and writes the file anew
#   perf/callgrind.sh --teeth           with one operation in ten too many, the check must fail for
#                                       every workload it is shown
#   perf/callgrind.sh --feature         with the feature 'cuda' and no device used: at most two
#                                       instructions an operation more than without it
#   perf/callgrind.sh --feature-teeth   with three planted there, that check must fail
#   perf/callgrind.sh --profile NAME    which functions have the instructions: NAME is
#                                       BENCHMARK::WORKLOAD, as in the table, such as
#                                       naive_dynamic::chain
#
# Another compiler, C library or processor makes other counts: that is said, and then only a growth
# of more than 10 % fails. Needs valgrind, which is installed by apt-get if it is missing and the
# caller is root, and gungraun-runner, which is installed into the target folder.
#
# Exit status: 0 all is well; 1 something has grown, or went wrong; 2 wrong arguments; 3 skipped,
# because valgrind is not to be had or the committed counts are of another architecture.
set -euo pipefail
source "$(dirname "$0")/../scripts/help.sh"
cd "$(dirname "$0")/.."

what=compare name=""
case "${1:-}" in
    "") ;;
    --update) what=update ;;
    --teeth) what=teeth ;;
    --feature) what=feature ;;
    --feature-teeth) what=feature-teeth ;;
    --profile) what=profile name=${2:?--profile needs a benchmark and a workload, such as naive_dynamic::chain} ;;
    *)
        echo "usage: perf/callgrind.sh [--update | --teeth | --feature | --feature-teeth | --profile BENCHMARK::WORKLOAD]" >&2
        exit 2
        ;;
esac

# That what compares would notice.
PYTHONDONTWRITEBYTECODE=1 python3 perf/test_callgrind.py --quiet

if ! command -v valgrind >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && apt-get install -y -qq valgrind; } >/dev/null 2>&1 || true
fi
if ! command -v valgrind >/dev/null; then
    echo "skipped: there is no valgrind; get it with: apt-get install valgrind"
    exit 3
fi

mkdir -p "${CARGO_TARGET_DIR:-target}"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$target
# Gungraun asks that both are of one version.
version=$(sed -n 's/^gungraun = "=\(.*\)"/\1/p' benches/Cargo.toml)
export GUNGRAUN_RUNNER=$target/tools/bin/gungraun-runner
"$GUNGRAUN_RUNNER" --version 2>/dev/null | grep -qF "$version" ||
    for attempt in 1 2; do
        ! cargo install gungraun-runner --version "$version" --locked --root "$target/tools" || break
        [ "$attempt" = 1 ] || { echo "skipped: gungraun-runner $version cannot be installed" && exit 3; }
        sleep 20
    done

folder=$target/gungraun/seriatim-benches/instructions
lengths=$target/gungraun/lengths
rm -f "$lengths"
# An operation that runs in its push, one that is shipped, one that a waiter runs, and a replay.
few='*::*_dynamic*::chain *::naive_replay::names_8'

# count FILTERS CARGO-ARGUMENTS: counts what matches one of the filters.
count() {
    local filters filter log=$target/gungraun/log
    read -ra filters <<<"$1"
    shift
    mkdir -p "$target/gungraun"
    rm -rf "$folder"
    [ -e "$lengths" ] || cargo run --quiet --release --package seriatim-perf --example steady -- --counted >"$lengths" || exit 1
    for filter in "${filters[@]}"; do
        if ! cargo bench --package seriatim-benches --bench instructions "$@" -- --save-summary=json --parallel "$filter" >"$log" 2>&1; then
            tail -n 60 "$log"
            echo "counting failed"
            exit 1
        fi
        tail -n 1 "$log"
    done
}

# with_cuda FEATURES: counts in a target folder of its own, with these features of the benches.
with_cuda() {
    local own=$target/with-cuda
    (
        export CARGO_TARGET_DIR=$own
        folder=${folder/#$target/$own}
        count "$few" --features "$1"
    )
}

# What the counts depend on, besides the source. Of the processor, what the C library chooses its
# copying by, as far as valgrind has it.
made_with() {
    local features
    features=$(grep -m 1 -E '^(flags|Features)' /proc/cpuinfo | tr ' ' '\n' |
        grep -xE 'avx2|bmi2|erms|fsrm|lse|sve|asimd' | sort | tr '\n' ' ')
    echo "architecture=$(rustc -vV | sed -n 's/^host: //p')"
    echo "compiler=$(rustc --version)"
    echo "C library=$(getconf GNU_LIBC_VERSION 2>/dev/null || echo unknown)"
    echo "valgrind=$(valgrind --version)"
    echo "processor=${features% }"
}

case "$what" in
    compare | update)
        count '*'
        mapfile -t pairs < <(made_with)
        python3 perf/callgrind.py "$what" "$folder" "$lengths" perf/instructions.json "${pairs[@]}"
        ;;
    teeth)
        # Against counts that are made now, and not the committed ones, which are another machine's
        # perhaps.
        count '*::chain'
        python3 perf/callgrind.py update "$folder" "$lengths" "$target/gungraun/unseeded.json"
        count '*::chain' --features seeded-work
        python3 perf/callgrind.py teeth "$folder" "$lengths" "$target/gungraun/unseeded.json"
        ;;
    feature | feature-teeth)
        planted=""
        [ "$what" = feature ] || planted=,seeded-instructions
        # Several threads take turns in some ways anew in each run: a difference has to be seen twice.
        for attempt in 1 2; do
            count "$few"
            with_cuda "cuda$planted"
            status=0
            python3 perf/callgrind.py feature "$folder" "$lengths" "${folder/#$target/$target/with-cuda}" || status=$?
            [ "$status" = 1 ] && [ "$what" = feature ] || break
        done
        [ "$what" != feature ] || exit "$status"
        [ "$status" = 1 ] || { echo "the planted instructions were NOT noticed" && exit 1; }
        echo "teeth: the planted instructions were noticed"
        ;;
    profile)
        # Lines, to tell what is inlined: only here, since valgrind reads them for every run.
        workload=${name##*::}
        count "*::${name//-/_}" \
            --config 'profile.bench.package.seriatim.debug="line-tables-only"' \
            --config 'profile.bench.package.seriatim-perf.debug="line-tables-only"'
        outputs=("$folder"/*/*/callgrind.*.out)
        [ -e "${outputs[0]}" ] || { echo "no benchmark $name: see the first two columns of the table" && exit 2; }
        callgrind_annotate --auto=no --threshold=100 --show-percs=no "${outputs[@]}" >"$target/gungraun/annotated"
        python3 perf/callgrind.py profile "$target/gungraun/annotated" "$(sed -n "s/^${workload//_/-} //p" "$lengths")"
        ;;
esac
