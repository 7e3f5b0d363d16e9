# libomp: Debian's of LLVM 19, or that of the compiler which OPENMP_CLANG names. To be run by
# scripts/peers.sh.
#
# Compiled with clang, a download of 50 MB: objects of GCC run on libomp too, but through a layer
# that translates GCC's calls.
#
# Without -flto, as openmp-gcc.sh says.
source perf/peers/common.sh
if [ -n "${OPENMP_CLANG:-}" ]; then
    version=$("$OPENMP_CLANG" -dumpversion) || skip "OPENMP_CLANG=$OPENMP_CLANG does not run"
else
    debian clang-19 libomp-19-dev
    version=$(dpkg-query --show --showformat='${source:Upstream-Version}' libomp5-19)
fi
# clang 19 warns of what its own -march=native says of some processors (AVX10).
"${OPENMP_CLANG:-clang-19}" -std=gnu11 "${fast[@]}" -Wall -Werror -Wno-unknown-warning-option -Wno-invalid-feature-combination -fPIC -shared -fopenmp -I perf/peers \
    -DLIBRARY='"libomp"' -DLIBRARY_VERSION="\"$version, without LTO\"" perf/peers/openmp.c -o "$PEERS_DIRECTORY/$name.so"
