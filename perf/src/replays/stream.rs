//! Replays that follow each other: a stencil of two points, of which two bodies can run at once.
//! With a wait after each replay nothing of two replays overlaps. Without one the pusher can run
//! ahead, and memory tells how far; under a bound it cannot. Replays of a graph take turns even so;
//! those of a pipeline overlap.

use std::time::{Duration, Instant};

use serde::Serialize;
use seriatim::{Engine, Error};

use super::Plan;
use crate::entrants::ours::{self, Seriatim};
use crate::entrants::{Runner, Style};
use crate::peak;
use crate::program::Program;
use crate::workloads;

/// What is between two replays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Between {
    /// A wait for everything. So a bound would have nothing to hold up.
    Wait,
    /// Nothing, under a bound of [`BOUND`] operations in flight.
    Bound,
    /// Nothing.
    Nothing,
    /// Nothing, and the program is a pipeline, under the same bound.
    Pipeline,
    /// Nothing for [`SPELL`] replays of a pipeline, then a wait for everything.
    Spells,
}

/// In an order in which what needs more memory comes later: what an allocator keeps would hide it.
pub(super) const MEASURED: [Between; 5] =
    [Between::Wait, Between::Bound, Between::Pipeline, Between::Spells, Between::Nothing];
/// How long the bodies are, in microseconds.
pub(super) const BODIES_US: [u32; 2] = [1, 2];
/// The bound.
const BOUND: usize = 1024;
/// Replays of a pipeline between two waits.
const SPELL: usize = 256;
/// Replays before those that count.
const WARM_UP: usize = 100;

impl Between {
    /// The bound of the engine; 0 for none.
    pub(super) fn bound(self) -> usize {
        if matches!(self, Between::Bound | Between::Pipeline) {
            BOUND
        } else {
            0
        }
    }
}

/// What a replay of a row took.
#[derive(Serialize, Debug)]
pub(super) struct Streamed {
    between: Between,
    body_ns: u32,
    replays: usize,
    /// Nanoseconds a replay, which has four operations.
    ns: f64,
    /// By how much resident memory was larger at its peak than before, in kB. Absent where the
    /// system does not say.
    growth_kb: Option<u64>,
}

pub(super) fn measure(engine: Engine, between: Between, body_us: u32, plan: Plan) -> Result<Streamed, String> {
    let program = workloads::pair(WARM_UP + plan.replays, body_us * plan.per_us);
    let took = if matches!(between, Between::Pipeline | Between::Spells) {
        pipelined(&engine, between, program, plan.replays)
    } else {
        replayed(engine, between, program, plan.replays)
    };
    let (elapsed, growth_kb) = took?;
    program.verify()?;
    let ns = elapsed.as_nanos() as f64 / plan.replays as f64;
    Ok(Streamed { between, body_ns: 1_000 * body_us, replays: plan.replays, ns, growth_kb })
}

/// What so many replays of the program's graph take, and by how much memory has grown.
fn replayed(engine: Engine, between: Between, program: &'static Program, replays: usize) -> Result<Took, String> {
    let mut runner = Seriatim::on(engine, Style::Graph);
    runner.prepare(program)?;
    program.reset();
    (0..WARM_UP).for_each(|_| runner.run());
    timed(|| {
        if between == Between::Wait {
            (0..replays).for_each(|_| runner.run());
            return Ok(());
        }
        (0..replays).try_for_each(|_| runner.push())?;
        runner.engine().wait_for_all()
    })
}

/// The same for replays of its pipeline.
fn pipelined(engine: &Engine, between: Between, program: &'static Program, replays: usize) -> Result<Took, String> {
    let said = |error: Error| error.to_string();
    let mut pipeline = ours::pipeline(engine, program).map_err(said)?;
    program.reset();
    (0..WARM_UP).try_for_each(|_| pipeline.replay()).and_then(|()| engine.wait_for_all()).map_err(said)?;
    let spell = if between == Between::Spells { SPELL } else { replays };
    timed(|| {
        for first in (0..replays).step_by(spell) {
            (first..replays.min(first + spell)).try_for_each(|_| pipeline.replay())?;
            engine.wait_for_all()?;
        }
        Ok(())
    })
}

/// How long, and by how much resident memory has grown in kB, where the system says it.
type Took = (Duration, Option<u64>);

fn timed(replays: impl FnOnce() -> Result<(), Error>) -> Result<Took, String> {
    let before = peak::restart();
    let start = Instant::now();
    replays().map_err(|error| error.to_string())?;
    let elapsed = start.elapsed();
    Ok((elapsed, before.and_then(|before| Some(peak::resident_kb()?.saturating_sub(before)))))
}
