//! Whether the calling thread is one that an engine keeps, and which: a worker, or the watcher of a
//! device. `engine/worker_host.rs` and `engine/gpu/watch.rs` say so as such a thread begins, and
//! `engine/nesting.rs` asks. Each thread has its own note, which no other thread sees.
//!
//! The note stays to the end of the thread: the destructors of its thread-locals are user code too,
//! and who stops the engine waits for them.

#![forbid(unsafe_code)]

use crate::sync::thread_local;
use std::cell::Cell;

thread_local! {
    /// The number of the engine that keeps the thread; 0 if it is the program's. It has no
    /// destructor, so the destructors of others find it.
    static KEEPER: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread belongs to this engine, to its end.
pub fn begin(engine: u32) {
    KEEPER.with(|keeper| keeper.set(engine));
}

/// Whether any engine keeps the calling thread.
pub fn is_kept() -> bool {
    keeper() != 0
}

/// Whether this engine keeps the calling thread.
pub fn is_kept_by(engine: u32) -> bool {
    keeper() == engine
}

fn keeper() -> u32 {
    KEEPER.try_with(Cell::get).unwrap_or(0)
}
