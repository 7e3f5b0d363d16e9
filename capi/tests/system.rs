//! `LOCK_MEMORY` and `FIFO_PRIORITY`: what the system grants, and what it refuses. Alone in its
//! process, which gives up its rights on the way.

#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use common::*;
use seriatim_c::*;

/// Bytes of this process that are locked, in kilobytes.
fn locked() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("there is such a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// From here on the process may only do what the limits allow, which is nothing.
fn give_up_rights() {
    let nothing = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: changes the rights of this process, in which there is no other test.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const nothing), 0);
        assert_eq!(libc::setrlimit(libc::RLIMIT_RTPRIO, &raw const nothing), 0);
        if libc::getuid() == 0 {
            assert_eq!(libc::setuid(65534), 0);
        }
    }
}

#[test]
fn what_the_system_is_asked_for_is_had_or_is_an_error() {
    let usual = [("CPU_WORKERS", "1"), ("PIN", "off")];
    let with = |more| Engine::try_with(&[usual[0], usual[1], more]);
    // SAFETY: the engine lives.
    let prepare = |engine: &Engine| unsafe { seriatim_engine_prepare(engine.0) };
    let before = locked();
    match with(("LOCK_MEMORY", "on")) {
        Ok(engine) => {
            ok(prepare(&engine));
            assert!(locked() > before, "nothing is locked");
        }
        Err(status) => assert_eq!(status, Status::MemoryLockRefused),
    }
    assert_eq!(locked(), before);
    let engine = with(("FIFO_PRIORITY", "7")).expect("valid settings");
    assert!([Status::Ok, Status::PriorityRefused].contains(&prepare(&engine)), "{}", last_error());
    drop(engine);

    give_up_rights();
    assert_eq!(with(("LOCK_MEMORY", "on")).err(), Some(Status::MemoryLockRefused));
    assert!(last_error().contains("RLIMIT_MEMLOCK"), "{}", last_error());
    let engine = with(("FIFO_PRIORITY", "7")).expect("valid settings");
    refused(prepare(&engine), Status::PriorityRefused, "RLIMIT_RTPRIO");
    let probe = Probe::default();
    let pushed = engine.push(&SeriatimOperation::default(), Some(count_run), &probe);
    refused(pushed, Status::PriorityRefused, "SCHED_FIFO with priority 7");
    probe.expect(0, 1);
    for (key, value, valid) in [("LOCK_MEMORY", "some", "on, off"), ("FIFO_PRIORITY", "100", "0 to 99")] {
        assert_eq!(with((key, value)).err(), Some(Status::BadSetting));
        assert!(last_error().contains(valid), "{}", last_error());
    }
}
