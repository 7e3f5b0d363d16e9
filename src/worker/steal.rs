//! Stealing: how a thread with nothing to run takes operations from other workers and helpers, out
//! of what they have lent, of inboxes and logs. Used by workers (`run_loop.rs`, `idle.rs`), by
//! helpers (`help.rs`) and by `wake.rs`. [`Group::has_work`] is also used by `engine/wait/` and
//! `engine/replay/runner.rs`, to decide whether to wait. Any thread may steal. There are only
//! functions here: the state is in `stealable.rs`, `inbox.rs` and `tickets/log.rs`. Pushers steal
//! in `catch_up.rs`.

use crate::operation::block::Block;
use crate::sync::MODELLED;
use crate::tickets::run::take;
use crate::tickets::watch::Watch;
use crate::tickets::word::Word;
use crate::worker::group::Group;
use crate::worker::stealable::Stealable;
use crate::worker::Host;
use std::ptr::null_mut;
use std::sync::Arc;

/// A thief takes so many operations out of logs before it looks elsewhere, if none of them is
/// ready.
const TRIES: u32 = 16;
/// A worker takes an entry out of another worker's log only after it has stood there for so many
/// looks.
pub(crate) const STOOD: u32 = if MODELLED { 1 } else { 64 };
/// The most operations that a worker then takes at a time.
pub(crate) const STOLEN: usize = if MODELLED { 1 } else { 8 };
/// The most logs that a thief looks at before it looks elsewhere. There is one log for each pair of
/// pusher and worker.
pub(crate) const LOGS: usize = if MODELLED { 2 } else { 64 };
/// A worker with enough to do looks at what helpers have lent at every so many turns: a helper may
/// have left while a thief had its operations, which puts the rest back then. A multiple of `POLL`
/// in `run_loop.rs`.
pub(super) const LOOKS_AT_HELPERS: u32 = 256;

/// After so many looks in a row at which something lay in some inbox, a thief takes what lies
/// there. Where a thread pushes without a pause, no two looks meet the same operation.
const LOOKS_AT_INBOXES: u32 = 64;

/// What a thief has seen in inboxes.
#[derive(Clone, Copy)]
pub(crate) struct InboxesSeen {
    /// The first operation of the last inbox in which there was one, at the last look.
    first: *mut Block,
    /// At how many looks before, without one in between that found none.
    looks: u32,
}

impl InboxesSeen {
    pub(crate) const NOTHING: InboxesSeen = InboxesSeen { first: null_mut(), looks: 0 };
}

impl Group {
    /// Takes operations out of any log that the thief comes to, for a thread that has nothing else
    /// to run. When one is ready, it takes up to `at_once` in all out of that log. Returns a list
    /// of the ready ones, or null. An operation that is not ready is parked.
    pub(crate) fn steal_logged<H: Host>(
        &self,
        host: &Arc<H>,
        watch: &mut Watch<'_>,
        (most, stood, at_once): (usize, u32, usize),
    ) -> *mut Block {
        for _ in 0..TRIES {
            let operation = watch.look(most, stood);
            if operation == Word::NONE {
                break;
            }
            let first = self.take_logged(host, operation, null_mut());
            if !first.is_null() {
                // The log's worker is slow, or has a long row of operations: take several at a
                // time.
                return (1..at_once).fold(first, |list, _| self.take_logged(host, watch.one_more(), list));
            }
        }
        null_mut()
    }

    /// Takes an operation out of its log, and puts it at the front of `list` if it is ready.
    fn take_logged<H: Host>(&self, host: &Arc<H>, operation: Word, list: *mut Block) -> *mut Block {
        let taken = if operation == Word::NONE { None } else { take(operation) };
        // SAFETY: the operation was taken, so it is ours.
        match taken.filter(|block| unsafe { host.settle(*block) }) {
            Some(block) => {
                // SAFETY: as above.
                unsafe { (*block).link = list };
                block
            }
            None => list,
        }
    }

    /// Whether there is an operation that any thread could take.
    pub fn has_work(&self) -> bool {
        !self.first_waiting().is_null()
    }

    /// A pointer to something that any thread could take; null if there is nothing. If it is the
    /// same at the next call, that may still be there.
    pub(crate) fn first_waiting(&self) -> *const () {
        let common = self.common.inbox.peek();
        if !common.is_null() {
            return common.cast();
        }
        let of_workers = self.workers.iter().flat_map(|worker| [worker.stealable.peek(), worker.inbox.peek().cast()]);
        let of_helpers = self.lent_by_helpers().map(Stealable::peek);
        let waiting = of_workers.chain(of_helpers).find(|first| !first.is_null());
        waiting.unwrap_or_else(|| self.journals.find().block().cast_const().cast())
    }

    /// Takes about half of the operations that some helper has lent.
    pub(super) fn steal_from_helpers(&self) -> *mut Block {
        self.lent_by_helpers()
            .map(|stealable| self.take_half(stealable))
            .find(|list| !list.is_null())
            .unwrap_or(null_mut())
    }

    /// Takes about half of the operations that a thread has lent. If the others were put back,
    /// calls a worker: it may have looked while they were gone.
    fn take_half(&self, stealable: &Stealable) -> *mut Block {
        let (list, is_rest_back) = stealable.take_half();
        if is_rest_back {
            self.call_one();
        }
        list
    }

