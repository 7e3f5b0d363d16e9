//! Reductions by the C interface: what operations are given, what becomes of failures, and that
//! each part and each argument is deleted once.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::SeqCst};

/// What the functions of a reduction count, and how they are to fail.
#[derive(Default)]
struct Functions {
    made: AtomicU32,
    deleted_parts: AtomicU32,
    deletions: AtomicU32,
    combined: AtomicU32,
    /// So many calls of `identity` from now on succeed; all, if it is negative.
    identities: AtomicI64,
    combine_code: AtomicU32,
}

/// A part: a sum, and whose functions it has.
struct Sum {
    sum: u64,
    of: *const Functions,
}

unsafe extern "C-unwind" fn identity(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the tests give functions that outlive the engine.
    let of = unsafe { &*argument.cast::<Functions>() };
    if of.identities.fetch_sub(1, SeqCst) == 0 {
        of.identities.store(-1, SeqCst);
        return null_mut();
    }
    of.made.fetch_add(1, SeqCst);
    Box::into_raw(Box::new(Sum { sum: 0, of })).cast()
}

unsafe extern "C-unwind" fn combine(argument: *mut c_void, into: *mut c_void, part: *mut c_void) -> c_int {
    // SAFETY: as above; the parts are those of `identity`.
    let (of, into, part) = unsafe { (&*argument.cast::<Functions>(), &mut *into.cast::<Sum>(), &*part.cast::<Sum>()) };
    of.combined.fetch_add(1, SeqCst);
    into.sum += part.sum;
    of.combine_code.swap(0, SeqCst) as c_int
}

unsafe extern "C" fn delete_part(part: *mut c_void) {
    // SAFETY: made by `identity`, and deleted once.
    let part = unsafe { Box::from_raw(part.cast::<Sum>()) };
    // SAFETY: as there.
    unsafe { &*part.of }.deleted_parts.fetch_add(1, SeqCst);
}

unsafe extern "C" fn delete_functions(argument: *mut c_void) {
    // SAFETY: as in `identity`.
    unsafe { &*argument.cast::<Functions>() }.deletions.fetch_add(1, SeqCst);
}

/// Adds the number that its argument points to, to each part.
unsafe extern "C-unwind" fn add(
    argument: *mut c_void,
    parts: *const *mut c_void,
    _: *const SeriatimRunContext,
) -> c_int {
    // SAFETY: the tests give a number, and operations that name one reduction or two.
    unsafe { (*(*parts).cast::<Sum>()).sum += (*argument.cast::<AtomicU64>()).load(SeqCst) };
    0
}

/// Adds the first part to the number that its argument points to, and doubles it.
unsafe extern "C-unwind" fn take(
    argument: *mut c_void,
    parts: *const *mut c_void,
    _: *const SeriatimRunContext,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let whole = &mut *(*parts).cast::<Sum>();
        (*argument.cast::<AtomicU64>()).fetch_add(whole.sum, SeqCst);
        whole.sum *= 2;
    }
    0
}

/// Moves the first part into the second.
unsafe extern "C-unwind" fn transfer(_: *mut c_void, parts: *const *mut c_void, _: *const SeriatimRunContext) -> c_int {
    // SAFETY: as above.
    unsafe {
        let (copy, whole) = (*parts, *parts.add(1));
        (*whole.cast::<Sum>()).sum += 1000;
        (*copy.cast::<Sum>()).sum += 1;
    }
    0
}

unsafe extern "C-unwind" fn refuse(_: *mut c_void, _: *const *mut c_void, run: *const SeriatimRunContext) -> c_int {
    // SAFETY: the context is this call's.
    ok(unsafe { seriatim_run_context_set_error(run, c"no part today".as_ptr()) });
    5
}

unsafe extern "C-unwind" fn keep_sum(argument: *mut c_void, value: *const c_void) {
    // SAFETY: as in `add`.
    unsafe { *argument.cast::<u64>() = (*value.cast::<Sum>()).sum };
}

fn reducer(of: &Functions) -> SeriatimReducer {
    of.identities.store(-1, SeqCst);
    SeriatimReducer {
        identity: Some(identity),
        combine: Some(combine),
        delete_part: Some(delete_part),
        argument: (&raw const *of).cast_mut().cast(),
        deleter: Some(delete_functions),
    }
}

/// A reduction with so many copies, or any.
fn reduction(engine: &Engine, copies: usize, of: &Functions) -> *mut SeriatimReduction {
    let (mut made, reducer) = (null_mut(), reducer(of));
    // SAFETY: the engine lives, and so do the functions.
    ok(unsafe {
        match copies {
            0 => seriatim_reduction_new(engine.0, &reducer, &mut made),
            _ => seriatim_reduction_new_ordered(engine.0, copies, &reducer, &mut made),
        }
    });
    made
}

fn naming(reduces: &[*mut SeriatimReduction], wholes: &[*mut SeriatimReduction]) -> SeriatimReducing {
    SeriatimReducing {
        reduces: reduces.as_ptr().cast(),
        reduce_count: reduces.len(),
        wholes: wholes.as_ptr().cast(),
        whole_count: wholes.len(),
        commutes: null(),
        commute_count: 0,
    }
}

