//! Typed access: operations are lent what they name, and nothing reaches a value in another way.

#[path = "typed/aliases.rs"]
mod aliases;
mod common;
#[path = "futures/executor.rs"]
#[allow(dead_code)] // tests/futures.rs uses all of it.
mod executor;
#[path = "typed/guards.rs"]
mod guards;
#[path = "typed/lending.rs"]
mod lending;
#[path = "typed/lives.rs"]
mod lives;
#[path = "typed/mixed.rs"]
mod mixed;
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
        Some("fork before a guard is dropped") => lives::fork_before_a_guard_is_dropped(),
        Some("fork with a value that the engine keeps") => lives::fork_with_a_kept_value(),
        Some(task) => panic!("no such task: {task}"),
    }
}
