//! A worker that has nothing to run: it looks for work, then sleeps until there is some.
//!
//! Used by `run_loop.rs`, on the worker's own thread. What it keeps is on its stack; what other
//! threads see of it is in `remote.rs` and `group.rs`.
//!
//! The order in which a worker looks, and the steps of falling asleep, are in `worker/README.md`.
//! `help.rs` has the protocol of [`Group::sleep`] for helpers (`rest`), and a change has to be made
//! in both.

use crate::operation::block::Block;
use crate::platform::asymmetric_fence::heavy;
use crate::sync::{Ordering::*, MODELLED};
use crate::tickets::watch::Watch;
use crate::util::spin::{Patience, Spin};
use crate::worker::cores::Stalls;
use crate::worker::counters::Spell;
use crate::worker::current::CurrentWorker;
use crate::worker::group::{Group, IdlePolicy, WANTED};
use crate::worker::remote::Remote;
use crate::worker::rhythm::Rhythm;
use crate::worker::steal::{InboxesSeen, LOGS, STOLEN, STOOD};
use crate::worker::Host;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

/// A worker takes at most so many operations that are not ready out of its logs before it looks
/// elsewhere.
const PARKED: u32 = if MODELLED { 2 } else { 256 };
/// The first part of the time for which a worker looks for work: it keeps its core meanwhile. After
/// a long pause it is all of that time.
pub(super) const WORKER_SPINS_AWAKE: Duration = Duration::from_micros(25);

impl Group {
    /// Finds work for a worker that has none, sleeping if it must. Returns `false` if the group
    /// stops and there is no work.
    #[cold]
    pub(super) fn look_for_work<H: Host>(
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
        let mut spell = Spell::begin(&self.counters[index]);
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
            let loot = self.steal_once(index, host, &mut seen, &mut watch);
            if !loot.is_null() {
                // SAFETY: the operations were stolen, so they are ours.
                unsafe { current.queue.borrow_mut().add_list(loot) };
                self.counters[index].count_steal();
                break true;
            }
            spell.look();
            if self.stop.load(Acquire) {
                break false;
            }
            let rests = match self.plan.idle {
                IdlePolicy::Park => !watch.watches(),
                _ => !spin.pause(),
            };
            if rests {
                if !trim(current, own) {
                    break true;
                }
                spin = self.sleep_and_learn(own, &mut spell, patience, rhythm, spin);
            } else if self.plan.idle == IdlePolicy::Spin && spin.has_stalled() && stalls.are_many() {
                self.warn_of_a_shared_core(index);
            }
        };
        spell.end();
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

    /// Sleeps after a time of looking; returns how long to look from now on.
    fn sleep_and_learn(
        &self,
        own: &Remote,
        spell: &mut Spell<'_>,
        patience: &mut Patience,
        rhythm: &mut Rhythm,
        spin: Spin,
    ) -> Spin {
        // If it got up by itself in this pause, it does not know how long the pause is.
        let began = if rhythm.sleeps() { None } else { spin.elapsed() };
        if self.sleep(own, spell, rhythm) {
            rhythm.get_up()
        } else {
            rhythm.woken();
            patience.learn(began.and(spin.elapsed()));
            patience.spin()
        }
    }

    /// How long a worker looks for work at most before it parks.
    pub(super) fn patience(&self) -> Duration {
        match self.plan.idle {
            IdlePolicy::Spin => Duration::MAX,
            IdlePolicy::SpinThenPark => self.plan.spin_for,
            IdlePolicy::Park => Duration::ZERO,
        }
    }

    /// Whether workers get up by themselves when work is due: if they may look for as long as that
    /// takes.
    pub(super) fn gets_up(&self) -> bool {
        // Most models are of workers that do not.
        let least = if MODELLED { Duration::MAX } else { WORKER_SPINS_AWAKE };
        self.plan.idle == IdlePolicy::SpinThenPark && self.plan.spin_for >= least
    }

    /// Parks until another thread pushes to this worker's inbox or calls it, or until the next work
    /// is due; says whether it was the latter. Returns at once if there is something to do. `rest`
    /// (`help.rs`) does the same for a helper.
    fn sleep(&self, own: &Remote, spell: &mut Spell<'_>, rhythm: &Rhythm) -> bool {
        if !own.inbox.fall_asleep() {
            // A thief has taken the operations that came, and has left `BUSY` behind: say again
            // that this worker looks, then try again.
            own.inbox.start_looking();
            return false;
        }
        spell.park();
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
        spell.unpark(is_due);
        is_due
    }

    /// Steals operations that lie in inboxes, or that stand in other workers' logs. Returns them as
    /// a list, null if there are none.
    fn steal_once<H: Host>(
        &self,
        index: usize,
        host: &Arc<H>,
        seen: &mut InboxesSeen,
        watch: &mut Watch<'_>,
    ) -> *mut Block {
        let loot = self.steal(index, seen);
        if loot.is_null() {
            self.steal_logged(host, watch, (LOGS, STOOD, STOLEN))
        } else {
            loot
        }
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
}

/// Takes back what a worker has lent, before it sleeps, and frees memory. Says whether it has
/// nothing to run.
fn trim(current: &CurrentWorker, own: &Remote) -> bool {
    let mut queue = current.queue.borrow_mut();
    queue.take_back(&own.stealable); // For its memory.
    if !queue.is_empty() {
        return false;
    }
    queue.trim();
    true
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
