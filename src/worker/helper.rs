//! The place of a helper: what others see of a thread that waits and works for the group meanwhile.

use crate::sync::lock::Lock;
use crate::sync::thread::Thread;
use crate::sync::{AtomicBool, MODELLED};
use crate::worker::inbox::Inbox;
use crate::worker::stealable::Stealable;

/// How many threads can be helpers of a group at once. More only wait.
const MOST_HELPERS: usize = if MODELLED { 1 } else { 16 };

/// A place for a helper.
pub struct Helper {
    /// What others can see of the helper: whether it sleeps. Nothing is ever delivered here.
    pub inbox: Inbox,
    /// What the helper would run next, for others.
    pub stealable: Stealable,
    pub taken: AtomicBool,
    /// Who sits here. Never waited for: the helper sets it before it falls asleep, and one thread
    /// at most has then woken it.
    pub thread: Lock<Option<Thread>>,
}

impl Helper {
    /// Wakes the helper, if it sleeps; says whether it did.
    pub fn wake(&self) -> bool {
        let woken = self.inbox.is_asleep() && self.inbox.wake();
        if woken {
            // Should another helper sit here by now, it only looks around once more.
            if let Some(thread) = &*self.thread.lock() {
                thread.unpark();
            }
        }
        woken
    }
}

/// The places of a group.
pub fn places() -> Box<[Helper]> {
    (0..MOST_HELPERS)
        .map(|_| Helper {
            inbox: Inbox::new(),
            stealable: Stealable::new(),
            taken: AtomicBool::new(false),
            thread: Lock::default(),
        })
        .collect()
}
