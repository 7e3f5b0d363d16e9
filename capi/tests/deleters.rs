//! An argument is deleted exactly once, whatever happens to the operation that it came with.

mod common;

use common::*;
use seriatim_c::*;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn after_success_failure_panic_and_skip() {
    for kind in KINDS {
        let probes: [Probe; 4] = Default::default();
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        ok(engine.push(&writing(&variable), Some(count_run), &probes[0]));
        ok(engine.wait());
        // The deleter has run before the operation ended.
        probes[0].expect(1, 1);

        ok(engine.push(&writing(&variable), Some(fail), &probes[1]));
        ok(engine.push(&reading(&variable), Some(count_run), &probes[2]));
        refused(engine.wait(), Status::OperationFailed, "as it should");
        probes[1].expect(0, 1);
        probes[2].expect(0, 1);

        ok(engine.push(&writing(&variable), Some(unwind), &probes[3]));
        refused(engine.wait(), Status::OperationPanicked, "on purpose");
        probes[3].expect(0, 1);
        drop(engine);
        probes.iter().for_each(|probe| assert_eq!(probe.deletions.load(SeqCst), 1));
    }
}

#[test]
fn when_a_push_is_refused() {
    let refusals: [(SeriatimOperation, Status); 5] = [
        (SeriatimOperation { property: 10, ..SeriatimOperation::default() }, Status::BadArgument),
        (
            SeriatimOperation { context: SeriatimContext { device: 3, id: 0 }, ..SeriatimOperation::default() },
            Status::BadArgument,
        ),
        (
            SeriatimOperation { context: SeriatimContext { device: 0, id: 1024 }, ..SeriatimOperation::default() },
            Status::UnknownDevice,
        ),
        (SeriatimOperation { name: c"\xff".as_ptr(), ..SeriatimOperation::default() }, Status::InvalidUtf8),
        (SeriatimOperation { reads: null(), read_count: 1, ..SeriatimOperation::default() }, Status::NullPointer),
    ];
    let probe = Probe::default();
    let (argument, deleter) = (probe.argument(), Some(count_deletion as _));
    let engine = Engine::of_kind("per-device");
    let mut expected = 0;
    let mut check = |status, reason| {
        expected += 1;
        assert_eq!(status, reason, "{}", last_error());
        probe.expect(0, expected);
    };
    for (operation, reason) in refusals {
        check(engine.push(&operation, Some(count_run), &probe), reason);
        check(engine.push_async(&operation, Some(keep), &probe), reason);
    }
    check(engine.push(&SeriatimOperation::default(), None, &probe), Status::NullPointer);
    check(engine.push_async(&SeriatimOperation::default(), None, &probe), Status::NullPointer);
    let mut operator = null_mut();
    // SAFETY: null where that is the point.
    unsafe {
        check(
            seriatim_push(null(), &SeriatimOperation::default(), Some(count_run), argument, deleter),
            Status::NullPointer,
        );
        check(seriatim_push(engine.0, null(), Some(count_run), argument, deleter), Status::NullPointer);
        check(
            seriatim_operator_new(engine.0, &SeriatimOperation::default(), None, argument, deleter, &mut operator),
            Status::NullPointer,
        );
        check(
            seriatim_operator_new(
                engine.0,
                &SeriatimOperation::default(),
                Some(count_run),
                argument,
                deleter,
                null_mut(),
            ),
            Status::NullPointer,
        );
        check(
            seriatim_operator_new_async(engine.0, null(), Some(keep), argument, deleter, &mut operator),
            Status::NullPointer,
        );
        assert!(operator.is_null());
        let deletion = |engine, variable, context, function| {
            seriatim_variable_delete(engine, variable, context, function, argument, deleter)
        };
        let variable = engine.variable();
        let nowhere = SeriatimContext { device: 7, id: 0 };
        check(deletion(null(), variable, ANYWHERE, Some(count_run)), Status::NullPointer);
        check(deletion(engine.0, variable, nowhere, Some(count_run)), Status::BadArgument);
        check(deletion(engine.0, SeriatimVariable::default(), ANYWHERE, None), Status::ForeignVariable);
        // Refused, so it lives on.
        ok(seriatim_wait_for_variable(engine.0, variable));
        ok(seriatim_engine_stop(engine.0));
        check(engine.push(&writing(&variable), Some(count_run), &probe), Status::Stopped);
        check(engine.push_async(&writing(&variable), Some(keep), &probe), Status::Stopped);
    }
}

#[test]
fn when_the_engine_is_full_or_the_process_ends() {
    let [full, skipped, deletion]: [Probe; 3] = Default::default();
    let holder = Probe::default();
    let engine = Engine::with(&[("BOUND", "1"), ("WHEN_FULL", "would-block")]);
    ok(engine.push_async(&SeriatimOperation::default(), Some(keep), &holder));
    refused(engine.push(&SeriatimOperation::default(), Some(count_run), &full), Status::EngineFull, "the bound");
    full.expect(0, 1);
    // SAFETY: the completion is used once.
    ok(unsafe { seriatim_completion_complete(holder.take_completion()) });
    ok(engine.wait());
    let variable = engine.variable();
    // SAFETY: the engine and the probes live.
    unsafe {
        ok(seriatim_engine_notify_shutdown(engine.0));
        ok(engine.push(&writing(&variable), Some(count_run), &skipped));
        ok(engine.wait());
        skipped.expect(0, 1);
        let argument = deletion.argument();
        ok(seriatim_variable_delete(engine.0, variable, ANYWHERE, Some(count_run), argument, Some(count_deletion)));
    }
    ok(engine.wait());
    deletion.expect(1, 1);
}

