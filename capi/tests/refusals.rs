//! What is wrong is refused, with a code and a text that says what to do.

mod common;

use common::*;
use seriatim_c::*;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

#[test]
fn null_handles_and_null_places() {
    let engine = Engine::of_kind("per-device");
    let (mut variable, mut version, mut text) = (SeriatimVariable::default(), 0, null_mut());
    let mut other = null_mut();
    // SAFETY: null is the point.
    unsafe {
        let statuses = [
            seriatim_variable_new(null(), &mut variable),
            seriatim_variable_version(null(), variable, &mut version),
            seriatim_wait_for_variable(null(), variable),
            seriatim_wait_for_variable_timeout(null(), variable, 1),
            seriatim_wait_until_unused(null(), variable),
            seriatim_wait_until_unused_timeout(null(), variable, 1),
            seriatim_wait_for_all(null()),
            seriatim_wait_for_all_timeout(null(), 1),
            seriatim_engine_stop(null()),
            seriatim_engine_start(null()),
            seriatim_engine_notify_shutdown(null()),
            seriatim_engine_clone(null(), &mut other),
            seriatim_engine_warnings(null(), &mut text),
            seriatim_profile_start(null()),
            seriatim_profile_stop(null()),
            seriatim_profile_table(null(), &mut text),
            seriatim_profile_write_trace(null(), c"trace.json".as_ptr()),
            seriatim_dump_dot(null(), &mut text),
            seriatim_stats(null(), null_mut()),
            seriatim_worker_stats(null(), 0, null_mut()),
            seriatim_variable_set_name(null(), variable, c"x".as_ptr()),
            seriatim_operator_push(null(), null(), ANYWHERE, 0),
        ];
        for status in statuses {
            refused(status, Status::NullPointer, "engine is null");
        }
        assert!(other.is_null() && text.is_null());
        let statuses = [
            seriatim_engine_new(null(), 0, null_mut()),
            seriatim_engine_from_environment(null_mut()),
            seriatim_engine_global(null_mut()),
            seriatim_engine_clone(engine.0, null_mut()),
            seriatim_engine_warnings(engine.0, null_mut()),
            seriatim_variable_new(engine.0, null_mut()),
            seriatim_variable_version(engine.0, variable, null_mut()),
            seriatim_profile_table(engine.0, null_mut()),
            seriatim_dump_dot(engine.0, null_mut()),
            seriatim_stats(engine.0, null_mut()),
            seriatim_worker_stats(engine.0, 0, null_mut()),
        ];
        for status in statuses {
            refused(status, Status::NullPointer, "out is null");
        }
        refused(seriatim_operator_push(engine.0, null(), ANYWHERE, 0), Status::NullPointer, "operator is null");
        refused(seriatim_profile_write_trace(engine.0, null()), Status::NullPointer, "path is null");
        refused(seriatim_engine_new(null(), 1, &mut other), Status::NullPointer, "settings is null");
        refused(seriatim_completion_complete(null_mut()), Status::NullPointer, "completion is null");
        refused(seriatim_completion_fail(null_mut(), null()), Status::NullPointer, "completion is null");
        refused(seriatim_run_context_set_error(null(), null()), Status::NullPointer, "run is null");
    }
}

#[test]
fn null_is_harmless_where_something_is_freed_or_asked() {
    // SAFETY: null is the point.
    unsafe {
        ok(seriatim_engine_delete(null_mut()));
        ok(seriatim_operator_delete(null_mut()));
        ok(seriatim_completion_drop(null_mut()));
        ok(seriatim_string_free(null_mut()));
        assert_eq!(*seriatim_run_context_name(null()), 0);
        assert_eq!(seriatim_run_context_context(null()), ANYWHERE);
        assert_eq!(seriatim_run_context_worker(null()), -1);
        assert!(seriatim_run_context_stream(null()).is_null());
        assert_eq!(seriatim_run_context_nested_threads(null()), 1);
    }
}

