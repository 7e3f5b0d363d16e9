//! The private variables of a graph: only its own operations use them.
//!
//! Programs make them through `api/private.rs`, on the thread that captures. There `api/capture.rs`
//! calls [`PrivateVariables::hold`] before it makes the graph, and `api/pipeline.rs` refuses them.
//! The capture keeps them (`replay/assemble.rs`), and then the graph (`replay/program.rs`). At its
//! end the slots go to `Table::retire` (`variable/table.rs`), which clears their failure marks. The
//! plan orders the operations that use them, and replays of one graph follow each other, so a
//! replay claims none of them.
//!
//! The generation of their slots is that of a deleted variable: the check that refuses deleted
//! variables refuses these everywhere else, and costs nothing more.
//!
//! A variable that others have used is made private by its *deletion*, an operation that comes
//! after all these uses. Replays come after the deletions ([`Arrival`]). The slot has two users
//! then, the end of the deletion and the graph, and the later one gives it back ([`Given`]).
//!
//! [`PrivateVariables`] is the capturing thread's. As a part of a graph it does not change, and it
//! is dropped with the graph, on any thread. `Given` and `Arrival` are shared with the threads that
//! run the deletions and what [`PrivateVariables::hold`] pushes, by atomic steps.

use crate::engine::core::Core;
use crate::engine::gpu::rows::Row;
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::{kill, resolve};
use crate::error::Error;
use crate::operation::access::Mode;
use crate::operation::async_closure::async_vtable;
use crate::operation::block::{FLAG_BEYOND, FLAG_DELETE, FLAG_GRAPH};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{AtomicU32, AtomicU8, Ordering::*};
use crate::variable::handle::Variable;
use crate::variable::slot::Slot;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The private variables of one graph, which end with it.
#[derive(Default)]
pub struct PrivateVariables {
    /// `None` if there are none.
    core: Option<Arc<Core>>,
    /// The private variables. Those that others have used have the state of their deletion.
    variables: HashMap<Variable, Option<Arc<Given>>>,
    /// `None` if none of them was used by others.
    arrival: Option<Arc<Arrival>>,
}

/// A variable that others have used: whether its deletion has found the graph alive.
#[derive(Default)]
struct Given(AtomicU8);

/// The stages of [`Given`]. The deletion has not run. It has run, so its end and the graph give the
/// slot back together. The graph ended before that, so the deletion alone gives it back.
const ASKED: u8 = 0;
const KEPT: u8 = 1;
const RELEASED: u8 = 2;

/// Holds the graph's own variable until the deletions have ended: a countdown, of which the last
/// step completes the operation that [`PrivateVariables::hold`] has pushed.
struct Arrival {
    /// The deletions that have not ended, and one for that operation.
    left: AtomicU32,
    completion: UnsafeCell<Option<Completion>>,
}

// SAFETY: the completion is written before the step that counts down for it, and taken after the
// last step, by the thread that has done that step.
unsafe impl Sync for Arrival {}
// SAFETY: a completion may move to another thread.
unsafe impl Send for Arrival {}

impl PrivateVariables {
    /// Makes a variable private that was made just now: no other thread knows its handle.
    pub fn add(&mut self, core: &Arc<Core>, variable: Variable) -> Result<(), Error> {
        // First, so that a thread that finds the variable dead finds out why.
        resolve(core, variable)?.say_private();
        kill(core, variable)?;
        self.keep(core, variable, None);
        Ok(())
    }

