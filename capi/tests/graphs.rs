//! Captures, graphs and parameters: what is captured runs in each replay, refusals have their
//! codes, and every deleter runs once.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void, CStr};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::SeqCst};

const DELETE: SeriatimDeleter = Some(count_deletion);

/// A capture that a test ends or deletes.
fn begin(engine: &Engine) -> *mut SeriatimCapture {
    let mut capture = null_mut();
    // SAFETY: the engine lives.
    ok(unsafe { seriatim_capture_begin(engine.0, c"a graph".as_ptr(), &mut capture) });
    capture
}

fn end(capture: *mut SeriatimCapture) -> *mut SeriatimGraph {
    let mut graph = null_mut();
    // SAFETY: the capture is a live handle, and not used again.
    ok(unsafe { seriatim_capture_end(capture, &mut graph) });
    graph
}

fn record(capture: *mut SeriatimCapture, operation: &SeriatimOperation, probe: &Probe) -> Status {
    // SAFETY: probes outlive engines in these tests, and the capture lives.
    unsafe { seriatim_capture_push(capture, operation, Some(count_run), probe.argument(), Some(count_deletion)) }
}

/// The functions of a value that a parameter has: its number, and how many were deleted.
struct Value {
    number: u64,
    deletions: AtomicU32,
}

impl Value {
    fn new(number: u64) -> Value {
        Value { number, deletions: AtomicU32::new(0) }
    }

