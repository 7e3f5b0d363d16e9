//! `seriatim_engine_prepare()`: the threads are up before the first push. Alone in its process,
//! whose threads it counts.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::ptr::null;

#[cfg(all(target_os = "linux", not(miri)))]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the system lists threads").count()
}

/// Calls it from inside.
unsafe extern "C-unwind" fn prepare(argument: *mut c_void, _: *const SeriatimRunContext) -> c_int {
    // SAFETY: pushed with the handle of its engine, which lives.
    refused(unsafe { seriatim_engine_prepare(argument.cast()) }, Status::WaitInsideOperation, "prepare");
    0
}

#[test]
fn an_engine_is_prepared_once_it_says_so() {
    let engine =
        Engine::with(&[("CPU_WORKERS", "3"), ("PRIORITY_WORKERS", "2"), ("PIN", "off"), ("WAITERS_HELP", "off")]);
    // SAFETY: the engine lives, and a null pointer is what is tested.
    unsafe {
        refused(seriatim_engine_prepare(null()), Status::NullPointer, "engine");
        #[cfg(all(target_os = "linux", not(miri)))]
        let before = threads();
        ok(seriatim_engine_prepare(engine.0));
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let prepared = threads();
            assert!(prepared >= before + 5, "{before} threads, then {prepared}");
            let probe = Probe::default();
            for property in [SeriatimProperty::Normal, SeriatimProperty::CpuPrioritized] {
                let operation = SeriatimOperation { property: property as u32, ..Default::default() };
                ok(engine.push(&operation, Some(count_run), &probe));
            }
            ok(engine.wait());
            probe.expect(2, 2);
            assert_eq!(threads(), prepared, "a push started a thread");
        }
        ok(seriatim_push(engine.0, &SeriatimOperation::default(), Some(prepare), engine.0.cast(), None));
        ok(engine.wait());
        ok(seriatim_engine_stop(engine.0));
        refused(seriatim_engine_prepare(engine.0), Status::Stopped, "stopped");
        ok(seriatim_engine_start(engine.0));
        ok(seriatim_engine_prepare(engine.0));
    }
}
