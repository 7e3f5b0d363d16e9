#!/usr/bin/env bash
# Explores every model of loom-tests/ exhaustively within its preemption bound. Arguments go to `cargo test`, for example the name
# of one file: scripts/loom.sh --test protocol
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom --cfg crossbeam_loom"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
exec cargo test --release --package loom-tests "$@" -- --nocapture --test-threads=1
