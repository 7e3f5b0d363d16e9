//! The behaviour of the engine that this one replaces: its own tests, created again from their
//! description, and what its users complained about. Everything runs on every engine.

#[path = "peer_semantics/basics.rs"]
mod basics;
mod common;
#[path = "peer_semantics/complaints.rs"]
mod complaints;
#[path = "peer_semantics/forks.rs"]
mod forks;
#[path = "peer_semantics/outliving.rs"]
mod outliving;
#[path = "peer_semantics/workload.rs"]
mod workload;

use common::task;

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match task().as_deref() {
        None => {}
        Some("memory") => complaints::memory_under_a_bound(),
        Some("fork") => forks::fork_with_work_in_flight(),
        Some("fork several") => forks::fork_with_several_engines(),
        Some("fork owing") => forks::fork_while_owing(),
        Some("fork inside") => forks::fork_inside_an_operation(),
        Some(task) => complaints::leave_while_running(task),
    }
}
