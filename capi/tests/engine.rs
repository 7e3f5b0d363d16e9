//! The life of engines, what operations are told, and what can be seen of both.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;

unsafe fn take_text(give: impl FnOnce(*mut *mut c_char) -> Status) -> String {
    let mut text = null_mut();
    ok(give(&mut text));
    // SAFETY: the library made the text, and it is freed once.
    unsafe {
        let copy = CStr::from_ptr(text).to_str().expect("texts are UTF-8").to_owned();
        ok(seriatim_string_free(text));
        copy
    }
}

#[test]
fn stop_start_and_clones() {
    for kind in KINDS {
        let probe = Probe::default();
        let engine = Engine::of_kind(kind);
        let mut clone = null_mut();
        // SAFETY: handles live, and are deleted once.
        unsafe {
            ok(seriatim_engine_clone(engine.0, &mut clone));
            ok(engine.push(&SeriatimOperation::default(), Some(count_run), &probe));
            ok(seriatim_engine_stop(clone));
            probe.expect(1, 1);
            ok(seriatim_engine_stop(engine.0));
            refused(engine.push(&SeriatimOperation::default(), Some(count_run), &probe), Status::Stopped, "start()");
            ok(seriatim_engine_start(engine.0));
            ok(seriatim_engine_start(clone));
            ok(engine.push(&SeriatimOperation::default(), Some(count_run), &probe));
            drop(engine);
            // The other handle keeps the engine.
            ok(seriatim_wait_for_all(clone));
            probe.expect(2, 3);
            ok(seriatim_engine_delete(clone));
        }
    }
}

#[test]
fn deleting_an_engine_drains_it() {
    for kind in KINDS {
        let probes: Vec<Probe> = (0..100).map(|_| Probe::default()).collect();
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        for probe in &probes {
            ok(engine.push(&writing(&variable), Some(count_run), probe));
        }
        drop(engine);
        probes.iter().for_each(|probe| probe.expect(1, 1));
    }
}

#[test]
fn an_operation_may_delete_the_last_handle() {
    for kind in KINDS {
        let [held, last]: [Probe; 2] = Default::default();
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        ok(engine.push_async(&writing(&variable), Some(keep), &held));
        ok(engine.push(&writing(&variable), Some(delete_engine), &last));
        let completion = held.take_completion();
        last.engine.store(engine.0, SeqCst);
        std::mem::forget(engine);
        // SAFETY: the completion is used once.
        ok(unsafe { seriatim_completion_complete(completion) });
        while last.deletions.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        held.expect(1, 1);
        last.expect(1, 1);
    }
}

unsafe extern "C-unwind" fn look_around(argument: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    // SAFETY: the run context is this call's; the argument is an engine that lives.
    unsafe {
        assert_eq!(CStr::from_ptr(seriatim_run_context_name(run)), c"look");
        assert_eq!(seriatim_run_context_context(run), SeriatimContext { device: 1, id: 3 });
        assert!(seriatim_run_context_worker(run) >= -1);
        assert!(seriatim_run_context_stream(run).is_null());
        assert_eq!(seriatim_run_context_nested_threads(run), 5);
        let status = seriatim_wait_for_all(argument.cast());
        refused(status, Status::WaitInsideOperation, "cannot wait");
        // The last text counts.
        ok(seriatim_run_context_set_error(run, c"one".as_ptr()));
        ok(seriatim_run_context_set_error(run, c"two\xff".as_ptr()));
    }
    7
}

unsafe extern "C-unwind" fn fail_silently(_: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    // SAFETY: the run context is this call's.
    unsafe {
        ok(seriatim_run_context_set_error(run, c"taken back".as_ptr()));
        ok(seriatim_run_context_set_error(run, std::ptr::null()));
    }
    7
}

#[test]
fn operations_learn_where_they_run_and_say_why_they_fail() {
    for kind in KINDS {
        let engine = Engine::with(&[("ENGINE", kind), ("SERIATIM_NESTED_THREADS", "5"), ("PIN", "off")]);
        let context = SeriatimContext { device: SeriatimDevice::CpuPinned as u32, id: 3 };
        let operation = SeriatimOperation { name: c"look".as_ptr(), context, ..SeriatimOperation::default() };
        // SAFETY: the engine outlives the operation.
        ok(unsafe { seriatim_push(engine.0, &operation, Some(look_around), engine.0.cast(), None) });
        refused(engine.wait(), Status::OperationFailed, "'look' failed: two\u{fffd}");
        // SAFETY: the function does not use its argument.
        ok(unsafe { seriatim_push(engine.0, &operation, Some(fail_silently), null_mut(), None) });
        refused(engine.wait(), Status::OperationFailed, "its function returned 7");
        ok(engine.wait());
        // A success leaves the text.
        assert!(last_error().contains("returned 7"));
    }
}

