//! What is known of the cores of a group's workers.

use crate::sync::lock::Lock;
use crate::sync::Instant;
use std::time::Duration;

/// The system's numbers of a group's pinned workers, by worker; 0 if it is not there. Locked while
/// one is moved: so none ends meanwhile.
pub type Ids = Lock<Vec<i32>>;

/// A worker that other threads may move to another core.
pub struct Movable<'a>(pub &'a Ids, pub usize);

impl Drop for Movable<'_> {
    fn drop(&mut self) {
        self.0.lock()[self.1] = 0;
    }
}

/// How often a worker that spins was without its core for a millisecond or more, in the last
/// second.
#[derive(Default)]
pub struct Stalls {
    count: u32,
    since: Option<Instant>,
    told: bool,
}

impl Stalls {
    /// So many in a second are not the system's own work.
    pub const MANY: u32 = 20;

    /// Counts one more; whether there are many, for the first time.
    pub fn are_many(&mut self) -> bool {
        if self.since.is_none_or(|since| since.elapsed() > Duration::from_secs(1)) {
            (self.since, self.count) = (Some(Instant::now()), 0);
        }
        self.count += 1;
        self.count >= Stalls::MANY && !std::mem::replace(&mut self.told, true)
    }
}
