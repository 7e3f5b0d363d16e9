//! Pushing: from a list of claims and a closure to an enlisted operation.

use super::at_once;
use super::claims::Source;
use super::core::{Core, Lends, ABANDONED, FORKING, PROFILING, STOPPED, YIELDING};
use super::costs::Key;
use super::dispatch::Moment;
use super::enlist;
use super::found::Found;
use super::inline::{self, Borrowed, Loans};
use super::inside::{is_deep, may_help};
use super::life;
use super::logged;
use super::room::make_room;
use super::ticketed::Tickets;
use super::variable::Variable;
use crate::device::{self, Context};
use crate::error::{Error, ErrorKind};
use crate::mutants::{mutant, mutate};
use crate::operation::block::*;
use crate::operation::closure::{self, is_inline, stored_size, CallStored, Run, Vtable};
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::pool::local::Local;
use crate::sync::{thread, Ordering::*};
use crate::variable::access::{Access, Mode, Node};
use crate::variable::chain::{self, Enlisted};
use crate::variable::table::Slot;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// What an operation is, but for its closure and its variables.
#[derive(Clone, Copy)]
pub struct Request {
    pub context: Context,
    pub property: Property,
    pub priority: i32,
    pub name: Name,
    pub notes: u8,
}

/// One variable that an operation uses.
#[derive(Clone, Copy)]
pub struct Claim {
    pub variable: Variable,
    pub mode: Mode,
}

/// The slot of a variable, if the variable is alive and this engine's.
#[inline]
pub fn resolve(core: &Core, variable: Variable) -> Result<&Slot, Error> {
    if variable.may_be_of(core.memory.id) {
        if let Some(slot) = core.memory.table.get(variable.index) {
            // Acquire: pairs with the release of the birth, so that the chain is found open.
            if slot.chain.tag.generation.load(Acquire) == variable.generation {
                return Ok(slot);
            }
        }
    }
    Err(unusable(core, variable))
}

/// Ends the generation of a variable; only one deletion succeeds.
pub fn kill(core: &Core, variable: Variable) -> Result<(), Error> {
    let generation = &resolve(core, variable)?.chain.tag.generation;
    let dead = variable.generation.wrapping_add(1);
    match generation.compare_exchange(variable.generation, dead, AcqRel, Relaxed) {
        Ok(_) => Ok(()),
        Err(_) => Err(deleted(variable)),
    }
}

#[cold]
fn unusable(core: &Core, variable: Variable) -> Error {
    if variable.engine == core.memory.id {
        deleted(variable)
    } else {
        Error::new(
            ErrorKind::ForeignVariable,
            format!(
                "{variable:?} belongs to engine {}, not to engine {}: push to the engine that made it",
                variable.engine, core.memory.id
            ),
        )
    }
}

pub fn deleted(variable: Variable) -> Error {
    Error::new(ErrorKind::VariableDeleted, format!("{variable:?} was deleted: push its last use before the deletion"))
}

/// Pushes an operation: runs it at once on loans if it is of that kind, enlists it otherwise.
///
/// On an error nothing was pushed, and the closure is dropped without being called.
#[inline]
pub fn push<F: Send + 'static>(
    core: &Arc<Core>,
    request: Request,
    claims: impl Source,
    body: &'static Vtable,
    closure: F,
) -> Result<(), Error> {
    let Run::Sync(call) = body.run else {
        return claims.in_order(move |claims| push_enlisted(core, request, claims, body, closure));
    };
    if const { is_inline::<F>() } {
        if let Some(tickets) = &core.tickets {
            let mut closure = ManuallyDrop::new(closure);
            // SAFETY: it is the closure's own body; if it was not pushed it is still here.
            let tried =
                unsafe { push_ticketed::<F>(core, tickets, &request, &claims, (body, call), &raw mut *closure) };
            let push = match tried {
                Tried::Pushed => return Ok(()),
                Tried::Behind => push_behind,
                Tried::NotPushed => push_enlisted,
            };
            let closure = ManuallyDrop::into_inner(closure);
            return claims.in_order(move |claims| push(core, request, claims, body, closure));
        }
    }
    // SAFETY: a closure that is stored inside a block is stored as it is: `closure` is a storage that holds it.
    let key = || unsafe { Key::of(body, (&raw const closure).cast()) };
    if const { !is_inline::<F>() } || !lends(core, &request, || core.costs.are_short(key)) {
        return claims.in_order(move |claims| push_enlisted(core, request, claims, body, closure));
    }
    let mut loans = Loans::of(core.local());
    match inline::borrow(core, &claims, &mut loans) {
        Borrowed::All => {
            let mut closure = ManuallyDrop::new(closure);
            inline::run(core, &request, &loans, |run| {
                let storage: *mut u8 = (&raw mut closure).cast();
                // SAFETY: `body` is the closure's own, and the closure is where it was.
                let key = || unsafe { Key::of(body, storage) };
                // SAFETY: as above; its call takes the closure out, and does not unwind.
                core.costs.measure(key, || unsafe { call(storage, run) })
            });
            Ok(())
        }
        Borrowed::Busy => claims.in_order(move |claims| push_behind(core, request, claims, body, closure)),
        Borrowed::NotNow => claims.in_order(move |claims| push_enlisted(core, request, claims, body, closure)),
    }
}

