#!/usr/bin/env bash
# Measures everything beside every peer that can be had here, and makes the report: target/report/index.html.
#
#   scripts/report.sh                  builds, measures (half an hour on a quiet machine) and reports
#   scripts/report.sh --quick          a short measurement; arguments go to `seriatim-perf suite`
#   scripts/report.sh --from FILE      only reports, from the results.json (or .json.gz) of an earlier run
#   scripts/report.sh --agree A B      whether two runs say the same, figure by figure
#
# Beside the page: results.json, a CSV file for each kind of record, summary.md (the table that the README quotes) and its two figures.
# Needs python3 with venv and, the first time, PyPI for matplotlib. A peer that cannot be had is left out and the page says so.
#
# Exit status: 0 if the report is made; 1 if measuring or the report fails; 3 if matplotlib is not to be had, so that there is no page. What was
# measured stays in target/report/results.json.
set -euo pipefail
from= failed=0
if [ "${1:-}" = --agree ]; then
    [ $# = 3 ] || { echo "usage: scripts/report.sh --agree RESULTS RESULTS" >&2 && exit 2; }
    PYTHONPATH="$(dirname "$0")/../perf" PYTHONDONTWRITEBYTECODE=1 exec python3 -m report.agree "$2" "$3"
fi
if [ "${1:-}" = --from ]; then
    [ $# = 2 ] || { echo "usage: scripts/report.sh [--from FILE | ARGUMENTS of seriatim-perf suite]" >&2 && exit 2; }
    from=$(realpath "$2")
fi
cd "$(dirname "$0")/.."
target=target
folder=$target/report
environment=$target/report-venv
mkdir -p "$folder"

if [ -z "$from" ]; then
    cargo build --release -p seriatim-perf
    scripts/peers.sh || echo "report.sh: some peers could not be built; they are left out" >&2
    # CARGO_TARGET_DIR and cargo's configuration may both have moved it.
    binaries=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
    from=$folder/results.json
    # A measurement that fails leaves the others; the status says so in the end.
    "$binaries/release/seriatim-perf" suite --output "$from" "$@" || failed=1
fi

# Made anew when the pinned versions change.
if ! cmp -s perf/report/requirements.txt "$environment/made-from"; then
    rm -rf "$environment"
    if ! { python3 -m venv "$environment" &&
        "$environment/bin/pip" install --quiet --disable-pip-version-check -r perf/report/requirements.txt; }; then
        rm -rf "$environment"
        echo "report.sh: no figures: matplotlib could not be installed (perf/report/requirements.txt; needs python3-venv and PyPI)." >&2
        echo "report.sh: the measurements are kept; later: scripts/report.sh --from $from" >&2
        exit 3
    fi
    cp perf/report/requirements.txt "$environment/made-from"
fi
PYTHONPATH=perf PYTHONDONTWRITEBYTECODE=1 "$environment/bin/python" -m report "$from" "$folder"
exit $failed