fn push(
    engine: &Engine,
    reducing: &SeriatimReducing,
    function: SeriatimReducingFunction,
    number: &AtomicU64,
) -> Status {
    let operation = SeriatimOperation::default();
    let argument = (&raw const *number).cast_mut().cast();
    // SAFETY: the engine and the reductions live, and the numbers outlive the operations.
    unsafe { seriatim_push_reducing(engine.0, &operation, reducing, function, argument, None) }
}

/// The value; or how the read has failed.
fn read(reduction: *mut SeriatimReduction) -> Result<u64, Status> {
    let mut sum = 0_u64;
    // SAFETY: the reduction lives.
    match unsafe { seriatim_reduction_read(reduction, Some(keep_sum), (&raw mut sum).cast()) } {
        Status::Ok => Ok(sum),
        status => Err(status),
    }
}

fn delete(reduction: *mut SeriatimReduction) {
    // SAFETY: made by the library, and not used again.
    unsafe { seriatim_reduction_delete(reduction) }
}

#[test]
fn parts_are_added_and_deleted_once() {
    for (kind, copies) in KINDS.into_iter().flat_map(|kind| [0, 1, 3, 8].map(|copies| (kind, copies))) {
        let (of, number, seen) = (Functions::default(), AtomicU64::new(3), AtomicU64::new(0));
        let engine = Engine::of_kind(kind);
        let sum = reduction(&engine, copies, &of);
        for _ in 0..50 {
            ok(push(&engine, &naming(&[sum], &[]), Some(add), &number));
        }
        ok(push(&engine, &naming(&[], &[sum]), Some(take), &seen));
        assert_eq!(read(sum), Ok(300));
        assert_eq!(seen.load(SeqCst), 150);
        ok(push(&engine, &naming(&[sum], &[]), Some(add), &number));
        assert_eq!(read(sum), Ok(303));
        assert_eq!(read(sum), Ok(303));
        ok(push(&engine, &naming(&[sum], &[]), Some(add), &number));
        delete(sum);
        ok(engine.wait());
        drop(engine);
        let made = of.made.load(SeqCst);
        assert!(made >= 3, "{made}");
        assert_eq!((of.deleted_parts.load(SeqCst), of.deletions.load(SeqCst)), (made, 1), "{kind}, {copies} copies");
    }
}

#[test]
fn copies_that_nobody_uses_are_not_made() {
    let (of, number) = (Functions::default(), AtomicU64::new(1));
    let engine = Engine::of_kind("pooled");
    let sum = reduction(&engine, 1000, &of);
    ok(push(&engine, &naming(&[sum], &[]), Some(add), &number));
    assert_eq!(read(sum), Ok(1));
    assert_eq!((of.made.load(SeqCst), of.combined.load(SeqCst)), (1, 0));
    delete(sum);
}

#[test]
fn an_operation_has_several_reductions() {
    for kind in KINDS {
        let of = [Functions::default(), Functions::default()];
        let engine = Engine::of_kind(kind);
        let [one, other] = [reduction(&engine, 4, &of[0]), reduction(&engine, 0, &of[1])];
        for _ in 0..10 {
            ok(push(&engine, &naming(&[one], &[other]), Some(transfer), &AtomicU64::new(0)));
        }
        assert_eq!((read(one), read(other)), (Ok(10), Ok(10_000)));
        delete(one);
        delete(other);
    }
}

#[test]
fn a_part_that_fails_fails_what_uses_the_value() {
    for kind in KINDS {
        let (of, number) = (Functions::default(), AtomicU64::new(1));
        let engine = Engine::of_kind(kind);
        let sum = reduction(&engine, 2, &of);
        ok(push(&engine, &naming(&[sum], &[]), Some(add), &number));
        ok(push(&engine, &naming(&[sum], &[]), Some(refuse), &number));
        let failed = read(sum);
        assert_eq!(failed, Err(Status::OperationFailed));
        assert!(last_error().contains("no part today"), "{}", last_error());
        assert_eq!(read(sum), Ok(1));
        delete(sum);
    }
}

#[test]
fn what_fails_between_operations_fails_the_next_use() {
    for kind in KINDS {
        let (of, number, seen) = (Functions::default(), AtomicU64::new(1), AtomicU64::new(0));
        let engine = Engine::of_kind(kind);
        let sum = reduction(&engine, 2, &of);
        let add_two = || (0..2).for_each(|_| ok(push(&engine, &naming(&[sum], &[]), Some(add), &number)));

        of.combine_code.store(7, SeqCst);
        add_two();
        assert_eq!(read(sum), Err(Status::OperationFailed));
        assert!(last_error().contains("combines returned 7"), "{}", last_error());
        assert_eq!(read(sum), Ok(2));

        of.combine_code.store(8, SeqCst);
        add_two();
        ok(push(&engine, &naming(&[], &[sum]), Some(take), &seen));
        refused(engine.wait(), Status::OperationFailed, "combines returned 8");
        assert_eq!(seen.load(SeqCst), 0, "the function was called");

        of.identities.store(0, SeqCst);
        ok(push(&engine, &naming(&[sum], &[]), Some(add), &number));
        assert_eq!(read(sum), Err(Status::OperationFailed));
        assert!(last_error().contains("has made no part"), "{}", last_error());
        assert_eq!(read(sum), Ok(4));
        delete(sum);
        ok(engine.wait());
        drop(engine);
        assert_eq!((of.deleted_parts.load(SeqCst), of.deletions.load(SeqCst)), (of.made.load(SeqCst), 1));
    }
}

