//! Pushing: turns a list of claims and a closure into an operation that has its tickets.
//!
//! [`push`] is called by `api/`, `wait/for_var.rs`, `gpu/lease.rs` and `replay/private.rs`. The
//! other public functions are for `api/graph.rs` and `api/operator.rs`. All of it runs on the
//! pusher. Parts of this folder are used by `ticket_host.rs`, `lifecycle.rs`, `inline/fast_path.rs`
//! and `wait/`. There are three ways:
//!
//! 1. [`fast_path`] runs the operation inside the push, without a block;
//! 2. [`logged`] puts it into a worker's log, without looking at other operations;
//! 3. [`enlist`] takes every operation ("the enlisted way").
//!
//! A short operation that may run here ([`runs_here`]) tries the first way, any other the second.
//! What the tried way refuses is enlisted. An asynchronous closure, or one too large for a block,
//! is enlisted at once. An operation with more than [`fast_path::FEW`] variables is not logged. The
//! other rules for logs are in [`logged`]; what is short is decided in `inline/policy.rs`.
//! `api/operator.rs` makes this choice for its operations by itself: look there at each change.
//!
//! [`enlist`] gives an operation its tickets. What comes before and after that is here: the look
//! for its device, room under a bound, a new try after a fork, the start of what is ready at once.
//! No state here.

pub mod acquire;
pub mod admission;
pub mod enlist;
pub mod journal;
pub mod logged;

use crate::device::{self, Context, Device};
use crate::engine::backpressure::make_room;
use crate::engine::claims::{Declared, Source};
use crate::engine::core::{Core, ReadyCause};
use crate::engine::gpu::admit;
use crate::engine::inline::fast_path::{self, Tried};
use crate::engine::nesting::{is_deep, may_help};
use crate::engine::push::admission::is_over_soon;
use crate::engine::push::enlist::Pushed;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::{deleted, resolve};
use crate::error::{Error, ErrorKind};
use crate::operation::block::*;
use crate::operation::closure::{self, is_inline, stored_size, CallStored, Run, Vtable};
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{thread, Ordering::*};
use crate::thread::context::ThreadContext;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Pushes an operation: runs it at once or logs it if that is possible, else enlists it.
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
    // The slower ways get copies of the request, so that the quick ones need not keep the caller's
    // request in memory.
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
    // SAFETY: `body` belongs to the closure. The closure is used below only if it was not pushed,
    // and then it is still here.
    let tried = unsafe { try_to_push::<F>(core, request, &claims, (body, call), &raw mut *closure) };
    if matches!(tried, Tried::Ran) {
        return Ok(());
    }
    let (closure, request) = (ManuallyDrop::into_inner(closure), *request);
    claims.in_order(move |claims| push_on(core, &request, claims, body, closure, tried))
}

/// Like [`push`], but always enlists the operation.
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

/// Tries the quick ways of [`push`]: runs the operation at once, or puts it into a log. Both count
/// as [`Tried::Ran`].
///
/// # Safety
/// `storage` holds a closure of `body` that fits into a block. The closure is moved out if the
/// operation was pushed.
#[inline]
unsafe fn try_to_push<F>(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl Source,
    (body, call): (&'static Vtable, CallStored),
    storage: *mut F,
) -> Tried {
    // SAFETY: a closure that is stored inside a block is stored as it is.
    let key = || unsafe { core.cost_key(request.property, body, storage.cast()) };
    if runs_here(core, request, || core.costs.runs_inside(key)) {
        // SAFETY: `storage` holds the closure, by the contract. `call` takes it out, and does not
        // unwind.
        let run = |run: &RunContext<'_>| core.costs.measure(key, || unsafe { call(storage.cast(), run) });
        return fast_path::run(core, request, claims, run);
    }
    // SAFETY: the contract is passed on.
    if unsafe { try_to_log(core, request, claims, body, storage) } {
        Tried::Ran
    } else {
        Tried::NotNow
    }
}

/// Puts an operation into a log if that is possible; says whether it did.
///
/// # Safety
/// Like for [`try_to_push`].
#[inline]
unsafe fn try_to_log<F>(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl Source,
    body: &'static Vtable,
    storage: *mut F,
) -> bool {
    // SAFETY: `logged::push` gives the storage of a closure of this size. After the call the
    // closure is there, and not in `storage`.
    let store = |to: *mut u8| unsafe { to.cast::<F>().copy_from_nonoverlapping(storage, 1) };
    logged::push(core, request, claims, body, const { stored_size::<F>() }, store)
}

/// Puts an operation into a log if that is possible; else returns its closure. Called by
/// `api/operator.rs`.
///
/// # Safety
/// `class` is what [`logged::class_of`] says of an operation of this kind, with so many claims and
/// a closure of this size. `body` belongs to the closure.
#[inline]
pub unsafe fn push_logged<F: Send + 'static>(
    core: &Arc<Core>,
    class: u8,
    kind: (Property, Name),
    claims: &Declared<'_>,
    body: &'static Vtable,
    closure: F,
) -> Option<F> {
    const { assert!(is_inline::<F>()) };
    let mut closure = ManuallyDrop::new(closure);
    // SAFETY: as in `try_to_log`.
    let store = |to: *mut u8| unsafe { to.cast::<F>().copy_from_nonoverlapping(&raw const *closure, 1) };
    // SAFETY: the contract is passed on.
    if unsafe { logged::push_known(core, class, kind, claims, body, store) } {
        return None;
    }
    // SAFETY: the operation was not pushed, so the closure is still here, and is used once.
    Some(unsafe { ManuallyDrop::take(&mut closure) })
}

