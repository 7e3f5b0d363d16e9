//! Pushing: from a list of claims and a closure to an operation that has its tickets.

pub mod acquire;
pub mod admission;
pub mod enlist;
pub mod journal;
pub mod logged;

use crate::device::{self, Context};
use crate::engine::backpressure::make_room;
use crate::engine::claims::Source;
use crate::engine::core::{Core, Inline, ReadyCause};
use crate::engine::inline::fast_path::{self, Tried};
use crate::engine::inline::policy::CostKey;
use crate::engine::nesting::{is_deep, may_help};
use crate::engine::push::admission::is_over_soon;
use crate::engine::push::enlist::Pushed;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::{deleted, resolve};
use crate::error::{Error, ErrorKind};
use crate::operation::block::*;
use crate::operation::closure::{self, is_inline, stored_size, CallStored, Run, Vtable};
use crate::operation::context::RunContext;
use crate::sync::{thread, Ordering::*};
use crate::thread::context::ThreadContext;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Pushes an operation: runs it at once, or logs it, if that is all that it takes; else it goes the
/// long way.
///
/// On an error nothing was pushed, and the closure is dropped without being called.
#[inline]
pub fn push<F: Send + 'static>(
    core: &Arc<Core>,
    request: &Request,
    claims: impl Source,
    body: &'static Vtable,
    closure: F,
) -> Result<(), Error> {
    // The long ways get copies, so that on the quick ones the caller's request need not lie in
    // memory.
    let Run::Sync(call) = body.run else {
        return push_long(core, *request, claims, body, closure);
    };
    if const { !is_inline::<F>() } {
        return push_long(core, *request, claims, body, closure);
    }
    if claims.count() > fast_path::FEW {
        let request = *request;
        return push_wide(core, &request, claims, (body, call), closure);
    }
    let mut closure = ManuallyDrop::new(closure);
    // SAFETY: it is the closure's own body; if it was not pushed it is still here.
    let tried = unsafe { try_to_push::<F>(core, request, &claims, (body, call), &raw mut *closure) };
    if matches!(tried, Tried::Ran) {
        return Ok(());
    }
    let (closure, request) = (ManuallyDrop::into_inner(closure), *request);
    claims.in_order(move |claims| push_on(core, &request, claims, body, closure, tried))
}

/// As [`push`], the long way.
#[inline]
fn push_long<F: Send + 'static>(
    core: &Arc<Core>,
    request: Request,
    claims: impl Source,
    body: &'static Vtable,
    closure: F,
) -> Result<(), Error> {
    claims.in_order(move |claims| push_enlisted(core, &request, claims, body, closure))
}

/// As [`push`], the quick ways: runs the operation at once, or puts it into a log.
///
/// # Safety
/// `storage` holds a closure of `body` that fits into a block. It is gone if the operation was
/// pushed.
#[inline]
unsafe fn try_to_push<F>(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl Source,
    (body, call): (&'static Vtable, CallStored),
    storage: *mut F,
) -> Tried {
    // SAFETY: a closure that is stored inside a block is stored as it is.
    let key = || unsafe { CostKey::of(body, storage.cast()) };
    if runs_here(core, request, || core.costs.are_short(key)) {
        // SAFETY: as above; its call takes the closure out, and does not unwind.
        let run = |run: &RunContext<'_>| core.costs.measure(key, || unsafe { call(storage.cast(), run) });
        return fast_path::run(core, request, claims, run);
    }
    // SAFETY: passed on.
    if unsafe { try_to_log(core, request, claims, body, storage) } {
        Tried::Ran
    } else {
        Tried::NotNow
    }
}

/// As [`try_to_push`], if it does not run at once.
///
/// # Safety
/// As there.
#[inline]
unsafe fn try_to_log<F>(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl Source,
    body: &'static Vtable,
    storage: *mut F,
) -> bool {
    // SAFETY: it is given the storage of a closure of this size; then the closure is there and not
    // here.
    let store = |to: *mut u8| unsafe { to.cast::<F>().copy_from_nonoverlapping(storage, 1) };
    logged::push(core, request, claims, body, const { stored_size::<F>() }, store)
}

/// As [`push`], of an operation that does not run inside its push. `claims` are in order, and the
/// closure fits into a block.
#[inline]
pub fn push_shipped<F: Send + 'static>(
    core: &Arc<Core>,
    request: &Request,
    claims: &[Claim],
    body: &'static Vtable,
    closure: F,
) -> Result<(), Error> {
    const { assert!(is_inline::<F>()) };
    let mut closure = ManuallyDrop::new(closure);
    // SAFETY: as in `push`.
    if unsafe { try_to_log::<F>(core, request, &claims, body, &raw mut *closure) } {
        return Ok(());
    }
    push_enlisted(core, request, claims, body, ManuallyDrop::into_inner(closure))
}

