//! Waiting for one variable: until every write that was pushed before is complete.
//!
//! Used by `api/control.rs`, `api/prepare.rs`, `api/typed/value.rs`, `wait/reply.rs`,
//! `wait/for_outcome.rs`, `wait/hold.rs` and `engine/future/variable.rs`, on the thread that waits.
//! A wait tries four ways, each slower than the one before:
//!
//! 1. a look at the variable;
//! 2. without a deadline: to watch the variable for a moment, and help ([`watch`]);
//! 3. if another thread owns the variable: to park behind the last write, without a ticket
//!    ([`beside_owner`]);
//! 4. to push a read of the variable that sets an event.
//!
//! No state here: the closures of 3 and 4 only set the event (`wait/event.rs`), on the thread that
//! finds the wait ready (`Core::hand_out` in `complete.rs`, `push/mod.rs`).

use crate::engine::core::Core;
use crate::engine::diagnose;
use crate::engine::nesting::{may_help, refuse_wait_inside};
use crate::engine::push::admission::{cut_off, may_wait_again};
use crate::engine::push::enlist::park_wait;
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::resolve;
use crate::engine::wait::event::OneShot;
use crate::engine::wait::held_list;
use crate::engine::wait::pull::pull;
use crate::engine::wait::wait_list::{deadline, remaining};
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::closure::sync_vtable;
use crate::operation::context::RunContext;
use crate::operation::erased_closure::erase;
use crate::operation::property::Property;
use crate::sync::{looks, spin_loop, thread, Ordering::*, MODELLED};
use crate::thread::context::ThreadContext;
use crate::tickets::run::Variables;
use crate::tickets::word::Word;
use crate::util::spin::Spin;
use crate::variable::handle::Variable;
use crate::variable::slot::Slot;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a waiter looks at its event before it parks, and how long of that it does not yield its
/// core.
const WAITER_SPINS: Duration = Duration::from_micros(300);
const WAITER_SPINS_AWAKE: Duration = Duration::from_micros(20);
/// How long a thread sleeps between two looks whether a `fork` is over.
const FORK_NAP: Duration = Duration::from_micros(100);

/// How often a waiter looks at the variable itself, or helps, before it pushes or parks a wait.
/// Most waits are over by then, and have moved no cache line but that of the last access.
const WATCHES: u32 = looks(100);
/// Looks at the variable under one pin.
const PINNED: u32 = 16;
/// How often a waiter tries again if the write that it wants to park behind has just ended.
const PARKING_TRIES: u32 = 3;
/// Operations that a watching waiter runs between two looks at the variable: a look costs as much
/// as a short operation.
const HELPED: u32 = 16;

/// Waits until every write of `variable` that was pushed before is complete, and with
/// [`Mode::Write`] every read too; then takes its error, if it is marked.
///
/// A wait for the reads is always the fourth way: an operation that changes the variable, and that
/// changes neither its version nor its mark (`Core::end`).
pub fn for_variable(core: &Arc<Core>, variable: Variable, mode: Mode, timeout: Option<Duration>) -> Result<(), Error> {
    refuse_wait_inside(core)?;
    let for_writes = mode == Mode::Read;
    if for_writes && look(core, variable)? == Found::Quiet {
        return Ok(());
    }
    held_list::refuse_own(variable, mode)?;
    if core.is_cut_off() {
        return Err(cut_off());
    }
    core.dispatch.before_waiting(core);
    if for_writes && timeout.is_none() && watch(core, variable)? {
        return Ok(());
    }
    let deadline = deadline(timeout);
    let event = OneShot::take();
    let request = Request::wait();
    let claim = Claim { variable, mode };
    let late = || {
        if core.is_cut_off() {
            // An operation that this wait ran has forked, and this is the child.
            return Err(cut_off());
        }
        let pending = diagnose::pending_report(core, Some(variable));
        Err(Error::new(
            ErrorKind::TimedOut,
            format!("{variable:?} is not free after {:?}: {pending}", timeout.unwrap_or_default()),
        ))
    };
    let beside = if for_writes { beside_owner(core, variable, &request, &event, deadline)? } else { Beside::Not };
    match beside {
        Beside::InTime => {
            OneShot::put_back(event);
            return Ok(());
        }
        Beside::Late => return late(),
        Beside::Not => {}
    }
    // The push of a wait is refused only while another thread forks, which may take longer than the
    // wait may.
    loop {
        let setter = Arc::clone(&event);
        let set = move |run: &RunContext<'_>| setter.set(run.inherited);
        match push(core, &request, &[claim][..], sync_vtable(&set), set) {
            Ok(()) => break,
            Err(error) if !may_wait_again(core, &error) => return Err(error),
            Err(_) if remaining(deadline) == Some(Duration::ZERO) => return late(),
            Err(_) => thread::park_timeout(remaining(deadline).map_or(FORK_NAP, |left| left.min(FORK_NAP))),
        }
    }
    if !listen(core, &event, deadline) {
        return late();
    }
    let failure = event.take_failure();
    OneShot::put_back(event);
    // Another wait may have taken the error meanwhile: then this one returns no error.
    failure.and_then(|(failure, stamp)| failure.take(stamp)).map_or(Ok(()), Err)
}

