//! A wait for everything that holds no thread.
//!
//! Used by `api/when.rs`, on the thread that polls. It is `wait/for_all.rs` with a waker in place
//! of a thread: the waker has a place in the list `Core::quiescence` (`wait/wait_list.rs`). The
//! thread that ends the last operation calls it.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::engine::nesting::refuse_wait_inside;
use crate::engine::push::admission::cut_off;
use crate::engine::wait::waker_list::WakerPlace;
use crate::error::Error;
use crate::platform::asymmetric_fence::heavy;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A wait until nothing is in flight.
pub struct AllEnded {
    core: Arc<Core>,
    /// Its place in the list, from the first poll that has to wait.
    place: Option<Arc<WakerPlace>>,
}

impl AllEnded {
    pub fn new(core: &Arc<Core>) -> AllEnded {
        AllEnded { core: Arc::clone(core), place: None }
    }

    /// Looks whether nothing is in flight; else has the waker called when that may be so. If it is,
    /// takes all errors and returns the first.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<(), Error>> {
        let core = &self.core;
        // A future that is an operation itself would wait for its own end.
        refuse_wait_inside(core)?;
        if !core.is_quiescent() {
            if core.is_cut_off() {
                return Poll::Ready(Err(cut_off()));
            }
            core.dispatch.before_waiting(core);
            let place = self.place.get_or_insert_with(|| core.quiescence.join());
            place.waker.store(waker);
            // Heavy side of the asymmetric fence; the light side is in `WaitList::notify`. Either
            // the thread that ends the last operation sees this waiter, or this thread sees the
            // end.
            heavy();
            if !core.is_quiescent() {
                return Poll::Pending;
            }
        }
        self.leave();
        Poll::Ready(self.core.failures.take_first().map_or(Ok(()), Err))
    }

    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.core.quiescence.leave(&place);
        }
    }
}

impl Drop for AllEnded {
    fn drop(&mut self) {
        self.leave();
    }
}
