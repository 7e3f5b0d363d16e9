# What the scripts that build the peers share; to be sourced. The current folder is the repository's
# root.
set -euo pipefail
: "${PEERS_DIRECTORY:?run scripts/peers.sh}"
name=$(basename "$0" .sh)
# A rival is compiled as its users would for speed.
fast=(-O3 -march=native)

# skip REASON: leaves this peer out.
skip() {
    echo "$name: skipped: $1" >&2
    exit 3
}

# debian PACKAGE...: sees to it that Debian's packages are installed, or skips the peer.
debian() {
    local missing=()
    for package in "$@"; do
        dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    local how="apt-get install ${missing[*]}"
    [ "$(id -u)" = 0 ] && [ "${PEERS_INSTALL:-yes}" = yes ] && command -v apt-get >/dev/null || skip "run: $how"
    local quiet=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
    "${quiet[@]}" install --no-install-recommends -y "${missing[@]}" >/dev/null 2>&1 ||
        { "${quiet[@]}" update >/dev/null 2>&1 && "${quiet[@]}" install --no-install-recommends -y "${missing[@]}" >/dev/null 2>&1; } ||
        skip "'$how' failed"
}

# pypi REQUIREMENT...: unpacks wheels from PyPI into $PEERS_DIRECTORY/NAME, once; sets $unpacked to
# that folder. They lie there as they are packed, because 'pip install --target' leaves out the
# libraries of a wheel's NAME.data/data/lib.
pypi() {
    unpacked="$PEERS_DIRECTORY/$name"
    [ -f "$unpacked/.complete" ] && [ "$(cat "$unpacked/.complete")" = "$*" ] && return
    rm -rf "$unpacked"
    mkdir "$unpacked"
    python3 -m pip --version >/dev/null 2>&1 || debian python3-pip
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$unpacked" "$@" >&2 ||
        skip "pip could not download $*"
    for wheel in "$unpacked"/*.whl; do
        python3 -m zipfile --extract "$wheel" "$unpacked"
        rm "$wheel"
    done
    echo "$*" >"$unpacked/.complete"
}
