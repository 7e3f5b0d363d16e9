//! Cancelled groups and deadlines: what has not started is skipped like what depends on a failure,
//! and keeps its place among the uses of its variables.

mod common;
#[path = "cancellation/deadlines.rs"]
mod deadlines;
#[path = "futures/executor.rs"]
#[allow(dead_code)] // It is that of the tests of futures, of which these need a part.
mod executor;
#[path = "cancellation/futures.rs"]
mod futures;
#[path = "cancellation/graphs.rs"]
mod graphs;
#[path = "cancellation/programs.rs"]
mod programs;
#[path = "cancellation/races.rs"]
mod races;
#[path = "cancellation/rules.rs"]
mod rules;
#[path = "cancellation/ways.rs"]
mod ways;
