#!/usr/bin/env bash
# Builds the C interface and installs it: header, shared library with a versioned name, archive,
# pkg-config files, CMake package; and the headers of the C++ binding, with the same.
#
#   scripts/install-capi.sh --prefix DIR [--libdir lib] [--destdir DIR]
#
#   --prefix DIR   where it is to be used from, such as /usr/local
#   --libdir NAME  the folder for libraries in the prefix; default: lib
#   --destdir DIR  puts everything under DIR, for packages that are moved to the prefix later
#
# What is installed may be moved as a whole: its files find each other. Needs cargo, a C compiler
# and binutils, on a system with ELF libraries. (cargo-c does much of this. It has no CMake package,
# and it contains cargo, whose several hundred crates take longer to build than this script has
# lines.)
set -euo pipefail

usage() {
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '/^set /d'
}

prefix="" libdir=lib destdir=""
while [ $# -gt 0 ]; do
    case "$1" in
        --help | -h) usage && exit 0 ;;
        --prefix) prefix=${2:?--prefix needs a folder} && shift 2 ;;
        --libdir) libdir=${2:?--libdir needs a name} && shift 2 ;;
        --destdir) destdir=${2:?--destdir needs a folder} && shift 2 ;;
        *) usage >&2 && exit 2 ;;
    esac
done
[ -n "$prefix" ] || { usage >&2 && exit 2; }
case "$libdir" in /*) echo "install-capi.sh: --libdir is a folder in the prefix: $libdir" >&2 && exit 2 ;; esac
[ "$(uname -s)" != Darwin ] || { echo "only for systems with ELF libraries; README.md says how to link what cargo builds" >&2 && exit 1; }
mkdir -p "$destdir$prefix"
root=$(cd "$destdir$prefix" && pwd)
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# As cargo understands versions: while the first number is 0, the second one says what is compatible.
case "$version" in
    0.*) abi=${version%.*} ;;
    *) abi=${version%%.*} ;;
esac

unset CARGO_BUILD_TARGET # With it cargo would build into another folder.
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/installed"
native=$(cd "$target/installed" && pwd)/native-static-libs
cargo rustc --package seriatim_c --lib --locked --profile installed --crate-type cdylib,staticlib -- \
    -C "link-arg=-Wl,-soname,libseriatim.so.$abi" --print "native-static-libs=$native"
built=$target/installed

libraries=$root/$libdir
install -d "$root/include" "$libraries/pkgconfig" "$libraries/cmake/seriatim" "$root/share/licenses/seriatim"
install -m 644 capi/include/seriatim.h "$root/include"
install -d "$root/include/seriatim/detail"
install -m 644 bindings/cpp/include/seriatim/*.hpp "$root/include/seriatim"
install -m 644 bindings/cpp/include/seriatim/detail/*.hpp "$root/include/seriatim/detail"
install -m 644 LICENSE-MIT LICENSE-APACHE "$root/share/licenses/seriatim"
install -m 755 "$built/libseriatim_c.so" "$libraries/libseriatim.so.$version"
ln -sf "libseriatim.so.$version" "$libraries/libseriatim.so.$abi"
ln -sf "libseriatim.so.$abi" "$libraries/libseriatim.so"
# The standard library comes with its debugging information, which is more than half of the archive.
strip --strip-debug -o "$libraries/libseriatim.a" "$built/libseriatim_c.a"

system=$(tr '\n' ' ' <"$native" | sed 's/ *$//')
up=$(realpath -m --relative-to="$libraries/pkgconfig" "$root")
up_cmake=$(realpath -m --relative-to="$libraries/cmake/seriatim" "$root")
fill() {
    sed -e "s|@VERSION@|$version|g" -e "s|@ABI@|$abi|g" -e "s|@ABI_PATTERN@|${abi//./\\\\\\\\.}|g" -e "s|@LIBDIR@|$libdir|g" \
        -e "s|@UP@|$up|g" -e "s|@UP_CMAKE@|$up_cmake|g" -e "s|@NATIVE@|$system|g" -e "s|@NATIVE_CMAKE@|${system// /;}|g" \
        "${3:-capi}/packaging/$1.in" >"$2/$1"
}
fill seriatim.pc "$libraries/pkgconfig"
fill seriatim-static.pc "$libraries/pkgconfig"
fill seriatim-cpp.pc "$libraries/pkgconfig" bindings/cpp
fill seriatim-cpp-static.pc "$libraries/pkgconfig" bindings/cpp
fill seriatim-config.cmake "$libraries/cmake/seriatim"
fill seriatim-config-version.cmake "$libraries/cmake/seriatim"

bytes() { stat -c %s "$1"; }
echo "libseriatim.so.$version: $(bytes "$libraries/libseriatim.so.$version") bytes"
echo "libseriatim.a: $(bytes "$libraries/libseriatim.a") bytes, $(bytes "$built/libseriatim_c.a") before it was stripped"
echo "installed in $root"