#[test]
fn asynchronous_operations_may_fail_without_a_text() {
    let probe = Probe::default();
    let engine = Engine::of_kind("per-device");
    ok(engine.push_async(&SeriatimOperation::default(), Some(keep), &probe));
    // SAFETY: the completion is used once.
    ok(unsafe { seriatim_completion_fail(probe.take_completion(), std::ptr::null()) });
    refused(engine.wait(), Status::OperationFailed, "without a reason");
}

#[test]
fn versions_count_what_changed_a_variable() {
    let probe = Probe::default();
    let engine = Engine::of_kind("per-device");
    let variable = engine.variable();
    for _ in 0..10 {
        ok(engine.push(&reading(&variable), Some(count_run), &probe));
        ok(engine.push(&writing(&variable), Some(count_run), &probe));
    }
    // Repeats are harmless, and writing wins over reading.
    let thrice = [variable; 3];
    let operation = SeriatimOperation { writes: thrice.as_ptr(), write_count: 3, ..reading(&variable) };
    ok(engine.push(&operation, Some(count_run), &probe));
    let mut version = 0;
    // SAFETY: the engine lives.
    unsafe {
        ok(seriatim_wait_for_variable(engine.0, variable));
        ok(seriatim_variable_version(engine.0, variable, &mut version));
    }
    assert_eq!(version, 11);
    ok(engine.wait());
    assert_eq!(probe.runs.load(SeqCst), 21);
}

#[test]
fn profiles_graphs_and_warnings() {
    let [probe, held]: [Probe; 2] = Default::default();
    let engine = Engine::of_kind("per-device");
    let named = |name: &'static CStr| SeriatimOperation { name: name.as_ptr(), ..SeriatimOperation::default() };
    // SAFETY: the engine lives, texts are freed once, the completion is used once.
    unsafe {
        ok(seriatim_profile_start(engine.0));
        ok(engine.push(&named(c"seen"), Some(count_run), &probe));
        ok(engine.wait());
        ok(seriatim_profile_stop(engine.0));
        ok(engine.push(&named(c"unseen"), Some(count_run), &probe));
        ok(engine.wait());
        let table = take_text(|out| seriatim_profile_table(engine.0, out));
        assert!(table.contains("seen") && !table.contains("unseen"), "{table}");

        ok(engine.push_async(&named(c"in flight"), Some(keep), &held));
        let completion = held.take_completion();
        let graph = take_text(|out| seriatim_dump_dot(engine.0, out));
        assert!(graph.starts_with("digraph") && graph.contains("in flight"), "{graph}");
        ok(seriatim_completion_complete(completion));
        assert_eq!(take_text(|out| seriatim_engine_warnings(engine.0, out)), "");
        #[cfg(not(miri))]
        {
            let path = format!("{}/trace.json\0", env!("CARGO_TARGET_TMPDIR"));
            ok(seriatim_profile_write_trace(engine.0, path.as_ptr().cast()));
            let trace = std::fs::read_to_string(path.trim_end_matches('\0')).unwrap();
            assert!(trace.contains("\"traceEvents\"") && trace.contains("\"seen\""), "{trace}");
        }
    }
}

/// With the profiler off: both ways to push, and each use of an operator.
#[test]
fn an_operation_is_profiled_by_itself() {
    let [probe, held]: [Probe; 2] = Default::default();
    let engine = Engine::of_kind("per-device");
    let named = |name: &'static CStr, profiled| SeriatimOperation {
        name: name.as_ptr(),
        profiled,
        ..SeriatimOperation::default()
    };
    ok(engine.push(&named(c"passed over", 0), Some(count_run), &probe));
    ok(engine.push(&named(c"recorded", 1), Some(count_run), &probe));
    ok(engine.push_async(&named(c"held", 1), Some(keep), &held));
    let mut operator = null_mut();
    // SAFETY: the engine and the probe live, the completion is used once, texts are freed once.
    unsafe {
        ok(seriatim_completion_complete(held.take_completion()));
        let operation = named(c"operator", u32::MAX);
        let argument = probe.argument();
        ok(seriatim_operator_new(engine.0, &operation, Some(count_run), argument, None, &mut operator));
        ok(seriatim_operator_push(engine.0, operator, ANYWHERE, 0));
        ok(engine.wait());
        ok(seriatim_operator_delete(operator));
        let table = take_text(|out| seriatim_profile_table(engine.0, out));
        for name in ["recorded", "held", "operator"] {
            assert!(table.contains(name), "{name} is not in {table}");
        }
        assert!(!table.contains("passed over"), "{table}");
    }
}

#[test]
fn every_status_has_a_description() {
    // SAFETY: descriptions live as long as the program.
    let describe = |status: i32| unsafe { CStr::from_ptr(seriatim_status_text(status)) };
    assert_eq!(describe(Status::Ok as i32), c"success");
    assert_eq!(describe(Status::TimedOut as i32), c"the time was up");
    assert_eq!(describe(-1), c"an unknown status");
    assert_eq!(seriatim_abi_version(), SERIATIM_ABI_VERSION);
}
