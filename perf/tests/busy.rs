//! The busy process beside a measurement: what it uses counts as the measuring process's own, so
//! that it is no disturbance, and it does not outlive that process.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use seriatim_perf::busy::{Busy, WORD};
use seriatim_perf::machine::processor_time;

const DRIVER: &str = env!("CARGO_BIN_EXE_seriatim-perf");

#[test]
fn what_the_busy_process_uses_is_no_disturbance() {
    let during = Duration::from_secs(1);
    let before = processor_time();
    let busy = Busy::start(Path::new(DRIVER)).expect("a process");
    std::thread::sleep(during);
    let meanwhile = processor_time() - before;
    drop(busy);
    let used = processor_time() - before;
    // While it runs it is not in the time of this process, of which the cost of an operation is
    // made; afterwards it is. A machine that others use leaves it a part of a core.
    assert!(meanwhile < during / 40, "{meanwhile:?}");
    assert!(used > during / 20, "{used:?} of {during:?}");
}

#[test]
fn it_ends_when_the_process_that_started_it_is_gone() {
    // The first process is nobody's parent here.
    let no_parent = if cfg!(unix) { "0" } else { return };
    let mut command = Command::new(DRIVER);
    let status = command.args([WORD, no_parent]).stdout(Stdio::null()).status().expect("a process");
    assert!(status.success());
}
