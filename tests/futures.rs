//! Results of operations, waits as futures, and futures as operations, under an executor of our
//! own. `tests/runtimes/` has the same with those of others.

mod common;
#[path = "futures/executor.rs"]
mod executor;
#[path = "futures/operations.rs"]
mod operations;
#[path = "futures/results.rs"]
mod results;
#[path = "futures/stops.rs"]
mod stops;
#[path = "futures/waits.rs"]
mod waits;