/// The result of [`beside_owner`].
enum Beside {
    /// The writes have ended, and nothing has failed.
    InTime,
    Late,
    /// This way does not apply, or the variable is marked: the caller pushes the wait.
    Not,
}

/// Waits for the writes that another thread has pushed to a variable that it owns, and leaves the
/// variable to that thread: the wait parks behind the last write, without a ticket. So a variable
/// stays its pusher's though other threads wait for it.
fn beside_owner(
    core: &Arc<Core>,
    variable: Variable,
    request: &Request,
    event: &Arc<OneShot>,
    deadline: Option<Instant>,
) -> Result<Beside, Error> {
    let local = core.local();
    // Resolved once: if the variable is deleted meanwhile, the writes before the deletion end all
    // the same, and the slot goes on counting them.
    let slot = resolve(core, variable)?;
    let (mut wanted, mut tries) = (None, 0);
    while tries < PARKING_TRIES {
        let found = {
            let _pin = local.pin();
            let owns = local.pusher().owns(variable.index, variable.generation, Mode::Read);
            let found = slot.owner().last_write(variable.index, |pusher| core.memory.records.get(pusher));
            found.filter(|_| !owns)
        };
        let Some((writes, last)) = found.or_else(|| wanted.map(|wanted| (wanted, Word::NONE))) else {
            return Ok(Beside::Not);
        };
        // The wait need not include what was pushed since the first look. And the push that the
        // first look found may have been given up. So it waits for the lower number.
        let earlier = |first: u32| if first.wrapping_sub(writes) as i32 <= 0 { first } else { writes };
        let target = wanted.map_or(writes, earlier);
        wanted = Some(target);
        if slot.progress().has_passed(target) {
            // Relaxed: a failure is noted in the state before its write is counted, like in
            // `looks_at`.
            return Ok(if is_unsettled(core, slot) { Beside::Not } else { Beside::InTime });
        }
        let setter = Arc::clone(event);
        let set = move |_: &RunContext<'_>| setter.set(None);
        match erase(sync_vtable(&set), set, |set| park_wait(core, request, last, set)) {
            Ok(true) => {
                if !listen(core, event, deadline) {
                    return Ok(Beside::Late);
                }
                event.reset();
            }
            Ok(false) => tries += 1,
            // The wait is refused only while another thread forks.
            Err(_) => return Ok(Beside::Not),
        }
    }
    Ok(Beside::Not)
}

/// What looks at a variable have found.
#[derive(PartialEq, Eq)]
enum Found {
    /// No pending write, and no mark.
    Quiet,
    /// No pending write, but a mark: to look on is of no use.
    Marked,
    /// Perhaps a pending write, or a device has still to come there.
    Busy,
}

/// Whether every write of a variable that was pushed before has ended, and the variable is not
/// marked, as far as one look tells. Also called by `engine/future/variable.rs`.
pub fn is_quiet(core: &Arc<Core>, variable: Variable) -> Result<bool, Error> {
    Ok(look(core, variable)? == Found::Quiet)
}

/// One look at the last access of a variable.
fn look(core: &Arc<Core>, variable: Variable) -> Result<Found, Error> {
    looks_at(core, variable, 1, || true)
}

