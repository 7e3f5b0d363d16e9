//! Waiting: for one variable, for everything, with and without a deadline.

pub mod pull;
pub mod wait_list;

use crate::device::Context;
use crate::engine::core::{Core, ABANDONED, FAILED, STOPPED};
use crate::engine::diagnose;
use crate::engine::nesting::may_help;
use crate::engine::push::admission::cut_off;
use crate::engine::push::enlist::park_wait;
use crate::engine::push::push;
use crate::engine::request::Claim;
use crate::engine::request::Request;
use crate::engine::resolve::resolve;
use crate::engine::wait::pull::{pull, pull_last};
use crate::engine::wait::wait_list::remaining;
use crate::error::{Error, ErrorKind, Failure, Stamp};
use crate::mutants::{mutant, mutate};
use crate::operation::access::Mode;
use crate::operation::block::FLAG_WAIT;
use crate::operation::closure;
use crate::operation::closure::{size_of_stored, sync_vtable};
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::thread::Thread;
use crate::sync::Ordering::*;
use crate::sync::{looks, spin_loop, thread, thread_local, AtomicBool, AtomicPtr, MODELLED};
use crate::thread::context::ThreadContext;
use crate::tickets::run::Variables;
use crate::tickets::word::Word;
use crate::util::spin::Spin;
use crate::variable::handle::Variable;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a waiter looks before it parks, and how long of that it keeps the core.
const LOOKS: Duration = Duration::from_micros(300);
const LOOKS_AWAKE: Duration = Duration::from_micros(20);
/// How long a thread sleeps between two looks whether a `fork` is over.
const NAP: Duration = Duration::from_micros(100);

/// How often a waiter looks at the variable itself, or helps, before it lines up behind the writes:
/// most waits are over by then, and have moved no cache line but that of the last access.
const WATCHES: u32 = looks(100);
/// How long a waiter looks whether all is over before it becomes a helper.
const GLIMPSE: Duration = Duration::from_micros(3);
/// Looks that share a pin.
const PINNED: u32 = 16;
/// How often a waiter tries to park behind a write that is over when it does.
const TRIES: u32 = 3;
/// Operations that such a waiter runs between two looks at the variable: a look costs as much as a
/// short one.
const HELPED: u32 = 16;

/// Where a waiting thread is told that its variable is free.
struct Bell {
    rung: AtomicBool,
    /// The failure that the variable was marked with, boxed, and when the wait was pushed.
    failure: AtomicPtr<(Arc<Failure>, Stamp)>,
    thread: Thread,
}

thread_local! {
    /// The thread's bell, kept from wait to wait. A wait that ran out of time leaves its bell
    /// behind for the operation that will still ring it.
    static BELL: Cell<Option<Arc<Bell>>> = const { Cell::new(None) };
}

impl Bell {
    fn take() -> Arc<Bell> {
        BELL.try_with(Cell::take).ok().flatten().unwrap_or_else(|| {
            Arc::new(Bell {
                rung: AtomicBool::new(false),
                failure: AtomicPtr::new(null_mut()),
                thread: thread::current(),
            })
        })
    }

    fn put_back(bell: Arc<Bell>) {
        if MODELLED {
            return; // Loom drops thread-locals in an order that changes from run to run, which its models must not see.
        }
        bell.rung.store(false, Relaxed);
        let _ = BELL.try_with(|slot| slot.set(Some(bell)));
    }

    fn ring(&self, failure: Option<(&Arc<Failure>, Stamp)>) {
        if let Some((failure, stamp)) = failure {
            let owned = Box::into_raw(Box::new((Arc::clone(failure), stamp)));
            self.failure.store(owned, Relaxed);
        }
        // Release: the failure, and all that the writes before this wait have done.
        self.rung.store(true, mutate!("bell-rung-relaxed": Relaxed, Release));
        mutate!("bell-does-not-unpark": (), self.thread.unpark());
    }

    fn is_rung(&self) -> bool {
        self.rung.load(Acquire)
    }

    fn take_failure(&self) -> Option<(Arc<Failure>, Stamp)> {
        if self.failure.load(Relaxed).is_null() {
            return None;
        }
        let failure = self.failure.swap(null_mut(), AcqRel);
        // SAFETY: `ring` made it from a box, and the swap took it.
        (!failure.is_null()).then(|| *unsafe { Box::from_raw(failure) })
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.take_failure();
    }
}

