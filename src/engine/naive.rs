//! The naive engine: the caller runs everything.
//!
//! An operation that is ready when it is pushed runs inside the push. One that has to wait, for an asynchronous operation
//! or for another thread, runs on the thread that ends what it waited for. Either way there is a loop and no recursion
//! along chains: what an operation makes ready is queued on the thread, and the outermost call runs the queue.

use super::core::{Core, NESTED};
use super::dispatch::{Dispatch, Moment};
use crate::error::Error;
use crate::operation::block::Block;
use crate::operation::property::Property;
use crate::pool::local::Local;
use crate::worker::group::Group;
use std::ptr::null_mut;
use std::sync::Arc;

pub struct Naive;

impl Dispatch for Naive {
    fn group(&self, _: Property) -> Option<&Arc<Group>> {
        None
    }

    unsafe fn submit(&self, core: &Arc<Core>, local: &Local, block: *mut Block, moment: Moment) {
        // SAFETY: ready and ours by the contract; what the queue holds was put there by this thread.
        unsafe {
            if matches!(moment, Moment::Pushed(_)) && local.depth.get() < NESTED {
                let outermost = !local.draining.replace(true);
                core.execute(local, block, None);
                if outermost {
                    drain(core, local);
                } else {
                    // The operation around this one may have been completed already.
                    core.settle(local);
                }
                return;
            }
            (*block).link = null_mut();
            match local.last.replace(block) {
                last if last.is_null() => local.first.set(block),
                last => (*last).link = block,
            }
            if !local.draining.replace(true) {
                drain(core, local);
            }
        }
    }

    fn help(&self, _: &Arc<Core>, _: &mut dyn FnMut() -> bool) -> bool {
        false
    }

    fn catch_up(&self, _: &Arc<Core>) -> bool {
        false
    }

    fn serve(&self, _: &Arc<Core>, _: &mut dyn FnMut() -> bool, _: &mut dyn FnMut() -> bool) {}

    fn start(&self, _: &Arc<Core>) -> Result<(), Error> {
        Ok(())
    }

    fn stop(&self) {}

    fn groups(&self) -> Vec<&Group> {
        Vec::new()
    }
}

/// Runs the thread's queue. Called with `draining` set, which it clears.
///
/// # Safety
/// The queue holds ready operations of this thread.
pub unsafe fn drain(core: &Arc<Core>, local: &Local) {
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
    }
    local.draining.set(false);
    core.settle(local);
}
