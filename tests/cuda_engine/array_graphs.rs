//! Captured graphs of a random program over arrays: copies and kernels on the arrays of the moment,
//! replayed a few times and dropped. Copies that come after an operation which asks for
//! `device_graph()` are launched with it, and others are operations of their own.

use super::Pusher;
use crate::array::{Array, Value};
use crate::memory::mixed;
use crate::operation::{Work, CELLS};
use crate::programs::refused;
use seriatim::{Capture, Error, RunContext};

/// An operation of a graph, by the cells that it uses.
#[derive(Clone, Copy)]
enum Part {
    Copy { from: usize, to: usize },
    Kernel { id: u64, from: usize, to: usize },
    Look { id: u64, at: usize },
}

impl Part {
    fn record(self, c: &mut Capture, arrays: &[Array]) -> Result<(), Error> {
        match self {
            Part::Copy { from, to } => arrays[from].record_copy_to(&arrays[to], c),
            Part::Kernel { id, from, to } => {
                let (from, to) = (arrays[from].clone(), arrays[to].clone());
                let operation = c.op("part").context(to.context()).reads([from.variable()]).writes([to.variable()]);
                operation.push(move |run: &RunContext<'_>| {
                    let change =
                        move |from: Option<u64>, to: &Value| to.set(mixed(id, from.into_iter().chain([to.get()])));
                    to.kernel(run, id, Some(&from), change)
                })
            }
            Part::Look { id, at } => {
                let array = arrays[at].clone();
                let operation = c.op("look").context(array.context()).reads([array.variable()]).device_graph();
                operation.push(move |run: &RunContext<'_>| array.look_again(run, id))
            }
        }
    }
}

impl Pusher {
    /// Captures up to five operations and replays them. Without a failure before: of what is
    /// launched as a whole that would skip all.
    pub(super) fn replay(&mut self) -> Result<(), String> {
        let count = self.random.between(1, 5);
        let parts: Vec<Part> = (0..count).filter_map(|_| self.part()).collect();
        let arrays = &self.arrays;
        let record = |c: &mut Capture| parts.iter().try_for_each(|part| part.record(c, arrays));
        let (graph, ()) = self.engine.capture(record).map_err(refused)?;
        for _ in 0..self.random.between(1, 3) {
            graph.replay().map_err(refused)?;
            for part in &parts {
                match *part {
                    Part::Copy { from, to } => self.oracle.apply(0, &[from], &[to], Work::Copies, false),
                    Part::Kernel { id, from, to } => self.oracle.apply(id, &[from], &[to], Work::Computes, false),
                    Part::Look { .. } => {}
                }
            }
        }
        Ok(())
    }

    /// An operation, if the two arrays that were drawn go together.
    fn part(&mut self) -> Option<Part> {
        let (id, from) = (self.next_id(), self.random.below(CELLS));
        let to = (from + 1 + self.random.below(CELLS - 1)) % CELLS;
        let (source, target) = (&self.arrays[from], &self.arrays[to]);
        match self.random.below(3) {
            0 if target.is_on_device() => Some(Part::Look { id, at: to }),
            1 if target.is_on_device() && source.context() == target.context() => Some(Part::Kernel { id, from, to }),
            _ if source.is_on_device() || target.is_on_device() => Some(Part::Copy { from, to }),
            _ => None,
        }
    }
}