/// Waits until every write of `variable` that was pushed before is complete; then takes its error,
/// if it is marked.
pub fn for_variable(core: &Arc<Core>, variable: Variable, timeout: Option<Duration>) -> Result<(), Error> {
    refuse_inside(core)?;
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
    let bell = Bell::take();
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
    match beside_owner(core, variable, &request, &bell, deadline)? {
        Beside::InTime => {
            Bell::put_back(bell);
            return Ok(());
        }
        Beside::Late => return late(),
        Beside::Not => {}
    }
    // A wait is refused only while another thread forks, which may take longer than the wait.
    loop {
        let ringer = Arc::clone(&bell);
        let ring = move |run: &RunContext<'_>| ringer.ring(run.inherited);
        match push(core, &request, &[claim][..], sync_vtable(&ring), ring) {
            Ok(()) => break,
            Err(error) if error.kind() != ErrorKind::Stopped => return Err(error),
            Err(_) if remaining(deadline) == Some(Duration::ZERO) => return late(),
            Err(_) => thread::park_timeout(remaining(deadline).map_or(NAP, |left| left.min(NAP))),
        }
    }
    if !listen(core, &bell, deadline) {
        return late();
    }
    let failure = bell.take_failure();
    Bell::put_back(bell);
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
    bell: &Arc<Bell>,
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
        if slot.progress().has_passed(target) || mutant("waits-behind-nothing") {
            // Relaxed: as in `becomes_quiet`.
            let marked = core.state.load(Relaxed) & FAILED != 0 && slot.is_marked();
            return Ok(if marked { Beside::Not } else { Beside::InTime });
        }
        let ringer = Arc::clone(bell);
        let ring = move |_: &RunContext<'_>| ringer.ring(None);
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
                if !listen(core, bell, deadline) {
                    return Ok(Beside::Late);
                }
                bell.rung.store(false, Relaxed);
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
            return Ok(mutate!("quiet-in-spite-of-a-mark": true, !marked));
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

/// Waits for the bell, running ready operations meanwhile if the settings allow it; `false` at the
/// deadline. A waiter that has a deadline neither helps nor yields: an operation and a yield take
/// as long as they take.
fn listen(core: &Arc<Core>, bell: &Arc<Bell>, deadline: Option<Instant>) -> bool {
    if deadline.is_none() && core.settings.waiters_help && may_help() {
        core.dispatch.serve(core, &mut || !bell.is_rung(), &mut || bell.is_rung());
        core.settle(core.local());
    }
    let mut spin = match remaining(deadline) {
        Some(left) => Spin::awake(left.min(LOOKS_AWAKE)),
        None => Spin::new(LOOKS_AWAKE, LOOKS),
    };
    while !MODELLED {
        if bell.is_rung() {
            if spin.has_yielded() {
                core.make_way();
            }
            return true;
        }
        if !spin.pause() {
            break;
        }
    }
    while !bell.is_rung() {
        match remaining(deadline) {
            Some(Duration::ZERO) => return bell.is_rung(),
            Some(left) => thread::park_timeout(left),
            None => thread::park(),
        }
    }
    core.make_way();
    true
}

/// Waits until nothing is in flight; then takes all errors and returns the first.
pub fn for_all(core: &Arc<Core>, timeout: Option<Duration>) -> Result<(), Error> {
    refuse_inside(core)?;
    if core.state.load(Relaxed) & ABANDONED == 0 {
        core.dispatch.before_waiting(core);
    }
    if !all_done(core, timeout)? {
        let pending = diagnose::pending_report(core, None);
        return Err(Error::new(
            ErrorKind::TimedOut,
            format!("operations are in flight after {:?}: {pending}", timeout.unwrap_or_default()),
        ));
    }
    core.failures.take_first().map_or(Ok(()), Err)
}

/// When the time is up; never, if there is no limit or none that the clock can tell.
fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// Waits until nothing is in flight.
pub fn drain(core: &Arc<Core>) {
    let _ = all_done(core, None);
}

/// Waits until nothing is in flight; `false` if the time was up first. Refused if nobody will ever
/// do it.
fn all_done(core: &Arc<Core>, timeout: Option<Duration>) -> Result<bool, Error> {
    if core.is_quiescent() {
        return Ok(true);
    }
    if core.state.load(Relaxed) & ABANDONED != 0 {
        return Err(cut_off());
    }
    if timeout.is_none() && core.settings.waiters_help && may_help() && core.state.load(Relaxed) & STOPPED == 0 {
        if becomes_quiescent(core) {
            return Ok(true);
        }
        core.quiescence.announced(|| {
            // What is run is in flight, so that a batch need not ask whether all is over.
            core.dispatch.serve(core, &mut || true, &mut || core.is_quiescent());
            core.settle(core.local());
        });
    }
    Ok(core.quiescence.wait(deadline(timeout), || core.is_quiescent(), || core.make_way()))
}

/// Runs what the calling thread has pushed last, and looks for a moment whether nothing is in
/// flight: most waits are over by then, and have taken no place and no lock.
fn becomes_quiescent(core: &Arc<Core>) -> bool {
    pull_last(core);
    let [normal, prioritised] = [Property::Normal, Property::CpuPrioritized].map(|of| core.dispatch.group(of));
    // One group, but on the per-device engine.
    let prioritised = prioritised.filter(|other| !normal.is_some_and(|group| Arc::ptr_eq(group, other)));
    let has_work = || [normal, prioritised].into_iter().flatten().any(|group| group.has_work());
    let mut began = None;
    loop {
        if core.is_quiescent() {
            return true;
        }
        // With many threads a look takes long, so the clock counts.
        let is_over = MODELLED || began.get_or_insert_with(Instant::now).elapsed() > GLIMPSE;
        if is_over || has_work() {
            return false;
        }
        spin_loop();
    }
}

/// A wait inside an operation could wait for that very operation.
fn refuse_inside(core: &Core) -> Result<(), Error> {
    if !core.is_inside() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::WaitInsideOperation,
        "an operation cannot wait for its own engine: push what should follow as another operation",
    ))
}
