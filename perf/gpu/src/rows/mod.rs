//! The rows of the table: each file asks some of the questions.

mod asleep;
mod chains;
mod cholesky;
mod fan;
mod floors;
mod grain;
mod pushers;
mod replay;
mod whole;

use crate::lab::Lab;
use crate::record::Table;

/// Asks every question.
///
/// # Errors
/// If the files cannot be written, or what a row needs cannot be made. A row whose runs fail says
/// so itself.
pub fn all(lab: &Lab, table: &mut Table) -> Result<(), String> {
    floors::calls(lab, table)?;
    floors::call_back(lab, table)?;
    floors::copies(lab, table)?;
    chains::chain(lab, table)?;
    chains::two_streams(lab, table)?;
    chains::random(lab, table)?;
    chains::readers(lab, table)?;
    chains::two_devices(lab, table)?;
    fan::fans(lab, table)?;
    asleep::round_trip(lab, table)?;
    asleep::to_the_processor(lab, table)?;
    asleep::sleeping(lab, table)?;
    pushers::pushers(lab, table)?;
    replay::replay(lab, table)?;
    grain::chain(lab, table)?;
    grain::stencil(lab, table)?;
    whole::pipeline(lab, table)?;
    whole::digits(lab, table)?;
    cholesky::cholesky(lab, table)
}

/// Microseconds an operation since then.
fn micros(began: std::time::Instant, operations: usize) -> f64 {
    began.elapsed().as_secs_f64() * 1e6 / operations as f64
}
