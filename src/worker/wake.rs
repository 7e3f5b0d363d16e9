//! Calling and waking: how a thread that puts an operation elsewhere than into the inbox of a
//! worker that looks or sleeps sees to it that somebody comes for it. Used by `group.rs`,
//! `steal.rs` and `catch_up.rs` on any thread, and by `lend.rs`, `idle.rs` and `help.rs`.
//!
//! A thread that looks for work already, worker or helper, is called, which costs an exchange and
//! no system call. Only if there is none is a sleeper woken. The states, and why no call and no
//! wake-up is lost, are in `worker/README.md`. There are only functions here: the states are in
//! `inbox.rs`, and the count of sleepers in `group.rs`.

use crate::platform::asymmetric_fence::light;
use crate::sync::Ordering::Relaxed;
use crate::worker::group::Group;
use crate::worker::helper_place::Helper;
use crate::worker::inbox::Met;
use crate::worker::remote::Remote;

impl Group {
    /// Sees to it that a thread comes for what the calling thread has just published: this worker
    /// if it looks or sleeps, and otherwise any other. A thread that looks and has lost its core
    /// still says that it looks, so it must not be called for the logs of others that sleep. The
    /// caller has passed the light fence, and has then seen that a thread sleeps.
    #[cold]
    pub(super) fn call(&self, worker: usize) {
        if !comes(&self.workers[worker]) {
            self.any_comes();
        }
    }

    /// Sees to it that a thread, worker or helper, comes for what the calling thread has just
    /// published.
    pub(super) fn call_one(&self) {
        // Light side of the asymmetric fence; the heavy side is in `sleep` (`idle.rs`) and
        // `rest` (`help.rs`). Either this thread sees the sleeper counted, or the sleeper sees what
        // was published.
        light();
        // If no thread sleeps, each that is about to will look once more.
        if self.sleeping.load(Relaxed) > 0 {
            self.any_comes();
        }
    }

    /// For a worker that has found something to run, and may be in that for long: another comes for
    /// what is left. Costs a load if no thread sleeps. No fence: the caller has published nothing.
    pub(super) fn pass_on(&self) {
        if self.sleeping.load(Relaxed) > 0 && self.has_work() {
            self.any_comes();
        }
    }

    /// Calls a thread that looks, else wakes one that sleeps.
    #[cold]
    fn any_comes(&self) {
        let _ = self.one_that_looks_comes() || self.one_that_sleeps_comes();
    }

    /// Calls a worker that looks, else a helper that does.
    fn one_that_looks_comes(&self) -> bool {
        let mut helpers = self.helpers[..self.most_helpers.load(Relaxed)].iter();
        self.workers.iter().any(|worker| !worker.inbox.is_asleep() && comes(worker))
            || helpers.any(|helper| helper.inbox.call_looking())
    }

    /// Wakes a worker that sleeps, else a helper.
    fn one_that_sleeps_comes(&self) -> bool {
        self.workers.iter().any(|worker| worker.inbox.is_asleep() && comes(worker))
            || self.helpers.iter().any(Helper::wake)
    }
}

/// Calls a worker that looks for work or sleeps; says whether it was one.
fn comes(worker: &Remote) -> bool {
    match worker.inbox.call() {
        Met::Looking | Met::Asleep => true,
        Met::Busy | Met::Others => false,
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pool::memory::Memory;
    use crate::worker::group::{GroupPlan, IdlePolicy};
    use std::time::Duration;

    fn group(workers: usize) -> Group {
        Group::new(GroupPlan {
            name: "called",
            workers,
            logged: true,
            shared: false,
            idle: IdlePolicy::SpinThenPark,
            spin_for: Duration::ZERO,
            cores: Vec::new(),
            move_callers: false,
            fifo_priority: 0,
        })
    }

    /// The first finds a worker that runs something, and the second one the first; the thread that
    /// has put that there may have called nobody yet.
    #[test]
    fn what_comes_to_a_busy_worker_has_another_come() {
        for others in [false, true] {
            what_is_published_has_a_thread_come(others);
        }
    }

    fn what_is_published_has_a_thread_come(others: bool) {
        let memory = Memory::new().unwrap();
        let mut blocks = memory.blocks.slabs.add(0);
        let [first, second] = [(); 2].map(|()| blocks.pop().expect("there are more"));
        let group = group(2);
        let [runs, sleeps] = &*group.workers else { unreachable!() };
        assert!(sleeps.inbox.start_looking() && sleeps.inbox.fall_asleep());
        group.sleeping.store(1, Relaxed);
        // SAFETY: the blocks are ours, and each is given away once.
        unsafe {
            if others {
                assert_eq!(runs.inbox.push(first, first), Met::Busy);
            }
            (*second).priority = 0;
            group.publish(second, 0);
        }
        assert!(!sleeps.inbox.is_asleep(), "nobody comes");
    }

    /// Of three workers the first runs something, the second looks, and the third sleeps.
    #[test]
    fn no_sleeper_is_woken_while_a_thread_looks() {
        let group = group(3);
        let [_, looks, sleeps] = &*group.workers else { unreachable!() };
        assert!(looks.inbox.start_looking() && sleeps.inbox.start_looking() && sleeps.inbox.fall_asleep());
        group.sleeping.store(1, Relaxed);
        group.call_one();
        group.call(0);
        group.call(1);
        assert!(sleeps.inbox.is_asleep(), "a sleeper was woken beside a worker that looks");
        let _ = looks.inbox.stop_looking();
        group.call_one();
        assert!(!sleeps.inbox.is_asleep(), "nobody comes");
    }

    #[test]
    fn no_sleeper_is_woken_while_a_helper_looks() {
        let group = group(1);
        let ([sleeps], helper) = (&*group.workers, &group.helpers[0]) else { unreachable!() };
        group.most_helpers.store(1, Relaxed);
        assert!(helper.inbox.start_looking() && sleeps.inbox.start_looking() && sleeps.inbox.fall_asleep());
        group.sleeping.store(1, Relaxed);
        group.call_one();
        assert!(sleeps.inbox.is_asleep(), "a sleeper was woken beside a helper that looks");
        // What lies in its own log is not left to the helper, which may be without a core.
        group.call(0);
        assert!(!sleeps.inbox.is_asleep(), "nobody comes");
    }
}
