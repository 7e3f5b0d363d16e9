# oneTBB from PyPI: its preview of dynamic task dependencies is newer than Debian's. To be run by scripts/peers.sh.
source perf/peers/common.sh
pypi 'tbb==2023.2.*' 'tbb-devel==2023.2.*'
[ "$PEERS_DIRECTORY/$name.so" -nt "$unpacked/.complete" ] && [ "$PEERS_DIRECTORY/$name.so" -nt "perf/peers/$name.cpp" ] &&
    [ "$PEERS_DIRECTORY/$name.so" -nt "$0" ] && exit
command -v g++ >/dev/null || debian g++
libraries=$(echo "$unpacked"/tbb-*.data/data/lib)
g++ -std=c++17 -O2 -Wall -Wextra -Werror -fPIC -shared -I perf/peers -isystem "$unpacked"/tbb_devel-*.data/data/include \
    "perf/peers/$name.cpp" "$libraries/libtbb.so.12" -Wl,-rpath,"\$ORIGIN/${libraries#"$PEERS_DIRECTORY/"}" -o "$PEERS_DIRECTORY/$name.so"
