//! Which edges a build has to go through, in which order they are pushed, and which come first
//! where several are ready. Used by `pass.rs`.

use crate::error::{Error, ErrorKind};
use crate::graph::{EdgeId, FileId, Graph};
use crate::scan::EdgeState;
use crate::state::FileState;

/// What a build wants of an edge.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Want {
    /// Nothing: it is not part of the build.
    #[default]
    Out,
    /// To wait for what it waits for. Its own outputs are well.
    Nothing,
    /// To run it, unless its inputs turn out to be unchanged.
    Run,
}

/// The edges of a build.
#[derive(Default, Debug)]
pub struct Plan {
    /// What is wanted of each edge.
    pub wants: Vec<Want>,
    /// The edges that are part of it, each behind those whose outputs it uses.
    pub order: Vec<EdgeId>,
    /// How many commands there are behind each edge, itself counted, on the longest way: longer
    /// ways come first.
    pub weights: Vec<u32>,
    /// Edges that have to wait until files with more of their dependencies have been made.
    pub later: usize,
}

impl Plan {
    /// An empty one.
    pub fn new(graph: &Graph) -> Plan {
        Plan { wants: vec![Want::Out; graph.edges.len()], ..Plan::default() }
    }

    /// Adds a target and what it needs.
    ///
    /// # Errors
    /// [`ErrorKind::MissingInput`] if something that is needed is not there and nothing makes it.
    pub fn add(
        &mut self,
        graph: &Graph,
        files: &[FileState],
        edges: &[EdgeState],
        target: FileId,
        user: Option<FileId>,
    ) -> Result<(), Error> {
        let Some(edge) = graph.producer(target) else {
            // What only a command has named may be missing: it will say what it reads anew.
            if files[target].is_dirty() && graph.files[target].is_declared {
                let needed = user.map_or(String::new(), |user| format!(", needed by '{}',", graph.show(user)));
                let said = format!("'{}'{needed} missing and no known rule to make it", graph.show(target));
                return Err(Error::new(ErrorKind::MissingInput, said));
            }
            return Ok(());
        };
        if edges[edge].is_ready {
            return Ok(());
        }
        let is_new = self.wants[edge] == Want::Out;
        if files[target].is_dirty() {
            self.wants[edge] = Want::Run;
        } else if is_new {
            self.wants[edge] = Want::Nothing;
        }
        if is_new {
            for input in &graph.edges[edge].inputs {
                self.add(graph, files, edges, *input, Some(target))?;
            }
            self.order.push(edge);
        }
        Ok(())
    }

    /// When all targets have been added: weighs the edges, and puts off those whose dependencies
    /// are not known yet.
    pub fn finish(&mut self, graph: &Graph) {
        self.weights = vec![0; graph.edges.len()];
        let cost = |edge: EdgeId| u32::from(!graph.edges[edge].is_phony());
        for edge in self.order.iter().rev() {
            let weight = self.weights[*edge].max(cost(*edge));
            self.weights[*edge] = weight;
            for producer in graph.edges[*edge].inputs.iter().filter_map(|input| graph.producer(*input)) {
                self.weights[producer] = self.weights[producer].max(weight + cost(producer));
            }
        }
        let mut is_later = vec![false; graph.edges.len()];
        for edge in &self.order {
            let this = &graph.edges[*edge];
            is_later[*edge] = this.dyndep.is_some_and(|file| graph.files[file].has_dyndeps)
                || this.inputs.iter().filter_map(|input| graph.producer(*input)).any(|producer| is_later[producer]);
        }
        let before = self.order.len();
        self.order.retain(|edge| !is_later[*edge]);
        self.later = before - self.order.len();
    }
}