#[test]
fn its_variable_comes_behind_all_parts() {
    for kind in KINDS {
        let (of, number, probe) = (Functions::default(), AtomicU64::new(1), Probe::default());
        let engine = Engine::of_kind(kind);
        let sum = reduction(&engine, 0, &of);
        let mut variable = SeriatimVariable::default();
        // SAFETY: the reduction lives.
        ok(unsafe { seriatim_reduction_variable(sum, &mut variable) });
        ok(push(&engine, &naming(&[sum], &[]), Some(add), &number));
        ok(engine.push(&writing(&variable), Some(count_run), &probe));
        assert_eq!(read(sum), Ok(1));
        let mut version = 0;
        // SAFETY: the engine lives.
        ok(unsafe { seriatim_variable_version(engine.0, variable, &mut version) });
        assert_eq!((version, probe.runs.load(SeqCst)), (2, 1));
        delete(sum);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for kind in KINDS {
        let engine = Engine::of_kind(kind);
        let of = Functions::default();
        let mut made = null_mut();
        let mut refusals = 0;
        let mut new = |change: fn(&mut SeriatimReducer), copies: usize, expected, text| {
            let mut given = reducer(&of);
            change(&mut given);
            // SAFETY: the engine lives, and so do the functions.
            refused(unsafe { seriatim_reduction_new_ordered(engine.0, copies, &given, &mut made) }, expected, text);
            refusals += 1;
            assert!(made.is_null());
            assert_eq!(of.deletions.load(SeqCst), refusals, "the argument is not deleted");
        };
        new(|given| given.identity = None, 1, Status::NullPointer, "identity is null");
        new(|given| given.combine = None, 1, Status::NullPointer, "combine is null");
        new(|_| (), 0, Status::BadSetting, "cannot have 0 copies");
        new(|_| (), usize::MAX, Status::BadSetting, "give 1 to 65536");
        let given = reducer(&of);
        // SAFETY: the engine lives; null is what the function must refuse.
        unsafe {
            refused(seriatim_reduction_new(null(), &given, &mut made), Status::NullPointer, "engine is null");
            refused(seriatim_reduction_new(engine.0, null(), &mut made), Status::NullPointer, "reducer is null");
            refused(seriatim_reduction_new(engine.0, &given, null_mut()), Status::NullPointer, "out is null");
            seriatim_reduction_delete(null_mut());
        }
        assert_eq!(of.deletions.load(SeqCst), refusals + 2);

        let sum = reduction(&engine, 1, &of);
        let number = AtomicU64::new(1);
        let pushed = |reduces: &[*mut _], wholes: &[*mut _], function| {
            push(&engine, &naming(reduces, wholes), function, &number)
        };
        refused(pushed(&[sum], &[], None), Status::NullPointer, "function is null");
        refused(pushed(&[null_mut()], &[], Some(add)), Status::NullPointer, "a reduction is null");
        refused(pushed(&[sum], &[sum], Some(add)), Status::BorrowConflict, "");
        refused(pushed(&[sum, sum], &[], Some(add)), Status::BorrowConflict, "");
        refused(pushed(&[], &[sum, sum], Some(add)), Status::BorrowConflict, "");
        let no_list = SeriatimReducing { reduces: null(), ..naming(&[sum], &[]) };
        refused(push(&engine, &no_list, Some(add), &number), Status::NullPointer, "that an operation reduces is null");
        let own = [sum];
        let too_long = SeriatimReducing { whole_count: usize::MAX, ..naming(&[], &own) };
        refused(push(&engine, &too_long, Some(add), &number), Status::BadArgument, "does not fit into memory");
        let plain = engine.variable();
        let commuting = SeriatimReducing { commutes: &plain, commute_count: 1, ..naming(&own, &[]) };
        refused(push(&engine, &commuting, Some(add), &number), Status::CannotCommute, "");
        // SAFETY: null is what the functions must refuse.
        unsafe {
            refused(seriatim_reduction_read(null(), Some(keep_sum), null_mut()), Status::NullPointer, "reduction");
            refused(seriatim_reduction_read(sum, None, null_mut()), Status::NullPointer, "function is null");
            refused(seriatim_reduction_variable(sum, null_mut()), Status::NullPointer, "out is null");
        }
        assert_eq!(read(sum), Ok(0));
        delete(sum);
    }
}
