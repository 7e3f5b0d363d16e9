//! The life of engines, variables and operations: start, stop and the end; bounds; priorities;
//! deletion; and the sizes at the edge: long chains, deep nesting, wide operations, large closures.
//! Where operations run, and on which cores.

#[path = "life/asynchronous.rs"]
mod asynchronous;
#[path = "life/bounds.rs"]
mod bounds;
mod common;
#[cfg(target_os = "linux")]
#[path = "life/cores.rs"]
mod cores;
#[path = "life/deadlines.rs"]
mod deadlines;
#[path = "life/deletion.rs"]
mod deletion;
#[path = "life/ending.rs"]
mod ending;
#[path = "life/expected.rs"]
mod expected;
#[path = "life/helpers.rs"]
mod helpers;
#[path = "life/kept_threads.rs"]
mod kept_threads;
#[path = "life/locks.rs"]
mod locks;
#[path = "life/looking.rs"]
mod looking;
#[path = "life/nesting.rs"]
mod nesting;
#[path = "life/newcomers.rs"]
mod newcomers;
#[path = "life/order.rs"]
mod order;
#[path = "life/placement.rs"]
mod placement;
#[path = "life/sizes.rs"]
mod sizes;
#[path = "life/stopping.rs"]
mod stopping;
#[path = "life/unused.rs"]
mod unused;

use common::task;

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match task().as_deref() {
        Some("wait while stopped") => stopping::wait_while_stopped(),
        Some("prepare while stopped") => stopping::prepare_while_stopped(),
        Some("last handle") => ending::last_handle_inside(),
        Some("last handle skipped") => ending::last_handle_in_a_skipped_closure(),
        Some("last handle in a waker") => kept_threads::last_handle_in_a_waker(),
        Some("many engines") => ending::many_engines(),
        Some("hundred engines") => nesting::hundred_engines(),
        Some("nested async") => sizes::nest_on_the_pusher(),
        Some("waits given up") => sizes::give_up_waits(),
        _ => {}
    }
}
