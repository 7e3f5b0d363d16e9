#!/usr/bin/env bash
# Builds the peers that the comparison measures beside us, each as a shared library with the face of
# perf/peers/peer.h.
#
#   scripts/peers.sh                 all that can be had here
#   scripts/peers.sh mxnet onetbb    only these
#
# Every peer is optional: one that cannot be had is skipped, with a line that says how to get it.
# Packages come from Debian and from PyPI. As root, Debian's packages that are missing are
# installed; PEERS_INSTALL=no only names them. The libraries lie in target/peers, or in
# PEERS. Your own builds take the packages' place if these name them: TASKFLOW_INCLUDE,
# ONETBB_ROOT, OPENMP_GCC, OPENMP_CLANG, MXNET_ROOT, STARPU_PACKAGE (PERFORMANCE.md says what each
# is).
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
case ${1:-} in
--help | -h)
    sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' scripts/peers.sh
    exit
    ;;
esac
known=(counts seriatim_c mxnet starpu openmp-gcc openmp-llvm onetbb taskflow)
export PEERS_DIRECTORY="${PEERS:-$PWD/target/peers}"
mkdir -p "$PEERS_DIRECTORY"

failed=0
for peer in "${@:-${known[@]}}"; do
    if [ ! -f "perf/peers/$peer.sh" ]; then
        echo "peers.sh: no peer '$peer'; there are: ${known[*]}" >&2
        exit 2
    fi
    outcome=0
    bash "perf/peers/$peer.sh" || outcome=$?
    case $outcome in
    0) echo "$peer: built" ;;
    3) ;; # It has said why it is skipped.
    *) echo "$peer: failed to build (exit $outcome)" >&2 && failed=1 ;;
    esac
done
exit $failed