/// Looks at a variable, up to so often under one pin, until it is not busy; between two looks
/// `go_on` may end it.
#[inline]
fn looks_at(core: &Arc<Core>, variable: Variable, looks: u32, mut go_on: impl FnMut() -> bool) -> Result<Found, Error> {
    let local = core.local();
    let _pin = local.pin();
    let slot = resolve(core, variable)?;
    for look in 1..=looks {
        if finds_quiet(core, local, variable) {
            // Relaxed: a failure is noted in the state before the variable that it marks can be
            // quiet. The state is asked first because the mark lies in a cache line that workers
            // write.
            return Ok(match is_unsettled(core, slot) {
                false => Found::Quiet,
                true if slot.is_marked() => Found::Marked,
                true => Found::Busy,
            });
        }
        if look < looks && !go_on() {
            break;
        }
    }
    Ok(Found::Busy)
}

/// Whether a variable whose writes have ended is marked, or a device has still to come there.
#[inline]
fn is_unsettled(core: &Core, slot: &Slot) -> bool {
    let state = core.state.load(Relaxed);
    state.asks_for_a_look() && (slot.is_marked() || state.uses_devices() && core.is_behind_device(slot.index()))
}

/// Whether every write of a variable that the calling thread can know of has ended. May return
/// `false` though they have, while the owner pushes to the variable. The caller is pinned.
fn finds_quiet(core: &Core, local: &ThreadContext, variable: Variable) -> bool {
    let table = &core.memory.table;
    if let Some(is_quiet) = local.pusher().is_quiet(variable.index, variable.generation, table) {
        return is_quiet;
    }
    if let Some(common) = table.common(variable.index).filter(|common| common.is_open()) {
        // SAFETY: the caller is pinned and holds nothing, and the variable is common.
        let writes = unsafe { common.writes(&local.cache().hazards) };
        return writes.is_some_and(|writes| table.progress(variable.index).has_written(writes));
    }
    // SAFETY: the caller has resolved the variable.
    let owner = unsafe { table.at(variable.index) }.owner();
    owner.is_quiet(variable.index, table, |pusher| core.memory.records.get(pusher))
}

/// Watches the variable for a moment; says whether it became quiet. Runs ready operations meanwhile
/// if the settings allow it, and as long as the variable is busy.
fn watch(core: &Arc<Core>, variable: Variable) -> Result<bool, Error> {
    let helps = core.settings.waiters_help && may_help();
    if helps {
        pull(core, variable);
        if core.is_cut_off() {
            return Ok(false);
        }
    }
    let group = core.dispatch.group(Property::Normal).filter(|_| helps);
    let has_work = || group.is_some_and(|group| group.has_work());
    let mut watched = 0;
    while watched < WATCHES {
        let look = || {
            spin_loop();
            watched += 1;
            !has_work()
        };
        match looks_at(core, variable, PINNED, look)? {
            Found::Quiet => return Ok(true),
            Found::Marked => return Ok(false),
            Found::Busy => {}
        }
        watched += 1;
        if has_work() {
            let mut asked = 0_u32;
            core.dispatch.help(core, &mut || {
                asked = asked.wrapping_add(1);
                let goes_on = || self::look(core, variable).is_ok_and(|found| found == Found::Busy);
                !core.is_cut_off() && (asked % HELPED != 0 || goes_on())
            });
            core.flush(core.local());
            if core.is_cut_off() {
                return Ok(false);
            }
        }
    }
    Ok(false)
}

/// Waits for the event; `false` at the deadline, or in the child of a fork in which it will not be
/// set. Without a deadline the thread first runs ready operations if the settings allow it. With
/// one it neither helps nor yields, because an operation or a yield may take longer than is left.
pub(super) fn listen(core: &Arc<Core>, event: &Arc<OneShot>, deadline: Option<Instant>) -> bool {
    if deadline.is_none() && core.settings.waiters_help && may_help() {
        let is_over = || event.is_set() || core.is_cut_off();
        core.dispatch.serve(core, &mut || !is_over(), &mut || is_over());
        core.flush(core.local());
        if core.is_cut_off() {
            return event.is_set();
        }
    }
    let mut spin = match remaining(deadline) {
        Some(left) => Spin::awake(left.min(WAITER_SPINS_AWAKE)),
        None => Spin::new(WAITER_SPINS_AWAKE, WAITER_SPINS),
    };
    while !MODELLED {
        if event.is_set() {
            if spin.has_yielded() {
                core.make_way();
            }
            return true;
        }
        if !spin.pause() {
            break;
        }
    }
    while !event.is_set() {
        match remaining(deadline) {
            Some(Duration::ZERO) => return event.is_set(),
            Some(left) => thread::park_timeout(left),
            None => thread::park(),
        }
    }
    core.make_way();
    true
}
