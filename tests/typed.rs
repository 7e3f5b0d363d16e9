//! Typed access: operations are lent what they name, and nothing reaches a value in another way.

#[path = "typed/aliases.rs"]
mod aliases;
mod common;
#[path = "typed/guards.rs"]
mod guards;
#[path = "typed/lending.rs"]
mod lending;
#[path = "typed/lives.rs"]
mod lives;
#[path = "typed/programs.rs"]
mod programs;
#[cfg(not(miri))]
#[path = "typed/refused.rs"]
mod refused;
#[path = "typed/tiles.rs"]
mod tiles;

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match common::task().as_deref() {
        None => {}
        Some("fork") => lives::fork(),
        Some("fork beside a guard") => lives::fork_beside_a_guard(),
        Some(task) => panic!("no such task: {task}"),
    }
}
