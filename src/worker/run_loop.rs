//! The loop of a worker thread: it runs the operations that it has. `idle.rs` looks for more.
//! `Group::start` (`group.rs`) starts the threads; everything here runs on the worker's own. Its
//! state is on its stack. The state that other threads see is in `remote.rs` and `group.rs`.
//!
//! The order in which a worker looks, and the steps of falling asleep, are in `worker/README.md`.
//! `help.rs` is the same for helpers.

use crate::platform::scheduling::be_punctual;
use crate::sync::{looks, spin_loop, Ordering::*, MODELLED};
use crate::tickets::journals::Journal;
use crate::tickets::log::Log;
use crate::util::spin::Patience;
use crate::worker::cores::Stalls;
use crate::worker::current::CurrentWorker;
use crate::worker::group::{Group, Placement};
use crate::worker::idle::WORKER_SPINS_AWAKE;
use crate::worker::local_queue::Queue;
use crate::worker::ready::OrderKey;
use crate::worker::rhythm::Rhythm;
use crate::worker::steal::LOOKS_AT_HELPERS;
use crate::worker::Host;
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

/// A worker looks into its inbox at every so many turns, if nothing urgent comes.
const POLL: u32 = 16;
/// After so many operations from its queue, which were made ready, a worker takes one out of its
/// logs.
const LOOKS_AT_QUEUE: u32 = 256;
/// After so many operations of one pusher a worker looks at what the next one has logged.
const IN_A_ROW: u32 = if MODELLED { 2 } else { 16 };
/// A worker whose logs are empty looks into them so often again before it looks elsewhere.
const LOOKS_AT_LOG: u32 = looks(8);

impl Group {
    /// Runs worker `index` on the calling thread, from its start to the stop of the group.
    pub(crate) fn work<H: Host>(&self, index: usize, host: &Arc<H>) {
        let own = &self.workers[index];
        self.be_worker(index);
        let _movable = self.pin_worker(index);
        host.begin_worker();
        if !MODELLED {
            // Makes the thread's context for the engine.
            host.idle();
            self.ready.fetch_add(1, Release);
        }
        self.counters[index].starts();
        CurrentWorker::new(self.address(), Some(index), host.depth()).occupy(|current| {
            let mut turn = 0_u32;
            let mut from_queue = 0_u32;
            let mut patience = Patience::new(WORKER_SPINS_AWAKE, self.patience());
            let mut rhythm = Rhythm::new(self.gets_up());
            if self.gets_up() {
                be_punctual();
            }
            let mut stalls = Stalls::default();
            // The journal whose log comes next.
            let mut journal = None;
            loop {
                turn = turn.wrapping_add(1);
                let mut queue = current.queue.borrow_mut();
                queue.take_back(&own.stealable);
                let next = queue.best();
                let restless = next.is_none_or(|key| key.0 < 0);
                let urgent = own.is_urgent() | self.common.is_urgent();
                let polls = turn % POLL == 0;
                if restless || urgent || polls {
                    // SAFETY: what comes out of an inbox, or is stolen, is ready and ours.
                    unsafe {
                        queue.add_list(own.inbox.take());
                        if urgent || polls || !queue.is_due() {
                            self.take_common(&mut queue, urgent);
                        }
                        if turn % LOOKS_AT_HELPERS == 0 {
                            queue.add_list(self.steal_from_helpers());
                        }
                    }
                }
                if self.plan.logged {
                    let most = due_of_log(queue.best(), &mut from_queue, &current.turn_is_over);
                    if most > 0 {
                        drop(queue);
                        if self.run_logged(index, current, host, most, &mut journal) {
                            continue;
                        }
                        queue = current.queue.borrow_mut();
                    }
                }
                let Some(block) = queue.pop() else {
                    drop(queue);
                    if !self.look_for_work(index, current, host, &mut patience, &mut rhythm, &mut stalls) {
                        return;
                    }
                    continue;
                };
                if self.lends(&queue) {
                    self.lend_all(&mut queue, &own.stealable);
                }
                drop(queue);
                // SAFETY: the operation was in this worker's queue, so it is ready and ours.
                unsafe { host.run(block, Some(index)) };
            }
        });
        host.end_worker();
        self.counters[index].ends();
    }

