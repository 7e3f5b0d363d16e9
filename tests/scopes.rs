//! Scopes: operations that borrow from the stack, and are joined before the call returns; outside
//! of operations and inside them.

mod common;
#[path = "scopes/cycles.rs"]
mod cycles;
#[path = "scopes/inside.rs"]
mod inside;
#[path = "scopes/limits.rs"]
mod limits;
#[path = "scopes/oracle.rs"]
mod oracle;
#[path = "scopes/outside.rs"]
mod outside;

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match common::task().as_deref() {
        None => {}
        Some("deep scopes") => inside::deep(),
        Some("fork in a scope") => inside::fork(),
        Some("scope ends before its child") => outside::ends_before_its_child(),
        Some(task) => panic!("no such task: {task}"),
    }
}