/// What has come of a quick push.
enum Tried {
    Pushed,
    /// It goes the long way, after others that the thread would have run here too.
    Behind,
    /// It goes the long way.
    NotPushed,
}

/// As [`push`], in an engine with tickets and the quick way: runs the operation at once, or puts it
/// into a log.
///
/// # Safety
/// `storage` holds a closure of `body` that fits into a block. It is gone if the operation was pushed.
#[inline]
unsafe fn push_ticketed<F>(
    core: &Arc<Core>,
    tickets: &Tickets,
    request: &Request,
    claims: &impl Source,
    (body, call): (&'static Vtable, CallStored),
    storage: *mut F,
) -> Tried {
    // SAFETY: a closure that is stored inside a block is stored as it is.
    let key = || unsafe { Key::of(body, storage.cast()) };
    if lends(core, request, || core.costs.are_short(key)) {
        // SAFETY: as above; its call takes the closure out, and does not unwind.
        let run = |run: &RunContext<'_>| core.costs.measure(key, || unsafe { call(storage.cast(), run) });
        return match at_once::run(core, request, claims, run) {
            Borrowed::All => Tried::Pushed,
            Borrowed::Busy => Tried::Behind,
            Borrowed::NotNow => Tried::NotPushed,
        };
    }
    // SAFETY: it is given the storage of a closure of this size; then the closure is there and not here.
    let store = |to: *mut u8| unsafe { to.cast::<F>().copy_from_nonoverlapping(storage, 1) };
    match logged::push(core, tickets, request, claims, body, const { stored_size::<F>() }, store) {
        true => Tried::Pushed,
        false => Tried::NotPushed,
    }
}

/// Whether such an operation runs inside its push if its variables are idle.
#[inline]
pub fn lends(core: &Core, request: &Request, is_short: impl FnOnce() -> bool) -> bool {
    let lends = match core.lends {
        Lends::Never => false,
        Lends::Always => true,
        Lends::WhenShort => is_short(),
    };
    // Copies have their own worker, and other contexts too.
    lends
        && request.notes & (NOTE_WAIT | NOTE_DELETE) == 0
        && request.context == Context::cpu(0)
        && !request.property.is_copy()
}

/// Pushes an operation that would have run here, had its variables been idle: the workers are behind, so this thread then runs a few
/// of the operations that they have laid out.
#[cold]
#[inline(never)]
pub fn push_behind<F: Send + 'static>(
    core: &Arc<Core>,
    mut request: Request,
    claims: &[Claim],
    body: &'static Vtable,
    closure: F,
) -> Result<(), Error> {
    if core.lends != Lends::WhenShort {
        return push_enlisted(core, request, claims, body, closure);
    }
    request.notes |= NOTE_SHORT;
    push_enlisted(core, request, claims, body, closure)?;
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
    request: Request,
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
    let pushed = match &core.tickets {
        None => push_stored::<false>(core, &request, claims, body, size, &mut store),
        Some(_) => push_stored::<true>(core, &request, claims, body, size, &mut store),
    };
    if let (Err(_), Some(refused)) = (&pushed, closure) {
        closure::drop_quietly(refused);
    }
    pushed
}

