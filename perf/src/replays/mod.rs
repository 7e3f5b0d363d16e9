//! What replays cost beside their operations: by the names of a graph, one after another with and
//! without a wait between them, and where the operations are few and long.

pub mod few;
pub mod shapes;
mod stream;

use seriatim::{Builder, Engine, Kind};

use crate::entrants::{Entrant, Style};
use crate::record::{self, Who};

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Replays in a row, of graphs whose operations take a while. Of empty ones there are a part.
    pub replays: usize,
    /// Iterations of the compute kernel in a microsecond.
    pub per_us: u32,
}

/// So many fewer replays are of empty operations.
const PART: usize = 50;
/// From so many replays in a row on, graphs of few long operations run as often as is wanted of a
/// median.
const IN_FULL: usize = 100_000;

/// Measures the graphs of an entrant of ours, and prints a record of each. The naive engine has
/// only those in which nothing overlaps.
///
/// # Errors
/// If the entrant is not of ours and of graphs, or a result was wrong.
pub fn run(entrant: &Entrant, plan: Plan) -> Result<(), String> {
    let builder = builder(entrant)?;
    let who = Who::new(entrant, String::from(env!("CARGO_PKG_VERSION")));
    for (shape, names) in shapes::MEASURED {
        let engine = builder.clone().build().map_err(|error| error.to_string())?;
        let claims = shapes::measure(&engine, shape, names, plan.replays.div_ceil(PART))?;
        record::print("replay-names", &who, claims);
    }
    if entrant.mode == "naive" {
        return Ok(());
    }
    for how in stream::MEASURED {
        for body_us in stream::BODIES_US {
            let bound = how.bound();
            let engine = builder.clone().bound(bound).build().map_err(|error| error.to_string())?;
            let streamed = stream::measure(engine, how, body_us, plan)?;
            record::print("replay-stream", &who, streamed);
        }
    }
    let runs = if plan.replays < IN_FULL { 2 } else { 7 };
    for (operations, nap) in few::MEASURED {
        for few in few::measure(operations, nap, runs)? {
            record::print("few-long", &who, few);
        }
    }
    Ok(())
}

/// How an entrant's engine is set.
fn builder(entrant: &Entrant) -> Result<Builder, String> {
    match (entrant.system, entrant.mode, entrant.style) {
        ("seriatim", "naive", Style::Graph) => Ok(Engine::builder().kind(Kind::Naive)),
        ("seriatim", "default", Style::Graph) => Ok(Engine::builder()),
        _ => Err(String::from("replays are measured of seriatim-naive graph and seriatim-default graph")),
    }
}
