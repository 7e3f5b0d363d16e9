//! What the workers of a group do: run what they have, look for more, sleep.

use crate::operation::block::Block;
use crate::platform::asymmetric_fence::heavy;
use crate::sync::{looks, spin_loop, thread, Ordering::*, MODELLED};
use crate::tickets::journals::{Journal, Watch};
use crate::tickets::log::Log;
use crate::util::spin::Spin;
use crate::worker::cores::Stalls;
use crate::worker::current::CurrentWorker;
use crate::worker::group::{Group, IdlePolicy, Placement, WANTED};
use crate::worker::local_queue::{Key, Queue};
use crate::worker::remote::Remote;
use crate::worker::steal::{LOGS, STOLEN, STOOD};
use crate::worker::Host;
use std::ptr::{self, null_mut};
use std::sync::Arc;
use std::time::Duration;

/// A worker looks into its inbox after this many operations of its own, if nothing urgent comes.
const POLL: u32 = 16;
/// After so many operations that were made ready a worker takes one out of its log.
const LOOKS_AT_QUEUE: u32 = 256;
/// After so many operations of one pusher a worker looks at what the next one has logged.
const IN_A_ROW: u32 = if MODELLED { 2 } else { 16 };
/// So many operations that are not ready a worker takes out of its logs before it looks for others.
const PARKED: u32 = if MODELLED { 2 } else { 256 };
/// So often a worker whose logs are empty looks again before it looks elsewhere.
const LOOKS_AT_LOG: u32 = looks(8);
/// How long a worker looks for work before it parks, and how long of that it keeps its core.
const WORKER_SPINS: Duration = Duration::from_micros(400);
const WORKER_SPINS_AWAKE: Duration = Duration::from_micros(50);

impl Group {
    /// The life of a worker.
    pub(crate) fn work<H: Host>(&self, index: usize, host: &Arc<H>) {
        let own = &self.workers[index];
        let _movable = self.pin_worker(index);
        own.register();
        if !MODELLED {
            // Makes what the thread keeps for the engine.
            host.idle();
            self.ready.fetch_add(1, Release);
        }
        CurrentWorker::new(self.address(), Some(index), host.depth()).occupy(|current| {
            let mut round = 0;
            let mut from_queue = 0_u32;
            let mut stalls = Stalls::default();
            // What it takes out of next.
            let mut journal = None;
            loop {
                round += 1;
                let mut queue = current.queue.borrow_mut();
                let next = queue.best();
                let restless = next.is_none_or(|key| key.0 < 0);
                let urgent = own.is_urgent() | self.common.is_urgent();
                let polls = round >= POLL;
                if restless || urgent || polls {
                    round = 0;
                    // SAFETY: what an inbox gives out is ready and ours.
                    unsafe {
                        queue.add_list(own.inbox.take());
                        if urgent || polls || queue.is_empty() {
                            self.take_common(&mut queue, urgent);
                        }
                    }
                }
                if self.plan.logged {
                    let most = due_of_log(queue.best(), &mut from_queue);
                    if most > 0 {
                        drop(queue);
                        if self.run_logged(index, current, host, most, &mut journal) {
                            continue;
                        }
                        queue = current.queue.borrow_mut();
                    }
                }
                let Some(block) = queue.pop(&own.stealable) else {
                    drop(queue);
                    if !self.look_for_work(index, current, host, &mut stalls) {
                        return;
                    }
                    continue;
                };
                // Also when nobody wants it yet: the operation that is about to run may be a long
                // one.
                if queue.is_hiding(&own.stealable) {
                    let idle = self.idle.load(Relaxed);
                    if idle > 0 || self.workers.len() > 1 {
                        queue.publish(&own.stealable);
                        if idle & WANTED != 0 {
                            self.idle.fetch_and(!WANTED, Relaxed);
                        }
                        // Whether anybody wanted it when we looked or not: that was before.
                        self.wake_one();
                    }
                }
                drop(queue);
                // SAFETY: the queue held it for us.
                unsafe { host.run(block, Some(index)) };
            }
        });
    }

    /// Takes what lies in the inbox of all. Of several urgent operations it leaves the others
    /// there: this worker may be a long time in the first, and the others have something to do, so
    /// they look for nothing but what is urgent.
    ///
    /// # Safety
    /// The queue is that of a worker of this group.
    unsafe fn take_common(&self, queue: &mut Queue, urgent: bool) {
        let list = self.common.inbox.take();
        // SAFETY: what an inbox gives out is ready and ours, and so is what we give back.
        unsafe {
            if !urgent || self.workers.len() == 1 {
                queue.add_list(list);
            } else if let Some(row) = queue.add_best(list) {
                self.deliver(row.first, row.last, Placement::Any, true);
            }
        }
    }

    /// Runs some operations out of one of the worker's logs, until it has something else to run,
    /// and goes on to the next journal; says whether there were any. It has looked at all journals
    /// if not.
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

