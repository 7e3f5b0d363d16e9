//! The loop of a worker thread: it runs the operations that it has, looks for more, and sleeps.
//! `Group::start` (`group.rs`) starts the threads; everything here runs on the worker's own. Its
//! state is on its stack. The state that other threads see is in `remote.rs` and `group.rs`.
//!
//! The order in which a worker looks, and the steps of falling asleep, are in `worker/README.md`.
//! `help.rs` is the same for helpers: its `rest` has the protocol of [`Group::sleep`], and a change
//! has to be made in both.

use crate::operation::block::Block;
use crate::platform::asymmetric_fence::heavy;
use crate::platform::scheduling::be_punctual;
use crate::sync::{looks, spin_loop, Ordering::*, MODELLED};
use crate::tickets::journals::{Journal, Watch};
use crate::tickets::log::Log;
use crate::util::spin::Patience;
use crate::worker::cores::Stalls;
use crate::worker::current::CurrentWorker;
use crate::worker::group::{Group, IdlePolicy, Placement, WANTED};
use crate::worker::local_queue::Queue;
use crate::worker::ready::OrderKey;
use crate::worker::remote::Remote;
use crate::worker::rhythm::Rhythm;
use crate::worker::steal::{InboxesSeen, LOGS, LOOKS_AT_HELPERS, STOLEN, STOOD};
use crate::worker::Host;
use std::cell::Cell;
use std::ptr::{self, null_mut};
use std::sync::Arc;
use std::time::Duration;

/// A worker looks into its inbox at every so many turns, if nothing urgent comes.
const POLL: u32 = 16;
/// After so many operations from its queue, which were made ready, a worker takes one out of its
/// logs.
const LOOKS_AT_QUEUE: u32 = 256;
/// After so many operations of one pusher a worker looks at what the next one has logged.
const IN_A_ROW: u32 = if MODELLED { 2 } else { 16 };
/// A worker takes at most so many operations that are not ready out of its logs before it looks
/// elsewhere.
const PARKED: u32 = if MODELLED { 2 } else { 256 };
/// A worker whose logs are empty looks into them so often again before it looks elsewhere.
const LOOKS_AT_LOG: u32 = looks(8);
/// The first part of the time for which a worker looks for work: it keeps its core meanwhile. After
/// a long pause it is all of that time.
const WORKER_SPINS_AWAKE: Duration = Duration::from_micros(25);

