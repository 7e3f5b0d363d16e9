//! Errors: every kind is provoked and says what went wrong, where and what to do; failures travel
//! along variables, are taken once, and never hang or crash the engine.

mod common;
#[path = "errors/completions.rs"]
mod completions;
#[path = "errors/helpers.rs"]
mod helpers;
#[path = "errors/inside.rs"]
mod inside;
#[path = "errors/kinds.rs"]
mod kinds;
#[path = "errors/panics.rs"]
mod panics;
#[path = "errors/settings.rs"]
mod settings;
#[path = "errors/travel.rs"]
mod travel;

use common::task;

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match task().as_deref() {
        Some("environment") => settings::wrong_environment(),
        Some("right environment") => settings::right_environment(),
        Some("threads") => settings::refused_threads(),
        Some("wait in a destructor") => panics::wait_in_a_destructor(),
        Some("wait in the destructor of an error") => panics::wait_in_the_destructor_of_an_error(),
        _ => {}
    }
}
