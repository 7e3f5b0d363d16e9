//! Who polls a task, and whether it is to be polled again: one word, without a lock.
//!
//! Used by `engine/future/task.rs`. Any thread may wake. The task is queued by the one thread that
//! [`PollState::wake`] or [`PollState::end`] tells to, so one thread at a time polls it. A wake-up
//! during a poll is not lost: the end of the poll finds it.

use crate::sync::{AtomicU8, Ordering::*};

/// Nobody polls the task, and nobody is to.
const RESTS: u8 = 0;
/// It is queued: a thread will poll it.
const QUEUED: u8 = 1;
const POLLED: u8 = 2;
/// It is polled, and was woken meanwhile.
const POLLED_AND_WOKEN: u8 = 3;
/// It is not to be polled any more.
const OVER: u8 = 4;

/// The state of one task.
pub struct PollState(AtomicU8);

impl PollState {
    /// A task that its maker polls first.
    pub fn new() -> PollState {
        PollState(AtomicU8::new(QUEUED))
    }

    /// Notes that the task was woken; says whether the caller has to queue it.
    pub fn wake(&self) -> bool {
        let woken = |state| match state {
            RESTS | QUEUED => Some(QUEUED),
            POLLED | POLLED_AND_WOKEN => Some(POLLED_AND_WOKEN),
            _ => None,
        };
        // Release, also where the state stays as it is: pairs with the acquires in `begin` and
        // `end`, so that the next poll sees what this thread has done. Acquire: pairs with the
        // release in `end`, as the caller hands the task to the next thread that polls it.
        self.0.fetch_update(AcqRel, Relaxed, woken) == Ok(RESTS)
    }

    /// The calling thread polls the task, which was queued.
    pub fn begin(&self) {
        // Acquire: pairs with the releases in `wake` and `end`. A read-modify-write, as another
        // thread may wake at this moment.
        self.0.swap(POLLED, AcqRel);
    }

    /// The poll is over, and the task is not ready; says whether the caller has to queue it.
    pub fn end(&self) -> bool {
        // Release: pairs with the acquires in `wake` and `begin`: the next thread that polls finds
        // the task as this one leaves it.
        if self.0.compare_exchange(POLLED, RESTS, AcqRel, Acquire).is_ok() {
            return false;
        }
        // Acquire and release: other threads may have woken it again since.
        self.0.swap(QUEUED, AcqRel);
        true
    }

    /// The poll is over, and the task too.
    pub fn finish(&self) {
        // Relaxed: who wakes it from now on does nothing.
        self.0.store(OVER, Relaxed);
    }
}