    /// Takes operations out of the common inbox. Of several urgent ones it keeps the best, and puts
    /// the others back. This worker may be in the first one for long; and the other workers, if
    /// they have something to run, look for nothing but urgent operations.
    ///
    /// # Safety
    /// The queue is that of a worker of this group, which is the calling thread.
    unsafe fn take_common(&self, queue: &mut Queue, urgent: bool) {
        let list = self.common.inbox.take();
        // SAFETY: operations that come out of an inbox are ready and ours, and so are the ones that
        // are given back.
        unsafe {
            if !urgent || self.workers.len() == 1 {
                queue.add_list(list);
            } else if let Some(row) = queue.add_best(list) {
                self.deliver(row.first, row.last, Placement::Any, true);
            }
        }
    }

    /// Runs operations out of one of the worker's logs, until it has something else to run, and
    /// goes on to the next journal. Returns whether there were any; if not, it has looked at all
    /// journals.
    #[inline]
    fn run_logged<'a, H: Host>(
        &'a self,
        index: usize,
        current: &CurrentWorker,
        host: &Arc<H>,
        most: u32,
        journal: &mut Option<&'a Journal>,
    ) -> bool {
        let Some(start) = journal.or_else(|| self.journals.first()) else { return false };
        let (mut now, mut looks) = (start, 0);
        loop {
            if self.run_log(now.log(index), index, current, host, most) {
                *journal = Some(self.journals.behind(now));
                return true;
            }
            now = self.journals.behind(now);
            if ptr::eq(now, start) {
                looks += 1;
                if looks > LOOKS_AT_LOG || !current.queue.borrow().is_empty() {
                    return false;
                }
                spin_loop();
            }
        }
    }

    /// Runs at most `most` operations out of one of the worker's logs, until it has something to
    /// run that is no less urgent. Returns whether there were any.
    ///
    /// Not inlined: a call for each run of operations costs less than a loop whose variables are in
    /// memory, as they are where this is inlined.
    #[inline(never)]
    fn run_log<H: Host>(&self, log: &Log, index: usize, current: &CurrentWorker, host: &Arc<H>, most: u32) -> bool {
        let own = &self.workers[index];
        let mut any = false;
        for _ in 0..most {
            // SAFETY: the calling thread is the log's worker. It settles the operation that it has
            // taken, and runs it if it is ready.
            let Some(block) = (unsafe { log.take_next() }) else { break };
            any = true;
            // SAFETY: as above.
            unsafe {
                if host.settle(block) {
                    // The operations of the queue would stand still behind a long one.
                    if self.lends(&current.queue.borrow()) {
                        self.lend_more(&mut current.queue.borrow_mut(), &own.stealable);
                    }
                    host.run(block, Some(index));
                }
            }
            if current.queue.borrow().is_due() || own.awaits_hurry() || self.common.awaits_hurry() {
                break;
            }
        }
        any
    }
}

/// How many operations a worker runs out of a log before `best`, the best operation of its queue.
/// `from_queue` counts the operations that the worker has run from its queue. A part of a graph
/// stands for many operations, and sets `turn_is_over`.
fn due_of_log(best: Option<OrderKey>, from_queue: &mut u32, turn_is_over: &Cell<bool>) -> u32 {
    match best {
        Some(key) if key.0 > 0 => 0,
        // Operations in the queue are as often older than those in the log as younger.
        Some(key) if key.0 == 0 => {
            *from_queue = from_queue.wrapping_add(1);
            u32::from(turn_is_over.take() || *from_queue % LOOKS_AT_QUEUE == 0)
        }
        _ => IN_A_ROW,
    }
}
