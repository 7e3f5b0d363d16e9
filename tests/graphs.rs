//! Graphs: captured once, replayed as one operation. What is refused, how failures travel, in which
//! order what runs, parameters, and how it all ends. Random graphs beside random pushes are in
//! `tests/oracle.rs`.

mod common;
#[path = "graphs/ends.rs"]
mod ends;
#[path = "graphs/failures.rs"]
mod failures;
#[path = "graphs/helpers.rs"]
mod helpers;
#[path = "graphs/inside.rs"]
mod inside;
#[path = "graphs/lanes.rs"]
mod lanes;
#[path = "graphs/long.rs"]
mod long;
#[path = "graphs/looking.rs"]
mod looking;
#[path = "graphs/order.rs"]
mod order;
#[path = "graphs/parameters.rs"]
mod parameters;
#[path = "graphs/pipelines.rs"]
mod pipelines;
#[path = "graphs/private.rs"]
mod private;
#[path = "graphs/refusals.rs"]
mod refusals;

use common::task;

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match task().as_deref() {
        Some("replay while stopped") => refusals::replay_while_stopped(),
        Some("fork beside replays") => ends::fork_beside_replays(),
        _ => {}
    }
}
