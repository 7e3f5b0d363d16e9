//! Whether an edge has to run, decided when all that it uses has been made: by then inputs may
//! have turned out to be unchanged. Called by `pass.rs` inside the edge's operation, on whatever
//! thread the engine runs it.

use crate::build_log::BuildLog;
use crate::error::Error;
use crate::graph::{EdgeId, Graph};
use crate::plan::Want;
use crate::scan::{outputs_are_dirty, EdgeState};
use crate::state::FileState;

/// What a pass of a build knows. Only the states of files change while it runs.
pub struct Work {
    /// The graph.
    pub graph: Graph,
    /// The log of commands, as it was before.
    pub log: BuildLog,
    /// What is known of the files.
    pub files: Vec<FileState>,
    /// What is known of the edges.
    pub edges: Vec<EdgeState>,
    /// What is wanted of the edges.
    pub wants: Vec<Want>,
    /// Which edges come first.
    pub weights: Vec<u32>,
}

/// What is to be done with an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Its command has to run.
    Run,
    /// It was to run, and its inputs turned out to be unchanged.
    Unchanged,
    /// There was nothing to be done but to wait.
    Nothing,
}

/// Decides about an edge whose inputs have been made.
///
/// # Errors
/// If its variables refer to each other in a circle.
pub fn decide(work: &Work, edge: EdgeId) -> Result<Decision, Error> {
    let this = &work.graph.edges[edge];
    if work.wants[edge] != Want::Run {
        return Ok(Decision::Nothing);
    }
    let when_dirty = if this.is_phony() { Decision::Nothing } else { Decision::Run };
    if work.edges[edge].lacks_deps {
        return Ok(when_dirty);
    }
    let mut newest = None;
    for input in this.real_inputs() {
        let state = &work.files[*input];
        if state.is_dirty() {
            return Ok(when_dirty);
        }
        newest = newest.max(Some(state.mtime()));
    }
    if outputs_are_dirty(&work.graph, &work.log, &work.files, edge, newest)? {
        return Ok(when_dirty);
    }
    this.outputs.iter().for_each(|output| work.files[*output].set_dirty(false));
    Ok(if this.is_phony() { Decision::Nothing } else { Decision::Unchanged })
}
