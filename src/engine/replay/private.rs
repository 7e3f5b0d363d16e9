//! The private variables of a graph: only its own operations use them.
//!
//! Made by `api/private.rs`, on the thread that captures, and kept by the capture
//! (`replay/assemble.rs`) and then by the graph (`replay/program.rs`). The plan orders the
//! operations that use them, and replays of one graph follow each other, so a replay claims none of
//! them.
//!
//! The generation of their slots is that of a deleted variable: the check that refuses deleted
//! variables refuses these everywhere else, and costs nothing more.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::engine::resolve::{kill, resolve};
use crate::error::Error;
use crate::variable::handle::Variable;
use crate::variable::slot::Slot;
use std::collections::HashSet;
use std::sync::Arc;

/// The private variables of one graph, which end with it.
#[derive(Default)]
pub struct PrivateVariables {
    /// `None` if there are none.
    core: Option<Arc<Core>>,
    variables: HashSet<Variable>,
}

impl PrivateVariables {
    /// Makes a variable private that was made just now: no other thread knows its handle.
    pub fn add(&mut self, core: &Arc<Core>, variable: Variable) -> Result<(), Error> {
        // First, so that a thread that finds the variable dead finds out why.
        resolve(core, variable)?.say_private();
        kill(core, variable)?;
        self.core.get_or_insert_with(|| Arc::clone(core));
        self.variables.insert(variable);
        Ok(())
    }

    pub fn contains(&self, variable: Variable) -> bool {
        self.variables.contains(&variable)
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
    /// lane of it.
    fn drop(&mut self) {
        let Some(core) = &self.core else { return };
        let table = &core.memory.table;
        self.variables.iter().filter_map(|variable| table.get(variable.index)).for_each(|slot| table.retire(slot));
    }
}
