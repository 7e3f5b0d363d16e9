//! Waiting for one variable: until every write that was pushed before is complete.

use crate::device::Context;
use crate::engine::core::{Core, ABANDONED, FAILED};
use crate::engine::diagnose;
use crate::engine::nesting::{may_help, refuse_wait_inside};
use crate::engine::push::admission::cut_off;
use crate::engine::push::enlist::park_wait;
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::resolve;
use crate::engine::wait::event::OneShot;
use crate::engine::wait::pull::pull;
use crate::engine::wait::wait_list::{deadline, remaining};
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::block::FLAG_WAIT;
use crate::operation::closure::{self, size_of_stored, sync_vtable};
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{looks, spin_loop, thread, Ordering::*, MODELLED};
use crate::thread::context::ThreadContext;
use crate::tickets::run::Variables;
use crate::tickets::word::Word;
use crate::util::spin::Spin;
use crate::variable::handle::Variable;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a waiter looks before it parks, and how long of that it keeps the core.
const WAITER_SPINS: Duration = Duration::from_micros(300);
const WAITER_SPINS_AWAKE: Duration = Duration::from_micros(20);
/// How long a thread sleeps between two looks whether a `fork` is over.
const FORK_NAP: Duration = Duration::from_micros(100);

/// How often a waiter looks at the variable itself, or helps, before it lines up behind the writes:
/// most waits are over by then, and have moved no cache line but that of the last access.
const WATCHES: u32 = looks(100);
/// Looks that share a pin.
const PINNED: u32 = 16;
/// How often a waiter tries to park behind a write that is over when it does.
const TRIES: u32 = 3;
/// Operations that such a waiter runs between two looks at the variable: a look costs as much as a
/// short one.
const HELPED: u32 = 16;

/// Waits until every write of `variable` that was pushed before is complete; then takes its error,
/// if it is marked.
pub fn for_variable(core: &Arc<Core>, variable: Variable, timeout: Option<Duration>) -> Result<(), Error> {
    refuse_wait_inside(core)?;
    if is_quiet(core, variable)? {
        return Ok(());
    }
    if core.state.load(Relaxed) & ABANDONED != 0 {
        return Err(cut_off());
    }
    core.dispatch.before_waiting(core);
    if timeout.is_none() && watch(core, variable)? {
        return Ok(());
    }
    let deadline = deadline(timeout);
    let event = OneShot::take();
    let request = Request {
        context: Context::cpu(0),
        property: Property::NoSkip,
        priority: 0,
        name: Name::default(),
        flags: FLAG_WAIT,
    };
    let claim = Claim { variable, mode: Mode::Read };
    let late = || {
        let pending = diagnose::pending_report(core, Some(variable));
        Err(Error::new(
            ErrorKind::TimedOut,
            format!("{variable:?} is not free after {:?}: {pending}", timeout.unwrap_or_default()),
        ))
    };
    match beside_owner(core, variable, &request, &event, deadline)? {
        Beside::InTime => {
            OneShot::put_back(event);
            return Ok(());
        }
        Beside::Late => return late(),
        Beside::Not => {}
    }
    // A wait is refused only while another thread forks, which may take longer than the wait.
    loop {
        let ringer = Arc::clone(&event);
        let ring = move |run: &RunContext<'_>| ringer.set(run.inherited);
        match push(core, &request, &[claim][..], sync_vtable(&ring), ring) {
            Ok(()) => break,
            Err(error) if error.kind() != ErrorKind::Stopped => return Err(error),
            Err(_) if remaining(deadline) == Some(Duration::ZERO) => return late(),
            Err(_) => thread::park_timeout(remaining(deadline).map_or(FORK_NAP, |left| left.min(FORK_NAP))),
        }
    }
    if !listen(core, &event, deadline) {
        return late();
    }
    let failure = event.take_failure();
    OneShot::put_back(event);
    // Another wait may have taken the error meanwhile: then it is theirs.
    failure.and_then(|(failure, stamp)| failure.take(stamp)).map_or(Ok(()), Err)
}

/// What has come of [`beside_owner`].
enum Beside {
    /// All is over, and nothing has failed.
    InTime,
    Late,
    /// It cannot be done so, or the variable is marked.
    Not,
}

