#!/usr/bin/env bash
# Installs the C interface and the C++ binding into a temporary prefix, and builds and runs the
# examples there as a user would: by pkg-config and by CMake, with the shared library and with the
# archive. CMake is taken from PyPI if it is missing.
#
#   scripts/check-install-capi.sh
#
# Exit status: 0 all is well; 1 something is wrong; 3 all is well, but a tool is not to be had here,
# which is said.
set -euo pipefail
case "${1:-}" in
    "") ;;
    --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '/^set /d' && exit 0 ;;
    *) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '/^set /d' >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/.."
root=$PWD skipped=0 cmake_version=3.31.6

wrong() {
    echo "wrong: $*" >&2
    exit 1
}
skip() {
    echo "skipped: $*"
    skipped=3
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

scripts/install-capi.sh --prefix "$work/first"
# What is installed may be moved, so it is.
mv "$work/first" "$work/prefix"
prefix=$work/prefix libraries=$work/prefix/lib

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
shared=$libraries/libseriatim.so.$version
soname=$(readelf -d "$shared" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "libseriatim.so.${version%.*}" ] || wrong "the shared library says that it is '$soname'"
[ "$(readlink -f "$libraries/$soname")" = "$(readlink -f "$libraries/libseriatim.so")" ] || wrong "the links of $soname"
alien=$(nm --dynamic --defined-only --format=posix "$shared" | cut -d ' ' -f 1 | grep -v '^seriatim_' || true)
[ -z "$alien" ] || wrong "the shared library exports $alien"
# nm fails for members that are no objects, of which the standard library has one.
exported=$(nm --dynamic --defined-only --format=posix "$shared" | grep -c '^seriatim_')
declared=$(grep -cE '^[^/].*[ *]seriatim_[a-z_]+\(' "$prefix/include/seriatim.h")
[ "$exported" = "$declared" ] || wrong "$declared functions are declared, $exported exported"
readelf --sections --wide "$libraries/libseriatim.a" 2>/dev/null | grep '\.debug_' >/dev/null && wrong "the archive has debugging information"
echo "$soname exports $exported functions"

# expect PROGRAM TEXT: runs it, and looks for the text.
expect() {
    local output
    output=$(timeout 60 "$1") || wrong "$1: $output"
    grep -qF "$2" <<<"$output" || wrong "$1 says: $output"
}
# run_cpp FOLDER KIND: the example in C++, with the library of that kind.
run_cpp() {
    local line
    for line in "sum 5000" "out of range" "x 1024"; do expect "$1/first-$2" "$line"; done
}
run_both() {
    expect "$1/pipeline-$2" "total 5210112 after 64 blocks"
    expect "$1/replay-$2" "32 operations, replayed 1000 times: version 1000, heat 1000.000"
    expect "$1/gpu-$2" "sum 1000000, 8192 bytes in use"
    local needed
    needed=$(readelf -d "$1/pipeline-$2" | grep -cF "[$soname]" || true)
    case "$2" in
        seriatim) [ "$needed" = 1 ] || wrong "$1/pipeline-$2 does not ask for $soname" ;;
        static) [ "$needed" = 0 ] || wrong "$1/pipeline-$2 asks for $soname" ;;
    esac
}

if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$libraries/pkgconfig
    [ "$(pkg-config --modversion seriatim)" = "$version" ] || wrong "pkg-config says $(pkg-config --modversion seriatim)"
    mkdir "$work/made"
    for example in pipeline replay gpu reduce; do
        # As written in README.md; -I and paths may hold no spaces, as everywhere with pkg-config.
        # shellcheck disable=SC2046
        cc -std=c11 -pthread -Wall -Wextra -Werror "capi/examples/$example.c" $(pkg-config --cflags --libs seriatim) \
            "-Wl,-rpath,$libraries" -o "$work/made/$example-seriatim"
        # shellcheck disable=SC2046
        cc -std=c11 -pthread -Wall -Wextra -Werror "capi/examples/$example.c" $(pkg-config --cflags --libs seriatim-static) \
            -o "$work/made/$example-static"
    done
    run_both "$work/made" seriatim
    run_both "$work/made" static
    for kind in cpp cpp-static; do
        # shellcheck disable=SC2046
        c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror bindings/cpp/examples/first.cpp \
            $(pkg-config --cflags --libs "seriatim-$kind") "-Wl,-rpath,$libraries" -o "$work/made/first-$kind"
        run_cpp "$work/made" "$kind"
    done
    echo "pkg-config: the examples, both libraries"
else
    skip "there is no pkg-config"
fi

cmake=$(command -v cmake || true)
if [ -z "$cmake" ]; then
    tools=${CARGO_TARGET_DIR:-$root/target}/cmake-$cmake_version
    if [ -x "$tools/bin/cmake" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet "cmake==$cmake_version"; } \
        >/dev/null 2>&1; then
        cmake=$tools/bin/cmake
    fi
fi
if [ -n "$cmake" ]; then
    "$cmake" -S capi/examples -B "$work/build" "-DCMAKE_PREFIX_PATH=$prefix" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
    "$cmake" --build "$work/build" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
    run_both "$work/build" seriatim
    run_both "$work/build" static
    "$cmake" -S bindings/cpp/examples -B "$work/build-cpp" "-DCMAKE_PREFIX_PATH=$prefix" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
    "$cmake" --build "$work/build-cpp" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
    run_cpp "$work/build-cpp" cpp
    run_cpp "$work/build-cpp" cpp-static
    # A program that was made for another version must not find this one.
    mkdir "$work/other"
    printf 'cmake_minimum_required(VERSION 3.16)\nproject(other C)\nfind_package(seriatim 0.0 REQUIRED)\n' >"$work/other/CMakeLists.txt"
    if "$cmake" -S "$work/other" -B "$work/other/build" "-DCMAKE_PREFIX_PATH=$prefix" >/dev/null 2>&1; then
        wrong "version $version is taken for 0.0"
    fi
    echo "CMake: the examples, both libraries"
else
    skip "there is no CMake, and PyPI has none for us"
fi
exit "$skipped"
