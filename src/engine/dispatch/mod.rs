//! The seam between the engine and the ways to run operations: the trait that the three engines
//! implement.

pub mod naive;
pub mod per_device;
pub mod pooled;

use crate::device::Context;
use crate::engine::core::Core;
use crate::error::Error;
use crate::operation::block::Block;
use crate::operation::property::Property;
use crate::thread::context::Local;
use crate::worker::group::Group;
use std::sync::Arc;

/// When an operation became ready.
#[derive(Clone, Copy)]
pub enum Moment {
    /// When it was pushed; its thread is still in the call.
    Pushed,
    /// Later.
    Later,
}

/// Decides where ready operations run.
pub trait Dispatch: Send + Sync {
    /// Makes sure that an operation of this kind will find someone to run it. Called before
    /// anything is enlisted, so that a refusal loses nothing.
    fn admit(&self, core: &Arc<Core>, property: Property, _: Context) -> Result<(), Error> {
        match self.group(property) {
            Some(group) if !group.is_started() => core.start_group(group),
            _ => Ok(()),
        }
    }

    /// The workers that run operations of this kind; none, if the caller does.
    fn group(&self, property: Property) -> Option<&Arc<Group>>;

    /// Runs a ready operation or hands it to a worker.
    ///
    /// # Safety
    /// The operation is ready, was admitted, and is the caller's to give away.
    unsafe fn submit(&self, core: &Arc<Core>, local: &Local, block: *mut Block, moment: Moment);

    /// Puts a ready operation where another thread finds it: the worker of number `place`, or one
    /// that has nothing to do.
    ///
    /// # Safety
    /// As [`Dispatch::submit`].
    unsafe fn lay_out(&self, core: &Arc<Core>, local: &Local, block: *mut Block, place: usize) {
        // SAFETY: passed on; the property is read while the operation is ours.
        unsafe {
            match self.group(Block::property(block)) {
                Some(group) => group.lay_out(block, place),
                None => self.submit(core, local, block, Moment::Later),
            }
        }
    }

    /// Runs what the calling thread has made ready and queued, or hands it over. Called with
    /// `draining` set, which it clears.
    fn drain(&self, _: &Arc<Core>, _: &Local) {}

    /// Whether a push that is about to enlist an operation will call [`Dispatch::take_over`] after
    /// that, before anything of the user's is run.
    fn will_take_over(&self, _: &Local) -> bool {
        false
    }

    /// Runs a share of what other threads have left, if there is anything; says whether.
    fn take_over(&self, _: &Arc<Core>, _: &Local) -> bool {
        false
    }

    /// Runs what the calling thread owes, before it waits for the engine.
    fn before_waiting(&self, _: &Arc<Core>) {}

    /// For the child of a `fork`, where nothing is in flight.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    fn forget_other_threads(&self) {
        self.groups().into_iter().for_each(Group::forget_guests);
    }

    /// Runs ready operations on the calling thread while `go_on` says so; returns whether it ran
    /// any.
    fn help(&self, core: &Arc<Core>, go_on: &mut dyn FnMut() -> bool) -> bool;

    /// Runs a few of the short operations that workers have laid out; if there are none, asks for
    /// some. Says whether it ran any.
    fn catch_up(&self, core: &Arc<Core>) -> bool;

    /// Works with the workers until `done`, in rows of operations that `go_on` can end. Who makes
    /// `done` true unparks the calling thread. May return early: then the caller only waits.
    fn serve(&self, core: &Arc<Core>, go_on: &mut dyn FnMut() -> bool, done: &mut dyn FnMut() -> bool);

    /// Brings back the threads that [`Dispatch::stop`] ended.
    fn start(&self, core: &Arc<Core>) -> Result<(), Error>;

    /// Ends all threads. Nothing is in flight.
    fn stop(&self);

    /// Its workers.
    fn groups(&self) -> Vec<&Group>;
}
