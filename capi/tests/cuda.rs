//! GPUs by CUDA, over a stand-in for the driver: streams of a device come out of the C interface
//! and go into it, and what uses common memory is in order. The stand-in runs late, and its checker
//! judges every use.

#![cfg(all(feature = "cuda", target_os = "linux", target_pointer_width = "64"))]

#[path = "../../tests/cuda-standin/client.rs"]
mod client;
mod common;

use client::{call, host_memory, memory, queue, Fault, Standin};
use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;
use std::thread::JoinHandle;

const GPU: SeriatimContext = SeriatimContext { device: SeriatimDevice::Gpu as u32, id: 0 };
const ROUNDS: u64 = 12;

/// What the operations share: eight bytes of the host that the device may use as well.
struct Shared {
    at: u64,
    /// A stream of the program's.
    stream: usize,
    /// The engine's streams that operations were given, as a set of bits, and what the processor
    /// has found.
    given: AtomicUsize,
    found: AtomicU64,
    wrong: AtomicUsize,
    /// Each has a share of the engine, which ends with the last.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A use of the bytes: from `old` to `3 * old + 1`.
fn step(word: *mut u8) -> bool {
    if word.is_null() {
        return false;
    }
    // SAFETY: the stand-in's memory is aligned and leaked; a test finds two uses at once.
    let word = unsafe { AtomicU64::from_ptr(word.cast()) };
    word.store(word.load(SeqCst).wrapping_mul(3).wrapping_add(1), SeqCst);
    true
}

/// Queues such a use on a stream.
fn queue_step(stream: *mut c_void, at: u64) -> c_int {
    queue(stream, move || if step(memory(at, 8, true, 0)) { 0 } else { 700 })
}

/// # Safety
/// The argument is a [`Shared`] that outlives the engine.
unsafe fn shared<'a>(argument: *mut c_void) -> &'a Shared {
    // SAFETY: by the contract.
    unsafe { &*argument.cast::<Shared>() }
}

/// The stream of an operation, which is a live one of the driver.
unsafe fn own_stream(shared: &Shared, run: *const SeriatimRunContext) -> *mut c_void {
    // SAFETY: the run context is this call's.
    let stream = unsafe { seriatim_run_context_stream(run) };
    let is_fine = !stream.is_null() && stream.addr() != shared.stream;
    shared.wrong.fetch_add(usize::from(!is_fine), SeqCst);
    shared.given.fetch_add(1, SeqCst);
    stream
}

unsafe extern "C-unwind" fn on_its_stream(argument: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    // SAFETY: these are pushed with such an argument.
    unsafe {
        let shared = shared(argument);
        queue_step(own_stream(shared, run), shared.at)
    }
}

/// The work is on its stream, and another thread says that the operation ends after that.
unsafe extern "C-unwind" fn ends_after_its_stream(
    argument: *mut c_void,
    run: *const SeriatimRunContext,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: as above. The stream is the engine's, and the handle is used once.
    unsafe {
        let shared = shared(argument);
        let stream = own_stream(shared, run);
        assert_eq!(queue_step(stream, shared.at), 0);
        let (stream, completion) = (stream.expose_provenance(), completion.expose_provenance());
        let ends = std::thread::spawn(move || {
            let completion = with_exposed_provenance_mut(completion);
            ok(seriatim_completion_complete_after(completion, with_exposed_provenance_mut(stream)));
        });
        shared.threads.lock().unwrap().push(ends);
    }
}

/// The work is on the program's stream, as a library's would be.
unsafe extern "C-unwind" fn ends_after_the_programs_stream(
    argument: *mut c_void,
    run: *const SeriatimRunContext,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: as above. The stream is never destroyed.
    unsafe {
        let shared = shared(argument);
        let is_given = !seriatim_run_context_stream(run).is_null();
        shared.wrong.fetch_add(usize::from(is_given), SeqCst);
        let stream = with_exposed_provenance_mut(shared.stream);
        assert_eq!(queue_step(stream, shared.at), 0);
        ok(seriatim_completion_complete_after(completion, stream));
    }
}

unsafe extern "C-unwind" fn on_the_processor(argument: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    // SAFETY: as above.
    unsafe {
        let shared = shared(argument);
        let is_given = !seriatim_run_context_stream(run).is_null();
        shared.wrong.fetch_add(usize::from(is_given), SeqCst);
        let word = host_memory(shared.at, 8, true, 0);
        if !step(word) {
            return 1;
        }
        shared.found.store(AtomicU64::from_ptr(word.cast()).load(SeqCst), SeqCst);
        0
    }
}

/// The first device current on this thread, eight bytes and a stream there.
fn shared_memory() -> Shared {
    let (mut context, mut stream, mut at) = (null_mut(), null_mut(), 0u64);
    assert_eq!(call!(cuInit(0 => u32) -> c_int), 0);
    assert_eq!(call!(cuDevicePrimaryCtxRetain(&raw mut context => *mut *mut c_void, 0 => c_int) -> c_int), 0);
    assert_eq!(call!(cuCtxSetCurrent(context => *mut c_void) -> c_int), 0);
    let made = &raw mut stream;
    assert_eq!(call!(cuStreamCreateWithPriority(made => *mut *mut c_void, 1 => u32, 0 => c_int) -> c_int), 0);
    assert_eq!(call!(cuMemHostAlloc(&raw mut at => *mut u64, 8 => usize, 0 => u32) -> c_int), 0);
    let word = host_memory(at, 8, true, 0);
    // SAFETY: the stand-in has these eight bytes.
    unsafe { AtomicU64::from_ptr(word.cast()) }.store(0, SeqCst);
    let (given, found, wrong) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicUsize::new(0));
    Shared { at, stream: stream.expose_provenance(), given, found, wrong, threads: Mutex::default() }
}

