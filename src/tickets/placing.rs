//! Placing: the worker into whose log a pusher puts an operation.
//!
//! An operation that has to wait goes where the last use is queued that it waits for: when the
//! worker comes to it, that has ended, so it need not park. One that waits for nothing goes where
//! its variable was written last, whose lines are there. If that worker has much more to do than
//! another one, the operation goes to the other one.
//!
//! The pusher knows all this by itself, but for how far workers have come. That lies on lines that
//! they write for each operation, so it looks at one of them every few pushes.

use crate::operation::access::Mode;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::tickets::log::Log;
use crate::util::bucket_array::{BucketArray, Vacant};
use std::cell::Cell;

/// So many operations are placed between two looks at how far workers have come.
const PLACED_A_LOOK: u32 = 4;
/// How much more than another one a worker may have to do that is given an operation: one that
/// waits for what that worker has, and one that does not.
const MORE_IF_IT_WAITS: u64 = 24;
const MORE: u64 = 4;

/// Where a variable was used last, as far as the pusher knows: worker and place in its log, with 1
/// added. Atomic for the sake of [`BucketArray`]: only the pusher uses it.
struct LastUse {
    write: [AtomicU32; 2],
    read: [AtomicU32; 2],
}

// SAFETY: see `Vacant`; zeros are those of `vacant`, and it needs no destructor.
unsafe impl Vacant for LastUse {
    const NAME: &'static str = "placing";

    fn vacant() -> LastUse {
        let none = || [AtomicU32::new(0), AtomicU32::new(0)];
        LastUse { write: none(), read: none() }
    }
}

/// What a pusher knows of the workers. For its own thread.
pub struct Placing {
    /// How far each worker had come when its log was last looked at.
    come: Box<[Cell<u64>]>,
    /// Operations that were placed, and the worker that has least left.
    placed: Cell<u32>,
    least: Cell<usize>,
    used: BucketArray<LastUse>,
}

impl Placing {
    pub fn new(workers: usize) -> Placing {
        Placing {
            come: (0..workers).map(|_| Cell::new(0)).collect(),
            placed: Cell::new(0),
            least: Cell::new(0),
            used: BucketArray::new(),
        }
    }

    /// The worker for an operation that uses these variables; notes that it is there.
    pub fn place(&self, logs: &[Log], uses: impl Iterator<Item = (u32, Mode)> + Clone) -> usize {
        let least = self.least(logs);
        // The use that comes last of those that have not ended, and where the variable was written.
        let (mut cache, mut most) = (None, 0);
        let mut written = least;
        for (variable, mode) in uses.clone() {
            let Some(used) = self.used.get(variable) else { continue };
            let mut wait_for = |[worker, place]: &[AtomicU32; 2]| {
                let worker = worker.load(Relaxed) as usize;
                let behind = place.load(Relaxed).wrapping_sub(self.come[worker].get() as u32);
                // What is further behind than all that is left has ended long ago: places start
                // again at 2³².
                if behind > most && u64::from(behind) <= self.left(logs, worker) {
                    (cache, most) = (Some(worker), behind);
                }
                worker
            };
            let writer = wait_for(&used.write);
            if mode != Mode::Read {
                wait_for(&used.read);
                written = writer;
            }
        }
        let (wish, more) = cache.map_or((written, MORE), |cache| (cache, MORE_IF_IT_WAITS));
        let is_ahead = self.left(logs, wish) > self.left(logs, least) + more;
        let worker = if is_ahead { least } else { wish };
        let place = (logs[worker].pushed() as u32).wrapping_add(1);
        for (variable, mode) in uses {
            if let Some(used) = self.used.get_or_add(variable) {
                let last = if mode == Mode::Read { &used.read } else { &used.write };
                last[0].store(worker as u32, Relaxed);
                last[1].store(place, Relaxed);
            }
        }
        worker
    }

    /// The worker that has least left of what the pusher has logged for it, as far as that is
    /// known.
    fn least(&self, logs: &[Log]) -> usize {
        let placed = self.placed.get();
        self.placed.set(placed.wrapping_add(1));
        let least = self.least.get();
        if placed % PLACED_A_LOOK != 0 {
            return least;
        }
        let worker = (placed / PLACED_A_LOOK) as usize % logs.len();
        self.come[worker].set(logs[worker].come());
        if self.left(logs, worker) >= self.left(logs, least) {
            return least;
        }
        self.least.set(worker);
        worker
    }

    /// What a worker has left. What others have taken out of its log counts until it comes there.
    fn left(&self, logs: &[Log], worker: usize) -> u64 {
        logs[worker].pushed() - self.come[worker].get()
    }
}
