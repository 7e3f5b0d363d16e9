//! What the tests share: engines of every kind, and arguments that count what happens to them.

#![allow(dead_code)]

use seriatim_c::*;
use std::ffi::{c_int, c_void, CStr, CString};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst};

pub use seriatim_c::SeriatimStatus as Status;

pub const KINDS: [&str; 3] = ["naive", "pooled", "per-device"];
pub const ANYWHERE: SeriatimContext = SeriatimContext { device: 0, id: 0 };

/// The text of this thread's last failure.
pub fn last_error() -> String {
    // SAFETY: the text is copied before anything can fail.
    unsafe { CStr::from_ptr(seriatim_last_error()) }.to_str().expect("errors are UTF-8").to_owned()
}

/// Asserts that a call succeeded.
#[track_caller]
pub fn ok(status: Status) {
    assert_eq!(status, Status::Ok, "{}", last_error());
}

/// Asserts that a call failed in that way, with a text that contains this.
#[track_caller]
pub fn refused(status: Status, expected: Status, text: &str) {
    assert_eq!(status, expected, "{}", last_error());
    assert!(last_error().contains(text), "{}", last_error());
}

/// An engine that is deleted at the end of the test.
pub struct Engine(pub *mut SeriatimEngine);

// SAFETY: engines may be used from any thread.
unsafe impl Send for Engine {}
// SAFETY: as above.
unsafe impl Sync for Engine {}

impl Engine {
    pub fn try_with(settings: &[(&str, &str)]) -> Result<Engine, Status> {
        let texts: Vec<[CString; 2]> =
            settings.iter().map(|(key, value)| [key, value].map(|t| CString::new(*t).unwrap())).collect();
        let settings: Vec<SeriatimSetting> =
            texts.iter().map(|[key, value]| SeriatimSetting { key: key.as_ptr(), value: value.as_ptr() }).collect();
        let mut engine = null_mut();
        // SAFETY: the settings live until the call returns.
        match unsafe { seriatim_engine_new(settings.as_ptr(), settings.len(), &mut engine) } {
            Status::Ok => Ok(Engine(engine)),
            status => {
                assert!(engine.is_null());
                Err(status)
            }
        }
    }

    pub fn with(settings: &[(&str, &str)]) -> Engine {
        Engine::try_with(settings).unwrap_or_else(|_| panic!("{}", last_error()))
    }

    pub fn of_kind(kind: &str) -> Engine {
        Engine::with(&[("ENGINE", kind), ("CPU_WORKERS", "2"), ("PIN", "off")])
    }

    pub fn variable(&self) -> SeriatimVariable {
        let mut variable = SeriatimVariable::default();
        // SAFETY: the engine lives.
        ok(unsafe { seriatim_variable_new(self.0, &mut variable) });
        variable
    }

    pub fn wait(&self) -> Status {
        // SAFETY: the engine lives.
        unsafe { seriatim_wait_for_all(self.0) }
    }

    pub fn push(&self, operation: &SeriatimOperation, function: SeriatimFunction, probe: &Probe) -> Status {
        // SAFETY: probes outlive engines in these tests.
        unsafe { seriatim_push(self.0, operation, function, probe.argument(), Some(count_deletion)) }
    }

    pub fn push_async(&self, operation: &SeriatimOperation, function: SeriatimAsyncFunction, probe: &Probe) -> Status {
        // SAFETY: as above.
        unsafe { seriatim_push_async(self.0, operation, function, probe.argument(), Some(count_deletion)) }
    }

    /// Makes `variable` carry the mark of a failure.
    pub fn mark(&self, variable: &SeriatimVariable) {
        // SAFETY: the function does not use its argument.
        ok(unsafe { seriatim_push(self.0, &writing(variable), Some(fail), null_mut(), None) });
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: made by this library, and not used again.
        ok(unsafe { seriatim_engine_delete(self.0) });
    }
}

pub fn reading(variable: &SeriatimVariable) -> SeriatimOperation {
    SeriatimOperation { reads: variable, read_count: 1, ..SeriatimOperation::default() }
}

pub fn writing(variable: &SeriatimVariable) -> SeriatimOperation {
    SeriatimOperation { writes: variable, write_count: 1, ..SeriatimOperation::default() }
}

/// An argument that counts what happens to it.
#[derive(Default)]
pub struct Probe {
    pub runs: AtomicU32,
    pub deletions: AtomicU32,
    pub completion: AtomicPtr<SeriatimCompletion>,
    pub engine: AtomicPtr<SeriatimEngine>,
}

impl Probe {
    pub fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    #[track_caller]
    pub fn expect(&self, runs: u32, deletions: u32) {
        assert_eq!((self.runs.load(SeqCst), self.deletions.load(SeqCst)), (runs, deletions), "runs and deletions");
    }

    /// The completion that a call of `keep` has left here.
    pub fn take_completion(&self) -> *mut SeriatimCompletion {
        loop {
            let completion = self.completion.swap(null_mut(), SeqCst);
            if !completion.is_null() {
                return completion;
            }
            std::thread::yield_now();
        }
    }
}

unsafe fn probe<'a>(argument: *mut c_void) -> &'a Probe {
    // SAFETY: the functions below are pushed with probes only, and probes outlive engines.
    unsafe { &*argument.cast::<Probe>() }
}

pub unsafe extern "C" fn count_deletion(argument: *mut c_void) {
    // SAFETY: see `probe`.
    unsafe { probe(argument) }.deletions.fetch_add(1, SeqCst);
}

pub unsafe extern "C-unwind" fn count_run(argument: *mut c_void, _: *const SeriatimRunContext) -> c_int {
    // SAFETY: see `probe`.
    unsafe { probe(argument) }.runs.fetch_add(1, SeqCst);
    0
}

pub unsafe extern "C-unwind" fn fail(_: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    // SAFETY: the run context is this call's.
    unsafe { seriatim_run_context_set_error(run, c"as it should".as_ptr()) };
    1
}

pub unsafe extern "C-unwind" fn unwind(_: *mut c_void, _: *const SeriatimRunContext) -> c_int {
    panic!("on purpose");
}

/// Leaves its completion in the probe.
pub unsafe extern "C-unwind" fn keep(
    argument: *mut c_void,
    _: *const SeriatimRunContext,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: see `probe`.
    let probe = unsafe { probe(argument) };
    probe.runs.fetch_add(1, SeqCst);
    probe.completion.store(completion, SeqCst);
}

pub unsafe extern "C-unwind" fn complete_at_once(
    argument: *mut c_void,
    _: *const SeriatimRunContext,
    completion: *mut SeriatimCompletion,
) {
    // The run is counted first: a wait may return as soon as the completion is used.
    // SAFETY: see `probe`; the completion is this call's.
    unsafe {
        probe(argument).runs.fetch_add(1, SeqCst);
        ok(seriatim_completion_complete(completion));
    }
}

pub unsafe extern "C-unwind" fn keep_and_unwind(
    argument: *mut c_void,
    run: *const SeriatimRunContext,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: passed on.
    unsafe { keep(argument, run, completion) };
    panic!("on purpose");
}

/// Deletes the engine that the probe has.
pub unsafe extern "C-unwind" fn delete_engine(argument: *mut c_void, _: *const SeriatimRunContext) -> c_int {
    // SAFETY: see `probe`; the thread that puts an engine there gives it up.
    unsafe {
        let probe = probe(argument);
        ok(seriatim_engine_delete(probe.engine.swap(null_mut(), SeqCst)));
        probe.runs.fetch_add(1, SeqCst);
    }
    0
}
