# StarPU: Debian's 1.3, or that which PKG_CONFIG_PATH leads to under the name STARPU_PACKAGE.
. perf/peers/common.sh
wanted=${STARPU_PACKAGE:-starpu-1.3}
if [ "$wanted" = starpu-1.3 ]; then debian gcc pkg-config libstarpu-dev; fi
# Its definitions are quoted for a shell.
eval "flags=($(pkg-config --cflags --libs "$wanted"))"
files=$(realpath "$PEERS_DIRECTORY")/starpu
mkdir -p "$files"
gcc "${fast[@]}" -flto=auto -std=c17 -D_GNU_SOURCE -Wall -Wextra -fPIC -shared -fvisibility=hidden -I perf/peers -DSTARPU_FILES="\"$files\"" \
    perf/peers/starpu.c -o "$PEERS_DIRECTORY/starpu.so" "${flags[@]}"