    /// Runs some operations out of one of the worker's logs, until it has something to run that is
    /// no less urgent; says whether there were any.
    ///
    /// A call for each run of operations costs less than a loop whose variables are in memory, as
    /// they are where it is inlined.
    #[inline(never)]
    fn run_log<H: Host>(&self, log: &Log, index: usize, current: &CurrentWorker, host: &Arc<H>, most: u32) -> bool {
        let own = &self.workers[index];
        let mut any = false;
        for _ in 0..most {
            // SAFETY: this is the worker. What it has taken it settles, and runs if it is ready.
            let Some(block) = (unsafe { log.take_next() }) else { break };
            any = true;
            // SAFETY: as above.
            unsafe {
                if host.settle(block) {
                    host.run(block, Some(index));
                }
            }
            if current.queue.borrow().is_due() || own.awaits_hurry() || self.common.awaits_hurry() {
                break;
            }
        }
        any
    }

    /// Takes operations out of the worker's own logs until one is ready, which it gives as a list,
    /// but no more than [`PARKED`].
    fn take_own<H: Host>(&self, index: usize, host: &Arc<H>) -> FromLogs {
        let (mut came, mut left) = (false, PARKED);
        for log in self.journals.iter().map(|journal| journal.log(index)) {
            let before = log.come();
            // SAFETY: this is the worker. What it takes is its own.
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

    /// Finds work for a worker that has none, sleeping if it must. `false`: the group stops, and
    /// there is none.
    #[cold]
    fn look_for_work<H: Host>(
        &self,
        index: usize,
        current: &CurrentWorker,
        host: &Arc<H>,
        stalls: &mut Stalls,
    ) -> bool {
        let own = &self.workers[index];
        host.idle();
        if !own.inbox.start_looking() {
            return true;
        }
        self.idle.fetch_add(1, Relaxed);
        let mut seen = null_mut();
        let mut watch = Watch::new(&self.journals, index + 1);
        let patience = match self.plan.idle {
            IdlePolicy::Spin => Duration::MAX,
            IdlePolicy::SpinThenPark => WORKER_SPINS,
            IdlePolicy::Park => Duration::ZERO,
        };
        let fresh = || Spin::new(WORKER_SPINS_AWAKE, patience);
        let mut spin = fresh();
        let found = loop {
            let list = own.inbox.take();
            if !list.is_null() {
                // SAFETY: what an inbox gives out is ready and ours.
                unsafe { current.queue.borrow_mut().add_list(list) };
                self.idle.fetch_sub(1, Relaxed);
                return true;
            }
            match self.take_own(index, host) {
                // SAFETY: ready, and ours.
                FromLogs::Ready(list) => unsafe {
                    current.queue.borrow_mut().add_list(list);
                    break true;
                },
                // Not without a look at what has come elsewhere.
                FromLogs::More if self.common.inbox.peek().is_null() => {
                    spin = fresh();
                    continue;
                }
                FromLogs::More => break true,
                // More may come, so it stays awake; but nobody need hear of that.
                FromLogs::Came => spin = fresh(),
                FromLogs::Nothing => {}
            }
            let mut loot = self.steal(index, &mut seen);
            if loot.is_null() {
                loot = self.steal_logged(host, &mut watch, (LOGS, STOOD, STOLEN));
            }
            if !loot.is_null() {
                // SAFETY: stolen, so ours.
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
                current.queue.borrow_mut().trim();
                self.sleep(own);
                spin = fresh();
            } else if self.plan.idle == IdlePolicy::Spin && spin.has_stalled() && stalls.are_many() {
                self.warn_of_a_shared_core(index);
            }
        };
        if !own.inbox.stop_looking() {
            // What came while we were leaving was left to us: its pusher has woken nobody.
            // SAFETY: what an inbox gives out is ready and ours.
            unsafe { current.queue.borrow_mut().add_list(own.inbox.take()) };
        }
        self.idle.fetch_sub(1, Relaxed);
        found
    }

    /// Parks until someone pushes to this worker's inbox or wakes it; returns at once if there is
    /// something to do.
    fn sleep(&self, own: &Remote) {
        if !own.inbox.fall_asleep() {
            // A thief has taken what came and left `BUSY` behind: say that we are looking, then try
            // again.
            own.inbox.start_looking();
            return;
        }
        self.sleeping.fetch_add(1, Relaxed);
        // Against the one in `wake_one`: either it sees us counted and asleep, or we see what was
        // published.
        heavy();
        if self.has_work() || self.stop.load(Relaxed) {
            own.inbox.wake();
        }
        while own.inbox.is_asleep() {
            thread::park();
        }
        self.sleeping.fetch_sub(1, Relaxed);
    }
}

/// What a worker has found in its own logs.
enum FromLogs {
    /// A list of one that is ready.
    Ready(*mut Block),
    /// Nothing that is ready yet; it has not come to the end.
    More,
    /// As that, and there was no more; or others were quicker.
    Came,
    Nothing,
}

/// How many operations a worker runs out of a log before the best that it has in its queue, of
/// which it has run so many.
fn due_of_log(best: Option<Key>, from_queue: &mut u32) -> u32 {
    match best {
        Some(key) if key.0 > 0 => 0,
        // What was made ready is older than what is in the log as often as not.
        Some(key) if key.0 == 0 => {
            *from_queue += 1;
            u32::from(*from_queue % LOOKS_AT_QUEUE == 0)
        }
        _ => IN_A_ROW,
    }
}
