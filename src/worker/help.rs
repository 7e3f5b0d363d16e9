//! Helpers: threads that wait for something and work for the group until they have it.
//!
//! A helper with nothing to run looks about like a worker, and sleeps like one: at a place of its
//! own, where the thread that publishes work finds it. Nothing is delivered there, so its inbox
//! holds no more than the helper's state. What it has taken and does not run yet it publishes
//! there.

use crate::operation::block::Block;
use crate::platform::asymmetric_fence::heavy;
#[cfg(all(unix, not(any(loom, shuttle))))]
use crate::sync::thread::Thread;
#[cfg(all(unix, not(any(loom, shuttle))))]
use crate::sync::MutexGuard;
use crate::sync::{thread, Ordering::*, MODELLED};
use crate::tickets::journals::Watch;
use crate::tickets::pull::Pull;
use crate::tickets::run::{has_ended, Variables};
use crate::tickets::word::Word;
use crate::util::spin::Spin;
use crate::worker::current::CurrentWorker;
use crate::worker::group::{next_worker, Group, Placement};
use crate::worker::helper::Helper;
use crate::worker::local_queue::Batch;
#[cfg(all(unix, not(any(loom, shuttle))))]
use crate::worker::remote::Remote;
use crate::worker::stealable::Stealable;
use crate::worker::Host;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

/// How long a helper looks for work before it sleeps, and how long of that it keeps its core.
const HELPER_SPINS: Duration = Duration::from_micros(300);
const HELPER_SPINS_AWAKE: Duration = Duration::from_micros(30);

/// Operations of a batch after which a helper gives back what they have left. The batch may be
/// long, and what its thread has spent itself nobody else can use.
const SETTLES: u32 = 64;

/// Frees the place however the helper leaves.
struct Helping<'a> {
    group: &'a Group,
    helper: &'a Helper,
    has_slept: Cell<bool>,
}

impl Group {
    /// Works for the group until `done`. `go_on` is asked before each operation: `false` gives back
    /// the batch that was taken. Who makes `done` true unparks the thread.
    ///
    /// Returns at once if the group has no threads or no free place.
    pub fn serve<H: Host>(&self, host: &Arc<H>, go_on: &mut dyn FnMut() -> bool, done: &mut dyn FnMut() -> bool) {
        if done() || !self.is_started() {
            return;
        }
        let Some(helping) = self.sit() else { return };
        self.make_way();
        while !done() {
            if !self.help_from(Some(&helping), host, &mut *go_on) {
                host.idle();
                self.look_out(&helping, done);
            }
        }
    }

