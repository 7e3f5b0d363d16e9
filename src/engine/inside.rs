//! Whether a thread is inside an operation: of one engine, and of any.

#![forbid(unsafe_code)]

use crate::pool::local::Local;
use crate::sync::thread_local;
use std::cell::Cell;

thread_local! {
    /// How many operations this thread is inside of, of whatever engines.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread enters user code of an operation.
#[inline]
pub fn enter(local: &Local) {
    local.depth.set(local.depth.get() + 1);
    let _ = INSIDE.try_with(|inside| inside.set(inside.get() + 1));
}

#[inline]
pub fn leave(local: &Local) {
    local.depth.set(local.depth.get() - 1);
    let _ = INSIDE.try_with(|inside| inside.set(inside.get() - 1));
}

/// Whether the calling thread may run operations while it waits: not inside an operation of another engine, which would become part
/// of what they wait for.
pub fn may_help() -> bool {
    INSIDE.try_with(Cell::get).unwrap_or(0) == 0
}
