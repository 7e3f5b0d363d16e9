# This engine through its C interface, which stands beside MXNet: the archive that
# scripts/install-capi.sh installs. To be run by scripts/peers.sh.
source perf/peers/common.sh
command -v cc >/dev/null || skip "there is no C compiler: run: apt-get install gcc"
command -v cargo >/dev/null || skip "there is no cargo"
installed="$PEERS_DIRECTORY/$name"
scripts/install-capi.sh --prefix "$installed" >/dev/null
# The driver has the engine in Rust: nothing of the archive may take its place, or the other way
# round.
cc -std=gnu11 "${fast[@]}" -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -I perf/peers -isystem "$installed/include" \
    "perf/peers/$name.c" "$installed/lib/libseriatim.a" -Wl,--exclude-libs,ALL -pthread -lm -ldl -o "$PEERS_DIRECTORY/$name.so"