impl Group {
    /// Runs worker `index` on the calling thread, from its start to the stop of the group.
    pub(crate) fn work<H: Host>(&self, index: usize, host: &Arc<H>) {
        let own = &self.workers[index];
        let _movable = self.pin_worker(index);
        if !MODELLED {
            // Makes the thread's context for the engine.
            host.idle();
            self.ready.fetch_add(1, Release);
        }
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

    /// Takes operations out of the worker's own logs until one is ready, which is returned as a
    /// list of one. Takes at most [`PARKED`] that are not ready.
    fn take_own<H: Host>(&self, index: usize, host: &Arc<H>) -> FromLogs {
        let (mut came, mut left) = (false, PARKED);
        for log in self.journals.iter().map(|journal| journal.log(index)) {
            let before = log.come();
            // SAFETY: the calling thread is the log's worker, so the operations that it takes are
            // its own.
            while let Some(block) = unsafe { log.take_next() } {
                // SAFETY: as above.
                unsafe {
                    if host.settle(block) {
                        (*block).link = null_mut();
                        return FromLogs::Ready(block);
                    }
                }
                left -= 1;
                if left == 0 {
                    return FromLogs::More;
                }
            }
            came |= log.come() != before;
        }
        if came {
            FromLogs::Came
        } else {
            FromLogs::Nothing
        }
    }

    /// Finds work for a worker that has none, sleeping if it must. Returns `false` if the group
    /// stops and there is no work.
    #[cold]
    fn look_for_work<H: Host>(
        &self,
        index: usize,
        current: &CurrentWorker,
        host: &Arc<H>,
        patience: &mut Patience,
        rhythm: &mut Rhythm,
        stalls: &mut Stalls,
    ) -> bool {
        let own = &self.workers[index];
        host.idle();
        if !own.inbox.start_looking() {
            return true;
        }
        // This worker has caught up: pushers ask again when it has not.
        if self.idle.load(Relaxed) & WANTED != 0 {
            self.idle.fetch_and(!WANTED, Relaxed);
        }
        self.idle.fetch_add(1, Relaxed);
        let mut seen = InboxesSeen::NOTHING;
        let mut watch = Watch::new(&self.journals, index + 1);
        let mut spin = patience.spin();
        let found = loop {
            let list = own.inbox.take();
            if !list.is_null() {
                // SAFETY: operations that come out of an inbox are ready and ours.
                unsafe { current.queue.borrow_mut().add_list(list) };
                break true;
            }
            if !own.stealable.is_empty() {
                // A thief has put back what this worker has lent.
                break true;
            }
            match self.take_own(index, host) {
                // SAFETY: the operation is ready, and ours.
                FromLogs::Ready(list) => unsafe {
                    current.queue.borrow_mut().add_list(list);
                    break true;
                },
                // The worker goes on with its logs as it does while it has something to run: it
                // looks at what is urgent in between.
                FromLogs::More => break true,
                // More may come to the logs, so the worker stays awake; but no other thread need be
                // woken for that.
                FromLogs::Came => {
                    rhythm.found();
                    spin = patience.spin();
                }
                FromLogs::Nothing => {}
            }
            let mut loot = self.steal(index, &mut seen);
            if loot.is_null() {
                loot = self.steal_logged(host, &mut watch, (LOGS, STOOD, STOLEN));
            }
            if !loot.is_null() {
                // SAFETY: the operations were stolen, so they are ours.
                unsafe { current.queue.borrow_mut().add_list(loot) };
                break true;
            }
            if self.stop.load(Acquire) {
                break false;
            }
            let rests = match self.plan.idle {
                IdlePolicy::Park => !watch.watches(),
                _ => !spin.pause(),
            };
            if rests {
                let mut queue = current.queue.borrow_mut();
                queue.take_back(&own.stealable); // For its memory.
                if !queue.is_empty() {
                    break true;
                }
                queue.trim();
                drop(queue);
                // If it got up by itself in this pause, it does not know how long the pause is.
                let began = if rhythm.sleeps() { None } else { spin.elapsed() };
                spin = if self.sleep(own, rhythm) {
                    rhythm.get_up()
                } else {
                    rhythm.woken();
                    patience.learn(began.and(spin.elapsed()));
                    patience.spin()
                };
            } else if self.plan.idle == IdlePolicy::Spin && spin.has_stalled() && stalls.are_many() {
                self.warn_of_a_shared_core(index);
            }
        };
        // If operations have come meanwhile, they stay in the inbox.
        let _ = own.inbox.stop_looking();
        if found {
            rhythm.found();
            // There may be more: what came to the inbox, whose pusher met `LOOKING` and has called
            // no thread; and what this worker was called for, if it has found something else.
            self.pass_on();
        }
        self.idle.fetch_sub(1, Relaxed);
        found
    }

    /// How long a worker looks for work at most before it parks.
    fn patience(&self) -> Duration {
        match self.plan.idle {
            IdlePolicy::Spin => Duration::MAX,
            IdlePolicy::SpinThenPark => self.plan.spin_for,
            IdlePolicy::Park => Duration::ZERO,
        }
    }

    /// Whether workers get up by themselves when work is due: if they may look for as long as that
    /// takes.
    fn gets_up(&self) -> bool {
        // Most models are of workers that do not.
        let least = if MODELLED { Duration::MAX } else { WORKER_SPINS_AWAKE };
        self.plan.idle == IdlePolicy::SpinThenPark && self.plan.spin_for >= least
    }

    /// Parks until another thread pushes to this worker's inbox or calls it, or until the next work
    /// is due; says whether it was the latter. Returns at once if there is something to do. `rest`
    /// (`help.rs`) does the same for a helper.
    fn sleep(&self, own: &Remote, rhythm: &Rhythm) -> bool {
        if !own.inbox.fall_asleep() {
            // A thief has taken the operations that came, and has left `BUSY` behind: say again
            // that this worker looks, then try again.
            own.inbox.start_looking();
            return false;
        }
        self.sleeping.fetch_add(1, Relaxed);
        // Heavy side of the asymmetric fence; the light side is in `log` (`group.rs`) and
        // `call_one` (`wake.rs`). Either the waker sees this worker counted and asleep, or this
        // worker sees what was published.
        heavy();
        if self.has_work() || self.stop.load(Relaxed) {
            own.inbox.get_up();
        }
        let mut is_due = false;
        while own.inbox.is_asleep() {
            match rhythm.alarm() {
                Some(Duration::ZERO) => is_due = own.inbox.get_up(),
                left => own.inbox.sleep(left),
            }
        }
        own.inbox.is_up();
        self.sleeping.fetch_sub(1, Relaxed);
        is_due
    }
}

/// What a worker has found in its own logs.
enum FromLogs {
    /// A ready operation, as a list of one.
    Ready(*mut Block),
    /// Operations that are not ready; the logs may hold more.
    More,
    /// Operations that are not ready, or that others took first; the logs hold no more.
    Came,
    Nothing,
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
