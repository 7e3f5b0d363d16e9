# oneTBB: that of ONETBB_ROOT, a folder with include/ and lib/, if it is set; otherwise PyPI's,
# whose preview of dynamic task dependencies is newer than Debian's. To be run by scripts/peers.sh.
source perf/peers/common.sh
command -v g++ >/dev/null || debian g++
if [ -n "${ONETBB_ROOT:-}" ]; then
    include=$ONETBB_ROOT/include
    libraries=$(realpath "$ONETBB_ROOT/lib") || skip "there is no folder $ONETBB_ROOT/lib"
    found=$libraries
else
    pypi 'tbb==2023.2.*' 'tbb-devel==2023.2.*'
    include=$(echo "$unpacked"/tbb_devel-*.data/data/include)
    libraries=$(echo "$unpacked"/tbb-*.data/data/lib)
    found="\$ORIGIN/${libraries#"$PEERS_DIRECTORY/"}"
fi
g++ -std=c++20 "${fast[@]}" -flto=auto -Wall -Wextra -Werror -fPIC -shared -I perf/peers -isystem "$include" \
    "perf/peers/$name.cpp" "$libraries/libtbb.so.12" -Wl,-rpath,"$found" -o "$PEERS_DIRECTORY/$name.so"