    /// For worker `thief`: takes operations that another worker has lent, or that lie in an
    /// inbox whose owner does not come for them. `seen` is what it saw in inboxes at its last
    /// calls.
    pub(crate) fn steal(&self, thief: usize, seen: &mut InboxesSeen) -> *mut Block {
        let list = self.common.inbox.take();
        if !list.is_null() {
            return list;
        }
        let count = self.workers.len();
        let mut waiting = null_mut();
        for step in 1..=count {
            let victim = &self.workers[(thief + step) % count];
            let list = self.take_half(&victim.stealable);
            if !list.is_null() {
                return list;
            }
            let first = victim.inbox.peek();
            if first.is_null() {
                continue;
            }
            if seen.first == first || seen.looks > LOOKS_AT_INBOXES {
                // The same operation was there the last time, or others again and again: so the
                // inbox's owner is running something.
                let list = victim.inbox.take();
                if !list.is_null() {
                    return list;
                }
            }
            waiting = first;
        }
        *seen = InboxesSeen { first: waiting, looks: if waiting.is_null() { 0 } else { seen.looks + 1 } };
        self.steal_from_helpers()
    }

    pub(crate) fn steal_any(&self) -> *mut Block {
        let mut list = self.common.inbox.take();
        for worker in &self.workers {
            if !list.is_null() {
                break;
            }
            list = self.take_half(&worker.stealable);
            if list.is_null() {
                list = worker.inbox.take();
            }
        }
        if list.is_null() {
            list = self.steal_from_helpers();
        }
        list
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pool::memory::Memory;
    use crate::worker::group::{GroupPlan, IdlePolicy, Placement};
    use crate::worker::ready::{Entry, Ready};
    use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// Runs one operation again and again, until another one has run.
    struct Busy {
        group: OnceLock<Arc<Group>>,
        other: AtomicPtr<Block>,
        turns: AtomicUsize,
        /// In which turn the other one has run.
        has_run: AtomicUsize,
        started: Instant,
    }

    impl Host for Busy {
        unsafe fn run(self: &Arc<Self>, block: *mut Block, _: Option<usize>) {
            let turns = self.turns.fetch_add(1, Relaxed);
            if block == self.other.load(Relaxed) {
                self.has_run.store(turns, Release);
            } else if self.has_run.load(Relaxed) == 0 && self.started.elapsed() < Duration::from_secs(20) {
                // SAFETY: the operation is this thread's.
                unsafe { self.group.get().expect("set").submit(block, Placement::Any, 1) };
            }
        }

        unsafe fn settle(&self, _: *mut Block) -> bool {
            true
        }

        fn depth(&self) -> u32 {
            0
        }

        fn idle(&self) {}
    }

    fn plan(workers: usize) -> GroupPlan {
        GroupPlan {
            name: "busy",
            workers,
            shared: false,
            logged: false,
            idle: IdlePolicy::Park,
            spin_for: Duration::ZERO,
            cores: Vec::new(),
            move_callers: false,
            fifo_priority: 0,
        }
    }

    /// Its owner runs something, and a thread pushes to it between any two looks.
    #[test]
    fn an_inbox_that_changes_from_look_to_look_is_not_left_alone() {
        let memory = Memory::new().unwrap();
        let mut blocks = memory.blocks.slabs.add(0);
        let group = Group::new(plan(2));
        let (mut seen, mut looks) = (InboxesSeen::NOTHING, 0);
        while group.steal(1, &mut seen).is_null() {
            looks += 1;
            assert!(looks < 100, "{looks} looks");
            let block = blocks.pop().expect("there are more");
            // SAFETY: the block is ours, and in no list.
            let _ = unsafe { group.workers[0].inbox.push(block, block) };
            if blocks.is_empty() {
                blocks = memory.blocks.slabs.add(0);
            }
        }
    }

    /// A thief puts back what it does not need, and the helper has left meanwhile.
    #[test]
    fn a_worker_with_enough_to_do_comes_to_what_a_helper_has_left() {
        let memory = Memory::new().unwrap();
        let mut blocks = memory.blocks.slabs.add(0);
        let [again, other] = [(); 2].map(|()| blocks.pop().expect("there are more"));
        let group = Arc::new(Group::new(plan(1)));
        let host = Arc::new(Busy {
            group: OnceLock::from(group.clone()),
            other: AtomicPtr::new(other),
            turns: AtomicUsize::new(1),
            has_run: AtomicUsize::new(0),
            started: Instant::now(),
        });
        group.most_helpers.store(1, Relaxed);
        group.start(&host).unwrap();
        let mut row = Box::new(Ready::roomy());
        // SAFETY: the operations are ours, and each is given away once.
        unsafe {
            for (block, sequence) in [(other, 0), (again, 1)] {
                ((*block).priority, (*block).sequence) = (0, sequence);
            }
            row.insert(Entry::of(other));
            group.submit(again, Placement::Any, 0);
            while host.turns.load(Relaxed) < 100 {
                std::thread::yield_now();
            }
        }
        group.helpers[0].stealable.put(row);
        let put = host.turns.load(Relaxed);
        group.stop();
        let ran = host.has_run.load(Acquire);
        assert!(ran > 0 && ran <= put + 2 * LOOKS_AT_HELPERS as usize, "put in turn {put}, run in turn {ran}");
    }
}
