//! A completion that is used twice is refused, and ends no other operation.

mod common;

use common::*;
use seriatim_c::*;
use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

const AGAIN: &str = "was used before";

/// Asserts that each use of a completion is refused.
#[track_caller]
fn used(completion: *mut SeriatimCompletion) {
    // SAFETY: it was given to a function, or is none.
    unsafe {
        refused(seriatim_completion_complete(completion), Status::BadArgument, AGAIN);
        refused(seriatim_completion_fail(completion, c"too late".as_ptr()), Status::BadArgument, AGAIN);
        refused(seriatim_completion_drop(completion), Status::BadArgument, AGAIN);
    }
}

/// The ways to end an operation, and what a wait returns then.
const WAYS: [(unsafe extern "C" fn(*mut SeriatimCompletion, *const c_char) -> Status, Status); 3] =
    [(complete, Status::Ok), (seriatim_completion_fail, Status::OperationFailed), (give_up, Status::CompletionDropped)];

unsafe extern "C" fn complete(completion: *mut SeriatimCompletion, _: *const c_char) -> Status {
    // SAFETY: passed on.
    unsafe { seriatim_completion_complete(completion) }
}

unsafe extern "C" fn give_up(completion: *mut SeriatimCompletion, _: *const c_char) -> Status {
    // SAFETY: passed on.
    unsafe { seriatim_completion_drop(completion) }
}

#[test]
fn a_second_use_is_refused_and_ends_no_other_operation() {
    for kind in KINDS {
        let engine = Engine::of_kind(kind);
        for (end, outcome) in WAYS {
            let [first, second]: [Probe; 2] = Default::default();
            let variable = engine.variable();
            ok(engine.push_async(&writing(&variable), Some(keep), &first));
            let completion = first.take_completion();
            // SAFETY: it was given to a function.
            ok(unsafe { end(completion, null()) });
            // Before the place is lent again.
            used(completion);
            assert_eq!(engine.wait(), outcome, "{}", last_error());

            ok(engine.push_async(&writing(&variable), Some(keep), &second));
            let other = second.take_completion();
            assert_ne!(completion, other, "a handle came again");
            // When it is lent again.
            used(completion);
            // SAFETY: the engine lives.
            let status = unsafe { seriatim_wait_for_variable_timeout(engine.0, variable, 1_000_000) };
            refused(status, Status::TimedOut, "1");
            second.expect(1, 0);
            // SAFETY: it was given to a function.
            ok(unsafe { seriatim_completion_complete(other) });
            ok(engine.wait());
            used(other);
            used(completion);
            first.expect(1, 1);
            second.expect(1, 1);
        }
    }
}

unsafe extern "C-unwind" fn complete_twice(
    argument: *mut c_void,
    run: *const SeriatimRunContext,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: it is this call's; the probe lives.
    unsafe {
        ok(seriatim_completion_complete(completion));
        used(completion);
        keep(argument, run, completion);
    }
}

#[test]
fn a_second_use_while_the_function_runs_is_refused() {
    for kind in KINDS {
        let probe = Probe::default();
        let engine = Engine::of_kind(kind);
        ok(engine.push_async(&SeriatimOperation::default(), Some(complete_twice), &probe));
        ok(engine.wait());
        used(probe.take_completion());
        drop(engine);
        probe.expect(1, 1);
    }
}

#[test]
fn a_second_use_behind_a_function_that_panicked_is_refused() {
    let probe = Probe::default();
    let engine = Engine::of_kind("naive");
    ok(engine.push_async(&SeriatimOperation::default(), Some(keep_and_unwind), &probe));
    refused(engine.wait(), Status::OperationPanicked, "on purpose");
    let completion = probe.take_completion();
    // SAFETY: it was given to a function.
    refused(unsafe { seriatim_completion_complete(completion) }, Status::BadArgument, "ended already");
    used(completion);
}

