# oneTBB from PyPI: its preview of dynamic task dependencies is newer than Debian's. To be run by scripts/peers.sh.
source perf/peers/common.sh
pypi 'tbb==2023.2.*' 'tbb-devel==2023.2.*'
current "$unpacked/.complete" perf/peers/onetbb.cpp perf/peers/order.hpp && exit
command -v g++ >/dev/null || debian g++
libraries=$(echo "$unpacked"/tbb-*.data/data/lib)
g++ -std=c++17 -O2 -Wall -Wextra -Werror -fPIC -shared -I perf/peers -isystem "$unpacked"/tbb_devel-*.data/data/include \
    "perf/peers/$name.cpp" "$libraries/libtbb.so.12" -Wl,-rpath,"\$ORIGIN/${libraries#"$PEERS_DIRECTORY/"}" -o "$PEERS_DIRECTORY/$name.so"
