#!/usr/bin/env bash
# Measures everything beside every rival that can be had here, and makes the report:
# target/report/index.html.
#
#   scripts/report.sh                  builds, measures (35 minutes on two quiet cores), reports
#   scripts/report.sh --quick          a short measurement; arguments go to `seriatim-perf suite`
#   scripts/report.sh --from FILE      only reports, from an earlier run's results.json (or .gz)
#   scripts/report.sh --publish FILE   makes FILE's report that of the tree (perf/results/report),
#                                      and writes its figures into README.md and PERFORMANCE.md
#   scripts/report.sh --join A B OUT   makes one file of two sittings, on near and on far cores
#   scripts/report.sh --check          whether these two say what the tree's report says
#   scripts/report.sh --agree A B      whether two runs say the same, figure by figure
#   scripts/report.sh --help           this
#
# Beside the page lie results.json.gz, which has every record, and summary.md, which has the tables.
# Needs python3 with venv and, the first time, PyPI for matplotlib. A rival that cannot be had is
# left out, and the page says so. To measure your own builds of rivals, see PERFORMANCE.md.
#
# Exit status: 0 if the report is made; 1 if measuring or the report fails; 3 if matplotlib is not
# to be had, so that there is no page. What was measured stays in target/report/results.json.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() {
    sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' scripts/report.sh
}
wrong() {
    echo "report.sh: $1; scripts/report.sh --help says more" >&2
    exit 2
}
export PYTHONPATH=perf PYTHONDONTWRITEBYTECODE=1
from= publish= failed=0
case ${1:-} in
--help | -h)
    usage
    exit
    ;;
--join)
    [ $# = 4 ] || wrong "--join needs two files, and one to write"
    exec python3 -c 'import sys; from report import load; load.write(load.join(*sys.argv[1:3]), sys.argv[3])' "$2" "$3" "$4"
    ;;
--agree)
    [ $# = 3 ] || wrong "--agree needs two files"
    exec python3 -m report.agree "$2" "$3"
    ;;
--check)
    [ $# = 1 ] || wrong "--check takes nothing"
    exec python3 -m report.publish --check .
    ;;
--from | --publish)
    [ $# = 2 ] || wrong "$1 needs one file"
    [ -f "$2" ] || wrong "there is no file $2"
    from=$2
    [ "$1" = --from ] || publish=yes
    ;;
esac
folder=target/report
environment=target/report-venv
mkdir -p "$folder"

if [ -z "$from" ]; then
    cargo build --release -p seriatim-perf
    scripts/peers.sh || echo "report.sh: some rivals could not be built; they are left out" >&2
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
        echo "report.sh: no page: matplotlib could not be installed (perf/report/requirements.txt; needs python3-venv and PyPI)." >&2
        echo "report.sh: the measurements are kept; later: scripts/report.sh --from $from" >&2
        exit 3
    fi
    cp perf/report/requirements.txt "$environment/made-from"
fi
if [ -n "$publish" ]; then
    exec "$environment/bin/python" -m report.publish "$from" .
fi
"$environment/bin/python" -m report "$from" "$folder"
exit $failed
