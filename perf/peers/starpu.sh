# StarPU 1.3, from Debian.
. perf/peers/common.sh
debian gcc pkg-config libstarpu-dev
read -ra flags <<<"$(pkg-config --cflags --libs starpu-1.3)"
files=$(realpath "$PEERS_DIRECTORY")/starpu
mkdir -p "$files"
gcc -O2 -std=c17 -D_GNU_SOURCE -Wall -Wextra -fPIC -shared -fvisibility=hidden -I perf/peers -DSTARPU_FILES="\"$files\"" \
    perf/peers/starpu.c -o "$PEERS_DIRECTORY/starpu.so" "${flags[@]}"