#[test]
fn numbers_lists_and_texts() {
    let probe = Probe::default();
    let engine = Engine::of_kind("per-device");
    let push = |operation| engine.push(&operation, Some(count_run), &probe);
    for property in [10, 256, u32::MAX] {
        refused(
            push(SeriatimOperation { property, ..SeriatimOperation::default() }),
            Status::BadArgument,
            "from 0 to 9",
        );
    }
    for property in 0..10 {
        ok(push(SeriatimOperation { property, ..SeriatimOperation::default() }));
    }
    for device in [3, u32::MAX] {
        let context = SeriatimContext { device, id: 0 };
        refused(
            push(SeriatimOperation { context, ..SeriatimOperation::default() }),
            Status::BadArgument,
            "kind of device",
        );
    }
    let gpu = SeriatimContext { device: SeriatimDevice::Gpu as u32, id: 0 };
    refused(
        push(SeriatimOperation { context: gpu, ..SeriatimOperation::default() }),
        Status::DeviceUnavailable,
        "gpu(0)",
    );
    let pinned = SeriatimContext { device: SeriatimDevice::CpuPinned as u32, id: 1 };
    ok(push(SeriatimOperation { context: pinned, ..SeriatimOperation::default() }));
    let beyond = SeriatimContext { device: 0, id: 1024 };
    refused(
        push(SeriatimOperation { context: beyond, ..SeriatimOperation::default() }),
        Status::UnknownDevice,
        "cpu(1024)",
    );

    let variable = engine.variable();
    let endless = SeriatimOperation { writes: &variable, write_count: usize::MAX, ..SeriatimOperation::default() };
    refused(push(endless), Status::BadArgument, "the writes of an operation");
    let missing = SeriatimOperation { write_count: 2, ..SeriatimOperation::default() };
    refused(push(missing), Status::NullPointer, "the writes of an operation is null");
    let misread = SeriatimOperation { name: c"caf\xe9".as_ptr(), ..SeriatimOperation::default() };
    refused(push(misread), Status::InvalidUtf8, "the name of an operation");
    // SAFETY: the path ends with a zero byte.
    unsafe {
        refused(seriatim_profile_write_trace(engine.0, c"\xff".as_ptr()), Status::InvalidUtf8, "path");
        let path = c"/there/is/no/such/folder/trace.json";
        if cfg!(not(miri)) {
            refused(seriatim_profile_write_trace(engine.0, path.as_ptr()), Status::InputOutput, "such/folder");
        }
    }
    ok(engine.wait());
}

#[test]
fn settings() {
    for (settings, text) in [
        ([("KIND", "naive")], "SERIATIM_ENGINE"),
        ([("ENGINE", "sideways")], "naive, pooled, per-device"),
        ([("SERIATIM_CPU_WORKERS", "many")], "a whole number"),
        ([("CPU_WORKERS", "0")], "1 to 1024"),
    ] {
        let Err(status) = Engine::try_with(&settings) else { panic!("{settings:?} is accepted") };
        refused(status, Status::BadSetting, text);
    }
    let mut engine = null_mut();
    for (key, value, reason) in [
        (null(), c"naive".as_ptr(), Status::NullPointer),
        (c"ENGINE".as_ptr(), null(), Status::NullPointer),
        (c"ENGINE\xff".as_ptr(), c"naive".as_ptr(), Status::InvalidUtf8),
        (c"ENGINE".as_ptr(), c"\xff".as_ptr(), Status::InvalidUtf8),
    ] {
        // SAFETY: the setting lives until the call returns.
        refused(
            unsafe { seriatim_engine_new(&SeriatimSetting { key, value }, 1, &mut engine) },
            reason,
            "of a setting",
        );
        assert!(engine.is_null());
    }
}

