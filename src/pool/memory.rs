//! All the memory of one engine: slabs, thread caches, the depot between them, the pushers'
//! records, and the table of variables. `engine/core.rs` makes it. Threads use it through their
//! contexts (`thread/context.rs`); what sums over all of them is called on any thread. Any thread
//! adds the cache, the record or the variable that it needs. Only the child of a fork replaces the
//! reclaimer.
//!
//! The engine owns it: it is freed when the engine is dropped, whatever threads have used it. A
//! thread that is just ending may hold it a moment longer, and free it (`thread/context.rs`).
//! Graphs and parameters that outlive the engine's last handle keep the engine.

use crate::error::{Error, ErrorKind};
use crate::pool::reclaim::{Epoch, EpochHandle};
use crate::pool::registry::Registry;
use crate::pool::thread_cache::{Shared, ThreadCache};
use crate::sync::{thread, AtomicBool, AtomicU64, Ordering::*};
use crate::tickets::owner::Record;
use crate::variable::table::Table;
use crossbeam_utils::CachePadded;
use std::cell::UnsafeCell;
use std::sync::Arc;

/// Sequence numbers that a thread takes at a time. `docs/src/limits.md` gives this number.
const RANGE: u64 = 64;

/// All the memory of one engine.
pub struct Memory {
    /// The first field, so that it is dropped first: the reclaimer runs deferred calls, which put
    /// blocks into caches.
    reclaim: UnsafeCell<Epoch>,
    /// Tells engines apart, also in the handles of their variables.
    pub id: u32,
    /// Whether the engine has ended. Set by `engine/lifecycle.rs`, on the thread that closes it.
    pub closed: AtomicBool,
    /// Where the next range of sequence numbers starts. [`Memory::sequences`] deals [`RANGE`]
    /// numbers at a time to a thread, which takes them in `ThreadContext::next_sequence`.
    sequences: CachePadded<AtomicU64>,
    /// What all caches of blocks share.
    pub blocks: Shared,
    /// The record of every pusher.
    pub records: Registry<Record>,
    pub table: Table,
}

// SAFETY: the registries are append-only and atomic. Their members are `Sync`, or are reached by
// their owner only.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// The number of the next engine. Each number is given out once: a thread finds its context for an
/// engine by the number, and a handle finds its engine.
static IDS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);

fn draw_id(ids: &std::sync::atomic::AtomicU32) -> Result<u32, Error> {
    ids.fetch_update(Relaxed, Relaxed, |id| id.checked_add(1)).map_err(|_| {
        Error::new(
            ErrorKind::EnginesExhausted,
            "the process has made as many engines as there are numbers for them, four thousand million: make fewer, and use each for longer",
        )
    })
}

impl Memory {
    /// # Errors
    /// [`ErrorKind::EnginesExhausted`]
    pub fn new() -> Result<Memory, Error> {
        Ok(Memory {
            reclaim: UnsafeCell::new(Epoch::new()),
            id: draw_id(&IDS)?,
            closed: AtomicBool::new(false),
            sequences: CachePadded::new(AtomicU64::new(1)),
            blocks: Shared::new(),
            records: Registry::new(),
            table: Table::new(),
        })
    }

    /// A cache for a thread that is new to the engine: one without an owner, or a new one.
    pub fn adopt_cache(&self) -> &ThreadCache {
        self.blocks
            .caches
            .iter()
            .find(|cache| cache.adopt())
            .unwrap_or_else(|| self.blocks.caches.add(ThreadCache::new))
    }

    /// Makes the calling thread a member of the reclaimer.
    pub fn register(&self) -> EpochHandle {
        // SAFETY: the cell is written only by `forget_other_threads`, when there is no other
        // thread, and when the memory is dropped.
        unsafe { (*self.reclaim.get()).register() }
    }