#[test]
fn of_asynchronous_operations() {
    for kind in KINDS {
        let [at_once, later, failed, dropped, skipped]: [Probe; 5] = Default::default();
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        ok(engine.push_async(&SeriatimOperation::default(), Some(complete_at_once), &at_once));
        ok(engine.push_async(&writing(&variable), Some(keep), &later));
        let completion = later.take_completion();
        later.expect(1, 0);
        // SAFETY: each completion is used once.
        unsafe {
            ok(seriatim_completion_complete(completion));
            ok(engine.wait());

            ok(engine.push_async(&writing(&variable), Some(keep), &failed));
            ok(engine.push_async(&writing(&variable), Some(keep), &skipped));
            ok(seriatim_completion_fail(failed.take_completion(), c"no \xff route".as_ptr()));
            refused(engine.wait(), Status::OperationFailed, "no \u{fffd} route");

            ok(engine.push_async(&writing(&variable), Some(keep), &dropped));
            ok(seriatim_completion_drop(dropped.take_completion()));
            refused(engine.wait(), Status::CompletionDropped, "dropped");
        }
        drop(engine);
        skipped.expect(0, 1);
        [at_once, later, failed, dropped].iter().for_each(|probe| probe.expect(1, 1));
    }
}

#[test]
fn of_an_asynchronous_function_that_panics() {
    for kind in KINDS {
        let probe = Probe::default();
        let engine = Engine::of_kind(kind);
        ok(engine.push_async(&SeriatimOperation::default(), Some(keep_and_unwind), &probe));
        refused(engine.wait(), Status::OperationPanicked, "on purpose");
        drop(engine);
        probe.expect(1, 1);
        // The thread that was given the completion may still use it, and is told that it came too
        // late.
        // SAFETY: the completion is used once.
        let status = unsafe { seriatim_completion_complete(probe.take_completion()) };
        refused(status, Status::BadArgument, "ended already");
        probe.expect(1, 1);
    }
}

#[test]
fn of_operators_after_their_last_use() {
    for kind in KINDS {
        let [unused, used, marked, held]: [Probe; 4] = Default::default();
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        let make = |probe: &Probe| {
            let mut operator = null_mut();
            // SAFETY: the engine and the probes live.
            ok(unsafe {
                seriatim_operator_new(
                    engine.0,
                    &writing(&variable),
                    Some(count_run),
                    probe.argument(),
                    Some(count_deletion),
                    &mut operator,
                )
            });
            operator
        };
        // SAFETY: operators are deleted once, completions used once.
        unsafe {
            ok(seriatim_operator_delete(make(&unused)));
            unused.expect(0, 1);

            let operator = make(&used);
            for _ in 0..10 {
                ok(seriatim_operator_push(engine.0, operator, ANYWHERE, 1));
            }
            ok(engine.wait());
            used.expect(10, 0);
            ok(seriatim_operator_delete(operator));
            used.expect(10, 1);

            let operator = make(&marked);
            engine.mark(&variable);
            ok(seriatim_operator_push(engine.0, operator, ANYWHERE, 0));
            ok(seriatim_operator_delete(operator));
            refused(engine.wait(), Status::OperationFailed, "as it should");
            marked.expect(0, 1);

            let mut operator = null_mut();
            let (argument, deleter) = (held.argument(), Some(count_deletion as _));
            ok(seriatim_operator_new_async(
                engine.0,
                &SeriatimOperation::default(),
                Some(keep),
                argument,
                deleter,
                &mut operator,
            ));
            ok(seriatim_operator_push(engine.0, operator, ANYWHERE, 0));
            ok(seriatim_operator_delete(operator));
            let completion = held.take_completion();
            held.expect(1, 0);
            ok(seriatim_completion_complete(completion));
        }
        drop(engine);
        held.expect(1, 1);
    }
}

#[test]
fn of_deletions_and_of_null() {
    for kind in KINDS {
        let probes: [Probe; 2] = Default::default();
        let engine = Engine::of_kind(kind);
        for (probe, function) in probes.iter().zip([Some(count_run as _), None]) {
            let variable = engine.variable();
            engine.mark(&variable);
            let (argument, deleter) = (probe.argument(), Some(count_deletion as _));
            // SAFETY: the engine and the probes live.
            ok(unsafe { seriatim_variable_delete(engine.0, variable, ANYWHERE, function, argument, deleter) });
        }
        refused(engine.wait(), Status::OperationFailed, "as it should");
        probes[0].expect(1, 1);
        probes[1].expect(0, 1);
    }
}

/// Under a load, from several threads: every argument once, neither lost nor deleted twice.
#[test]
fn under_load() {
    const THREADS: usize = 3;
    let each = if cfg!(miri) { 20 } else { 3000 };
    for kind in KINDS {
        let probes: Vec<Vec<Probe>> = (0..THREADS).map(|_| (0..each).map(|_| Probe::default()).collect()).collect();
        let engine = Engine::of_kind(kind);
        let variables = [engine.variable(), engine.variable()];
        std::thread::scope(|scope| {
            for probes in &probes {
                scope.spawn(|| {
                    for (index, probe) in probes.iter().enumerate() {
                        let variable = &variables[index / 2 % 2];
                        ok(match index % 2 {
                            0 => engine.push(&writing(variable), Some(count_run), probe),
                            _ => engine.push_async(&reading(variable), Some(complete_at_once), probe),
                        });
                    }
                });
            }
        });
        drop(engine);
        probes.iter().flatten().for_each(|probe| probe.expect(1, 1));
    }
}
