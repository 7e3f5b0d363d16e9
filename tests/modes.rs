//! Access modes: operations that commute, and reductions.

mod common;
#[path = "modes/commuting.rs"]
mod commuting;
#[path = "modes/programs.rs"]
mod programs;
#[path = "modes/reducing.rs"]
mod reducing;
#[path = "modes/refusals.rs"]
mod refusals;
