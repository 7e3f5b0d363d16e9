//! Helpers: threads that wait for something, and run operations of the group until they have it.
//!
//! `engine/wait/` and `engine/backpressure.rs` come here, mostly through `Dispatch::help`
//! (`engine/dispatch/`), always on the waiting thread. Besides, `engine/fork.rs` locks the places
//! of helpers, and a child of a fork forgets them.
//!
//! A helper with nothing to run looks for work like a worker, and sleeps like one: in a place of
//! its own (`helper_place.rs`), where a thread that publishes work finds and wakes it. Nothing is
//! delivered there, so the inbox of the place holds only the helper's state. Operations that the
//! helper has taken and does not run yet are lent in its place, to thieves (`steal.rs`).
//!
//! The same protocol of sleeping is in `idle.rs` (`sleep`): a change has to be made in both.
//! The states and steps are in `worker/README.md`.

use crate::operation::block::Block;
use crate::platform::asymmetric_fence::heavy;
use crate::sync::{thread, Ordering::*, MODELLED};
use crate::tickets::pull::Pull;
use crate::tickets::run::{has_ended, Variables};
use crate::tickets::watch::Watch;
use crate::tickets::word::Word;
use crate::util::spin::Spin;
use crate::worker::current::CurrentWorker;
use crate::worker::group::{next_worker, Group, Placement};
use crate::worker::helper_place::Helper;
use crate::worker::local_queue::Batch;
use crate::worker::stealable::Stealable;
#[cfg(all(unix, not(any(loom, shuttle))))]
use crate::worker::thread_handle::ThreadHandle;
use crate::worker::Host;
use std::cell::Cell;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

/// How long a helper looks for work before it sleeps; and the first part of that, in which it keeps
/// its core.
const HELPER_SPINS: Duration = Duration::from_micros(300);
const HELPER_SPINS_AWAKE: Duration = Duration::from_micros(30);

/// After so many operations of a batch a helper calls `Host::idle`, which gives back spent blocks.
/// A batch may be long, and no other thread can use blocks that the helper keeps.
const SETTLES: u32 = 64;

/// A thread in a helper's place. Dropping it frees the place, also when the helper unwinds.
struct Helping<'a> {
    group: &'a Group,
    helper: &'a Helper,
    /// Whether it has looked for work, and so may have been called, since it last found some.
    has_looked: Cell<bool>,
}

impl Group {
    /// Runs operations of the group until `done`. `go_on` is asked before each operation: `false`
    /// gives the rest of the batch back to the workers. The thread that makes `done` true unparks
    /// the helper.
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

