//! An access of a variable that a thread outside of operations holds for as long as it likes
//! ([`HeldAccess`]). Used by `src/api/typed/guard.rs`, on the thread that wants a value.
//!
//! [`hold`] pushes an asynchronous operation with that access, waits for its closure, and takes the
//! completion that the closure was given. So the access has its place in push order, like any
//! other. It is pushed as a wait: it runs on the thread that finds it ready, is never skipped, and
//! is let in while the engine is stopped. The thread that has made a [`HeldAccess`] ends it, and no
//! other touches it. `wait/held_list.rs` knows what each thread holds.

use crate::engine::core::Core;
use crate::engine::diagnose;
use crate::engine::nesting::refuse_wait_inside;
use crate::engine::push::admission::{cut_off, may_wait_again};
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::wait::event::OneShot;
use crate::engine::wait::for_var::listen;
use crate::engine::wait::handover::Handover;
use crate::engine::wait::held_list;
use crate::engine::wait::wait_list::{deadline, remaining};
use crate::error::{Error, ErrorKind, Failure, Stamp};
use crate::operation::access::Mode;
use crate::operation::async_closure::async_vtable;
use crate::operation::block::{FLAG_HELD, FLAG_WAIT};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::thread;
use crate::variable::handle::Variable;
use std::marker::PhantomData;
use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

/// How long a thread sleeps between two tries while another thread forks.
const FORK_PAUSE: Duration = Duration::from_micros(100);

/// An access that is in flight until this is dropped. No operation that conflicts with it runs
/// meanwhile: the dropping thread has the variable, to read it or to change it.
pub struct HeldAccess {
    core: Arc<Core>,
    variable: Variable,
    mode: Mode,
    /// There until the drop.
    completion: Option<Completion>,
    /// The list of held accesses is the thread's own, so this stays on its thread.
    stays: PhantomData<*const ()>,
}

/// What the closure of the operation hands over: its completion, and the failure that the variable
/// was marked with.
type Came = (Completion, Option<(Arc<Failure>, Stamp)>);

/// Waits until the variable can be read or changed, and keeps it so. Returns the failure that the
/// variable is marked with, and thereby clears it, as a wait for the variable does. `claims`, which
/// are in order, have the access, and others that are kept as long.
///
/// After the timeout the access is given up. Its operation ends as soon as its turn comes, on the
/// thread that finds it ready, and changes neither the version nor the mark.
pub fn hold(
    core: &Arc<Core>,
    variable: Variable,
    mode: Mode,
    claims: &[Claim],
    timeout: Option<Duration>,
) -> Result<HeldAccess, Error> {
    refuse_wait_inside(core)?;
    held_list::refuse_second(variable)?;
    if core.is_cut_off() {
        return Err(cut_off());
    }
    let late = || {
        let pending = diagnose::pending_report(core, Some(variable));
        let text = format!("no guard of {variable:?} after {:?}: {pending}", timeout.unwrap_or_default());
        Err(Error::new(ErrorKind::TimedOut, text))
    };
    core.dispatch.before_waiting(core);
    let deadline = deadline(timeout);
    let handover = Arc::new(Handover::<Came>::new());
    let event = OneShot::take();
    let (property, flags) = (Property::NoSkip, FLAG_WAIT | FLAG_HELD);
    let request = Request { property, flags, ..Request::named(Name::from("guard")) };
    loop {
        let (theirs, setter) = (Arc::clone(&handover), Arc::clone(&event));
        let come = move |run: &RunContext<'_>, completion: Completion| {
            let failure = run.inherited.map(|(failure, stamp)| (Arc::clone(failure), stamp));
            match theirs.give((completion, failure)) {
                Ok(()) => setter.set(None),
                // The time is over: the access ends here, and leaves the mark for the next wait.
                Err((completion, _)) => completion.complete(),
            }
        };
        match push(core, &request, claims, async_vtable(&come), come) {
            Ok(()) => break,
            // As for a wait, the push is refused only while another thread forks.
            Err(error) if !may_wait_again(core, &error) => return Err(error),
            Err(_) if remaining(deadline) == Some(Duration::ZERO) => return late(),
            Err(_) => thread::park_timeout(remaining(deadline).map_or(FORK_PAUSE, |left| left.min(FORK_PAUSE))),
        }
    }
    let is_listed = !event.is_set() && deadline.is_none();
    let asleep = match is_listed.then(|| held_list::sleeps(variable, mode)).transpose() {
        Ok(asleep) => asleep,
        Err(error) => {
            // It has not come: of those in the circle each waits for the next.
            handover.give_up().into_iter().for_each(|(completion, _)| completion.complete());
            return Err(error);
        }
    };
    let has_come = listen(core, &event, deadline);
    drop(asleep);
    let came = if has_come {
        OneShot::put_back(event);
        handover.take()
    } else if core.is_cut_off() {
        // An operation that this wait ran has forked, and this is the child.
        return Err(cut_off());
    } else {
        handover.give_up()
    };
    let Some((completion, failure)) = came else { return late() };
    // Another wait may have taken the error meanwhile: then this one returns no error.
    if let Some(error) = failure.and_then(|(failure, stamp)| failure.take(stamp)) {
        completion.complete();
        return Err(error);
    }
    held_list::add(variable, mode);
    Ok(HeldAccess { core: Arc::clone(core), variable, mode, completion: Some(completion), stays: PhantomData })
}

impl Drop for HeldAccess {
    fn drop(&mut self) {
        held_list::remove(self.variable);
        if self.core.is_cut_off() {
            // The end is the parent's. Here it would have this thread run what is behind the
            // access, on the naive engine.
            return forget(self.completion.take());
        }
        if self.mode != Mode::Read {
            // The end of a wait steps no version, but this one has changed the variable. Nobody
            // else does before the completion.
            let slot = self.core.memory.table.get(self.variable.index);
            slot.into_iter().for_each(|slot| slot.step_version());
        }
        self.completion.take().into_iter().for_each(Completion::complete);
    }
}
