#!/usr/bin/env bash
# Is one commit faster than another? Measures both in turns, with the same harness, and prints a
# table with intervals and verdicts.
#
#   scripts/compare.sh                     main~1 and the working tree
#   scripts/compare.sh A B                 two commits; . is the working tree
#   scripts/compare.sh A B --workload chain --entrant seriatim-naive --repetitions 31
#   scripts/compare.sh --help
#
# Lays the present perf/ over both, builds each in target/compare, and runs them A B, B A, A B and
# so on; pairs during which others used more than a tenth of a core are measured again, up to a
# bound. Takes some minutes. Needs nothing but cargo and python3.
#
# A difference that the code's place in memory makes is a difference to this script: a few percent
# may mean no more than that. Exit status: 0 if both were measured, whatever came out; 1 if not.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH=$repository/perf PYTHONDONTWRITEBYTECODE=1 exec python3 -m report.compare "$@"