    /// For the child of a `fork`: starts over with a new reclaimer. Threads of the parent that were
    /// pinned would stay pinned in the old one for ever. Deferred calls of the old one stay there
    /// until the memory is freed, unless the caller was its only member.
    ///
    /// # Safety
    /// The calling thread is the only one, and is not pinned. It gives up its membership of the old
    /// reclaimer.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub unsafe fn forget_other_threads(&self, readers: usize) {
        self.blocks.readers.reset(readers);
        self.forget_promises();
        // SAFETY: there is no other thread, and `register` keeps no reference. Members that are
        // gone hold the old reclaimer.
        unsafe { *self.reclaim.get() = Epoch::new() };
    }

    /// For the child of a `fork`: the threads that had said that they would look, fill a block, or
    /// hold one, are gone.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_promises(&self) {
        for cache in self.blocks.caches.iter() {
            cache.forget_promises();
        }
        self.blocks.looks.reset();
    }

    /// The numbers of operations completed and pushed. If the two are equal, there was a moment
    /// during the call at which nothing was in flight. For the completed operations are counted
    /// first, both numbers only grow, and an operation is counted as pushed before it can complete.
    ///
    /// The same rule, with asynchronous closures, is in [`Memory::tally_inside`].
    pub fn tally(&self) -> (u64, u64) {
        // Acquire: pairs with the release in `ThreadContext::count_completed`. An operation counted
        // as completed has had its effects, and was counted as pushed.
        let completed = self.blocks.caches.iter().map(|cache| cache.completed.load(Acquire)).sum();
        let pushed = self.blocks.caches.iter().map(|cache| cache.pushed.load(Acquire)).sum();
        (completed, pushed)
    }

    /// How many operations were counted as pushed and as completed, and were not pushed: their
    /// threads have tried one way of a push and gone another. Part of both numbers of
    /// [`Memory::tally`].
    pub fn given_up(&self) -> u64 {
        self.blocks.caches.iter().map(|cache| cache.given_up.load(Relaxed)).sum()
    }

    /// Whether some thread says that it will look for operations that others leave. Relaxed: the
    /// fences are in `worker/handoff.rs`.
    pub fn will_somebody_look(&self) -> bool {
        self.blocks.caches.iter().any(|cache| cache.will_look.load(Relaxed))
    }

    /// Like [`Memory::tally`], but asynchronous closures that still run count as well, whether
    /// their operations are complete or not. If the two numbers are equal, there was a moment at
    /// which no thread could push from inside an operation.
    pub fn tally_inside(&self) -> (u64, u64) {
        let sum = |counter: fn(&ThreadCache) -> &AtomicU64| -> u64 {
            self.blocks.caches.iter().map(|cache| counter(cache).load(Acquire)).sum()
        };
        let ends = sum(|cache| &cache.completed) + sum(|cache| &cache.returned);
        let starts = sum(|cache| &cache.pushed) + sum(|cache| &cache.called);
        (ends, starts)
    }

    /// For the child of a `fork`, in which nothing is in flight. Threads that had counted
    /// operations as pushed, and would have pushed them after the fork, are gone. `own` is the
    /// calling thread's cache, whose counters make up for them.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn even_out(&self, own: &ThreadCache) {
        let add = |counter: &AtomicU64, (less, more): (u64, u64)| {
            counter.store(counter.load(Relaxed).wrapping_add(more.wrapping_sub(less)), Relaxed);
        };
        add(&own.completed, self.tally());
        add(&own.returned, self.tally_inside());
    }

    /// A range of sequence numbers for one thread.
    pub fn sequences(&self) -> std::ops::Range<u64> {
        let start = self.sequences.fetch_add(RANGE, Relaxed);
        start..start + RANGE
    }
}

impl Memory {
    /// Runs the deferred calls before the caches to which they return blocks are gone. No thread is
    /// pinned and none defers any more. But there may be members: threads that sleep, and threads
    /// that are just ending, which may be running calls that were deferred before.
    fn run_deferred(&mut self) {
        if self.blocks.caches.iter().all(ThreadCache::is_left) {
            // There are no members: dropping the reclaimer runs all calls.
            drop(std::mem::replace(self.reclaim.get_mut(), Epoch::new()));
            return;
        }
        let handle = self.register();
        // Twice, because deferred calls are taken out in order. So when the first call here has
        // been made, all earlier ones were taken out before. A thread that took one out is pinned
        // until that has returned. Its pin began before the second call here is deferred, and the
        // second call waits for it.
        for _ in 0..2 {
            let called = Arc::new(AtomicBool::new(false));
            let call = Arc::clone(&called);
            // SAFETY: nothing is made reusable.
            unsafe { Epoch::defer(&Epoch::pin(&handle), move || call.store(true, Release)) };
            while !called.load(Acquire) {
                Epoch::pin(&handle).flush();
                thread::yield_now();
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.run_deferred();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_engines_have_the_same_number() {
        let ids = std::sync::atomic::AtomicU32::new(u32::MAX - 2);
        assert_eq!(draw_id(&ids).unwrap(), u32::MAX - 2);
        assert_eq!(draw_id(&ids).unwrap(), u32::MAX - 1);
        for _ in 0..3 {
            assert_eq!(draw_id(&ids).unwrap_err().kind(), ErrorKind::EnginesExhausted);
        }
    }
}
