//! Pushing: turns a list of claims and a closure into an operation that has its tickets.
//!
//! [`push`] is called by `api/`, `wait/for_var.rs`, `future/variable.rs`, `gpu/lease.rs` and
//! `replay/private.rs`. The other public functions are for `api/graph.rs`, `api/operator.rs` and
//! `scope/`.
//! All of it runs on the pusher. Parts of this folder are used by `ticket_host.rs`, `lifecycle.rs`,
//! `inline/fast_path.rs`, `wait/` and `future/`. There are three ways:
//!
//! 1. [`fast_path`] runs the operation inside the push, without a block;
//! 2. [`logged`] puts it into a worker's log, without looking at other operations;
//! 3. [`enlist`] takes every operation ("the enlisted way").
//!
//! A short operation that may run here ([`runs_here`]) tries the first way, any other the second.
//! An operation that the tried way refuses is enlisted. An asynchronous closure, a replay, and a
//! closure too large for a block try the second ([`push_erased`]). But an asynchronous closure that
//! may be short is enlisted at once: if its tickets have come, it may be called in the push all the
//! same (`inline/asynchronous.rs`). A synchronous closure with more than [`fast_path::FEW`]
//! variables is not logged; the others are, and operators, with as many as fit a usual block
//! (`class_of` in [`logged`]). The other rules for logs are in [`logged`]; what is short is decided
//! in `inline/policy.rs`. `api/operator.rs` makes this choice for its operations by itself: look
//! there at each change.
//!
//! [`enlist`] gives an operation its tickets. The steps before and after that are here: the look
//! for its device, room under a bound, a new try after a fork, the start of operations that are
//! ready at once. No state here.

pub mod acquire;
pub mod admission;
pub mod enlist;
pub mod journal;
pub mod logged;

use crate::device::{self, Context, Device};
use crate::engine::backpressure::Permit;
use crate::engine::claims::ClaimSource;
use crate::engine::core::{Core, ReadyCause};
use crate::engine::gpu::admit;
use crate::engine::holds::check_commuting;
use crate::engine::inline::fast_path::{self, Tried};
use crate::engine::nesting::{is_deep, may_help};
use crate::engine::push::admission::is_over_soon;
use crate::engine::push::enlist::Pushed;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::{deleted, resolve};
use crate::error::{Error, ErrorKind, Fault};
use crate::operation::block::*;
use crate::operation::closure::{is_inline, CallStored, Run, Vtable};
use crate::operation::context::RunContext;
use crate::operation::erased_closure::{erase, ErasedClosure};
use crate::operation::property::Property;
use crate::sync::thread;
use crate::thread::context::ThreadContext;
use std::mem::{forget, ManuallyDrop};
use std::sync::Arc;

/// Pushes an operation: runs it at once or logs it if that is possible, else enlists it.
///
/// The two quick ways are compiled for each type of closure, which makes them quick. The rest
/// ([`push_on`]) is one function for all types: a copy for each would take long to compile, and not
/// be in the cache when the first closure of its type is pushed.
///
/// On an error nothing was pushed, and the closure is dropped without being called.
#[inline]
pub fn push<F: Send + 'static>(
    core: &Arc<Core>,
    request: &Request,
    claims: impl ClaimSource,
    body: &'static Vtable,
    closure: F,
) -> Result<(), Error> {
    let (Run::Sync(call), true) = (body.run, const { is_inline::<F>() }) else {
        return erase(body, closure, |closure| push_erased(core, request, claims, closure));
    };
    let mut closure = ManuallyDrop::new(closure);
    let mut tried = None;
    if claims.count() <= fast_path::FEW {
        // SAFETY: `body` belongs to the closure. The closure is used below only if it was not
        // pushed, and then it is still here.
        tried = Some(unsafe { try_to_push::<F>(core, request, &claims, (body, call), &raw mut *closure) });
    }
    if let Some(Tried::Ran) = tried {
        return Ok(());
    }
    // A copy of the request, so that the quick ways need not keep the caller's in memory.
    let (closure, request) = (ManuallyDrop::into_inner(closure), *request);
    erase(body, closure, |closure| push_on(core, &request, claims, (call, closure), tried))
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
    claims: &impl ClaimSource,
    (body, call): (&'static Vtable, CallStored),
    storage: *mut F,
) -> Tried {
    // SAFETY: a closure that is stored inside a block is stored as it is.
    let key = || unsafe { core.cost_key(request.property, body, storage.cast()) };
    if runs_here(core, request, || core.inline_policy.runs_inside(key)) {
        // SAFETY: `storage` holds the closure, by the contract. `call` takes it out, and does not
        // unwind.
        let run = |run: &RunContext<'_>| core.inline_policy.measure(key, || unsafe { call(storage.cast(), run) });
        return fast_path::run(core, request, claims, run);
    }
    // SAFETY: `logged::push` gives the storage of a closure of this size. After the call the
    // closure is there, and not in `storage`.
    let store = |to: *mut u8| unsafe { to.cast::<F>().copy_from_nonoverlapping(storage, 1) };
    logged::push(core, request, claims, body, size_of::<F>(), store)
}

/// Pushes an operation that does not run inside its push: logs it if that is possible, else enlists
/// it. Also called by `api/graph.rs`, `api/operator.rs` and `scope/`.
#[inline(never)]
pub fn push_erased(
    core: &Arc<Core>,
    request: &Request,
    mut claims: impl ClaimSource,
    closure: &mut ErasedClosure<'_>,
) -> Result<(), Error> {
    let (body, size) = (closure.body, closure.size());
    // An asynchronous closure that may be short: its pusher has to look whether it is ready.
    let may_start_here = request.flags == 0 && core.may_start_inside(request.property, body);
    let mut tried = Tried::NotNow;
    let is_logged = core.workers.is_some()
        && !may_start_here
        && closure.offer(|from| {
            // SAFETY: `from` holds a closure of this size, and is used no more if the operation was
            // logged. `logged::push` gives the storage of such a closure.
            let store = |to: *mut u8| unsafe { to.copy_from_nonoverlapping(from, size) };
            tried = logged::push(core, request, &claims, body, size, store);
            matches!(tried, Tried::Ran)
        });
    if is_logged {
        return Ok(());
    }
    let permit = permit_of(core, &tried);
    claims.check()?;
    claims.in_order(|claims| push_enlisted(core, request, claims, closure, permit))
}

/// The permit under the bound that a try has left to its caller. Also called by
/// `api/operator.rs`.
pub fn permit_of<'a>(core: &'a Core, tried: &Tried) -> Option<Permit<'a>> {
    matches!(tried, Tried::Counted).then(|| Permit::of_counted(core))
}

