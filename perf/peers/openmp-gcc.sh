# libgomp, which comes with GCC. To be run by scripts/peers.sh.
source perf/peers/common.sh
debian gcc libc6-dev
version=$(dpkg-query --show --showformat='${source:Upstream-Version}' libgomp1)
# GCC 12 does not see the uses in a depend clause's iterator, so it must not warn of what only that uses.
/usr/bin/gcc -std=gnu11 -O2 -Wall -Werror -Wno-unused-but-set-variable -fPIC -shared -fopenmp -I perf/peers \
    -DLIBRARY='"libgomp"' -DLIBRARY_VERSION="\"$version\"" perf/peers/openmp.c -o "$PEERS_DIRECTORY/$name.so"
