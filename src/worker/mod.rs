//! Workers: threads that run ready operations, and how operations reach them.
//!
//! A [`group::Group`] is a set of workers that serve the same kind of operation. Each has an
//! [`inbox::Inbox`], into which any thread pushes, and a [`queue::Queue`] ordered by priority and
//! push order. What a worker will run next it publishes for others to steal; one with nothing to do
//! spins, then parks. Threads that wait for something are helpers meanwhile, and do the same.
//!
//! Where operations have tickets, pushers write into [logs](crate::tickets::journals) instead: one
//! for each pair of pusher and worker. A worker goes through its logs round and round, and others
//! take out of them what it does not come to.

pub mod cores;
pub mod current;
pub mod group;
pub mod handoff;
mod help;
mod helper;
pub mod inbox;
pub mod local_queue;
mod pinning;
mod remote;
mod run_loop;
mod sharing;
mod steal;
pub mod stealable;

use crate::operation::block::Block;
use std::sync::Arc;

/// What a group needs from the engine.
pub trait Host: Send + Sync + 'static {
    /// Runs an operation, and completes it unless it is asynchronous.
    ///
    /// # Safety
    /// The operation is ready, and the caller owns it.
    unsafe fn run(self: &Arc<Self>, block: *mut Block, worker: Option<usize>);

    /// Tests the tickets of an operation that was taken out of a log: `true` if it is ready. If
    /// not, it comes back from elsewhere.
    ///
    /// # Safety
    /// The caller has taken it.
    unsafe fn settle(&self, block: *mut Block) -> bool;

    /// How many operations the calling thread is inside of.
    fn depth(&self) -> u32;

    /// Called by a worker that has nothing to run, before it looks around and sleeps.
    fn idle(&self);
}