    /// Takes a place, if one is free.
    fn sit(&self) -> Option<Helping<'_>> {
        // Acquire: pairs with the release of the thread that sat there before.
        let free = |helper: &Helper| !helper.taken.load(Relaxed) && !helper.taken.swap(true, Acquire);
        let index = self.helpers.iter().position(free)?;
        if index >= self.most_helpers.load(Relaxed) {
            // Relaxed: as what a helper publishes, this is seen by who sleeps or by who wakes.
            self.most_helpers.fetch_max(index + 1, Relaxed);
        }
        Some(Helping { group: self, helper: &self.helpers[index], has_slept: Cell::new(false) })
    }

    /// Where helpers publish what they have.
    pub(crate) fn published_by_helpers(&self) -> impl Iterator<Item = &Stealable> {
        self.helpers[..self.most_helpers.load(Relaxed)].iter().map(|helper| &helper.stealable)
    }

    /// Lets the calling thread run operations of this group while `go_on` says so; returns whether
    /// it ran any. What it has taken and not run goes back.
    pub fn help<H: Host>(&self, host: &Arc<H>, go_on: impl FnMut() -> bool) -> bool {
        self.help_from(None, host, go_on)
    }

    /// As [`Group::help`], from a place, if the thread has one.
    fn help_from<H: Host>(&self, helping: Option<&Helping<'_>>, host: &Arc<H>, go_on: impl FnMut() -> bool) -> bool {
        let mut first = self.steal_any();
        if first.is_null() {
            first = self.steal_logged(host, &mut Watch::new(&self.journals, next_worker()), (usize::MAX, 0, 1));
        }
        if !first.is_null() {
            // SAFETY: stolen, so ours.
            unsafe { self.run_lists(helping, host, first, null_mut, go_on) };
        }
        !first.is_null()
    }

    /// Runs a list of operations, and what they make ready, for as long as `go_on`; gives back the
    /// rest. `next` gives more that is needed, or null: it is asked before anything runs that
    /// nobody waits for.
    ///
    /// # Safety
    /// The lists are ready, of this group, and the caller's.
    unsafe fn run_lists<H: Host>(
        &self,
        helping: Option<&Helping<'_>>,
        host: &Arc<H>,
        first: *mut Block,
        mut next: impl FnMut() -> *mut Block,
        mut go_on: impl FnMut() -> bool,
    ) {
        let own = if helping.is_none() { self.sit() } else { None };
        // A thread without a place publishes nothing.
        let unseen = Stealable::new();
        let stealable = helping.or(own.as_ref()).map_or(&unseen, |helping| &helping.helper.stealable);
        CurrentWorker::new(self.address(), None, host.depth()).occupy(|current| {
            // Whether it is run or not. SAFETY: passed on.
            unsafe { current.queue.borrow_mut().add_list(first) };
            let mut ran = 0_u32;
            while go_on() {
                let mut queue = current.queue.borrow_mut();
                if queue.best().is_none_or(|best| best.0 <= 0) {
                    // SAFETY: passed on.
                    unsafe { queue.add_list(next()) };
                }
                let Some(block) = queue.pop(stealable) else { break };
                // The operation that is about to run may be a long one.
                if queue.is_hiding(stealable) {
                    queue.publish(stealable);
                    self.wake_one();
                }
                drop(queue);
                // SAFETY: the queue held it for us.
                unsafe { host.run(block, None) };
                ran += 1;
                if ran % SETTLES == 0 {
                    host.idle();
                }
            }
            // What is published as well: workers that have enough to do look into inboxes, but not
            // there.
            let rest = current.queue.borrow_mut().take_all(stealable);
            if let Some(row) = rest {
                // SAFETY: the queue held them for us.
                unsafe { self.give_back(row) };
            }
        });
    }

    /// Hands operations to the workers.
    unsafe fn give_back(&self, row: Batch) {
        // SAFETY: they are ours until they are delivered.
        unsafe { self.deliver(row.first, row.last, Placement::Any, row.best.0 != 0) };
    }

    /// Runs what a thread needs that waits for an operation, as far as that [is found](Pull), and
    /// what that makes ready; but nothing more when the operation has ended. What is left then goes
    /// to the workers.
    pub fn run_awaited<H: Host>(&self, host: &Arc<H>, operation: Word, variables: &impl Variables) {
        let mut pull = Pull::new(operation);
        let first = pull.next(variables);
        // SAFETY: what it finds is ready and ours; what is in logs is of this group.
        unsafe {
            if first == operation.block() {
                // What this makes ready is for the workers.
                host.run(first, None);
            } else if !first.is_null() {
                self.run_lists(None, host, first, || pull.next(variables), || !has_ended(operation));
            }
        }
    }

    /// Returns when there may be something to run, or when `done`.
    fn look_out(&self, helping: &Helping<'_>, done: &mut dyn FnMut() -> bool) {
        // Who has more than it can run lays it out for us.
        self.idle.fetch_add(1, Relaxed);
        let mut seen = null_mut();
        let mut spin = Spin::new(HELPER_SPINS_AWAKE, HELPER_SPINS);
        loop {
            if done() {
                break;
            }
            let first = self.first_waiting();
            // What has just come to a worker that looks for it is the worker's; what is still there
            // the next time is not.
            if !first.is_null() && (first == seen || MODELLED) {
                break;
            }
            seen = first;
            if !spin.pause() {
                self.rest(helping, done);
                break;
            }
        }
        self.idle.fetch_sub(1, Relaxed);
    }

    /// Sleeps until there may be something to run, or until `done`. As [`Group::sleep`].
    #[cold]
    fn rest(&self, helping: &Helping<'_>, done: &mut dyn FnMut() -> bool) {
        let helper = helping.helper;
        *helper.thread.lock() = Some(thread::current());
        let inbox = &helper.inbox;
        if !inbox.start_looking() || !inbox.fall_asleep() {
            return;
        }
        helping.has_slept.set(true);
        self.sleeping.fetch_add(1, Relaxed);
        // Against the one in `wake_one`, as for workers; and against the thread that makes `done`
        // true and looks whether somebody waits.
        heavy();
        if !self.first_waiting().is_null() || done() {
            inbox.wake();
        }
        while inbox.is_asleep() {
            thread::park();
            if done() {
                inbox.wake();
            }
        }
        self.make_way();
        self.sleeping.fetch_sub(1, Relaxed);
        let _ = inbox.stop_looking();
    }

    /// The locks of the places, for a thread that forks.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn helper_locks(&self) -> impl Iterator<Item = MutexGuard<'_, Option<Thread>>> {
        self.helpers.iter().map(|helper| helper.thread.lock())
    }

    /// For the child of a `fork`, where no helper is and nobody who wakes a worker.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_helpers(&self) {
        for helper in &self.helpers {
            if helper.taken.load(Relaxed) {
                helper.inbox.reset();
                helper.taken.store(false, Relaxed);
            }
        }
        self.workers.iter().for_each(Remote::forget_wakers);
        self.idle.store(0, Relaxed);
        self.sleeping.store(0, Relaxed);
    }
}

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        // Release: pairs with the thread that sits down next.
        self.helper.taken.store(false, Release);
        let group = self.group;
        // Who woke us may have meant somebody who stays.
        if self.has_slept.get() && !group.first_waiting().is_null() {
            group.wake_one();
        }
    }
}