/// Like [`push`], but for an operation with more than [`fast_path::FEW`] variables. With up to
/// [`fast_path::MANY`] it may still run at once. It never goes into a log. `api/operator.rs`
/// (`RunsInside::of`) has the same two tests.
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
    // SAFETY: a closure that is stored inside a block is stored as it is.
    let key = || unsafe { core.cost_key(request.property, body, storage) };
    let mut tried = Tried::NotNow;
    if claims.count() <= fast_path::MANY && runs_here(core, request, || core.costs.runs_inside(key)) {
        // SAFETY: `call` takes the closure out, and does not unwind. It is called once, if the
        // operation runs.
        let mut run = |run: &RunContext<'_>| core.costs.measure(key, || unsafe { call(storage, run) });
        tried = claims.as_named(|claims| fast_path::run_wide(core, request, claims, &mut run));
    }
    if matches!(tried, Tried::Ran) {
        return Ok(());
    }
    let closure = ManuallyDrop::into_inner(closure);
    claims.in_order(move |claims| push_on(core, request, claims, body, closure, tried))
}

/// Enlists an operation that the quick ways did not push; `tried` says why they did not.
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

/// Whether an operation of this request may run inside its push, if its tickets have come. Also
/// called by `api/operator.rs`.
#[inline]
pub fn runs_here(core: &Core, request: &Request, is_short: impl FnOnce() -> bool) -> bool {
    // Other contexts have their own workers.
    core.inside.has(request.property)
        && request.flags & (FLAG_WAIT | FLAG_DELETE | FLAG_PROFILED) == 0
        && request.context == Context::cpu(0)
        && (core.always_inside(request.property) || is_short())
}

/// Enlists an operation that would have run inside its push if its tickets had come. Since they
/// have not, the workers are behind: this thread then runs a few of the short operations that the
/// workers have lent. Also called by `api/operator.rs`.
#[cold]
#[inline(never)]
pub fn push_behind<F: Send + 'static>(
    core: &Arc<Core>,
    request: &Request,
    claims: &[Claim],
    body: &'static Vtable,
    closure: F,
) -> Result<(), Error> {
    if core.always_inside(request.property) {
        return push_enlisted(core, request, claims, body, closure);
    }
    let request = Request { flags: request.flags | FLAG_SHORT, ..*request };
    push_enlisted(core, &request, claims, body, closure)?;
    let local = core.local();
    if local.depth.get() == 0 && may_help() && core.dispatch.catch_up(core) {
        core.flush(local);
    }
    Ok(())
}

/// Pushes an operation the enlisted way. `claims` are sorted by variable, without repeats. Also
/// called by `api/graph.rs` and `api/operator.rs`.
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
            // SAFETY: `push_stored` gives the storage of a closure of this size, and calls `store`
            // at most once.
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

/// Like [`push_enlisted`], but for closures of any type: `store` puts the closure into its storage
/// in the block, of `size` bytes.
///
/// It is one function for closures of all types. A copy for each type would be 3 kB, and would not
/// be in the cache when the first closure of its type is pushed.
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
    let on_device;
    let mut request = request;
    if request.context != Context::cpu(0) {
        device::resolve(request.context)?;
        if request.context.device() == Device::Gpu {
            admit::find(core, request.context)?;
            let queued = if request.property.runs_on_pusher() { 0 } else { FLAG_GPU };
            on_device = Request { flags: request.flags | queued, ..*request };
            request = &on_device;
        }
    }
    let counted = core.settings.bound > 0 && request.flags & FLAG_WAIT == 0;
    if counted {
        make_room(core, local, request.flags & FLAG_BEYOND != 0)?;
    }
    let pushed = loop {
        match enlist::enlist(core, local, request, claims, body, size, store) {
            // The closure is still here. The engine is stopped only for a fork, or runs again by
            // now: try once more. A wait decides by itself how long it goes on trying.
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
            // User code may run only from here on, because the pin is gone. What other threads have
            // left comes first: it must not wait for what this operation does.
            if will_look {
                core.dispatch.take_over(core, local);
            }
            // SAFETY: a ready operation is this thread's to run. All that was found is ready, and
            // this thread's.
            unsafe {
                if stands.is_ready {
                    start(core, local, block, request);
                }
                if !found.is_null() {
                    // Waits among the found operations end right here.
                    core.hand_out(local, found);
                    core.flush(local);
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
                core.below_bound.notify(|| true);
            }
            Err(error)
        }
    }
}

/// Runs or hands out an operation whose tickets had all come when it was pushed.
///
/// # Safety
/// The operation is ready, and the caller's.
#[inline(always)]
unsafe fn start(core: &Arc<Core>, local: &ThreadContext, block: *mut Block, request: &Request) {
    // SAFETY: the operation is ready and ours, by the contract.
    unsafe {
        if (*block).flags & FLAG_PROFILED != 0 {
            (*Block::times(block)).ready = (*Block::times(block)).push;
        }
        let short = (*block).flags & FLAG_SHORT != 0;
        let inline = (short || request.property.runs_on_pusher()) && !is_deep();
        if request.flags & (FLAG_WAIT | FLAG_GPU) != 0 || inline {
            if request.flags & FLAG_GPU != 0 {
                return core.submit_to_device(local, block, ReadyCause::Pushed);
            }
            core.execute(local, block, None);
            // Also inside another operation, which may have been completed already.
            core.flush(local);
        } else {
            core.dispatch.submit(core, local, block, ReadyCause::Pushed);
        }
    }
}
