#!/usr/bin/env bash
# Small networks on Seriatim's arrays beside a plain loop, PyTorch, ONNX Runtime, MXNet's wheel,
# scikit-learn, candle and burn: inference, training step and epoch, in microseconds. Results are
# compared first, then entrants take turns; each has one thread, and then what it takes by itself.
#
#   scripts/latency-nn.sh                       all, some minutes; prints tables in Markdown
#   scripts/latency-nn.sh --prepare             only installs and builds what is measured
#   scripts/latency-nn.sh --calls 2000 --network lenet-5   what follows goes to seriatim-latency-nn
#
# perf/latency-nn/README.md says more; `cargo run -p seriatim-latency-nn -- --help` has the options.
#
# What cannot be had is skipped with a line. The first time it needs PyPI and crates.io: Python's
# libraries (some 6 GB) go to <target folder>/latency-nn-venv and mxnet-venv, the crates to
# <target folder>/latency-nn-rivals, built for this processor. These need Rust 1.92.
#
# Exit status: 0 all is well; 1 a result of ours is wrong, or something fails.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR=$target
skip() {
    echo "latency-nn.sh: skipped: $*" >&2
}
rivals=()
# rival NAME COMMAND …
rival() {
    local name=$1
    shift
    rivals+=(--rival "$name=$*")
}

environment=$target/latency-nn-venv
versions=(numpy==2.4.6 torch==2.15.0 onnxruntime==1.32.0 onnx==1.23.2 scikit-learn==1.9.1)
if [ "$(cat "$environment/made-from" 2>/dev/null)" != "${versions[*]}" ]; then
    rm -rf "$environment"
    mkdir -p "$target"
    if python3 -m venv "$environment" &&
        "$environment/bin/pip" install --quiet --disable-pip-version-check "${versions[@]}"; then
        echo "${versions[*]}" >"$environment/made-from"
    else
        rm -rf "$environment"
    fi
fi
entrants=perf/latency-nn/entrants
if [ -d "$environment" ]; then
    for kind in eager traced compiled; do rival "PyTorch, $kind" "$environment/bin/python" $entrants/pytorch.py $kind; done
    rival "ONNX Runtime, bound" "$environment/bin/python" $entrants/onnx_runtime.py
    rival scikit-learn "$environment/bin/python" $entrants/scikit.py
else
    skip "${versions[*]} could not be installed (needs python3-venv and PyPI)"
fi
if environment=$(scripts/mxnet-venv.sh); then
    for kind in executor gluon; do rival "MXNet, $kind" "$environment/bin/python" $entrants/mxnet_wheel.py $kind; done
fi
if (cd perf/latency-nn/rivals && CARGO_TARGET_DIR=$target/latency-nn-rivals RUSTFLAGS="-C target-cpu=native" \
    cargo build --quiet --release --locked); then
    program=$target/latency-nn-rivals/release/latency-nn-rivals
    rival candle "$program" candle
    for kind in flex ndarray; do rival "burn, $kind" "$program" burn-$kind; done
else
    skip "candle and burn could not be built"
fi
cargo build --quiet --release -p seriatim-latency-nn
[ "${1:-}" = --prepare ] && exit 0
export PYTHONDONTWRITEBYTECODE=1
exec "$target/release/seriatim-latency-nn" "${rivals[@]}" "$@"
