//! Handles of libraries that a GPU's worker keeps, over a back end that is the processor.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::ptr::{from_ref, null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
use std::sync::Mutex;
use std::thread::{self, ThreadId};

const GPU: SeriatimContext = SeriatimContext { device: SeriatimDevice::Gpu as u32, id: 0 };

fn engine(kind: &str) -> Engine {
    let (mut builder, mut engine) = (null_mut(), null_mut());
    let kind = std::ffi::CString::new(kind).unwrap();
    let settings = [
        SeriatimSetting { key: c"ENGINE".as_ptr(), value: kind.as_ptr() },
        SeriatimSetting { key: c"GPU_WORKERS".as_ptr(), value: c"1".as_ptr() },
    ];
    // SAFETY: the builder is used here only, and the texts end with a zero.
    unsafe {
        ok(seriatim_builder_new(&mut builder));
        ok(seriatim_builder_set(builder, settings.as_ptr(), settings.len()));
        ok(seriatim_builder_immediate_gpus(builder, 1));
        ok(seriatim_builder_build(builder, &mut engine));
    }
    Engine(engine)
}

/// A library. The address of one is the key of its handle, and the handle.
#[derive(Default)]
struct Library {
    made: Mutex<Vec<ThreadId>>,
    destroyed: AtomicU32,
    /// What `make` returns. If it is `AGAIN`, it asks for its own handle first.
    says: AtomicI32,
    /// The context of the operation that asks.
    run: Mutex<usize>,
}

const AGAIN: c_int = -1;

unsafe extern "C-unwind" fn make(argument: *mut c_void, out: *mut *mut c_void) -> c_int {
    // SAFETY: the argument is a library, and outlives the engine.
    let library = unsafe { &*argument.cast::<Library>() };
    match library.says.load(SeqCst) {
        0 => {
            library.made.lock().unwrap().push(thread::current().id());
            // SAFETY: it is a place for a handle.
            unsafe { out.write(argument) };
            0
        }
        AGAIN => {
            let run = std::ptr::with_exposed_provenance(*library.run.lock().unwrap());
            // SAFETY: the operation that asks has put its context there.
            let status =
                unsafe { seriatim_run_context_handle(run, argument, Some(make), argument, Some(destroy), out) };
            refused(status, Status::BorrowConflict, "is in use");
            8
        }
        other => other,
    }
}

unsafe extern "C" fn destroy(handle: *mut c_void) {
    // SAFETY: as in `make`.
    let library = unsafe { &*handle.cast::<Library>() };
    assert!(library.made.lock().unwrap().contains(&thread::current().id()));
    library.destroyed.fetch_add(1, SeqCst);
}

/// Asks twice for the handle of the library that is the argument. Fails with the status.
unsafe extern "C-unwind" fn asks(argument: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    // SAFETY: as in `make`.
    *unsafe { &*argument.cast::<Library>() }.run.lock().unwrap() = run.expose_provenance();
    for _ in 0..2 {
        let mut handle = argument;
        // SAFETY: the functions go with the argument.
        let status =
            unsafe { seriatim_run_context_handle(run, argument, Some(make), argument, Some(destroy), &mut handle) };
        if status != Status::Ok {
            assert!(handle.is_null());
            // SAFETY: the text is this thread's.
            unsafe { ok(seriatim_run_context_set_error(run, seriatim_last_error())) };
            return status as c_int;
        }
        assert_eq!(handle, argument);
    }
    0
}

fn ask(engine: &Engine, context: SeriatimContext, property: SeriatimProperty, library: &Library) -> Status {
    let variable = engine.variable();
    let operation = SeriatimOperation { context, property: property as u32, ..writing(&variable) };
    // SAFETY: the engine lives, and the operation is over before the library goes.
    unsafe {
        ok(seriatim_push(engine.0, &operation, Some(asks), from_ref(library).cast_mut().cast(), None));
        seriatim_wait_for_variable(engine.0, variable)
    }
}

#[test]
fn a_worker_keeps_the_handle_of_a_library_and_destroys_it_at_its_end() {
    for kind in KINDS {
        let (first, second) = (Library::default(), Library::default());
        let engine = engine(kind);
        for library in [&first, &second, &first, &first] {
            ok(ask(&engine, GPU, SeriatimProperty::Normal, library));
        }
        let counts = |library: &Library| (library.made.lock().unwrap().len(), library.destroyed.load(SeqCst));
        // On the naive engine a handle is the operation's.
        let expected = if kind == "naive" { [(3, 3), (1, 1)] } else { [(1, 0); 2] };
        assert_eq!([counts(&first), counts(&second)], expected, "{kind}");
        // Both ends of the workers count: a stop, and that of the engine.
        // SAFETY: the engine lives.
        unsafe { ok(seriatim_engine_stop(engine.0)) };
        let expected = if kind == "naive" { (3, 3) } else { (1, 1) };
        assert_eq!(counts(&first), expected, "{kind}");
        // SAFETY: as above.
        unsafe { ok(seriatim_engine_start(engine.0)) };
        ok(ask(&engine, GPU, SeriatimProperty::Normal, &first));
        drop(engine);
        assert_eq!(counts(&first), (expected.0 + 1, expected.1 + 1), "{kind}");
    }
}

#[test]
fn a_handle_that_cannot_be_had_is_an_error() {
    for kind in KINDS {
        let library = Library::default();
        let engine = engine(kind);
        for (says, text) in [(7, "the function that makes it returned 7"), (AGAIN, "returned 8")] {
            library.says.store(says, SeqCst);
            let status = ask(&engine, GPU, SeriatimProperty::Normal, &library);
            refused(status, Status::OperationFailed, text);
        }
        library.says.store(0, SeqCst);
        ok(ask(&engine, GPU, SeriatimProperty::Normal, &library));
        for (context, property) in [(ANYWHERE, SeriatimProperty::Normal), (GPU, SeriatimProperty::Async)] {
            refused(ask(&engine, context, property, &library), Status::OperationFailed, "has no stream");
        }
        assert_eq!(library.made.lock().unwrap().len(), 1, "{kind}");
        drop(engine);
        assert_eq!(library.destroyed.load(SeqCst), 1, "{kind}");
    }
}

/// Asks without a function that makes the handle, without a place for it, and without `destroy`.
unsafe extern "C-unwind" fn asks_badly(argument: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    let mut handle = argument;
    // SAFETY: null pointers are refused; the functions go with the argument.
    unsafe {
        let status = seriatim_run_context_handle(run, null(), None, argument, None, &mut handle);
        refused(status, Status::NullPointer, "make is null");
        assert!(handle.is_null());
        let status = seriatim_run_context_handle(run, null(), Some(make), argument, None, null_mut());
        refused(status, Status::NullPointer, "out is null");
        let status = seriatim_run_context_handle(null(), null(), Some(make), argument, None, &mut handle);
        refused(status, Status::NullPointer, "run is null");
        ok(seriatim_run_context_handle(run, null(), Some(make), argument, None, &mut handle));
    }
    assert_eq!(handle, argument);
    0
}

#[test]
fn null_pointers_are_refused_and_destroy_may_be_one() {
    let library = Library::default();
    let engine = engine("per-device");
    let variable = engine.variable();
    let operation = SeriatimOperation { context: GPU, ..writing(&variable) };
    // SAFETY: the engine ends before the library goes.
    unsafe { ok(seriatim_push(engine.0, &operation, Some(asks_badly), from_ref(&library).cast_mut().cast(), None)) };
    ok(engine.wait());
    drop(engine);
    assert_eq!((library.made.lock().unwrap().len(), library.destroyed.load(SeqCst)), (1, 0));
}