    fn pointer(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    fn deleted(&self) -> u32 {
        self.deletions.load(SeqCst)
    }
}

unsafe extern "C" fn delete_value(value: *mut c_void) {
    // SAFETY: the values of these tests outlive their engines.
    unsafe { &*value.cast::<Value>() }.deletions.fetch_add(1, SeqCst);
}

/// What an operation that looks at a parameter has.
#[derive(Default)]
struct Look {
    parameter: AtomicPtr<SeriatimParameter>,
    sum: AtomicU64,
    refused: AtomicU32,
}

unsafe extern "C-unwind" fn look(argument: *mut c_void, run: *const SeriatimRunContext<'_>) -> c_int {
    // SAFETY: pushed with a `Look` that outlives the engine; its parameter lives as long as the
    // graph.
    unsafe {
        let look = &*argument.cast::<Look>();
        let mut value = std::ptr::dangling_mut();
        match seriatim_parameter_get(look.parameter.load(SeqCst), run, &mut value) {
            Status::Ok => look.sum.fetch_add((*value.cast::<Value>()).number, SeqCst),
            status => {
                assert_eq!((status, value), (Status::BorrowConflict, null_mut()));
                u64::from(look.refused.fetch_add(1, SeqCst))
            }
        };
    }
    0
}

#[test]
fn what_is_captured_runs_in_each_replay() {
    for kind in KINDS {
        let probes: [Probe; 4] = Default::default();
        let operators_own = Probe::default();
        {
            let engine = Engine::of_kind(kind);
            let (x, y) = (engine.variable(), engine.variable());
            let mut step = null_mut();
            // SAFETY: handles live, and probes outlive the engine.
            unsafe {
                let (argument, delete) = (operators_own.argument(), DELETE);
                ok(seriatim_operator_new(engine.0, &writing(&y), Some(count_run), argument, delete, &mut step));
            }
            let capture = begin(&engine);
            ok(record(capture, &writing(&x), &probes[0]));
            ok(record(capture, &reading(&x), &probes[1]));
            ok(record(capture, &SeriatimOperation { name: c"alone".as_ptr(), ..Default::default() }, &probes[2]));
            // SAFETY: as above.
            unsafe {
                let (function, argument): (SeriatimAsyncFunction, _) = (Some(complete_at_once), probes[3].argument());
                ok(seriatim_capture_push_async(capture, &writing(&y), function, argument, Some(count_deletion)));
                ok(seriatim_capture_push_operator(capture, step, ANYWHERE, 1));
                ok(seriatim_operator_delete(step));
            }
            let graph = end(capture);
            probes.iter().for_each(|probe| probe.expect(0, 0));
            let (mut length, mut dot) = (0, null_mut());
            // SAFETY: the graph lives.
            unsafe {
                ok(seriatim_graph_length(graph, &mut length));
                assert_eq!(length, 5);
                ok(seriatim_graph_dump_dot(graph, &mut dot));
                let text = CStr::from_ptr(dot).to_str().unwrap();
                assert!(text.contains("n0 -> n1") && text.contains("alone"), "{text}");
                ok(seriatim_string_free(dot));
                (0..10).for_each(|priority| ok(seriatim_graph_replay(graph, priority)));
                ok(seriatim_wait_for_all(engine.0));
                probes.iter().for_each(|probe| probe.expect(10, 0));
                operators_own.expect(10, 0);
                for (variable, steps) in [(x, 10), (y, 20)] {
                    let mut version = 0;
                    ok(seriatim_variable_version(engine.0, variable, &mut version));
                    assert_eq!(version, steps, "one step for each operation that changes it");
                }
                ok(seriatim_graph_delete(graph));
            }
        }
        probes.iter().for_each(|probe| probe.expect(10, 1));
        operators_own.expect(10, 1);
    }
}

#[test]
fn a_parameter_has_the_value_of_its_moment_and_each_is_deleted_once() {
    for kind in KINDS {
        let values = [Value::new(1), Value::new(100), Value::new(10_000), Value::new(7)];
        let (inside, outside) = (Look::default(), Look::default());
        let mut parameter = null_mut();
        {
            let engine = Engine::of_kind(kind);
            let x = engine.variable();
            let capture = begin(&engine);
            // SAFETY: handles live; values and looks outlive the engine.
            unsafe {
                let delete: SeriatimDeleter = Some(delete_value);
                ok(seriatim_capture_parameter(capture, values[0].pointer(), delete, &mut parameter));
                inside.parameter.store(parameter, SeqCst);
                outside.parameter.store(parameter, SeqCst);
                let argument: *mut c_void = std::ptr::from_ref(&inside).cast_mut().cast();
                ok(seriatim_capture_push(capture, &writing(&x), Some(look), argument, None));
                let graph = end(capture);
                for value in &values[1..3] {
                    (0..3).for_each(|_| ok(seriatim_graph_replay(graph, 0)));
                    ok(seriatim_parameter_set(parameter, value.pointer(), delete));
                }
                ok(seriatim_graph_replay(graph, 0));
                // An operation of no graph may not look.
                let argument: *mut c_void = std::ptr::from_ref(&outside).cast_mut().cast();
                ok(seriatim_push(engine.0, &reading(&x), Some(look), argument, None));
                ok(seriatim_wait_for_all(engine.0));
                assert_eq!((inside.sum.load(SeqCst), inside.refused.load(SeqCst)), (10_303, 0));
                assert_eq!((outside.sum.load(SeqCst), outside.refused.load(SeqCst)), (0, 1));
                assert_eq!(values.each_ref().map(Value::deleted), [1, 1, 0, 0]);
                ok(seriatim_graph_delete(graph));
                let set = seriatim_parameter_set(parameter, values[3].pointer(), delete);
                refused(set, Status::VariableDeleted, "was deleted");
                assert_eq!(values.each_ref().map(Value::deleted), [1, 1, 0, 1], "refused, and deleted");
            }
        }
        // SAFETY: a live handle; its engine is gone.
        unsafe {
            refused(seriatim_parameter_set(parameter, null_mut(), None), Status::Stopped, "stopped");
            ok(seriatim_parameter_delete(parameter));
        }
        assert_eq!(values.each_ref().map(Value::deleted), [1, 1, 1, 1]);
    }
}

#[test]
fn what_fails_in_a_replay_marks_what_it_changes() {
    let engine = Engine::of_kind("pooled");
    let (x, y) = (engine.variable(), engine.variable());
    let capture = begin(&engine);
    // SAFETY: the functions do not use their arguments.
    unsafe {
        ok(seriatim_capture_push(capture, &writing(&x), Some(fail), null_mut(), None));
        ok(seriatim_capture_push(capture, &writing(&y), Some(unwind), null_mut(), None));
        let graph = end(capture);
        ok(seriatim_graph_replay(graph, 0));
        refused(seriatim_wait_for_variable(engine.0, x), Status::OperationFailed, "as it should");
        refused(seriatim_wait_for_variable(engine.0, y), Status::OperationPanicked, "on purpose");
        ok(seriatim_graph_delete(graph));
    }
}

#[test]
fn refusals_have_their_codes_and_leave_the_capture_as_it_was() {
    let probe = Probe::default();
    let refusals = Probe::default();
    {
        let (engine, other) = (Engine::of_kind("naive"), Engine::of_kind("naive"));
        let (x, stale, foreign) = (engine.variable(), engine.variable(), other.variable());
        let capture = begin(&engine);
        // SAFETY: handles live, null pointers are what is tested, and probes outlive engines.
        unsafe {
            ok(seriatim_variable_delete(engine.0, stale, ANYWHERE, None, null_mut(), None));
            refused(record(capture, &writing(&stale), &refusals), Status::VariableDeleted, "was deleted");
            refused(record(capture, &writing(&foreign), &refusals), Status::ForeignVariable, "belongs to engine");
            refused(record(null_mut(), &writing(&x), &refusals), Status::NullPointer, "capture is null");
            let nowhere = SeriatimContext { device: 9, id: 0 };
            let operation = SeriatimOperation { context: nowhere, ..writing(&x) };
            refused(record(capture, &operation, &refusals), Status::BadArgument, "9 is not a kind of device");
            let (argument, delete) = (refusals.argument(), DELETE);
            refused(
                seriatim_capture_push(capture, null(), Some(count_run), argument, delete),
                Status::NullPointer,
                "operation",
            );
            refused(
                seriatim_capture_push(capture, &writing(&x), None, argument, delete),
                Status::NullPointer,
                "function",
            );
            let push = seriatim_capture_push_async(capture, &writing(&x), None, argument, delete);
            refused(push, Status::NullPointer, "function");
            refused(seriatim_capture_parameter(capture, argument, delete, null_mut()), Status::NullPointer, "out");
            refusals.expect(0, 8);

            let mut operator = null_mut();
            ok(seriatim_operator_new(other.0, &writing(&foreign), Some(fail), null_mut(), None, &mut operator));
            let push = seriatim_capture_push_operator(capture, operator, ANYWHERE, 0);
            refused(push, Status::ForeignOperator, "belongs to engine");
            ok(seriatim_operator_delete(operator));

            ok(record(capture, &writing(&x), &probe));
            let graph = end(capture);
            ok(seriatim_graph_replay(graph, 0));
            ok(engine.wait());
            probe.expect(1, 0);
            let stop = seriatim_engine_stop(engine.0);
            ok(stop);
            refused(seriatim_graph_replay(graph, 0), Status::Stopped, "stopped");
            ok(seriatim_engine_start(engine.0));
            ok(seriatim_variable_delete(engine.0, x, ANYWHERE, None, null_mut(), None));
            refused(seriatim_graph_replay(graph, 0), Status::VariableDeleted, "was deleted");
            ok(seriatim_graph_delete(graph));
        }
    }
    probe.expect(1, 1);
}

#[test]
fn a_private_variable_is_for_operations_of_its_graph_only() {
    for kind in KINDS {
        let probe = Probe::default();
        let engine = Engine::of_kind(kind);
        let mut private = SeriatimVariable::default();
        let capture = begin(&engine);
        // SAFETY: handles live; the probe outlives the engine.
        unsafe {
            ok(seriatim_capture_private_variable(capture, &mut private));
            ok(record(capture, &writing(&private), &probe));
            let given = engine.variable();
            ok(seriatim_push(engine.0, &writing(&given), Some(count_run), probe.argument(), DELETE));
            ok(seriatim_capture_make_private(capture, given));
            let again = seriatim_capture_make_private(capture, given);
            refused(again, Status::PrivateVariable, "is private to a graph");
            ok(record(capture, &reading(&given), &probe));
            let graph = end(capture);
            (0..3).for_each(|_| ok(seriatim_graph_replay(graph, 0)));
            ok(seriatim_wait_for_all(engine.0));
            probe.expect(7, 1);
            let waited = seriatim_wait_for_variable(engine.0, private);
            refused(waited, Status::PrivateVariable, "is private to a graph");
            let pushed = seriatim_push(engine.0, &reading(&private), Some(count_run), probe.argument(), DELETE);
            refused(pushed, Status::PrivateVariable, "is private to a graph");
            probe.expect(7, 2);
            ok(seriatim_graph_delete(graph));
        }
        drop(engine);
        probe.expect(7, 4);
    }
}

#[test]
fn a_capture_that_comes_to_nothing_deletes_what_it_has() {
    let probe = Probe::default();
    let value = Value::new(1);
    let mut parameter = null_mut();
    let engine = Engine::of_kind("per-device");
    let x = engine.variable();
    let capture = begin(&engine);
    // SAFETY: handles live; the probe and the value outlive the engine.
    unsafe {
        ok(record(capture, &writing(&x), &probe));
        ok(seriatim_capture_parameter(capture, value.pointer(), Some(delete_value), &mut parameter));
        ok(seriatim_capture_delete(capture));
        ok(seriatim_wait_for_all(engine.0));
        probe.expect(0, 1);
        let set = seriatim_parameter_set(parameter, null_mut(), None);
        refused(set, Status::VariableDeleted, "was deleted");
        ok(seriatim_parameter_delete(parameter));
        assert_eq!(value.deleted(), 1);

        // An end without a place for the graph ends the capture all the same.
        let capture = begin(&engine);
        ok(record(capture, &writing(&x), &probe));
        refused(seriatim_capture_end(capture, null_mut()), Status::NullPointer, "out");
        probe.expect(0, 2);
    }
}

#[test]
fn null_handles_are_refused_or_nothing_to_delete() {
    // SAFETY: null pointers are what is tested.
    unsafe {
        let (mut capture, mut graph, mut out) = (null_mut(), null_mut(), null_mut());
        refused(seriatim_capture_begin(null(), null(), &mut capture), Status::NullPointer, "engine");
        refused(seriatim_capture_end(null_mut(), &mut graph), Status::NullPointer, "capture");
        refused(seriatim_graph_replay(null(), 0), Status::NullPointer, "graph");
        refused(seriatim_graph_length(null(), &mut 0), Status::NullPointer, "graph");
        refused(seriatim_graph_dump_dot(null(), &mut out), Status::NullPointer, "graph");
        refused(seriatim_parameter_get(null(), null(), &mut null_mut()), Status::NullPointer, "parameter");
        refused(seriatim_parameter_set(null(), null_mut(), None), Status::NullPointer, "parameter");
        ok(seriatim_capture_delete(null_mut()));
        ok(seriatim_graph_delete(null_mut()));
        ok(seriatim_parameter_delete(null_mut()));
    }
}

#[test]
fn a_graph_may_outlive_its_engine() {
    let probe = Probe::default();
    let engine = Engine::of_kind("pooled");
    let x = engine.variable();
    let capture = begin(&engine);
    // The capture keeps the engine alive; the graph does not.
    drop(engine);
    ok(record(capture, &writing(&x), &probe));
    let graph = end(capture);
    // SAFETY: the graph lives.
    unsafe {
        refused(seriatim_graph_replay(graph, 0), Status::Stopped, "stopped");
        probe.expect(0, 0);
        ok(seriatim_graph_delete(graph));
    }
    probe.expect(0, 1);
}

unsafe extern "C-unwind" fn delete_graph(argument: *mut c_void, _: *const SeriatimRunContext) -> c_int {
    // SAFETY: pushed with the place of a handle that outlives the engine, which is deleted once.
    ok(unsafe { seriatim_graph_delete((*argument.cast::<AtomicPtr<SeriatimGraph>>()).swap(null_mut(), SeqCst)) });
    0
}

/// Also inside the call that replays it.
#[test]
fn an_operation_may_delete_its_own_graph() {
    for kind in KINDS {
        let place = AtomicPtr::new(null_mut());
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        let capture = begin(&engine);
        let argument = std::ptr::from_ref(&place).cast_mut().cast();
        // SAFETY: the capture lives, and the place outlives the engine.
        ok(unsafe { seriatim_capture_push(capture, &writing(&variable), Some(delete_graph), argument, None) });
        let graph = end(capture);
        place.store(graph, SeqCst);
        // SAFETY: a live handle, until the replay has begun.
        ok(unsafe { seriatim_graph_replay(graph, 0) });
        ok(engine.wait());
        assert!(place.load(SeqCst).is_null(), "on {kind}");
    }
}
