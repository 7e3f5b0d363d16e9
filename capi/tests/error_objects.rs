//! What an error carries of the program's arrives where the failure does, and is deleted once.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;

unsafe extern "C" fn other_deleter(_: *mut c_void) {}

/// Fails with its argument as the object.
unsafe extern "C-unwind" fn throw(argument: *mut c_void, run: *const SeriatimRunContext<'_>) -> c_int {
    // SAFETY: arguments are probes here, and probes outlive engines.
    ok(unsafe { seriatim_run_context_set_error_object(run, c"thrown".as_ptr(), argument, Some(count_deletion)) });
    1
}

/// Says an error with an object, and succeeds; or takes it back, and fails.
unsafe extern "C-unwind" fn say_and_succeed(argument: *mut c_void, run: *const SeriatimRunContext<'_>) -> c_int {
    // SAFETY: as above.
    ok(unsafe { seriatim_run_context_set_error_object(run, c"thrown".as_ptr(), argument, Some(count_deletion)) });
    0
}

unsafe extern "C-unwind" fn take_back(argument: *mut c_void, run: *const SeriatimRunContext<'_>) -> c_int {
    // SAFETY: as above.
    unsafe {
        ok(seriatim_run_context_set_error_object(run, std::ptr::null(), argument, Some(count_deletion)));
        ok(seriatim_run_context_set_error(run, std::ptr::null()));
    }
    1
}

/// The object of the last error, if it came with that deleter.
fn last_object(deleter: SeriatimDeleter) -> *mut c_void {
    // SAFETY: the deleter is not called.
    unsafe { seriatim_last_error_object(deleter) }
}

/// Makes this thread forget its last error.
fn fail_otherwise() {
    // SAFETY: null is refused.
    refused(unsafe { seriatim_wait_for_all(std::ptr::null()) }, Status::NullPointer, "engine");
}

fn push(engine: &Engine, operation: &SeriatimOperation, function: SeriatimFunction, probe: &Probe) {
    // SAFETY: probes outlive engines in these tests.
    ok(unsafe { seriatim_push(engine.0, operation, function, probe.argument(), None) });
}

#[test]
fn an_object_arrives_with_the_failure_and_is_deleted_once() {
    for kind in KINDS {
        let (probe, engine) = (Probe::default(), Engine::of_kind(kind));
        let [x, y] = [engine.variable(), engine.variable()];
        push(&engine, &writing(&x), Some(throw), &probe);
        let depends = SeriatimOperation { reads: &x, read_count: 1, ..writing(&y) };
        push(&engine, &depends, Some(count_run), &probe);
        // SAFETY: the engine lives.
        let status = unsafe { seriatim_wait_for_variable(engine.0, y) };
        refused(status, Status::OperationFailed, "thrown");
        assert_eq!(last_object(Some(count_deletion)), probe.argument(), "what failed before carries it on");
        assert!(last_object(Some(other_deleter)).is_null() && last_object(None).is_null(), "of another kind");
        assert_eq!(probe.deletions.load(SeqCst), 0, "the thread keeps it");
        fail_otherwise();
        assert!(last_object(Some(count_deletion)).is_null());
        drop(engine);
        probe.expect(0, 1);
    }
}

#[test]
fn an_object_that_nobody_asks_for_is_deleted_with_the_engine_or_the_call() {
    for kind in KINDS {
        let probes: [Probe; 3] = Default::default();
        let engine = Engine::of_kind(kind);
        let x = engine.variable();
        push(&engine, &writing(&x), Some(say_and_succeed), &probes[0]);
        ok(engine.wait());
        probes[0].expect(0, 1);
        push(&engine, &writing(&x), Some(take_back), &probes[1]);
        refused(engine.wait(), Status::OperationFailed, "returned 1");
        assert!(last_object(Some(count_deletion)).is_null());
        probes[1].expect(0, 1);
        push(&engine, &writing(&x), Some(throw), &probes[2]);
        drop(engine);
        probes[2].expect(0, 1);
    }
}

#[test]
fn a_completion_fails_with_an_object_and_a_used_one_refuses_it() {
    for kind in KINDS {
        let (probe, object, engine) = (Probe::default(), Probe::default(), Engine::of_kind(kind));
        let x = engine.variable();
        ok(engine.push_async(&writing(&x), Some(keep), &probe));
        let completion = probe.take_completion();
        let fail = || {
            let (argument, deleter) = (object.argument(), Some(count_deletion as _));
            // SAFETY: given to `keep`, and the second use is refused.
            unsafe { seriatim_completion_fail_object(completion, c"lost".as_ptr(), argument, deleter) }
        };
        ok(fail());
        assert_eq!(fail(), Status::BadArgument);
        assert_eq!(object.deletions.load(SeqCst), 1, "that of the refused call");
        refused(engine.wait(), Status::OperationFailed, "lost");
        assert_eq!(last_object(Some(count_deletion)), object.argument());
        fail_otherwise();
        drop(engine);
        object.expect(0, 2);
    }
}

#[test]
fn null_is_refused_and_its_object_deleted() {
    let probe = Probe::default();
    let (argument, deleter) = (probe.argument(), Some(count_deletion as _));
    // SAFETY: null is refused.
    unsafe {
        let said = seriatim_run_context_set_error_object(std::ptr::null(), std::ptr::null(), argument, deleter);
        refused(said, Status::NullPointer, "run");
        let failed = seriatim_completion_fail_object(null_mut(), std::ptr::null(), argument, deleter);
        refused(failed, Status::NullPointer, "completion");
    }
    probe.expect(0, 2);
}
