# Builds the library that counts allocations and locks; it needs nothing but a C compiler.
source perf/peers/common.sh
command -v cc >/dev/null || skip "there is no C compiler: run: apt-get install gcc"
cc -O2 -Wall -Wextra -Werror -shared -fPIC -o "$PEERS_DIRECTORY/counts.so" perf/peers/counts.c -ldl -pthread
