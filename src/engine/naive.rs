//! The naive engine: the caller runs everything.
//!
//! An operation that is ready when it is pushed runs inside the push. One that has to wait, for an asynchronous operation
//! or for another thread, runs on the thread that ends what it waited for. Either way there is a loop and no recursion
//! along chains: what an operation makes ready is queued on the thread, and the outermost call runs the queue.
//!
//! Other threads may go on pushing behind what such a call runs. So a call that has run [`SHARE`] operations of its queue, or has
//! done so for [`TIME`], asks for another thread to go on, and leaves its queue to the first that stands ready
//! ([`Handoff`]). A push that has to wait pays for what it adds: while somebody asks, it stands ready for [`PATIENCE`], and takes a
//! share itself. While none comes nobody pushes to busy variables, and the call runs its queue to the end.

use super::core::Core;
use super::dispatch::{Dispatch, Moment};
use super::inside::{is_deep, may_help, owe};
use crate::error::Error;
use crate::mutants::mutate;
use crate::operation::block::Block;
use crate::operation::property::Property;
use crate::pool::local::Local;
use crate::stopwatch::{Start, Stopwatch};
use crate::sync::{spin_loop, thread, MODELLED};
use crate::worker::group::Group;
use crate::worker::handoff::{Handoff, List};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

/// Operations of its queue that a call runs before it asks for another thread to go on, and how long it does so. The operation that
/// it is in then is finished.
const SHARE: u32 = if MODELLED { 1 } else { 32 };
const TIME: Duration = Duration::from_micros(20);
/// How long a push stands ready. As long as others take for their share, so that it mostly gets one.
const PATIENCE: Duration = TIME;

pub struct Naive {
    handoff: Handoff,
    stopwatch: Stopwatch,
}

impl Naive {
    pub fn new() -> Naive {
        Naive { handoff: Handoff::new(), stopwatch: Stopwatch::new() }
    }

    /// Leaves the thread's queue to another thread, if one stands ready; says whether there is something left to run here.
    fn hand_over(&self, local: &Local) -> bool {
        let list = List { first: local.first.replace(null_mut()), last: local.last.replace(null_mut()) };
        // SAFETY: the queue held them for us.
        let back = unsafe { self.handoff.leave(list) };
        back.is_some_and(|list| {
            // SAFETY: they are ours again, or instead.
            unsafe { append(local, list) };
            true
        })
    }

    /// Stands ready for a while, and runs a share of what it is left.
    #[cold]
    fn take_over(&self, core: &Arc<Core>, local: &Local) {
        let started = self.stopwatch.start();
        let go_on = || !MODELLED && self.handoff.is_wanted() && self.stopwatch.since(started) < PATIENCE;
        // Inside an operation it only lets the others catch up: what they leave might wait for that operation.
        if !may_help() || local.draining.get() {
            while go_on() {
                spin_loop();
            }
            return;
        }
        for list in self.handoff.stand_ready(go_on).into_iter().flatten() {
            // SAFETY: it was left to us.
            unsafe { append(local, list) };
        }
        if !local.first.get().is_null() {
            local.draining.set(true);
            self.drain(core, local);
        }
    }
}

impl Dispatch for Naive {
    fn group(&self, _: Property) -> Option<&Arc<Group>> {
        None
    }

    unsafe fn submit(&self, core: &Arc<Core>, local: &Local, block: *mut Block, moment: Moment) {
        // SAFETY: ready and ours by the contract.
        unsafe {
            if matches!(moment, Moment::Pushed(_)) && !is_deep() {
                let outermost = !local.draining.replace(true);
                core.execute(local, block, None);
                if outermost {
                    self.drain(core, local);
                } else {
                    // The operation around this one may have been completed already.
                    core.settle(local);
                }
                return;
            }
            (*block).link = null_mut();
            append(local, List { first: block, last: block });
        }
        // The thread may be that deep in operations of other engines only: then it is owed until it is out of them.
        let runs_already = local.draining.replace(true);
        if !(runs_already || is_deep() && owe(core)) {
            self.drain(core, local);
        }
    }

    fn drain(&self, core: &Arc<Core>, local: &Local) {
        let (mut ran, mut started) = (0, None::<Start>);
        loop {
            let block = local.first.get();
            if block.is_null() {
                break;
            }
            // SAFETY: the queue holds ready operations of this thread.
            unsafe {
                local.first.set((*block).link);
                if local.first.get().is_null() {
                    local.last.set(null_mut());
                }
                core.execute(local, block, None);
            }
            // Alone, it runs everything: nobody pushes beside it.
            if local.first.get().is_null() || core.memory.has_one_looker() {
                continue;
            }
            ran += 1;
            let mut is_late = || self.stopwatch.since(*started.get_or_insert_with(|| self.stopwatch.start())) >= TIME;
            if local.asks.get() || ran >= SHARE || is_late() {
                local.asks.set(true);
                self.handoff.want(true);
                if !self.hand_over(local) {
                    break;
                }
            }
        }
        local.draining.set(false);
        if local.asks.replace(false) && local.first.get().is_null() {
            self.handoff.want(false);
        }
        core.settle(local);
    }

    #[inline]
    fn pay(&self, core: &Arc<Core>, local: &Local) {
        // Who asks would stand ready for itself.
        if mutate!("pushers-do-not-pay": false, self.handoff.is_wanted() && !local.asks.get()) {
            self.take_over(core, local);
        }
    }

    fn before_waiting(&self, core: &Arc<Core>) {
        let local = core.local();
        if local.depth.get() == 0 && !local.first.get().is_null() {
            self.drain(core, local);
        }
    }

    fn help(&self, _: &Arc<Core>, _: &mut dyn FnMut() -> bool) -> bool {
        false
    }

    fn catch_up(&self, _: &Arc<Core>) -> bool {
        false
    }

    fn serve(&self, core: &Arc<Core>, _: &mut dyn FnMut() -> bool, done: &mut dyn FnMut() -> bool) {
        while self.handoff.is_wanted() && !done() {
            self.take_over(core, core.local());
            // The thread that asks may need this core.
            thread::yield_now();
        }
    }

    fn start(&self, _: &Arc<Core>) -> Result<(), Error> {
        Ok(())
    }

    fn stop(&self) {}

    fn groups(&self) -> Vec<&Group> {
        Vec::new()
    }

    #[cfg(all(unix, not(any(loom, shuttle))))]
    fn forget_other_threads(&self) {
        self.handoff.forget_other_threads();
    }
}

/// Queues operations on the thread.
///
/// # Safety
/// They are ready, and ours.
unsafe fn append(local: &Local, list: List) {
    let last = local.last.replace(list.last);
    if last.is_null() {
        local.first.set(list.first);
    } else {
        // SAFETY: the queue holds it for us.
        unsafe { (*last).link = list.first };
    }
}
