# libgomp, which comes with GCC: Debian's, or that of the compiler which OPENMP_GCC names. To be run
# by scripts/peers.sh.
#
# Without -flto, with which it is no faster: the peer is one file, and the library a shared one.
source perf/peers/common.sh
if [ -n "${OPENMP_GCC:-}" ]; then
    version=$("$OPENMP_GCC" -dumpfullversion) || skip "OPENMP_GCC=$OPENMP_GCC does not run"
else
    debian gcc libc6-dev
    version=$(dpkg-query --show --showformat='${source:Upstream-Version}' libgomp1)
fi
# GCC 12 does not see the uses in a depend clause's iterator, so it must not warn of what only that
# uses.
"${OPENMP_GCC:-/usr/bin/gcc}" -std=gnu11 "${fast[@]}" -Wall -Werror -Wno-unused-but-set-variable -fPIC -shared -fopenmp -I perf/peers \
    -DLIBRARY='"libgomp"' -DLIBRARY_VERSION="\"$version, without LTO\"" perf/peers/openmp.c -o "$PEERS_DIRECTORY/$name.so"
