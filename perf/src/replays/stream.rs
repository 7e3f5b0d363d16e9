//! Replays of one graph that follow each other: a stencil of two points, of which two bodies can
//! run at once. With a wait after each replay nothing of two replays overlaps. Without one the
//! pusher can run ahead, and memory tells how far; under a bound it cannot.

use std::time::Instant;

use serde::Serialize;
use seriatim::Engine;

use super::Plan;
use crate::entrants::ours::Seriatim;
use crate::entrants::{Runner, Style};
use crate::peak;
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
}

/// In an order in which what needs more memory comes later: what an allocator keeps would hide it.
pub(super) const MEASURED: [Between; 3] = [Between::Wait, Between::Bound, Between::Nothing];
/// How long the bodies are, in microseconds.
pub(super) const BODIES_US: [u32; 2] = [1, 2];
/// The bound.
const BOUND: usize = 1024;
/// Replays before those that count.
const WARM_UP: usize = 100;

impl Between {
    /// The bound of the engine; 0 for none.
    pub(super) fn bound(self) -> usize {
        if self == Between::Bound {
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
    let mut runner = Seriatim::on(engine, Style::Graph);
    runner.prepare(program)?;
    program.reset();
    (0..WARM_UP).for_each(|_| runner.run());
    let before = peak::restart();
    let start = Instant::now();
    if between == Between::Wait {
        (0..plan.replays).for_each(|_| runner.run());
    } else {
        (0..plan.replays).try_for_each(|_| runner.push()).map_err(|error| error.to_string())?;
        runner.engine().wait_for_all().map_err(|error| error.to_string())?;
    }
    let elapsed = start.elapsed();
    let growth_kb = before.and_then(|before| Some(peak::resident_kb()?.saturating_sub(before)));
    program.verify()?;
    let ns = elapsed.as_nanos() as f64 / plan.replays as f64;
    Ok(Streamed { between, body_ns: 1_000 * body_us, replays: plan.replays, ns, growth_kb })
}
