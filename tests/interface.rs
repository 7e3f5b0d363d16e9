//! The interface says what is so: whom errors reach and what they keep, what settings are taken
//! from, what a first push costs, and which variables an operation may touch.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "interface/calls.rs"]
mod calls;
mod common;
#[path = "interface/declared.rs"]
mod declared;
#[path = "interface/hooks.rs"]
mod hooks;
#[path = "interface/on_error.rs"]
mod on_error;
#[path = "interface/prepare.rs"]
mod prepare;
#[cfg(unix)]
#[path = "interface/publish.rs"]
mod publish;
#[path = "interface/settings.rs"]
mod settings;
#[path = "interface/sources.rs"]
mod sources;
#[path = "interface/stepping.rs"]
mod stepping;
#[cfg(target_os = "linux")]
#[path = "interface/system.rs"]
mod system;
#[path = "interface/traits.rs"]
mod traits;

use common::task;

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match task().as_deref() {
        None => {}
        Some(task) if on_error::carry_out(task) || settings::carry_out(task) || prepare::carry_out(task) => {}
        #[cfg(target_os = "linux")]
        Some(task) if system::carry_out(task) => {}
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Some(task) if calls::carry_out(task) => {}
        Some(task) => panic!("no such task: {task}"),
    }
}
