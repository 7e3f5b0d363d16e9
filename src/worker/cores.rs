//! State for pinning the workers of a group: the system's thread numbers, and stalls of spinning
//! workers. Used by `worker/pinning.rs`, which moves workers, by `worker/run_loop.rs` and
//! `worker/idle.rs`, which count stalls, and by `worker/group.rs`, which has it. A worker writes
//! its own number, and threads that wait move workers, both under the lock. A fork holds the lock,
//! and its child clears the numbers. [`Stalls`] are the worker's own.

use crate::sync::lock::Lock;
use crate::sync::Instant;
use std::time::Duration;

/// For each worker of a group the system's number of its thread; 0 if the worker is not pinned, or
/// has ended. A thread that moves a worker holds the lock meanwhile, so the worker cannot end
/// before the move is done.
pub type Ids = Lock<Vec<i32>>;

/// A pinned worker that other threads may move to another core. Dropping it, at the end of the
/// worker, takes the number out of the list.
pub struct Movable<'a>(pub &'a Ids, pub usize);

impl Drop for Movable<'_> {
    fn drop(&mut self) {
        self.0.lock()[self.1] = 0;
    }
}

/// How often in the last second a spinning worker was without its core for a millisecond or more.
#[derive(Default)]
pub struct Stalls {
    count: u32,
    since: Option<Instant>,
    told: bool,
}

impl Stalls {
    /// More stalls in a second than the system's own work causes.
    pub const MANY: u32 = 20;

    /// Counts one more stall. Returns true once: when there are many for the first time.
    pub fn are_many(&mut self) -> bool {
        if self.since.is_none_or(|since| since.elapsed() > Duration::from_secs(1)) {
            (self.since, self.count) = (Some(Instant::now()), 0);
        }
        self.count += 1;
        self.count >= Stalls::MANY && !std::mem::replace(&mut self.told, true)
    }
}
