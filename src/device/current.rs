//! The stream of the operation that the calling thread runs. `src/engine/gpu/call.rs` and
//! `src/engine/replay/device_graph.rs` set it, and
//! [`RunContext::stream`](crate::RunContext::stream) reads it. Each thread has its own.

#![forbid(unsafe_code)]

use crate::device::raw::RawStream;
use std::cell::Cell;

std::thread_local! {
    static STREAM: Cell<Option<RawStream>> = const { Cell::new(None) };
}

/// The stream of the innermost operation that [`within`] runs.
pub fn stream() -> Option<RawStream> {
    STREAM.try_with(Cell::get).ok().flatten()
}

/// Calls `run`, which does not unwind, with this stream.
pub fn within<R>(stream: Option<RawStream>, run: impl FnOnce() -> R) -> R {
    let before = STREAM.try_with(|current| current.replace(stream));
    let result = run();
    if let Ok(before) = before {
        let _ = STREAM.try_with(|current| current.set(before));
    }
    result
}
