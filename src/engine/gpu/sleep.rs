//! How the watcher of a device sleeps, and what wakes it. A parked operation does ([`park`]), and
//! all else that the watcher has to see ([`wake`]). That is the number that a timeline tells, a
//! mark at which an operation is due, an array that waits for memory, a loss, or a stop.
//!
//! Used by `watch.rs`, on the watcher ([`rest`]), and on any thread by `turn.rs` ([`park`]) and
//! `devices.rs` ([`wake`]). Nothing is kept here: whether the watcher sleeps is in the word of its
//! inbox (`src/worker/inbox.rs`).

use crate::operation::block::Block;
use crate::sync::{fence, Ordering::*};
use crate::worker::remote::Remote;

/// Sleeps until something is parked, or something is told to a sleeper for which `is_idle` then
/// says no. May return earlier.
pub fn rest(watcher: &Remote, is_idle: impl Fn() -> bool) {
    let inbox = &watcher.inbox;
    let _ = inbox.start_looking();
    if !inbox.fall_asleep() {
        return;
    }
    // Store buffering; the other fence is in `wake`.
    fence(SeqCst);
    if !is_idle() {
        inbox.get_up();
    }
    while inbox.is_asleep() {
        inbox.sleep(None);
    }
    inbox.is_up();
}

/// Wakes the watcher if it sleeps. Called after a store that it has to see.
pub fn wake(watcher: &Remote) {
    // Store buffering; the other fence is in `rest`. Either this thread sees the watcher asleep, or
    // the watcher sees what the caller has done.
    fence(SeqCst);
    watcher.inbox.wake();
}

/// Gives an operation to the watcher.
///
/// # Safety
/// The operation is ready. It belongs to the caller, which gives it up.
pub unsafe fn park(watcher: &Remote, block: *mut Block) {
    // SAFETY: by the contract.
    let _ = unsafe { watcher.inbox.push(block, block) };
}