/// Pushes an operation that was not pushed one of the quick ways; `tried` says why not, if they
/// were tried.
#[inline(never)]
fn push_on(
    core: &Arc<Core>,
    request: &Request,
    mut claims: impl ClaimSource,
    (call, closure): (CallStored, &mut ErasedClosure<'_>),
    tried: Option<Tried>,
) -> Result<(), Error> {
    let tried = tried.unwrap_or_else(|| try_wide(core, request, &claims, (call, closure)));
    if let Tried::Ran = tried {
        return Ok(());
    }
    let permit = permit_of(core, &tried);
    claims.check()?;
    match tried {
        Tried::Ran => Ok(()),
        Tried::Busy => claims.in_order(|claims| push_behind(core, request, claims, closure)),
        Tried::NotNow | Tried::Counted => {
            claims.in_order(|claims| push_enlisted(core, request, claims, closure, permit))
        }
    }
}

/// Runs an operation with more than [`fast_path::FEW`] variables at once, if it may and its tickets
/// have come, and if they are not more than [`fast_path::MANY`]. `api/operator.rs`
/// (`RunsInside::of`) has the same two tests. Such an operation never goes into a log.
#[inline(never)]
fn try_wide(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl ClaimSource,
    (call, closure): (CallStored, &mut ErasedClosure<'_>),
) -> Tried {
    // SAFETY: the closure lies there.
    let key = unsafe { core.cost_key(request.property, closure.body, closure.storage()) };
    if claims.count() > fast_path::MANY || !runs_here(core, request, || core.inline_policy.runs_inside(|| key)) {
        return Tried::NotNow;
    }
    // SAFETY: `call` is that of the closure's body. It is called once, if the operation runs.
    let mut run = |run: &RunContext<'_>| core.inline_policy.measure(|| key, || unsafe { closure.call(call, run) });
    claims.as_named(|claims| fast_path::run_wide(core, request, claims, &mut run))
}

/// Whether an operation of this request may run inside its push, if its tickets have come. Also
/// called by `api/operator.rs`.
#[inline]
pub fn runs_here(core: &Core, request: &Request, is_short: impl FnOnce() -> bool) -> bool {
    // Other contexts have their own workers.
    core.inside.has(request.property)
        && request.flags & (FLAG_WAIT | FLAG_DELETE | FLAG_PROFILED | FLAG_PHASED) == 0
        && request.context == Context::cpu(0)
        && (core.always_inside(request.property) || is_short())
}

/// Runs an operation in the call if its tickets have come, however long it takes; says whether it
/// has. `call` does not unwind. Called by `api/run_now.rs` and `api/graph.rs`.
#[inline]
pub fn run_now(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl ClaimSource,
    call: impl FnOnce(&RunContext<'_>) -> Result<(), Fault>,
) -> bool {
    let count = claims.count();
    let is_short = Request { property: Property::Short, ..*request };
    let is_plain = matches!(request.property, Property::Normal | Property::Short);
    if !is_plain || count > fast_path::MANY || !runs_here(core, &is_short, || true) {
        return false;
    }
    let tried = if count <= fast_path::FEW {
        fast_path::run(core, request, claims, call)
    } else {
        let mut call = Some(call);
        let mut once = |run: &RunContext<'_>| call.take().map_or(Ok(()), |call| call(run));
        claims.as_named(|claims| fast_path::run_wide(core, request, claims, &mut once))
    };
    matches!(tried, Tried::Ran)
}

/// Enlists an operation that would have run inside its push if its tickets had come. Since they
/// have not, the workers are behind: this thread then runs a few of the short operations that the
/// workers have lent. Also called by `api/operator.rs`.
#[cold]
#[inline(never)]
pub fn push_behind(
    core: &Arc<Core>,
    request: &Request,
    claims: &[Claim],
    closure: &mut ErasedClosure<'_>,
) -> Result<(), Error> {
    if core.always_inside(request.property) {
        return push_enlisted(core, request, claims, closure, None);
    }
    let request = Request { flags: request.flags | FLAG_SHORT, ..*request };
    push_enlisted(core, &request, claims, closure, None)?;
    let local = core.local();
    if local.depth.get() == 0 && may_help() && core.dispatch.catch_up(core) {
        core.flush(local);
    }
    Ok(())
}

/// Pushes an operation the enlisted way. `claims` are sorted by variable, without repeats. `permit`
/// is its permit under the bound, if it has one by now. Also called by `api/operator.rs`.
#[inline(never)]
pub fn push_enlisted<'a>(
    core: &'a Arc<Core>,
    request: &Request,
    claims: &[Claim],
    closure: &mut ErasedClosure<'_>,
    mut permit: Option<Permit<'a>>,
) -> Result<(), Error> {
    let local = core.local();
    let on_device;
    let mut request = request;
    if request.context != Context::cpu(0) {
        device::resolve(request.context)?;
        if request.context.device() == Device::Gpu {
            admit::find(core, request.context)?;
            if request.flags & FLAG_PHASED != 0 {
                check_commuting(core, request, claims)?;
            }
            let queued = if request.property.runs_on_pusher() { 0 } else { FLAG_GPU };
            on_device = Request { flags: request.flags | queued, ..*request };
            request = &on_device;
        }
    }
    let counted = core.settings.bound > 0 && request.flags & FLAG_WAIT == 0;
    let pushed = loop {
        if counted && permit.is_none() {
            permit = Some(Permit::make(core, local, request.flags & FLAG_BEYOND != 0)?);
        }
        match enlist::enlist(core, local, request, claims, closure) {
            // The closure is still here. The engine is stopped only for a fork, or runs again by
            // now: try once more. A wait decides by itself how long it goes on trying.
            Err(error)
                if error.kind() == ErrorKind::Stopped && request.flags & FLAG_WAIT == 0 && is_over_soon(core) =>
            {
                // An operation that the fork waits for may wait for room.
                drop(permit.take());
                thread::yield_now();
            }
            pushed => break pushed,
        }
    };
    let Pushed { stands, block, found, will_look } = pushed?;
    forget(permit);
    // User code may run only from here on, because the pin is gone. Operations that other threads
    // have left come first: they must not wait for what this one does.
    if will_look {
        core.dispatch.take_over(core, local);
    }
    // SAFETY: a ready operation is this thread's to run. All that was found is ready, and this
    // thread's.
    unsafe {
        // What was found first: it must not wait for an operation that runs here.
        if !found.is_null() {
            // Waits among the found operations end right here.
            core.hand_out(local, found);
            core.flush(local);
        }
        if stands.is_ready {
            start(core, local, block, request);
        }
    }
    if stands.is_void {
        let gone = claims.iter().find(|claim| resolve(core, claim.variable).is_err());
        return Err(deleted(gone.unwrap_or(&claims[0]).variable));
    }
    Ok(())
}

/// Makes an operation without variables for a scope: it is ready, and the caller's to give away.
/// An operation of the engine is in flight meanwhile, so the engine runs: that which the caller is
/// inside of, or a child that it has not given away. Called by `scope/`.
pub fn make_free(core: &Arc<Core>, request: &Request, closure: &mut ErasedClosure<'_>) -> *mut Block {
    logged::fill_free(core, request, closure)
        .unwrap_or_else(|| enlist::enlist_free(core, core.local(), request, closure))
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
        if request.flags & (FLAG_WAIT | FLAG_GPU | FLAG_SCOPED) != 0 || inline {
            if request.flags & FLAG_GPU != 0 {
                return core.submit_to_device(local, block, ReadyCause::Pushed);
            }
            if request.flags & FLAG_SCOPED != 0 {
                return core.offer(block);
            }
            core.execute(local, block, None);
            // Also inside another operation, which may have been completed already.
            core.flush(local);
        } else {
            core.dispatch.submit(core, local, block, ReadyCause::Pushed);
        }
    }
}