/// As [`push`], of an operation with more variables than a push has room for.
#[inline(never)]
fn push_wide<F: Send + 'static>(
    core: &Arc<Core>,
    request: &Request,
    claims: impl Source,
    (body, call): (&'static Vtable, CallStored),
    closure: F,
) -> Result<(), Error> {
    let mut closure = ManuallyDrop::new(closure);
    let storage = (&raw mut *closure).cast::<u8>();
    // SAFETY: as in `try_to_push`.
    let key = || unsafe { CostKey::of(body, storage) };
    let mut tried = Tried::NotNow;
    if claims.count() <= fast_path::MANY && runs_here(core, request, || core.costs.are_short(key)) {
        // SAFETY: as there; called once, if the operation runs.
        let mut run = |run: &RunContext<'_>| core.costs.measure(key, || unsafe { call(storage, run) });
        tried = claims.as_named(|claims| fast_path::run_wide(core, request, claims, &mut run));
    }
    if matches!(tried, Tried::Ran) {
        return Ok(());
    }
    let closure = ManuallyDrop::into_inner(closure);
    claims.in_order(move |claims| push_on(core, request, claims, body, closure, tried))
}

/// Pushes an operation the long way, after `tried`.
#[inline]
fn push_on<F: Send + 'static>(
    core: &Arc<Core>,
    request: &Request,
    claims: &[Claim],
    body: &'static Vtable,
    closure: F,
    tried: Tried,
) -> Result<(), Error> {
    let push = if matches!(tried, Tried::Busy) { push_behind } else { push_enlisted };
    push(core, request, claims, body, closure)
}

/// Whether such an operation runs inside its push if its tickets have come.
#[inline]
pub fn runs_here(core: &Core, request: &Request, is_short: impl FnOnce() -> bool) -> bool {
    let runs = match core.inline {
        Inline::Never => false,
        Inline::Always => true,
        Inline::WhenShort => is_short(),
    };
    // Copies have their own worker, and other contexts too.
    runs && request.flags & (FLAG_WAIT | FLAG_DELETE) == 0
        && request.context == Context::cpu(0)
        && !request.property.is_copy()
}

/// Pushes an operation that would have run here, had its tickets come: the workers are behind, so
/// this thread then runs a few of the operations that they have published.
#[cold]
#[inline(never)]
pub fn push_behind<F: Send + 'static>(
    core: &Arc<Core>,
    request: &Request,
    claims: &[Claim],
    body: &'static Vtable,
    closure: F,
) -> Result<(), Error> {
    if core.inline != Inline::WhenShort {
        return push_enlisted(core, request, claims, body, closure);
    }
    let request = Request { flags: request.flags | FLAG_SHORT, ..*request };
    push_enlisted(core, &request, claims, body, closure)?;
    let local = core.local();
    if local.depth.get() == 0 && may_help() && core.dispatch.catch_up(core) {
        core.settle(local);
    }
    Ok(())
}