    /// Takes a helper's place, if one is free.
    fn sit(&self) -> Option<Helping<'_>> {
        // Acquire: pairs with the release in `Helping::drop` of the thread that had the place
        // before.
        let free = |helper: &Helper| !helper.taken.load(Relaxed) && !helper.taken.swap(true, Acquire);
        let index = self.helpers.iter().position(free)?;
        if index >= self.most_helpers.load(Relaxed) {
            // Relaxed: like what a helper publishes, the new number is seen by the thread that is
            // about to sleep, or by the one that wakes it.
            self.most_helpers.fetch_max(index + 1, Relaxed);
        }
        Some(Helping { group: self, helper: &self.helpers[index], has_looked: Cell::new(false) })
    }

    /// What helpers have lent, as far as places were ever taken.
    pub(crate) fn lent_by_helpers(&self) -> impl Iterator<Item = &Stealable> {
        self.helpers[..self.most_helpers.load(Relaxed)].iter().map(|helper| &helper.stealable)
    }

    /// Runs operations of this group on the calling thread while `go_on` says so. Returns whether
    /// there were any to take. Operations that were taken and not run go back to the workers.
    pub fn help<H: Host>(&self, host: &Arc<H>, go_on: impl FnMut() -> bool) -> bool {
        self.help_from(None, host, go_on)
    }

    /// Like [`Group::help`], but for a thread that may have a helper's place already.
    fn help_from<H: Host>(&self, helping: Option<&Helping<'_>>, host: &Arc<H>, go_on: impl FnMut() -> bool) -> bool {
        let mut first = self.steal_any();
        if first.is_null() {
            first = self.steal_logged(host, &mut Watch::new(&self.journals, next_worker()), (usize::MAX, 0, 1));
        }
        if !first.is_null() {
            if helping.is_some_and(|helping| helping.has_looked.replace(false)) {
                // It may have been called for something else, and for several things.
                self.pass_on();
            }
            // SAFETY: stolen, so ours.
            unsafe { self.run_lists(helping, host, first, null_mut, go_on) };
        }
        !first.is_null()
    }

    /// Runs a list of operations, and the operations that they make ready, while `go_on` says so.
    /// Gives the rest back to the workers. `next` gives more operations that the caller waits for,
    /// or null; it is asked before an operation runs that no thread waits for.
    ///
    /// # Safety
    /// The operations of `first` and of `next` are ready, of this group, and the caller's.
    unsafe fn run_lists<H: Host>(
        &self,
        helping: Option<&Helping<'_>>,
        host: &Arc<H>,
        first: *mut Block,
        mut next: impl FnMut() -> *mut Block,
        mut go_on: impl FnMut() -> bool,
    ) {
        let own = if helping.is_none() { self.sit() } else { None };
        // A thread without a place cannot lend. It gives back all but the operation that it runs.
        let unseen = Stealable::new();
        let place = helping.or(own.as_ref()).map(|helping| &helping.helper.stealable);
        let stealable = place.unwrap_or(&unseen);
        CurrentWorker::new(self.address(), None, host.depth()).occupy(|current| {
            // The list is added even if `go_on` is false at once, so that it is given back below.
            // SAFETY: the caller's contract.
            unsafe { current.queue.borrow_mut().add_list(first) };
            let mut ran = 0_u32;
            while go_on() {
                let mut queue = current.queue.borrow_mut();
                queue.take_back(stealable);
                if queue.best().is_none_or(|best| best.0 <= 0) {
                    // SAFETY: the caller's contract.
                    unsafe { queue.add_list(next()) };
                }
                let Some(block) = queue.pop() else { break };
                // The operation that is about to run may be a long one: lend the others first.
                if !queue.is_empty() {
                    if place.is_some() {
                        self.lend_all(&mut queue, stealable);
                    } else if let Some(row) = queue.take_all(stealable) {
                        // SAFETY: the operations were in this thread's queue, so they are ready and
                        // ours.
                        unsafe { self.give_back(row) };
                    }
                }
                drop(queue);
                // SAFETY: the operation was in this thread's queue, so it is ready and ours.
                unsafe { host.run(block, None) };
                ran = ran.wrapping_add(1);
                if ran % SETTLES == 0 {
                    host.idle();
                }
            }
            // Takes back what is lent as well: workers with enough to do look into inboxes more
            // often than at what helpers have lent.
            let rest = current.queue.borrow_mut().take_all(stealable);
            if let Some(row) = rest {
                // SAFETY: the operations were in this thread's queue, so they are ready and ours.
                unsafe { self.give_back(row) };
            }
        });
    }

    /// Delivers operations to the workers.
    unsafe fn give_back(&self, row: Batch) {
        // SAFETY: the operations are ours until they are delivered.
        unsafe { self.deliver(row.first, row.last, Placement::Any, row.best.0 != 0) };
    }

    /// Runs the operations that the end of `operation` needs, as far as [`Pull`] finds them, and
    /// the ones that they make ready. Stops when `operation` has ended, and gives the rest to the
    /// workers. Called by `engine/wait/pull.rs`, on the thread that waits for `operation`.
    pub fn run_awaited<H: Host>(&self, host: &Arc<H>, operation: Word, variables: &impl Variables) {
        let mut pull = Pull::new(operation);
        let first = pull.next(variables);
        // SAFETY: what `pull` finds is ready and ours; the operations in logs are of this group.
        unsafe {
            if first == operation.block() {
                // The operations that this one makes ready go to the workers: the calling thread
                // has no queue here.
                host.run(first, None);
            } else if !first.is_null() {
                self.run_lists(None, host, first, || pull.next(variables), || !has_ended(operation));
            }
        }
    }

    /// Looks for work, then sleeps. Returns when there may be something to run, or when `done`.
    fn look_out(&self, helping: &Helping<'_>, done: &mut dyn FnMut() -> bool) {
        // Being counted asks the threads with more work than they can run to lend some.
        self.idle.fetch_add(1, Relaxed);
        // From here on the helper may be called in place of a sleeper (`wake.rs`).
        let inbox = &helping.helper.inbox;
        inbox.start_looking();
        helping.has_looked.set(true);
        let mut seen = null();
        let mut spin = Spin::new(HELPER_SPINS_AWAKE, HELPER_SPINS);
        loop {
            if done() {
                break;
            }
            let first = self.first_waiting();
            // An operation that has just come to a looking worker is left to that worker. One that
            // is still there at the next look is not.
            if !first.is_null() && (first == seen || MODELLED) {
                break;
            }
            seen = first;
            if !spin.pause() {
                self.rest(helping, done);
                break;
            }
        }
        // If the helper was called before this exchange, it finds what it was called for behind it.
        // Callers that come later see that it does not look.
        let _ = inbox.stop_looking();
        self.idle.fetch_sub(1, Relaxed);
    }

    /// Sleeps until there may be something to run, or until `done`; then it looks, as before. Like
    /// [`Group::sleep`], but a helper also wakes when `done`, and registers in its place first.
    #[cold]
    fn rest(&self, helping: &Helping<'_>, done: &mut dyn FnMut() -> bool) {
        let helper = helping.helper;
        helper.handle.register();
        let inbox = &helper.inbox;
        if !inbox.fall_asleep() {
            return;
        }
        self.sleeping.fetch_add(1, Relaxed);
        // Heavy side of the asymmetric fence; the light side is in `log` (`group.rs`) and
        // `call_one` (`wake.rs`), as for workers. It also pairs with the fence of the thread that
        // makes `done` true and then looks whether a thread waits.
        heavy();
        if !self.first_waiting().is_null() || done() {
            inbox.get_up();
        }
        while inbox.is_asleep() {
            thread::park();
            if done() {
                inbox.get_up();
            }
        }
        inbox.is_up();
        self.make_way();
        self.sleeping.fetch_sub(1, Relaxed);
    }

    /// The handles of all helpers' places, for `engine/fork.rs`, which holds their locks across the
    /// `fork`.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn helper_handles(&self) -> impl Iterator<Item = &ThreadHandle> {
        self.helpers.iter().map(|helper| &helper.handle)
    }

    /// For the child of a `fork` (`engine/fork.rs`), in which there are no helpers and no thread is
    /// waking a worker.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_helpers(&self) {
        for helper in &self.helpers {
            if helper.taken.load(Relaxed) {
                helper.inbox.reset();
                helper.taken.store(false, Relaxed);
            }
        }
        self.helper_handles().for_each(ThreadHandle::forget_wakers);
        self.idle.store(0, Relaxed);
        self.sleeping.store(0, Relaxed);
    }
}

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `sit` of the thread that takes the place next.
        self.helper.taken.store(false, Release);
        let group = self.group;
        // A thread that has called or woken this one may have meant one that stays: pass it on.
        if self.has_looked.get() && !group.first_waiting().is_null() {
            group.call_one();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pool::memory::Memory;
    use crate::worker::group::{GroupPlan, IdlePolicy};
    use std::sync::OnceLock;

    /// Notes whether the second worker sleeps when an operation runs.
    struct Sees(Arc<Group>, OnceLock<bool>);

    impl Host for Sees {
        unsafe fn run(self: &Arc<Self>, _: *mut Block, _: Option<usize>) {
            let _ = self.1.set(self.0.workers[1].inbox.is_asleep());
        }

        unsafe fn settle(&self, _: *mut Block) -> bool {
            true
        }

        fn depth(&self) -> u32 {
            0
        }

        fn idle(&self) {}
    }

    /// One worker runs something, and one sleeps. The helper may have been called for both
    /// operations that wait.
    #[test]
    fn a_helper_that_has_looked_and_takes_one_of_two_has_another_thread_come() {
        let memory = Memory::new().unwrap();
        let mut blocks = memory.blocks.slabs.add(0);
        let group = Arc::new(Group::new(GroupPlan {
            name: "helped",
            workers: 2,
            logged: true,
            shared: false,
            idle: IdlePolicy::Park,
            spin_for: Duration::ZERO,
            cores: Vec::new(),
            move_callers: false,
            fifo_priority: 0,
        }));
        let [runs, sleeps] = &*group.workers else { unreachable!() };
        assert!(sleeps.inbox.start_looking() && sleeps.inbox.fall_asleep());
        group.sleeping.store(1, Relaxed);
        for inbox in [&group.common.inbox, &runs.inbox] {
            let block = blocks.pop().expect("there are more");
            // SAFETY: the block is ours, and in no list.
            unsafe {
                ((*block).priority, (*block).sequence) = (0, 0);
                let _ = inbox.push(block, block);
            }
        }
        let host = Arc::new(Sees(Arc::clone(&group), OnceLock::new()));
        let helping = group.sit().expect("no place is taken");
        helping.has_looked.set(true);
        assert!(group.help_from(Some(&helping), &host, || host.1.get().is_none()));
        assert_eq!(host.1.get(), Some(&false), "nobody comes for the other operation");
        assert!(!helping.has_looked.get());
    }
}
