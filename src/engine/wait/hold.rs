//! An access of a variable that a thread outside of operations holds for as long as it likes
//! ([`HeldAccess`]). Used by `src/api/typed/guard.rs`, on the thread that wants a value.
//!
//! [`hold`] pushes an asynchronous operation with that access, waits for its closure, and takes the
//! completion that the closure was given. So the access has its place in push order, like any
//! other. It is pushed as a wait: it runs on the thread that finds it ready, is never skipped, and
//! is let in while the engine is stopped. The thread that has made a [`HeldAccess`] ends it, and no
//! other touches it. `wait/held_list.rs` knows what each thread holds.

use crate::engine::core::Core;
use crate::engine::nesting::refuse_wait_inside;
use crate::engine::push::admission::cut_off;
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::wait::event::OneShot;
use crate::engine::wait::for_var::listen;
use crate::engine::wait::held_list;
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::async_closure::async_vtable;
use crate::operation::block::FLAG_WAIT;
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::thread;
use crate::variable::handle::Variable;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
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

/// Where the operation leaves its completion for the thread that waits.
struct Handover {
    completion: UnsafeCell<Option<Completion>>,
    event: Arc<OneShot>,
}

// SAFETY: the closure of the operation writes the completion before it sets the event, once. The
// waiting thread takes it after it has seen the event set. The event is set with release and seen
// with acquire. A completion may move to another thread.
unsafe impl Sync for Handover {}
// SAFETY: as above.
unsafe impl Send for Handover {}

/// Waits until the variable can be read or changed, and keeps it so. Returns the failure that the
/// variable is marked with, and thereby clears it, as a wait for the variable does.
pub fn hold(core: &Arc<Core>, variable: Variable, mode: Mode) -> Result<HeldAccess, Error> {
    refuse_wait_inside(core)?;
    held_list::refuse_second(variable)?;
    if core.is_cut_off() {
        return Err(cut_off());
    }
    core.dispatch.before_waiting(core);
    let handover = Arc::new(Handover { completion: UnsafeCell::new(None), event: OneShot::take() });
    let (property, flags) = (Property::NoSkip, FLAG_WAIT);
    let request = Request { property, flags, ..Request::named(Name::from("guard")) };
    let claim = Claim { variable, mode };
    loop {
        let theirs = Arc::clone(&handover);
        let come = move |run: &RunContext<'_>, completion: Completion| {
            // SAFETY: the event is not set, so the waiting thread does not look.
            unsafe { *theirs.completion.get() = Some(completion) };
            theirs.event.set(run.inherited);
        };
        match push(core, &request, &[claim][..], async_vtable(&come), come) {
            Ok(()) => break,
            // As for a wait, the push is refused only while another thread forks.
            Err(error) if error.kind() != ErrorKind::Stopped || core.is_cut_off() => return Err(error),
            Err(_) => thread::park_timeout(FORK_PAUSE),
        }
    }
    if !listen(core, &handover.event, None) {
        // An operation that this wait ran has forked, and this is the child.
        return Err(cut_off());
    }
    // SAFETY: the event is set, so the closure has written it and does not come here any more.
    let completion = unsafe { (*handover.completion.get()).take() };
    let failure = handover.event.take_failure();
    OneShot::put_back(Arc::clone(&handover.event));
    // Another wait may have taken the error meanwhile: then this one returns no error.
    if let Some(error) = failure.and_then(|(failure, stamp)| failure.take(stamp)) {
        completion.into_iter().for_each(Completion::complete);
        return Err(error);
    }
    held_list::add(variable, mode);
    Ok(HeldAccess { core: Arc::clone(core), variable, mode, completion, stays: PhantomData })
}

impl Drop for HeldAccess {
    fn drop(&mut self) {
        held_list::remove(self.variable);
        if self.mode != Mode::Read {
            // The end of a wait steps no version, but this one has changed the variable. Nobody
            // else does before the completion.
            let slot = self.core.memory.table.get(self.variable.index);
            slot.into_iter().for_each(|slot| slot.step_version());
        }
        self.completion.take().into_iter().for_each(Completion::complete);
    }
}
