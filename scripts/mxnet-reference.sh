#!/usr/bin/env bash
# Makes the data that tensor/tests/mxnet.rs compares the tensor crate's operators with: inputs,
# outputs, gradients and states of MXNet 1.9.1, the last release, and the names of what its
# operators take and give.
#
#   scripts/mxnet-reference.sh            writes tensor/tests/data/mxnet-1.9.1.{txt,params.gz} and
#                                         tensor/tests/data/mxnet-1.9.1-lists.txt
#   scripts/mxnet-reference.sh --check    makes them again and compares with the files: the same
#                                         cases, and values that differ by rounding at most
#   scripts/mxnet-reference.sh --digits   only trains networks on the digits with MXNet, and prints
#                                         how many images they read right
#
# The cases are in scripts/mxnet_cases.py and are drawn from fixed seeds. They run on one thread.
# The files lie in the repository, so that the test needs neither MXNet nor this script.
#
# Needs what scripts/mxnet-venv.sh needs, which makes MXNet's environment.
#
# Exit status: 0 all is well; 1 something is wrong; 2 wrong arguments; 3 MXNet is not to be had.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
case "${1:-}" in
    "" | --check | --digits) ;;
    *) echo "usage: scripts/mxnet-reference.sh [--check | --digits]" >&2 && exit 2 ;;
esac
environment=$(scripts/mxnet-venv.sh)
# One thread adds in one order. MXNet's own kernels say what an operator means; those of oneDNN are
# other code on each processor.
export OMP_NUM_THREADS=1 MXNET_MKLDNN_ENABLED=0 MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0
export PYTHONPATH=scripts PYTHONDONTWRITEBYTECODE=1
case "${1:-}" in
    --digits) exec "$environment/bin/python" scripts/mxnet_digits.py digits/data/digits.csv.gz ;;
    --check) exec "$environment/bin/python" scripts/mxnet_reference.py --check tensor/tests/data ;;
    *) exec "$environment/bin/python" scripts/mxnet_reference.py tensor/tests/data ;;
esac
