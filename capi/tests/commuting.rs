//! Operations that commute, by the C interface.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

/// A sum that finds two at once.
#[derive(Default)]
struct Sum {
    sum: AtomicU32,
    is_busy: AtomicBool,
    collisions: AtomicU32,
}

unsafe extern "C-unwind" fn add(argument: *mut c_void, _: *const SeriatimRunContext) -> c_int {
    // SAFETY: the tests give a sum that outlives the engine.
    let sum = unsafe { &*argument.cast::<Sum>() };
    if sum.is_busy.swap(true, SeqCst) {
        sum.collisions.fetch_add(1, SeqCst);
    }
    sum.sum.store(sum.sum.load(SeqCst) + 1, SeqCst);
    sum.is_busy.store(false, SeqCst);
    0
}

fn commutative(engine: &Engine) -> SeriatimVariable {
    let mut variable = SeriatimVariable::default();
    // SAFETY: the engine lives.
    ok(unsafe { seriatim_variable_new_commutative(engine.0, &mut variable) });
    variable
}

#[test]
fn operations_commute_one_at_a_time() {
    for kind in KINDS {
        let (sum, probe) = (Sum::default(), Probe::default());
        let engine = Engine::of_kind(kind);
        let both = [commutative(&engine), commutative(&engine)];
        let empty = SeriatimOperation::default();
        // SAFETY: the variables and the probe live, and so does the sum.
        unsafe {
            let begin = seriatim_push_async_commuting(
                engine.0,
                &empty,
                both.as_ptr(),
                1,
                Some(keep),
                probe.argument(),
                Some(count_deletion),
            );
            ok(begin);
            // Called before the others are pushed: operations that commute have no order.
            let completion = probe.take_completion();
            for _ in 0..100 {
                let argument = (&raw const sum).cast_mut().cast();
                ok(seriatim_push_commuting(engine.0, &empty, both.as_ptr(), 2, Some(add), argument, None));
            }
            assert_eq!(sum.sum.load(SeqCst), 0, "one commutes beside an asynchronous operation");
            ok(seriatim_completion_complete(completion));
        }
        ok(engine.wait());
        assert_eq!((sum.sum.load(SeqCst), sum.collisions.load(SeqCst)), (100, 0));
    }
}

#[test]
fn what_was_not_made_for_it_is_refused() {
    for kind in KINDS {
        let engine = Engine::of_kind(kind);
        let (plain, empty) = (engine.variable(), SeriatimOperation::default());
        let push = |variables: *const SeriatimVariable, count| {
            // SAFETY: the engine lives, and the variables are as they are counted, or null.
            unsafe { seriatim_push_commuting(engine.0, &empty, variables, count, Some(add), null_mut(), None) }
        };
        refused(push(&plain, 1), Status::CannotCommute, "is not commutative");
        refused(push(std::ptr::null(), 1), Status::NullPointer, "what an operation commutes on");
        // SAFETY: the engine lives.
        let nowhere = unsafe { seriatim_variable_new_commutative(engine.0, null_mut()) };
        refused(nowhere, Status::NullPointer, "");
        ok(engine.wait());
    }
}
