//! A wait for a variable that holds no thread: an operation whose closure keeps a promise.
//!
//! Used by `api/when.rs`, on the thread that makes the future. It is the fourth way of
//! `wait/for_var.rs`, with a promise in place of an event. The promise is kept on the thread that
//! finds the wait ready: one that ends an operation, or the caller. No state here.

use crate::engine::core::Core;
use crate::engine::future::cell::{promise, Awaited};
use crate::engine::push::admission::{cut_off, may_wait_again};
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::wait::for_var::is_quiet;
use crate::error::Error;
use crate::operation::access::Mode;
use crate::operation::closure::sync_vtable;
use crate::operation::context::RunContext;
use crate::sync::thread;
use crate::variable::handle::Variable;
use std::sync::Arc;

/// Begins a wait for every write of `variable` that was pushed before, and with [`Mode::Write`] for
/// every read too. `None`: it is over, and the variable is not marked.
pub fn when_free(core: &Arc<Core>, variable: Variable, mode: Mode) -> Result<Option<Awaited<()>>, Error> {
    if mode == Mode::Read && is_quiet(core, variable)? {
        return Ok(None);
    }
    if core.is_cut_off() {
        return Err(cut_off());
    }
    let request = Request::wait();
    let claim = Claim { variable, mode };
    // The push of a wait is refused only while another thread forks.
    loop {
        let (promise, awaited) = promise::<()>(core);
        let keep = move |run: &RunContext<'_>| promise.keep_inherited(run.inherited);
        match push(core, &request, &[claim][..], sync_vtable(&keep), keep) {
            Ok(()) => return Ok(Some(awaited)),
            Err(error) if !may_wait_again(core, &error) => return Err(error),
            // Not parked: the thread may be an executor's, which waits for its own wake-ups so.
            Err(_) => thread::yield_now(),
        }
    }
}