/// Pushes an operation by enlisting it. `claims` are sorted by variable, without repeats.
#[inline(never)]
pub fn push_enlisted<F: Send + 'static>(
    core: &Arc<Core>,
    request: &Request,
    claims: &[Claim],
    body: &'static Vtable,
    closure: F,
) -> Result<(), Error> {
    let mut closure = Some(closure);
    let mut store = |storage: *mut u8| {
        if let Some(closure) = closure.take() {
            // SAFETY: `push_stored` gives the storage of a closure of this size, and calls once.
            unsafe { closure::store(storage, closure) }
        }
    };
    let size = const { stored_size::<F>() };
    let pushed = push_stored(core, request, claims, body, size, &mut store);
    if let (Err(_), Some(refused)) = (&pushed, closure) {
        closure::drop_quietly(refused);
    }
    pushed
}

/// As [`push_enlisted`], for whatever type of closure: `store` puts it into its storage in the
/// block, of `size` bytes.
///
/// One function for closures of all types. A copy for each would be 3 kB, and cold when the first
/// closure of a type is pushed, whatever was pushed before.
#[inline(never)]
fn push_stored(
    core: &Arc<Core>,
    request: &Request,
    claims: &[Claim],
    body: &'static Vtable,
    size: usize,
    store: &mut dyn FnMut(*mut u8),
) -> Result<(), Error> {
    let local = core.local();
    if request.context != Context::cpu(0) {
        device::resolve(request.context)?;
    }
    let counted = core.settings.bound > 0 && request.flags & FLAG_WAIT == 0;
    if counted {
        make_room(core, local, request.flags & FLAG_BEYOND != 0)?;
    }
    let pushed = loop {
        match enlist::enlist(core, local, request, claims, body, size, store) {
            // Nothing was taken from us yet. Stopped for a fork, or only just started again: once
            // more. A wait looks itself how long it may go on.
            Err(error)
                if error.kind() == ErrorKind::Stopped && request.flags & FLAG_WAIT == 0 && is_over_soon(core) =>
            {
                thread::yield_now();
            }
            pushed => break pushed,
        }
    };
    match pushed {
        Ok(Pushed { stands, block, found, will_look }) => {
            // Only now, with the pin gone, may user code run. What others have left comes first: it
            // must not wait for what this operation does.
            if will_look {
                core.dispatch.take_over(core, local);
            }
            // SAFETY: if it is ready the operation is ours; what was found is ready and ours.
            unsafe {
                if stands.is_ready {
                    start(core, local, block, request);
                }
                if !found.is_null() {
                    // Waits among them are ended right here.
                    core.hand_out(local, found);
                    core.settle(local);
                }
            }
            if stands.is_void {
                let gone = claims.iter().find(|claim| resolve(core, claim.variable).is_err());
                return Err(deleted(gone.unwrap_or(&claims[0]).variable));
            }
            Ok(())
        }
        Err(error) => {
            if counted {
                core.in_flight.fetch_sub(1, AcqRel);
                core.room.notify(|| true);
            }
            Err(error)
        }
    }
}

/// Runs or hands out an operation that was ready when it was pushed.
#[inline(always)]
unsafe fn start(core: &Arc<Core>, local: &ThreadContext, block: *mut Block, request: &Request) {
    // SAFETY: ready and ours.
    unsafe {
        if (*block).flags & FLAG_PROFILED != 0 {
            (*Block::times(block)).ready = (*Block::times(block)).push;
        }
        let short = (*block).flags & FLAG_SHORT != 0;
        let inline = (short || request.property.runs_on_pusher()) && !is_deep();
        if request.flags & FLAG_WAIT != 0 || inline {
            core.execute(local, block, None);
            // Also inside another operation: that one may have been completed already.
            core.settle(local);
        } else {
            core.dispatch.submit(core, local, block, ReadyCause::Pushed);
        }
    }
}
