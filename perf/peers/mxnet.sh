# MXNet 1.9.1, the last release: a wheel from PyPI, which carries libmxnet.so and the headers of its C++ engine.
. perf/peers/common.sh
[ "$(uname -m)" = x86_64 ] || skip "PyPI has mxnet 1.9.1 for x86-64 only"
debian g++ libgomp1 libquadmath0
pypi mxnet==1.9.1
# The headers ask for MKL and CUDA unless told otherwise; the plain wheel has neither. Nothing of theirs may take the place of the wheel's
# own copy, so that all but the peer's function stays hidden.
g++ -O2 -std=c++17 -Wall -Wextra -fPIC -shared -fvisibility=hidden -fno-gnu-unique -I perf/peers -isystem "$unpacked/mxnet/include" \
    -DMSHADOW_USE_MKL=0 -DMSHADOW_USE_CBLAS=0 -DMSHADOW_USE_CUDA=0 -DLIBMXNET="\"$(realpath "$unpacked")/mxnet/libmxnet.so\"" \
    perf/peers/mxnet.cpp -o "$PEERS_DIRECTORY/mxnet.so" -ldl