#[test]
fn of_two_threads_that_use_one_completion_one_succeeds() {
    let rounds = if cfg!(miri) { 20 } else { 5_000 };
    let engine = Engine::of_kind("naive");
    let probes: Vec<Probe> = (0..rounds).map(|_| Probe::default()).collect();
    let (begins, ends) = (Barrier::new(3), Barrier::new(3));
    let (shared, successes) = (AtomicPtr::<SeriatimCompletion>::new(null_mut()), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for (end, _) in [WAYS[0], WAYS[0]] {
            let (begins, ends, shared, successes) = (&begins, &ends, &shared, &successes);
            scope.spawn(move || {
                for _ in 0..rounds {
                    begins.wait();
                    // SAFETY: it was given to a function.
                    match unsafe { end(shared.load(SeqCst), null()) } {
                        Status::Ok => drop(successes.fetch_add(1, SeqCst)),
                        status => refused(status, Status::BadArgument, AGAIN),
                    }
                    ends.wait();
                }
            });
        }
        for (round, probe) in probes.iter().enumerate() {
            ok(engine.push_async(&SeriatimOperation::default(), Some(keep), probe));
            shared.store(probe.take_completion(), SeqCst);
            begins.wait();
            ends.wait();
            assert_eq!(successes.load(SeqCst) as usize, round + 1);
            probe.expect(1, 1);
        }
    });
    ok(engine.wait());
}

#[test]
fn what_is_no_completion_is_refused() {
    let probe = Probe::default();
    let engine = Engine::of_kind("naive");
    ok(engine.push_async(&SeriatimOperation::default(), Some(keep), &probe));
    let completion = probe.take_completion();
    let bits = completion.addr();
    for wrong in [1, 64, usize::MAX, bits ^ 1 << 6, bits ^ 1 << (usize::BITS - 1), bits.wrapping_add(1 << 20)] {
        used(without_provenance_mut(wrong));
    }
    probe.expect(1, 0);
    // SAFETY: it was given to a function.
    ok(unsafe { seriatim_completion_complete(completion) });
    ok(engine.wait());
}

thread_local! {
    static LAST: AtTheEnd = const { AtTheEnd(RefCell::new(None)) };
}

type Shared = (Engine, Probe, AtomicU32);

/// Pushes operations when its thread ends, later than the library's own values of the thread.
struct AtTheEnd(RefCell<Option<Arc<Shared>>>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let shared = self.0.take().expect("the test has put it there");
        let (engine, probe, refusals) = &*shared;
        for _ in 0..3 {
            ok(engine.push_async(&SeriatimOperation::default(), Some(keep), probe));
            let completion = probe.take_completion();
            // SAFETY: it was given to a function.
            unsafe {
                ok(seriatim_completion_complete(completion));
                if seriatim_completion_complete(completion) == Status::BadArgument {
                    refusals.fetch_add(1, SeqCst);
                }
            }
        }
    }
}

#[test]
fn a_thread_that_is_ending_may_use_completions_as_well() {
    let shared = Arc::new((Engine::of_kind("naive"), Probe::default(), AtomicU32::new(0)));
    for threads in 1..=3 {
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            // First, so that it is dropped last.
            LAST.with(|last| *last.0.borrow_mut() = Some(Arc::clone(&theirs)));
            ok(theirs.0.push_async(&SeriatimOperation::default(), Some(complete_at_once), &theirs.1));
        });
        thread.join().expect("the thread ends");
        shared.1.expect(4 * threads, 4 * threads);
        assert_eq!(shared.2.load(SeqCst), 3 * threads);
    }
}

/// An argument that its deleter overwrites.
struct Told {
    completion: AtomicPtr<SeriatimCompletion>,
    text: [u8; 16],
}

unsafe extern "C-unwind" fn keep_told(
    argument: *mut c_void,
    _: *const SeriatimRunContext,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: pushed with a `Told` that outlives the engine.
    unsafe { &*argument.cast::<Told>() }.completion.store(completion, SeqCst);
}

unsafe extern "C" fn overwrite(argument: *mut c_void) {
    // SAFETY: as above; nothing else uses the text any more.
    unsafe { (&raw mut (*argument.cast::<Told>()).text).write(*b"freed\0\0\0\0\0\0\0\0\0\0\0") };
}

#[test]
fn the_text_of_a_failure_may_lie_in_the_argument() {
    for kind in KINDS {
        let mut told = Told { completion: AtomicPtr::default(), text: *b"paper is out\0\0\0\0" };
        let argument: *mut Told = &mut told;
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        // SAFETY: the engine lives, and the argument outlives it; all use it by this pointer.
        unsafe {
            let pushed =
                seriatim_push_async(engine.0, &writing(&variable), Some(keep_told), argument.cast(), Some(overwrite));
            ok(pushed);
            while (*argument).completion.load(SeqCst).is_null() {
                std::thread::yield_now();
            }
            // The function has returned when nothing of it is left but its completion.
            std::thread::sleep(std::time::Duration::from_millis(20));
            ok(seriatim_completion_fail((*argument).completion.load(SeqCst), (&raw const (*argument).text).cast()));
        }
        refused(engine.wait(), Status::OperationFailed, "paper is out");
    }
}
