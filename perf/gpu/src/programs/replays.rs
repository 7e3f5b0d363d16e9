//! Graphs of a random program: captured, replayed a few times while a parameter changes, dropped.

use super::{say, Array, Program, LENGTH};
use crate::mix::{mixed, Mixture};
use seriatim::{Context, Error};
use std::sync::Arc;

impl Program<'_> {
    /// Captures three kernels on arrays drawn at random, and replays them.
    pub(super) fn replays(&mut self) -> Result<(), Error> {
        let (whole, spin) = (self.below(2) == 0, [0, 300][self.below(2)]);
        let steps: Vec<[usize; 3]> = (0..3).map(|_| self.three()).collect();
        let arrays = steps.iter().map(|step| step.map(|at| self.places[at].array.clone()));
        let arrays: Vec<[Array; 3]> = arrays.collect();
        let (graph, id) = self.engine.capture(|c| {
            let id = c.parameter(0u64);
            for [out, one, other] in arrays {
                let (mix, id) = (Arc::clone(&self.device.mix), id.clone());
                let operation = c.op("part").context(Context::gpu(0));
                let operation = operation.reads([one.variable(), other.variable()]).writes([out.variable()]);
                let operation = if whole { operation.device_graph() } else { operation };
                operation.push(move |run| {
                    let stream = run.stream().ok_or("this operation has no stream")?;
                    let lent = [Some(one.read_on(run).map_err(say)?), Some(other.read_on(run).map_err(say)?), None];
                    let (out, id) = (out.write_on(run).map_err(say)?, *id.get(run).map_err(say)?);
                    // SAFETY: the operation has declared the arrays, which its device can use.
                    unsafe { mix.mix(0, stream, &Mixture { out, from: lent, id, spin, count: LENGTH }) }
                })?;
            }
            Ok(id)
        })?;
        for round in 0..=self.below(3) as u64 {
            // Not in each round: a graph of the driver is launched again as it is.
            if round != 1 {
                id.set(self.id + round)?;
            }
            let value = if round == 1 { self.id } else { self.id + round };
            graph.replay()?;
            for [to, one, other] in &steps {
                let values = [self.places[*one].expected, self.places[*other].expected, 0];
                self.places[*to].expected = mixed(self.places[*to].expected, values, value, spin);
            }
        }
        Ok(())
    }
}