/// Uses of the bytes on streams of the engine, on the program's and on the processor, in turn. Says
/// what is wrong.
fn program(standin: &Standin, kind: &str) -> Result<(), String> {
    let shared = Box::new(shared_memory());
    let argument = std::ptr::from_ref(&*shared).cast_mut().cast::<c_void>();
    let engine = Engine::of_kind(kind);
    let variable = engine.variable();
    let (mut gpu, mut adopted) = (null_mut(), null_mut());
    let stream = with_exposed_provenance_mut::<c_void>(shared.stream);
    let on_gpu = SeriatimOperation { context: GPU, ..writing(&variable) };
    let without = SeriatimOperation { property: SeriatimProperty::Async as u32, ..on_gpu };
    // SAFETY: the handles live until they are deleted, the stream for ever, and `shared` longer
    // than the engine.
    unsafe {
        ok(seriatim_gpu_open(engine.0, 0, &mut gpu));
        ok(seriatim_gpu_adopt(gpu, stream, &mut adopted));
        for _ in 0..ROUNDS {
            ok(seriatim_push(engine.0, &on_gpu, Some(on_its_stream), argument, None));
            ok(seriatim_adopted_stream_wait_to_write(adopted, variable));
            assert_eq!(queue_step(stream, shared.at), 0);
            ok(seriatim_adopted_stream_has_written(adopted, variable));
            ok(seriatim_push_async(engine.0, &on_gpu, Some(ends_after_its_stream), argument, None));
            ok(seriatim_push_async(engine.0, &without, Some(ends_after_the_programs_stream), argument, None));
            ok(seriatim_push(engine.0, &on_gpu, Some(on_its_stream), argument, None));
            ok(seriatim_push(engine.0, &writing(&variable), Some(on_the_processor), argument, None));
        }
        ok(engine.wait());
        // On the naive engine such a thread may run operations that add threads.
        loop {
            let Some(thread) = shared.threads.lock().unwrap().pop() else { break };
            thread.join().expect("it does not panic");
        }
        ok(seriatim_adopted_stream_delete(adopted));
        ok(seriatim_gpu_delete(gpu));
    }
    drop(engine);
    if let Some(report) = standin.reports().first() {
        return Err(report.clone());
    }
    let expected = (0..6 * ROUNDS).fold(0u64, |old, _| old.wrapping_mul(3).wrapping_add(1));
    let found = (shared.found.load(SeqCst), shared.given.load(SeqCst), shared.wrong.load(SeqCst));
    match found == (expected, 3 * ROUNDS as usize, 0) {
        true => Ok(()),
        false => Err(format!("value, streams given and wrong ones are {found:?}, and the value should be {expected}")),
    }
}

#[test]
fn streams_of_a_device_are_in_order() {
    let standin = Standin::begin(1, 60);
    for (seed, kind) in (1..=9).zip(KINDS.into_iter().cycle()) {
        standin.again(seed, [20, 60, 200][seed as usize % 3]);
        program(&standin, kind).unwrap_or_else(|said| panic!("seed {seed} on {kind}: {said}"));
    }
}

/// The test above would notice.
#[test]
fn a_driver_that_swallows_waits_is_found() {
    let standin = Standin::begin(1, 60);
    let is_found = |seed: &u64| {
        standin.again(*seed, 20);
        standin.plant(Fault::WaitSwallowed, 2);
        program(&standin, "per-device").is_err()
    };
    let found = (1..=10).filter(is_found).count();
    assert!(found >= 9, "{found} of 10");
}