/// Waits for the writes that another thread has pushed to a variable of its own, without taking it
/// from that thread: parked behind the last one, without a ticket. So a variable for which others
/// wait stays its pusher's.
fn beside_owner(
    core: &Arc<Core>,
    variable: Variable,
    request: &Request,
    event: &Arc<OneShot>,
    deadline: Option<Instant>,
) -> Result<Beside, Error> {
    let local = core.local();
    // Once: if it is deleted meanwhile, the writes before that end all the same, and counts go on.
    let slot = resolve(core, variable)?;
    let (mut wanted, mut tries) = (None, 0);
    while tries < TRIES {
        let found = {
            let _pin = local.pin();
            let owns = local.pusher().owns(variable.index, variable.generation, Mode::Read);
            let found = slot.owner().last_write(variable.index, |pusher| core.memory.records.get(pusher));
            found.filter(|_| !owns)
        };
        let Some((writes, last)) = found.or_else(|| wanted.map(|wanted| (wanted, Word::NONE))) else {
            return Ok(Beside::Not);
        };
        // What was pushed since the first look need not be waited for. What was found then may have
        // been given up.
        let earlier = |first: u32| if first.wrapping_sub(writes) as i32 <= 0 { first } else { writes };
        let target = wanted.map_or(writes, earlier);
        wanted = Some(target);
        if slot.progress().has_passed(target) {
            // Relaxed: as in `becomes_quiet`.
            let marked = core.state.load(Relaxed) & FAILED != 0 && slot.is_marked();
            return Ok(if marked { Beside::Not } else { Beside::InTime });
        }
        let ringer = Arc::clone(event);
        let ring = move |_: &RunContext<'_>| ringer.set(None);
        let (body, size) = (sync_vtable(&ring), size_of_stored(&ring));
        let mut ring = Some(ring);
        let mut store = |storage: *mut u8| {
            if let Some(ring) = ring.take() {
                // SAFETY: the storage of a closure of this size, given once.
                unsafe { closure::store(storage, ring) }
            }
        };
        match park_wait(core, request, last, body, size, &mut store) {
            Ok(true) => {
                if !listen(core, event, deadline) {
                    return Ok(Beside::Late);
                }
                event.reset();
            }
            Ok(false) => tries += 1,
            // Only while another thread forks.
            Err(_) => return Ok(Beside::Not),
        }
    }
    Ok(Beside::Not)
}

/// Whether the variable has no pending write and no mark, which a look at its last access tells.
fn is_quiet(core: &Arc<Core>, variable: Variable) -> Result<bool, Error> {
    becomes_quiet(core, variable, 1, || true)
}

/// As [`is_quiet`], in so many looks, between which `go_on` is asked.
#[inline]
fn becomes_quiet(
    core: &Arc<Core>,
    variable: Variable,
    looks: u32,
    mut go_on: impl FnMut() -> bool,
) -> Result<bool, Error> {
    let local = core.local();
    let _pin = local.pin();
    let slot = resolve(core, variable)?;
    for look in 1..=looks {
        if finds_quiet(core, local, variable) {
            // Relaxed: a failure is noted in the state before the variable that it marks can be
            // quiet. The mark itself lies in a line that workers write.
            let marked = core.state.load(Relaxed) & FAILED != 0 && slot.is_marked();
            return Ok(!marked);
        }
        if look < looks && !go_on() {
            break;
        }
    }
    Ok(false)
}

/// Whether every write of a variable has ended that the calling thread has heard of. May say "no"
/// of one whose owner is pushing to it. The thread is pinned.
fn finds_quiet(core: &Core, local: &ThreadContext, variable: Variable) -> bool {
    let table = &core.memory.table;
    if let Some(is_quiet) = local.pusher().is_quiet(variable.index, variable.generation, table) {
        return is_quiet;
    }
    if let Some(common) = table.common(variable.index).filter(|common| common.is_open()) {
        // SAFETY: pinned, and common.
        let writes = unsafe { common.writes() };
        return writes.is_some_and(|writes| table.progress(variable.index).has_written(writes));
    }
    // SAFETY: the caller has resolved the variable.
    let owner = unsafe { table.at(variable.index) }.owner();
    owner.is_quiet(variable.index, table, |pusher| core.memory.records.get(pusher))
}

/// Watches the variable for a moment, running ready operations meanwhile if the settings allow it;
/// says whether it is quiet.
fn watch(core: &Arc<Core>, variable: Variable) -> Result<bool, Error> {
    let helps = core.settings.waiters_help && may_help();
    if helps {
        pull(core, variable);
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
        if becomes_quiet(core, variable, PINNED, look)? {
            return Ok(true);
        }
        watched += 1;
        if has_work() {
            let mut asked = 0;
            core.dispatch.help(core, &mut || {
                asked += 1;
                asked % HELPED != 0 || !is_quiet(core, variable).unwrap_or(true)
            });
            core.settle(core.local());
        }
    }
    Ok(false)
}

/// Waits for the event, running ready operations meanwhile if the settings allow it; `false` at the
/// deadline. A waiter that has a deadline neither helps nor yields: an operation and a yield take
/// as long as they take.
fn listen(core: &Arc<Core>, event: &Arc<OneShot>, deadline: Option<Instant>) -> bool {
    if deadline.is_none() && core.settings.waiters_help && may_help() {
        core.dispatch.serve(core, &mut || !event.is_set(), &mut || event.is_set());
        core.settle(core.local());
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
