//! Resolves the handle of a variable to its slot, and makes the errors of handles that lead to
//! none.
//!
//! Used by pushes (`push/`, `holds.rs`), waits (`wait/for_var.rs`, `wait/pull.rs`), graphs
//! (`replay/private.rs`), scopes (`scope/open.rs`) and `src/api/`, on any thread. The same rule is
//! in `adopt` of `push/acquire.rs`. The quick ways of a push compare the generation with that of a
//! variable that the pusher owns (`tickets/owner/place.rs`). No state here: `variable/table.rs`
//! begins a generation, on the thread that makes a variable. [`kill`] ends it, on the thread that
//! pushes the deletion or captures.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::error::{Error, ErrorKind};
use crate::sync::Ordering::*;
use crate::variable::handle::Variable;
use crate::variable::slot::Slot;

/// The slot of a variable, if the variable is alive and this engine's.
#[inline]
pub fn resolve(core: &Core, variable: Variable) -> Result<&Slot, Error> {
    if variable.may_be_of(core.memory.id) {
        if let Some(slot) = core.memory.table.get(variable.index) {
            // Acquire: pairs with the release in `variable/table.rs` that begins a generation.
            if slot.generation.load(Acquire) == variable.generation {
                return Ok(slot);
            }
        }
    }
    Err(unusable(core, variable))
}

/// Ends the generation of a variable: its handles are dead from now on. Of several deletions only
/// one succeeds. Called by `push/enlist.rs` and `replay/private.rs`.
pub fn kill(core: &Core, variable: Variable) -> Result<(), Error> {
    let generation = &resolve(core, variable)?.generation;
    let dead = variable.generation.wrapping_add(1);
    match generation.compare_exchange(variable.generation, dead, AcqRel, Relaxed) {
        Ok(_) => Ok(()),
        Err(_) => Err(deleted(variable)),
    }
}

#[cold]
fn unusable(core: &Core, variable: Variable) -> Error {
    if variable.engine == core.memory.id {
        let slot = core.memory.table.get(variable.index);
        // Acquire: pairs with the release in `kill`, after the slot was said to be private.
        let is_dead = |slot: &&Slot| slot.generation.load(Acquire) == variable.generation.wrapping_add(1);
        if slot.filter(is_dead).is_some_and(Slot::is_private) {
            return Error::new(
                ErrorKind::PrivateVariable,
                format!("{variable:?} is private to a graph: only operations of that graph can use it"),
            );
        }
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
