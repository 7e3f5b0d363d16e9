//! `INLINE_BELOW`: what is learned is kept for each function, though all pushes through C are of
//! one type.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

static INSIDE: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

unsafe fn count(run: *const SeriatimRunContext<'_>, which: usize) -> c_int {
    // SAFETY: the run context is that of the caller. Workers have numbers, the pushing thread has
    // none.
    INSIDE[which].fetch_add(u32::from(unsafe { seriatim_run_context_worker(run) } < 0), SeqCst);
    0
}

unsafe extern "C-unwind" fn short(_: *mut c_void, run: *const SeriatimRunContext<'_>) -> c_int {
    // SAFETY: this call's.
    unsafe { count(run, 0) }
}

unsafe extern "C-unwind" fn long(_: *mut c_void, run: *const SeriatimRunContext<'_>) -> c_int {
    std::thread::sleep(std::time::Duration::from_millis(2));
    // SAFETY: this call's.
    unsafe { count(run, 1) }
}

unsafe extern "C-unwind" fn short_async(
    _: *mut c_void,
    run: *const SeriatimRunContext<'_>,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: this call's.
    unsafe {
        count(run, 0);
        ok(seriatim_completion_complete(completion));
    }
}

unsafe extern "C-unwind" fn long_async(
    _: *mut c_void,
    run: *const SeriatimRunContext<'_>,
    completion: *mut SeriatimCompletion,
) {
    std::thread::sleep(std::time::Duration::from_millis(2));
    // SAFETY: this call's.
    unsafe {
        count(run, 1);
        ok(seriatim_completion_complete(completion));
    }
}

#[test]
fn short_functions_run_inside_their_push_and_long_ones_are_shipped() {
    for (as_operators, asynchronous) in [(false, false), (true, false), (false, true), (true, true)] {
        let engine =
            Engine::with(&[("CPU_WORKERS", "1"), ("PIN", "off"), ("WAITERS_HELP", "off"), ("INLINE_BELOW", "1000000")]);
        let variables = [engine.variable(), engine.variable()];
        let functions: [SeriatimFunction; 2] = [Some(short), Some(long)];
        let starts: [SeriatimAsyncFunction; 2] = [Some(short_async), Some(long_async)];
        let operators = [0, 1].map(|which: usize| {
            let mut operator = null_mut();
            let operation = writing(&variables[which]);
            // SAFETY: the functions do not use their arguments.
            ok(unsafe {
                if asynchronous {
                    seriatim_operator_new_async(engine.0, &operation, starts[which], null_mut(), None, &mut operator)
                } else {
                    seriatim_operator_new(engine.0, &operation, functions[which], null_mut(), None, &mut operator)
                }
            });
            operator
        });
        // Short and long take turns.
        let turns = || {
            INSIDE.iter().for_each(|inside| inside.store(0, SeqCst));
            for which in (0..50).flat_map(|_| [0, 1]) {
                // SAFETY: handles live, and the functions do not use their arguments.
                unsafe {
                    ok(if as_operators {
                        seriatim_operator_push(engine.0, operators[which], ANYWHERE, 0)
                    } else if asynchronous {
                        seriatim_push_async(engine.0, &writing(&variables[which]), starts[which], null_mut(), None)
                    } else {
                        seriatim_push(engine.0, &writing(&variables[which]), functions[which], null_mut(), None)
                    });
                    ok(seriatim_wait_for_variable(engine.0, variables[which]));
                }
            }
            INSIDE.each_ref().map(|inside| inside.load(SeqCst))
        };
        // Until the short one is known, however often this thread loses its core. The long one is
        // shipped all along.
        let known = (0..100).any(|_| {
            let [short, long] = turns();
            assert_eq!(long, 0, "long functions ran inside their pushes");
            short >= 45
        });
        assert!(known, "short functions were shipped");
        // SAFETY: live handles, not used again.
        operators.into_iter().for_each(|operator| ok(unsafe { seriatim_operator_delete(operator) }));
    }
}

static FIRST: AtomicU32 = AtomicU32::new(0);

unsafe extern "C-unwind" fn first(_: *mut c_void, run: *const SeriatimRunContext<'_>) -> c_int {
    // SAFETY: the run context is this call's.
    FIRST.fetch_add(u32::from(unsafe { seriatim_run_context_worker(run) } < 0), SeqCst);
    0
}

#[test]
fn first_calls_run_where_the_program_says_that_they_belong() {
    for (expected, inside) in [(None, 0), (Some(20), 4), (Some(2_000_000), 0)] {
        // A call whose thread loses its core seems to be long, and those behind it are shipped.
        let attempts = if inside > 0 { 10 } else { 1 };
        let ran = (0..attempts).map(|_| first_calls_inside(expected)).find(|ran| *ran == inside);
        assert!(ran.is_some(), "expected {expected:?}: not {inside} of 4");
    }
}

/// How many of the first four calls of a function ran inside their pushes, if it is said how long
/// they take.
fn first_calls_inside(expected: Option<u64>) -> u32 {
    let engine =
        Engine::with(&[("CPU_WORKERS", "1"), ("PIN", "off"), ("WAITERS_HELP", "off"), ("INLINE_BELOW", "1000000")]);
    let variable = engine.variable();
    FIRST.store(0, SeqCst);
    // SAFETY: handles live, and the function does not use its argument.
    unsafe {
        ok(seriatim_engine_prepare(engine.0));
        if let Some(nanoseconds) = expected {
            ok(seriatim_engine_expect_cost(engine.0, Some(first), nanoseconds));
        }
        for _ in 0..4 {
            ok(seriatim_push(engine.0, &writing(&variable), Some(first), null_mut(), None));
            ok(seriatim_wait_for_variable(engine.0, variable));
        }
        refused(seriatim_engine_expect_cost(engine.0, None, 20), Status::NullPointer, "function");
        refused(seriatim_engine_expect_cost(null(), Some(first), 20), Status::NullPointer, "engine");
    }
    FIRST.load(SeqCst)
}
