//! Faults of the machine and of the program, put in on purpose: threads that the system refuses,
//! descriptors that are used up, threads that lose their core in the middle of anything, handles
//! that go at the worst moment, forks under load, completions that nobody ends. What the engine
//! promises must hold all the same: a typed error or a result, nothing lost, nothing left behind.
//!
//! `SERIATIM_FAULTS_PENDING=10000000` makes the long backlog of `faults/backlog.rs` ten million
//! operations, instead of 200,000, or of the million of `LONG_TESTS=1`. `STEPPED_STRIDE=1` has
//! `faults/stepped.rs` stop a thread at each instruction, instead of at one in 23, or in 11.

#![cfg(target_os = "linux")]

#[path = "faults/backlog.rs"]
mod backlog;
#[path = "faults/beside_forks.rs"]
mod beside_forks;
mod common;
#[path = "faults/completions.rs"]
mod completions;
#[path = "faults/crossed_forks.rs"]
mod crossed_forks;
#[path = "faults/crowds.rs"]
mod crowds;
#[path = "faults/descriptors.rs"]
mod descriptors;
#[path = "faults/endings.rs"]
mod endings;
#[path = "futures/executor.rs"]
#[allow(dead_code)] // tests/futures.rs uses all of it.
mod executor;
#[path = "faults/filters.rs"]
mod filters;
#[path = "faults/forks.rs"]
mod forks;
#[path = "faults/freezer.rs"]
mod freezer;
#[path = "faults/frozen.rs"]
mod frozen;
#[path = "faults/future_forks.rs"]
mod future_forks;
#[cfg(target_arch = "x86_64")]
#[path = "faults/growth.rs"]
mod growth;
#[path = "faults/kept_threads.rs"]
mod kept_threads;
#[path = "faults/refusals.rs"]
mod refusals;
#[cfg(target_arch = "x86_64")]
#[path = "faults/stepped.rs"]
mod stepped;
#[path = "faults/threads.rs"]
mod threads;

use common::task;

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match task().as_deref() {
        Some("refused threads come back") => threads::all_or_none(),
        Some("refused closer") => threads::refused_closer(),
        Some("no descriptors") => descriptors::without_descriptors(),
        Some("frozen pushers") => frozen::frozen_pushers(),
        Some("frozen behind a lock") => frozen::frozen_behind_a_lock(),
        Some("frozen workers") => frozen::frozen_workers(),
        #[cfg(target_arch = "x86_64")]
        Some("stepped threads") => stepped::stepped_threads(),
        #[cfg(target_arch = "x86_64")]
        Some("growth beside a frozen thread") => growth::beside_a_frozen_thread(),
        Some("stopped and continued") => frozen::under_load(),
        Some("last handle") => endings::last_handle_with_pending(),
        Some("last handle races") => endings::last_handle_races(),
        Some("fork beside results") => future_forks::fork_beside_results(),
        Some("fork beside results that do not come") => future_forks::fork_beside_results_that_do_not_come(),
        Some("fork under load") => forks::fork_under_load(),
        Some("fork refused") => forks::fork_with_refused_threads(),
        Some("fences lost") => filters::fences_lost(),
        Some("fork beside operations that make engines") => crossed_forks::fork_beside_operations_that_make_engines(),
        Some("error before a fork") => crossed_forks::error_before_a_fork(),
        Some("forks at once") => crossed_forks::forks_at_once(),
        Some("fork beside an engine that comes late") => crossed_forks::fork_beside_an_engine_that_comes_late(),
        Some("fork beside pushes inside") => crossed_forks::fork_beside_pushes_inside(),
        Some("fork inside") => crossed_forks::fork_inside(),
        Some("fork in a wait for everything") => crossed_forks::fork_in_a_wait(|engine, _| engine.wait_for_all()),
        Some("fork in a wait for a variable") => crossed_forks::fork_in_a_wait(|engine, y| engine.wait_for_var(y)),
        Some("fork in a push for room") => crossed_forks::fork_in_a_push_for_room(),
        Some("push to a stopped engine beside a fork") => crossed_forks::push_to_a_stopped_engine_beside_a_fork(),
        Some("full engine beside a fork") => crossed_forks::full_engine_beside_a_fork(),
        Some("fork beside long operations") => forks::fork_beside_long_operations(),
        Some("pushes beside a fork") => forks::pushes_beside_a_fork(),
        Some("fork beside closures that go on") => forks::fork_beside_closures_that_go_on(),
        Some("fork beside a busy engine") => forks::fork_beside_a_busy_engine(),
        Some("fork beside crossing pushes") => forks::fork_beside_crossing_pushes(),
        Some("fork beside uses") => beside_forks::fork_beside_uses(),
        Some("fork beside pushers that found room") => beside_forks::fork_beside_counted_pushers(),
        Some("fork inside beside one that is alone") => beside_forks::fork_inside_beside_one_that_is_alone(),
        Some("fork of what cannot be stopped") => beside_forks::fork_of_what_cannot_be_stopped(),
        Some("backlog") => backlog::two_rounds(),
        Some("fork beside threads that end") => kept_threads::fork_beside_threads_that_end(),
        Some("fork beside a hook that makes an engine") => kept_threads::fork_beside_a_hook_that_makes_an_engine(),
        Some("crowd of engines") => crowds::crowd_of_engines(),
        Some("forgotten and dropped") => completions::forgotten_and_dropped(),
        _ => {}
    }
}
