# MXNet 1.9.1, the last release: a wheel from PyPI, which carries libmxnet.so and the headers of its
# C++ engine. MXNET_ROOT may name the folder of another copy of the same package (with libmxnet.so
# and include/), as long as GCC 4.8's std::function is what it calls.
. perf/peers/common.sh
[ "$(uname -m)" = x86_64 ] || skip "PyPI has mxnet 1.9.1 for x86-64 only"
debian g++ libgomp1 libquadmath0
if [ -n "${MXNET_ROOT:-}" ]; then
    root=$(realpath "$MXNET_ROOT") || skip "there is no folder $MXNET_ROOT"
else
    pypi mxnet==1.9.1
    root=$(realpath "$unpacked")/mxnet
fi
# The headers ask for MKL and CUDA unless told otherwise; the plain wheel has neither. Nothing of
# theirs may take the place of the wheel's own copy, so that all but the peer's function stays
# hidden.
g++ "${fast[@]}" -flto=auto -std=c++17 -Wall -Wextra -fPIC -shared -fvisibility=hidden -fno-gnu-unique -I perf/peers -isystem "$root/include" \
    -DMSHADOW_USE_MKL=0 -DMSHADOW_USE_CBLAS=0 -DMSHADOW_USE_CUDA=0 -DLIBMXNET="\"$root/libmxnet.so\"" \
    perf/peers/mxnet.cpp -o "$PEERS_DIRECTORY/mxnet.so" -ldl