#[test]
fn deleted_and_foreign_variables_and_foreign_operators() {
    let probe = Probe::default();
    let (engine, other) = (Engine::of_kind("per-device"), Engine::of_kind("pooled"));
    let (variable, foreign, gone) = (engine.variable(), other.variable(), engine.variable());
    let mut version = 0;
    // SAFETY: the engines live.
    unsafe {
        ok(seriatim_variable_delete(engine.0, gone, ANYWHERE, None, null_mut(), None));
        for (variable, reason, text) in
            [(gone, Status::VariableDeleted, "was deleted"), (foreign, Status::ForeignVariable, "belongs to engine")]
        {
            refused(engine.push(&reading(&variable), Some(count_run), &probe), reason, text);
            refused(engine.push_async(&writing(&variable), Some(keep), &probe), reason, text);
            refused(seriatim_variable_version(engine.0, variable, &mut version), reason, text);
            refused(seriatim_wait_for_variable(engine.0, variable), reason, text);
            refused(seriatim_wait_for_variable_timeout(engine.0, variable, 1), reason, text);
            refused(seriatim_wait_until_unused_timeout(engine.0, variable, 1), reason, text);
            let again = seriatim_variable_delete(engine.0, variable, ANYWHERE, None, null_mut(), None);
            refused(again, reason, text);
            let mut operator = null_mut();
            let operation = reading(&variable);
            let status = seriatim_operator_new(engine.0, &operation, Some(fail), null_mut(), None, &mut operator);
            refused(status, reason, text);
            assert!(operator.is_null());
        }
        let mut operator = null_mut();
        let operation = writing(&variable);
        ok(seriatim_operator_new(engine.0, &operation, Some(fail), null_mut(), None, &mut operator));
        let status = seriatim_operator_push(other.0, operator, ANYWHERE, 0);
        refused(status, Status::ForeignOperator, "belongs to engine");
        let nowhere = SeriatimContext { device: 9, id: 0 };
        refused(seriatim_operator_push(engine.0, operator, nowhere, 0), Status::BadArgument, "kind of device");
        ok(seriatim_operator_delete(operator));
    }
    assert_eq!(version, 0);
}

#[test]
fn waits_that_run_out_of_time() {
    let probe = Probe::default();
    let engine = Engine::of_kind("per-device");
    let variable = engine.variable();
    let operation = SeriatimOperation { name: c"held".as_ptr(), ..writing(&variable) };
    ok(engine.push_async(&operation, Some(keep), &probe));
    let before = Instant::now();
    // SAFETY: the engine lives; the completion is used once.
    unsafe {
        let millisecond = 1_000_000;
        refused(seriatim_wait_for_variable_timeout(engine.0, variable, millisecond), Status::TimedOut, "'held'");
        refused(seriatim_wait_for_all_timeout(engine.0, millisecond), Status::TimedOut, "'held'");
        assert!(before.elapsed() >= Duration::from_millis(2));
        ok(seriatim_completion_complete(probe.take_completion()));
        ok(seriatim_wait_for_variable_timeout(engine.0, variable, u64::MAX));
        ok(seriatim_wait_for_all_timeout(engine.0, u64::MAX));
    }
}

/// A read holds up the wait until the variable is unused, and not that for its writes.
#[test]
fn a_wait_until_unused_that_runs_out_of_time() {
    let probe = Probe::default();
    let engine = Engine::of_kind("per-device");
    let variable = engine.variable();
    let operation = SeriatimOperation { name: c"reads".as_ptr(), ..reading(&variable) };
    ok(engine.push_async(&operation, Some(keep), &probe));
    let before = Instant::now();
    // SAFETY: the engine lives; the completion is used once.
    unsafe {
        let millisecond = 1_000_000;
        ok(seriatim_wait_for_variable_timeout(engine.0, variable, u64::MAX));
        refused(seriatim_wait_until_unused_timeout(engine.0, variable, millisecond), Status::TimedOut, "'reads'");
        assert!(before.elapsed() >= Duration::from_millis(1));
        ok(seriatim_completion_complete(probe.take_completion()));
        ok(seriatim_wait_until_unused_timeout(engine.0, variable, u64::MAX));
    }
}
