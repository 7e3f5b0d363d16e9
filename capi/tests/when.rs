//! Waits that hold no thread, by the C interface.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// What a function was told.
struct Told {
    calls: AtomicU32,
    status: AtomicU32,
    deletions: AtomicU32,
}

impl Told {
    const fn new() -> Told {
        Told { calls: AtomicU32::new(0), status: AtomicU32::new(0), deletions: AtomicU32::new(0) }
    }

    fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    #[track_caller]
    fn expect(&self, status: Status) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.deletions.load(SeqCst) == 0 {
            assert!(Instant::now() < deadline, "nothing is told");
            std::thread::sleep(Duration::from_micros(100));
        }
        let told = (self.calls.load(SeqCst), self.status.load(SeqCst), self.deletions.load(SeqCst));
        assert_eq!(told, (1, status as u32, 1));
    }
}

unsafe extern "C" fn note(argument: *mut c_void, status: Status) {
    // SAFETY: such arguments outlive the engines.
    let told = unsafe { &*argument.cast::<Told>() };
    told.status.store(status as u32, SeqCst);
    told.calls.fetch_add(1, SeqCst);
}

unsafe extern "C" fn delete(argument: *mut c_void) {
    // SAFETY: as above.
    unsafe { &*argument.cast::<Told>() }.deletions.fetch_add(1, SeqCst);
}

#[test]
fn functions_are_called_once_when_their_waits_are_over() {
    for kind in KINDS {
        let (reads, writes, told) = (Probe::default(), Probe::default(), [const { Told::new() }; 4]);
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        let begin = |number: usize| {
            let argument = told[number].argument();
            // SAFETY: the engine lives, and what is told outlives it.
            ok(unsafe {
                match number {
                    0 => seriatim_when_ready(engine.0, variable, Some(note), argument, Some(delete)),
                    1 | 2 => seriatim_when_unused(engine.0, variable, Some(note), argument, Some(delete)),
                    _ => seriatim_when_all_ended(engine.0, Some(note), argument, Some(delete)),
                }
            });
        };
        ok(engine.push_async(&writing(&variable), Some(keep), &writes));
        let write = writes.take_completion();
        begin(0);
        begin(1);
        begin(3);
        assert!(told.iter().all(|told| told.calls.load(SeqCst) == 0));
        // SAFETY: the completion is ours.
        ok(unsafe { seriatim_completion_complete(write) });
        [0, 1, 3].iter().for_each(|number| told[*number].expect(Status::Ok));
        ok(engine.push_async(&reading(&variable), Some(keep), &reads));
        let read = reads.take_completion();
        begin(2);
        assert_eq!(told[2].calls.load(SeqCst), 0, "a reader holds it up");
        // SAFETY: as above.
        ok(unsafe { seriatim_completion_complete(read) });
        told[2].expect(Status::Ok);
    }
}

#[test]
fn failures_and_refusals_are_told_to_the_function() {
    for kind in KINDS {
        let told = [const { Told::new() }; 3];
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        engine.mark(&variable);
        // SAFETY: the engine lives, and what is told outlives it.
        unsafe {
            ok(seriatim_when_ready(engine.0, variable, Some(note), told[0].argument(), Some(delete)));
            told[0].expect(Status::OperationFailed);
            ok(seriatim_wait_for_variable(engine.0, variable));
            ok(seriatim_variable_delete(engine.0, variable, ANYWHERE, None, null_mut(), None));
            ok(seriatim_when_ready(engine.0, variable, Some(note), told[1].argument(), Some(delete)));
            told[1].expect(Status::VariableDeleted);
            let refusal = seriatim_when_all_ended(engine.0, None, told[2].argument(), Some(delete));
            refused(refusal, Status::NullPointer, "function");
            assert_eq!((told[2].calls.load(SeqCst), told[2].deletions.load(SeqCst)), (0, 1));
        }
    }
}

/// Many waits for everything, begun beside the ends of operations.
#[test]
fn no_call_is_lost_beside_ends_of_operations() {
    for kind in KINDS {
        let probe = Probe::default();
        let told: Vec<Told> = (0..300).map(|_| Told::new()).collect();
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        for told in &told {
            ok(engine.push(&writing(&variable), Some(count_run), &probe));
            // SAFETY: the engine lives, and what is told outlives it.
            ok(unsafe { seriatim_when_all_ended(engine.0, Some(note), told.argument(), Some(delete)) });
        }
        told.iter().for_each(|told| told.expect(Status::Ok));
        ok(engine.wait());
        probe.expect(300, 300);
    }
}

#[test]
#[cfg(all(unix, not(miri)))]
fn a_descriptor_is_written_to_once() {
    for kind in KINDS {
        let probe = Probe::default();
        let engine = Engine::of_kind(kind);
        let variable = engine.variable();
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let read = || {
            let mut one = 0_u64;
            // SAFETY: room for eight bytes.
            let count = unsafe { libc::read(ends[0], (&raw mut one).cast(), 8) };
            assert_eq!((count, one), (8, 1));
        };
        ok(engine.push_async(&writing(&variable), Some(keep), &probe));
        // SAFETY: the engine lives, and the pipe is open; the completion is ours.
        unsafe {
            ok(seriatim_when_ready_write(engine.0, variable, ends[1]));
            let mut poll = libc::pollfd { fd: ends[0], events: libc::POLLIN, revents: 0 };
            assert_eq!(libc::poll(&mut poll, 1, 2), 0, "it is not over");
            ok(seriatim_completion_fail(probe.take_completion(), c"as it should".as_ptr()));
            read();
            refused(seriatim_wait_for_variable(engine.0, variable), Status::OperationFailed, "as it should");
            refused(seriatim_when_ready_write(engine.0, variable, -1), Status::BadArgument, "-1");
            seriatim_engine_notify_shutdown(engine.0);
            ok(seriatim_when_ready_write(engine.0, variable, ends[1]));
            read();
            ends.into_iter().for_each(|end| _ = libc::close(end));
        }
    }
}
