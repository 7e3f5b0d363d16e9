//! Placing: a pusher's choice of the worker into whose log an operation goes. Used by
//! `journals.rs`, on the pusher, and touched by no other thread.
//!
//! An operation that has to wait goes to the worker that has the last use that it waits for. When
//! that worker comes to the operation, the use has ended, so the operation need not park. An
//! operation that waits for nothing goes to the worker that wrote its variable last, whose cache
//! has the data. If the chosen worker has much more to do than another one, the operation goes to
//! the other one.
//!
//! The pusher knows all this without looking at shared memory, but for how far each worker has
//! come. A worker writes its position for each operation, so the pusher looks at one of these lines
//! every few pushes only.

use crate::operation::access::{Access, Mode};
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::tickets::log::Log;
use crate::util::bucket_array::{BucketArray, Vacant};
use std::cell::Cell;

/// So many operations are placed between two looks at a worker's position. `src/engine/README.md`
/// gives this number.
pub const PLACED_A_LOOK: u32 = 4;
/// If the chosen worker has more than this many operations more than the least busy one, that one
/// gets the operation. The first number is for an operation that waits for one in the chosen
/// worker's log, the second for any other.
const MORE_IF_IT_WAITS: u64 = 24;
const MORE: u64 = 4;

/// The last write and the last read of a variable, as far as the pusher knows. For each: the
/// worker, and the position in its log plus 1. Atomic for the sake of [`BucketArray`]: only the
/// pusher uses it.
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

/// A pusher's knowledge of the workers. Used by its own thread only.
pub struct Placing {
    /// The position of each worker when the pusher last looked.
    come: Box<[Cell<u64>]>,
    /// The number of operations placed, and the worker that has least left.
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

    /// Chooses the worker for an operation with these accesses, and notes the uses there.
    pub fn place(&self, logs: &[Log], accesses: &[Access]) -> usize {
        let least = self.least(logs);
        // The worker of the last use that has not ended, and the worker of the last write.
        let (mut cache, mut most) = (None, 0);
        let mut written = least;
        for access in accesses {
            let Some(used) = self.used.get(access.variable) else { continue };
            let mut wait_for = |[worker, place]: &[AtomicU32; 2]| {
                let worker = worker.load(Relaxed) as usize;
                let behind = place.load(Relaxed).wrapping_sub(self.come[worker].get() as u32);
                // A use further behind than all that is left has ended long ago: positions start
                // again at 2³².
                if behind > most && u64::from(behind) <= self.left(logs, worker) {
                    (cache, most) = (Some(worker), behind);
                }
                worker
            };
            let writer = wait_for(&used.write);
            if access.mode() != Mode::Read {
                wait_for(&used.read);
                written = writer;
            }
        }
        let (wish, more) = cache.map_or((written, MORE), |cache| (cache, MORE_IF_IT_WAITS));
        let is_ahead = self.left(logs, wish) > self.left(logs, least) + more;
        let worker = if is_ahead { least } else { wish };
        let place = (logs[worker].pushed() as u32).wrapping_add(1);
        for access in accesses {
            if let Some(used) = self.used.get_or_add(access.variable) {
                let last = if access.mode() == Mode::Read { &used.read } else { &used.write };
                last[0].store(worker as u32, Relaxed);
                last[1].store(place, Relaxed);
            }
        }
        worker
    }

    /// The worker that has least left of what this pusher has logged for it, as far as is known.
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

    /// The number of entries that a worker has left. Entries whose operations other threads have
    /// taken count until the worker has passed them.
    fn left(&self, logs: &[Log], worker: usize) -> u64 {
        logs[worker].pushed() - self.come[worker].get()
    }
}
