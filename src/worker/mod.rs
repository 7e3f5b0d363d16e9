//! Workers: threads that run ready operations, and how operations reach them.
//!
//! A [`group::Group`] is a set of workers that serve the same kind of operation. Each worker has an
//! [`inbox::Inbox`], into which any thread pushes, and a [`local_queue::Queue`], ordered by
//! priority and push order. While a worker runs an operation, it lends the others to the threads
//! that look for work. A worker with nothing to do spins, then parks. A thread that waits for
//! something is a helper meanwhile, and does the same. The states of sleeping and waking are in
//! `worker/README.md`.
//!
//! In a group with logs (`GroupPlan::logged`), pushers write into [logs](crate::tickets::journals)
//! and not into inboxes: one log for each pair of pusher and worker. A worker goes through its logs
//! in turn. Other threads take out of them what it does not come to.

mod catch_up;
pub mod cores;
pub mod counters;
pub mod current;
pub mod group;
pub mod handoff;
mod help;
mod helper_place;
mod idle;
pub mod inbox;
mod lend;
pub mod local_queue;
mod pinning;
pub mod ready;
pub mod remote;
mod rhythm;
mod run_loop;
mod scheduling;
mod steal;
pub mod stealable;
pub mod thread_handle;
mod threads;
mod wake;
mod wake_word;

use crate::operation::block::Block;
use std::sync::Arc;

/// What a group needs from the engine. Implemented by the engine's core in `engine/execute.rs`.
pub trait Host: Send + Sync + 'static {
    /// Runs an operation, and completes it unless it is asynchronous.
    ///
    /// # Safety
    /// The operation is ready, and the caller's.
    unsafe fn run(self: &Arc<Self>, block: *mut Block, worker: Option<usize>);

    /// Tests the tickets of an operation that was taken out of a log. Returns true if it is ready.
    /// If not, it is parked, and comes back when another operation makes it ready.
    ///
    /// # Safety
    /// The caller has taken the operation out of its log.
    unsafe fn settle(&self, block: *mut Block) -> bool;

    /// How many operations the calling thread is inside of.
    fn depth(&self) -> u32;

    /// Called by a worker as it begins, before it runs anything.
    fn begin_worker(&self) {}

    /// Called by a worker at its end, when it runs nothing any more.
    fn end_worker(&self) {}

    /// Sends spent blocks back to their caches, and tells waiters if nothing is in flight. Called
    /// by a worker or helper that has nothing to run, before it looks for work and sleeps.
    fn idle(&self);
}
