//! The shared part of a helper: what other threads see of a thread that waits and runs operations
//! of the group meanwhile. Used by `worker/group.rs`, `worker/help.rs` and `worker/wake.rs`.
//! `worker/help.rs` is what the helper does; `worker/remote.rs` is the same for a worker.
//!
//! The helper takes and frees the place. Any thread may steal from it (`steal.rs`) or wake the
//! helper. A fork holds the locks of the handles, and its child frees the places (`help.rs`).

use crate::sync::{AtomicBool, MODELLED};
use crate::worker::inbox::Inbox;
use crate::worker::stealable::Stealable;
use crate::worker::thread_handle::ThreadHandle;

/// How many threads can be helpers of a group at once. More only wait.
const MOST_HELPERS: usize = if MODELLED { 1 } else { 16 };

/// A place for a helper, taken by one thread at a time.
pub struct Helper {
    /// The helper's state: whether it looks or sleeps. Nothing is ever delivered into this inbox.
    pub inbox: Inbox,
    /// The operations that the helper has lent.
    pub stealable: Stealable,
    pub taken: AtomicBool,
    /// The thread that uses this place. It is set when the thread first sleeps there.
    pub handle: ThreadHandle,
}

impl Helper {
    /// Wakes the helper if it sleeps. Returns whether it did. Called by `wake.rs`.
    pub fn wake(&self) -> bool {
        let woken = self.inbox.is_asleep() && self.inbox.get_up();
        if woken {
            // If another helper has the place by now, it is unparked for nothing, and only looks
            // once more.
            self.handle.unpark();
        }
        woken
    }
}

/// The helpers' places of a group, all free.
pub fn places() -> Box<[Helper]> {
    (0..MOST_HELPERS)
        .map(|_| Helper {
            inbox: Inbox::new(),
            stealable: Stealable::new(),
            taken: AtomicBool::new(false),
            handle: ThreadHandle::new(),
        })
        .collect()
}
