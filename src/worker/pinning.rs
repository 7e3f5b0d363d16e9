//! Pinning the workers of a group to cores, and moving a worker away from a waiting thread's core.
//! A worker pins itself in `run_loop.rs`. Threads that wait or have waited call [`Group::make_way`]
//! (`help.rs`, `engine/core.rs`, `engine/backpressure.rs`, `engine/wait/`).
//!
//! A pinned worker cannot leave its core, and the system does not soon move a thread that runs. So
//! if another thread has got a worker's core, the worker waits for that thread, for tens of
//! milliseconds, even beside a free core. A thread that has waited for the engine may have woken up
//! on a worker's core: then the worker is pinned to another one. The waiting thread is the user's,
//! and is moved only if the settings say so.
//!
//! The state is elsewhere: each worker's core in `remote.rs`, the system's numbers of the threads
//! in `cores.rs`, under a lock. `engine/fork.rs` holds that lock, and clears the numbers.

use crate::platform::affinity::{self, Moved};
#[cfg(all(unix, not(any(loom, shuttle))))]
use crate::sync::MutexGuard;
use crate::worker::cores::{Movable, Stalls};
use crate::worker::group::Group;

impl Group {
    /// Records a warning that a spinning worker does not have a core for itself.
    #[cold]
    pub(super) fn warn_of_a_shared_core(&self, index: usize) {
        let name = self.plan.name;
        let place = self.workers[index].core().map_or_else(String::new, |core| format!(" on core {core}"));
        self.lock_warnings().push(format!(
            "worker {index} of '{name}' spins{place} beside threads that use the same core: {} times in a second it got the core \
             back after a millisecond or more, and operations waited as long. Leave a core to each worker that spins, and one to the \
             threads that push (fewer cpu_workers, other cores), or choose IdlePolicy::SpinThenPark",
            Stalls::MANY
        ));
    }

    /// Pins the calling thread, which is worker `index`, to the core that it was given, if any.
    pub(super) fn pin_worker(&self, index: usize) -> Option<Movable<'_>> {
        let remote = &self.workers[index];
        let core = remote.core()?;
        if !affinity::pin(core) {
            remote.assign(None);
            let name = self.plan.name;
            self.lock_warnings()
                .push(format!("worker {index} of '{name}' could not be pinned to core {core}: it runs unpinned"));
            return None;
        }
        self.ids.lock()[index] = affinity::own_id();
        Some(Movable(&self.ids, index))
    }

    /// Moves a worker that is pinned to the core where the calling thread runs to another core of
    /// the settings that no worker has, if there is one. With `move_callers` the calling thread is
    /// moved instead.
    #[inline]
    pub fn make_way(&self) {
        let Some(here) = affinity::current() else { return };
        if let Some(index) = self.workers.iter().position(|worker| worker.is_on(here)) {
            self.part(index, here);
        }
    }

    #[cold]
    fn part(&self, index: usize, here: usize) {
        let taken = |core| self.workers.iter().any(|worker| worker.is_on(core));
        if self.plan.move_callers {
            if affinity::move_off(taken) == Moved::Stuck {
                self.lock_warnings().push(format!(
                    "a thread that waited was moved off core {here}, a worker's, and the system did not give it back the cores \
                     that it might use before: set its affinity, and do not use move_callers"
                ));
            }
            return;
        }
        // Most often every core has its worker: then no lock is taken.
        let free = || self.plan.cores.iter().copied().find(|core| *core != here && !taken(*core));
        if free().is_none() {
            return;
        }
        // If another thread moves a worker just now, or a worker ends, this thread does not wait
        // for it.
        let Some(ids) = self.ids.try_lock() else { return };
        // Checked again under the lock: otherwise two threads could choose the same core, or move
        // the same worker.
        let (remote, id, free) = (&self.workers[index], ids[index], free());
        if id == 0 || !remote.is_on(here) {
            return;
        }
        if !affinity::is_pinned(id, here) {
            // The worker's cores were changed from outside the engine, and it keeps them.
            remote.assign(None);
        } else if let Some(free) = free.filter(|free| affinity::pin_other(id, *free)) {
            remote.assign(Some(free));
        }
    }

    /// The lock of the workers' thread numbers, for `engine/fork.rs`: held across the `fork`.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn lock_ids(&self) -> MutexGuard<'_, Vec<i32>> {
        self.ids.lock()
    }

    /// For the child of a `fork` (`engine/fork.rs`): these thread numbers are those of the parent's
    /// workers.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_workers(&self) {
        self.ids.lock().fill(0);
    }
}