    /// Makes a variable private that others may have used: pushes its deletion, which keeps the
    /// slot.
    pub fn give(&mut self, core: &Arc<Core>, variable: Variable) -> Result<(), Error> {
        let slot = resolve(core, variable)?;
        let first = || Arc::new(Arrival { left: AtomicU32::new(1), completion: UnsafeCell::new(None) });
        let arrival = Arc::clone(self.arrival.get_or_insert_with(first));
        // Relaxed: this thread itself gives the deletion to others below.
        arrival.left.fetch_add(1, Relaxed);
        let given = Arc::new(Given::default());
        let (theirs, held) = (Arc::clone(&given), Arc::clone(core));
        let delete = move |_: &RunContext<'_>, completion: Completion| {
            if let Some(slot) = held.memory.table.get(variable.index) {
                theirs.keep(slot);
            }
            // The deletion ends here. After that the variable is the graph's alone.
            completion.complete();
            arrival.step();
        };
        let flags = FLAG_DELETE | FLAG_BEYOND;
        let name = Name::from("make private");
        let request = Request { property: Property::DeleteVar, flags, ..Request::named(name) };
        let claim = Claim { variable, mode: Mode::Delete };
        if let Err(error) = push(core, &request, &[claim][..], async_vtable(&delete), delete) {
            // Relaxed: this is not the last step, as the one for `hold` is left.
            self.arrival.iter().for_each(|arrival| _ = arrival.left.fetch_sub(1, Relaxed));
            return Err(error);
        }
        // The slot is not given back before the graph ends, so it still is this variable's.
        slot.say_private();
        self.keep(core, variable, Some(given));
        Ok(())
    }

    fn keep(&mut self, core: &Arc<Core>, variable: Variable, given: Option<Arc<Given>>) {
        self.core.get_or_insert_with(|| Arc::clone(core));
        self.variables.insert(variable, given);
    }

    /// Makes the replays of the graph come after the deletions of its private variables: pushes an
    /// operation that changes `own`, the graph's own variable, and ends after them.
    pub fn hold(&mut self, core: &Arc<Core>, own: Variable) -> Result<(), Error> {
        let Some(arrival) = self.arrival.take() else { return Ok(()) };
        let hold = move |_: &RunContext<'_>, completion: Completion| {
            // SAFETY: the step for this operation is still to be done, so no thread takes the
            // completion.
            unsafe { *arrival.completion.get() = Some(completion) };
            arrival.step();
        };
        // The property of the deletions, which are run also after the shutdown: replays then skip
        // their operations, but change the marks of variables. And the flag of replays, which are
        // run also if the graph's own variable is marked: a parameter may have failed.
        let (property, flags) = (Property::DeleteVar, FLAG_BEYOND | FLAG_GRAPH);
        let request = Request { property, flags, ..Request::named(Name::from("make private")) };
        let claim = Claim { variable: own, mode: Mode::Write };
        push(core, &request, &[claim][..], async_vtable(&hold), hold)
    }

    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    pub fn contains(&self, variable: Variable) -> bool {
        self.variables.contains_key(&variable)
    }

    /// The slot of a variable that an operation of the graph names: one of these, or any that is
    /// alive.
    pub fn resolve<'a>(&self, core: &'a Core, variable: Variable) -> Result<&'a Slot, Error> {
        if self.contains(variable) {
            if let Some(slot) = core.memory.table.get(variable.index) {
                return Ok(slot);
            }
        }
        resolve(core, variable)
    }
}

impl Drop for PrivateVariables {
    /// Gives the slots back. The graph is gone, so its last replay is over, and no thread runs a
    /// lane of it; or there was none.
    fn drop(&mut self) {
        let Some(core) = &self.core else { return };
        let table = &core.memory.table;
        for (variable, given) in &self.variables {
            // AcqRel: pairs with the exchange in `Given::keep`: the side that comes second sees
            // what the other has done.
            let is_kept = given.as_ref().is_none_or(|given| given.0.swap(RELEASED, AcqRel) == KEPT);
            if let Some(slot) = table.get(variable.index).filter(|_| is_kept) {
                // Devices are done with the graph, and the place is another variable's from now on.
                let row = core.gpus.fleet.get().and_then(|fleet| fleet.rows.get(variable.index));
                row.into_iter().for_each(Row::clear);
                table.retire(slot);
            }
        }
    }
}

impl Given {
    /// Called by the deletion, which has the slot to itself: has the slot outlive it if the graph
    /// still is there.
    fn keep(&self, slot: &Slot) {
        slot.retire_twice(true);
        // AcqRel: pairs with the swap in the drop of `PrivateVariables`.
        if self.0.compare_exchange(ASKED, KEPT, AcqRel, Acquire).is_err() {
            slot.retire_twice(false);
        }
    }
}

impl Arrival {
    /// Counts down; the last one lets the replays begin.
    fn step(&self) {
        // AcqRel: the steps pair with each other, so the last one sees the completion, and what the
        // deletions have done.
        if self.left.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: all steps are done, also the one after the completion was stored.
            let completion = unsafe { (*self.completion.get()).take() };
            completion.into_iter().for_each(Completion::complete);
        }
    }
}