/// As [`push_enlisted`], for whatever type of closure: `store` puts it into its storage in the block, of `size` bytes.
///
/// One function for closures of all types. A copy for each would be 3 kB, and cold when the first closure of a type is pushed,
/// whatever was pushed before.
#[inline(never)]
fn push_stored<const TICKETED: bool>(
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
    let counted = core.settings.bound > 0 && request.notes & NOTE_WAIT == 0;
    if counted {
        make_room(core, local, request.notes & NOTE_BEYOND != 0)?;
    }
    let pushed = loop {
        let pushed = if TICKETED {
            enlist::enlist(core, local, request, claims, body, size, store)
        } else {
            enlist_in_chains(core, local, request, claims, body, size, store)
        };
        match pushed {
            // Nothing was taken from us yet. Stopped for a fork, or only just started again: once more. A wait looks itself how long it
            // may go on.
            Err(error)
                if error.kind() == ErrorKind::Stopped && request.notes & NOTE_WAIT == 0 && is_over_soon(core) =>
            {
                thread::yield_now();
            }
            pushed => break pushed,
        }
    };
    match pushed {
        Ok(Pushed { enlisted, block, found, near, will_look }) => {
            // Only now, with the pin gone, may user code run. What others have left comes first: it must not
            // wait for what this operation does.
            if will_look {
                core.dispatch.take_over(core, local);
            }
            // SAFETY: on `Ready` and `Cancelled` the operation is ours; what was found is ready and ours.
            unsafe {
                if matches!(enlisted, Enlisted::Ready | Enlisted::Cancelled) {
                    start(core, local, block, request, near);
                }
                if !found.is_null() {
                    // Waits among them are ended right here.
                    core.hand_out(local, found, None);
                    core.settle(local);
                }
            }
            if matches!(enlisted, Enlisted::Cancelled | Enlisted::CancelledWaiting) {
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
unsafe fn start(core: &Arc<Core>, local: &Local, block: *mut Block, request: &Request, near: Option<usize>) {
    // SAFETY: ready and ours.
    unsafe {
        if (*block).notes & NOTE_PROFILED != 0 {
            (*Block::times(block)).ready = (*Block::times(block)).push;
        }
        let short = (*block).notes & NOTE_SHORT != 0;
        let inline = (short || request.property.runs_on_pusher()) && !is_deep();
        if request.notes & NOTE_WAIT != 0 || inline {
            // A wait uses nothing: the data stays where it is.
            core.execute(local, block, near.filter(|_| request.notes & NOTE_WAIT != 0));
            // Also inside another operation: that one may have been completed already.
            core.settle(local);
        } else {
            core.dispatch.submit(core, local, block, Moment::Pushed(near));
        }
    }
}

/// An operation that was enlisted.
pub struct Pushed {
    pub enlisted: Enlisted,
    pub block: *mut Block,
    /// What became ready on the way, in a list.
    pub found: *mut Block,
    /// The worker that has used its variables last.
    pub near: Option<usize>,
    /// Whether others may have left operations to this call.
    pub will_look: bool,
}

/// Fills a block and enlists it, under a pin: no user code runs here.
#[inline]
fn enlist_in_chains(
    core: &Arc<Core>,
    local: &Local,
    request: &Request,
    claims: &[Claim],
    body: &'static Vtable,
    size: usize,
    store: &mut dyn FnMut(*mut u8),
) -> Result<Pushed, Error> {
    // Before the pin, so that a stopped engine finds nobody pinned; see `life`.
    refuse_if_stopped(core, local, request)?;
    let guard = local.pin();
    // And after it: whoever stops the engine sets the flag, then waits until all earlier pins are gone.
    let state = mutate!("stop-not-looked-for-under-the-pin": core.state.load(Relaxed), refuse_if_stopped(core, local, request)?);
    for claim in claims {
        resolve(core, claim.variable)?;
    }
    if claims.len() > MOST_ACCESSES {
        return Err(Error::new(
            ErrorKind::EngineFull,
            format!("an operation cannot use {} variables: {MOST_ACCESSES} at most", claims.len()),
        ));
    }
    admit(core, request)?;
    if request.notes & NOTE_DELETE != 0 {
        // The handle dies before the deletion is enlisted: pushes that come later are refused by it, those that are under way by
        // what they find on the chain.
        mutate!("handle-survives-its-deletion": (), claims.iter().try_for_each(|claim| kill(core, claim.variable))?);
    }
    // From here on nothing is refused, and nothing waits.
    let will_look = request.notes & (NOTE_WAIT | NOTE_BEYOND) == 0 && core.dispatch.will_take_over(local);
    if will_look {
        local.say_will_look(true);
    }
    // SAFETY: nothing was read from a tail yet. The block is ours until it is enlisted; the class has room for the accesses; the
    // claims were resolved above, sorted and without repeats.
    unsafe {
        let profiled = state & PROFILING != 0 && !request.name.as_str().is_empty();
        let block = local.allocate(class_for(claims.len(), size, profiled, Layout::Chained));
        let node: *mut Node = block.cast();
        node.write(Node::new(claims.len() as u32));
        Block::set_kind(block, request.property, request.context); // `device::resolve` has checked the range
        Block::set_name(block, request.name);
        (*block).notes = request.notes;
        (*block).priority = request.priority;
        (*block).body = body;
        (*block).sequence = local.next_sequence();
        if profiled {
            (*block).notes |= NOTE_PROFILED;
            Block::times(block).write(core.profiler.pushing());
        }
        Block::touch(block, true);
        store(Block::closure(block, Layout::Chained));
        for (index, claim) in claims.iter().enumerate() {
            let access = Access::new(claim.variable.index, index as u32, claim.mode);
            Node::access(node, index as u32).write(access);
        }
        Block::enter(block, PENDING);
        mutate!("counted-after-enlisting": (), local.count_pushed());
        let mut found = Found::new(local);
        let enlisted = chain::enlist(node, &mut found);
        if mutant("counted-after-enlisting") {
            local.count_pushed();
        }
        if will_look {
            // Before the pin ends: who forks waits for that, and no child takes a thread at its word that is gone.
            local.say_will_look(false);
        }
        drop(guard);
        Ok(Pushed { enlisted, block, found: found.first, near: found.near, will_look })
    }
}

/// Makes sure that an operation finds someone to run it, and what it is made of too.
pub fn admit(core: &Arc<Core>, request: &Request) -> Result<(), Error> {
    if request.notes & NOTE_WAIT != 0 {
        return Ok(());
    }
    core.dispatch.admit(core, request.property, request.context)?;
    if request.notes & (NOTE_COPIES | NOTE_PRIORITISED) != 0 {
        admit_parts(core, request)?;
    }
    Ok(())
}

/// Makes sure that the parts of a graph find someone to run them. Under the pin of the push, like the rest: a stop waits for it before
/// it ends the threads.
#[cold]
fn admit_parts(core: &Arc<Core>, request: &Request) -> Result<(), Error> {
    let parts = [(NOTE_COPIES, Property::CopyFromGpu), (NOTE_PRIORITISED, Property::CpuPrioritized)];
    let mut needed = parts.iter().filter(|(note, _)| request.notes & note != 0);
    needed.try_for_each(|(_, property)| core.dispatch.admit(core, *property, request.context))
}

/// The engine's flags, if it takes pushes.
#[inline]
pub fn refuse_if_stopped(core: &Core, local: &Local, request: &Request) -> Result<u32, Error> {
    let state = core.state.load(Relaxed);
    if state & STOPPED != 0 {
        check_stopped(local, request, state)?;
    }
    Ok(state)
}

#[cold]
fn check_stopped(local: &Local, request: &Request, state: u32) -> Result<(), Error> {
    // Operations that are still running while the engine drains may push what they need, and waits are part of draining. But one
    // that a thread is in the middle of when the process forks would be in flight for ever in the child. Inside an operation, of
    // whatever engine, none is: the fork waits for that.
    let inside = !may_help();
    let may_wait = state & FORKING == 0 || inside;
    if local.depth.get() > 0 || request.notes & NOTE_WAIT != 0 && may_wait || state & YIELDING != 0 && inside {
        return Ok(());
    }
    Err(if state & ABANDONED != 0 { life::cut_off() } else { stopped() })
}

#[cold]
pub fn stopped() -> Error {
    Error::new(ErrorKind::Stopped, "the engine is stopped: call start() before pushing")
}

/// Whether the engine that has just refused a push is stopped only while another thread forks, or not any more.
#[cold]
fn is_over_soon(core: &Core) -> bool {
    let state = core.state.load(Acquire);
    state & FORKING != 0 || state & STOPPED == 0
}
