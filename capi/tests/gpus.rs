//! GPUs, over a back end that is the processor: arrays, copies, adopted streams, and operations
//! that end after a stream.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const DEVICE: u32 = SeriatimMemory::Device as u32;
const PINNED: u32 = SeriatimMemory::Pinned as u32;
const GPU: SeriatimContext = SeriatimContext { device: SeriatimDevice::Gpu as u32, id: 0 };

fn engine(gpus: usize, kind: &str) -> Engine {
    let (mut builder, mut engine) = (null_mut(), null_mut());
    let kind = std::ffi::CString::new(kind).unwrap();
    let settings = [
        SeriatimSetting { key: c"ENGINE".as_ptr(), value: kind.as_ptr() },
        SeriatimSetting { key: c"GPU_MEMORY".as_ptr(), value: c"4096".as_ptr() },
    ];
    // SAFETY: the builder is used here only, and the texts end with a zero.
    unsafe {
        ok(seriatim_builder_new(&mut builder));
        ok(seriatim_builder_set(builder, settings.as_ptr(), settings.len()));
        ok(seriatim_builder_immediate_gpus(builder, gpus));
        ok(seriatim_builder_build(builder, &mut engine));
    }
    Engine(engine)
}

fn gpu(engine: &Engine) -> *mut SeriatimGpu {
    let mut gpu = null_mut();
    // SAFETY: the engine lives.
    ok(unsafe { seriatim_gpu_open(engine.0, 0, &mut gpu) });
    gpu
}

fn array(gpu: *const SeriatimGpu, memory: u32, length: usize, from: Option<&[u8]>) -> *mut SeriatimArray {
    let (from, mut array) = (from.map_or(null(), <[u8]>::as_ptr), null_mut());
    // SAFETY: the handle is live, and the bytes are as many.
    ok(unsafe { seriatim_array_new(gpu, memory, length, from.cast(), &mut array) });
    array
}

fn found(array: *const SeriatimArray, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xaa; length];
    // SAFETY: there is room.
    ok(unsafe { seriatim_array_get(array, 0, bytes.as_mut_ptr().cast(), length) });
    bytes
}

/// Adds one to each of eight bytes of the array that is the argument.
unsafe extern "C-unwind" fn increment(argument: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    let mut address = null_mut();
    // SAFETY: the argument is a live array of eight bytes, whose memory is the processor's.
    unsafe {
        ok(seriatim_array_write_on(argument.cast(), run, &mut address));
        assert!(seriatim_run_context_stream(run).is_null());
        (0..8).for_each(|index| *address.cast::<u8>().add(index) += 1);
    }
    0
}

/// As a library does it: the work is on a stream of its own, and another thread says so.
unsafe extern "C-unwind" fn increment_after(
    argument: *mut c_void,
    run: *const SeriatimRunContext,
    completion: *mut SeriatimCompletion,
) {
    let completion = completion.expose_provenance();
    // SAFETY: as in `increment`; the only stream is null. The handle is used once.
    unsafe {
        assert_eq!(increment(argument, run), 0);
        std::thread::spawn(move || {
            let completion = std::ptr::with_exposed_provenance_mut(completion);
            ok(seriatim_completion_complete_after(completion, null_mut()));
        });
    }
}

#[test]
fn bytes_go_to_a_gpu_and_back() {
    for kind in KINDS {
        let engine = engine(1, kind);
        let gpu = gpu(&engine);
        let bytes = [1u8, 2, 3, 4, 5, 6, 7, 8];
        let (x, zeros) = (array(gpu, DEVICE, 8, Some(&bytes)), array(gpu, DEVICE, 8, None));
        let (back, empty) = (array(gpu, PINNED, 8, None), array(gpu, PINNED, 8, Some(&bytes)));
        // SAFETY: the handles live until they are deleted, and each operation runs before that.
        unsafe {
            let variable = seriatim_array_variable(x);
            let operation = SeriatimOperation { context: GPU, ..writing(&variable) };
            ok(seriatim_push(engine.0, &operation, Some(increment), x.cast(), None));
            ok(seriatim_push_async(engine.0, &operation, Some(increment_after), x.cast(), None));
            ok(seriatim_copy(x, back));
            ok(seriatim_copy(zeros, empty));
            ok(engine.wait());
            assert_eq!((seriatim_array_length(x), found(back, 8)), (8, vec![3, 4, 5, 6, 7, 8, 9, 10]), "{kind}");
            assert_eq!(found(empty, 8), [0; 8], "{kind}");
            ok(seriatim_array_set(back, 2, [40u8, 41].as_ptr().cast(), 2));
            ok(seriatim_copy(back, zeros));
            ok(seriatim_copy(zeros, empty));
            ok(engine.wait());
            assert_eq!(found(empty, 8), [3, 4, 40, 41, 7, 8, 9, 10], "{kind}");
            let mut usage = SeriatimMemoryUsage::default();
            ok(seriatim_gpu_memory(gpu, DEVICE, &mut usage));
            assert_eq!((usage.in_use, usage.peak), (1024, 1024), "{kind}");
            [x, zeros, back, empty].into_iter().for_each(|array| ok(seriatim_array_delete(array)));
            ok(engine.wait());
            let mut freed = 0;
            ok(seriatim_gpu_trim(gpu, &mut freed));
            ok(engine.wait());
            ok(seriatim_gpu_memory(gpu, DEVICE, &mut usage));
            assert!(freed >= 2 && (usage.in_use, usage.kept) == (0, 0), "{kind}: {freed} freed, {usage:?}");
            ok(seriatim_gpu_delete(gpu));
        }
    }
}

#[test]
fn adopted_streams_take_their_turns() {
    for kind in KINDS {
        let engine = engine(1, kind);
        let (gpu, mut stream) = (gpu(&engine), null_mut());
        let (x, back) = (array(gpu, DEVICE, 8, None), array(gpu, PINNED, 8, None));
        // SAFETY: as above; the only stream is null.
        unsafe {
            ok(seriatim_gpu_adopt(gpu, null_mut(), &mut stream));
            let variable = seriatim_array_variable(x);
            let operation = SeriatimOperation { context: GPU, ..writing(&variable) };
            for _ in 0..3 {
                ok(seriatim_push(engine.0, &operation, Some(increment), x.cast(), None));
                ok(seriatim_adopted_stream_wait_to_read(stream, variable));
                ok(seriatim_adopted_stream_has_read(stream, variable));
                ok(seriatim_adopted_stream_wait_to_write(stream, variable));
                ok(seriatim_adopted_stream_has_written(stream, variable));
            }
            ok(seriatim_copy(x, back));
            ok(engine.wait());
            assert_eq!(found(back, 8), [3; 8], "{kind}");
            let mut version = 0;
            ok(seriatim_variable_version(engine.0, variable, &mut version));
            // Zeros, and three writes a round: each call is a push.
            assert_eq!(version, 10, "{kind}");
            let nobody = SeriatimVariable::default();
            refused(seriatim_adopted_stream_has_read(stream, nobody), Status::ForeignVariable, "belongs to");
            refused(seriatim_adopted_stream_has_read(null(), nobody), Status::NullPointer, "stream");
            ok(seriatim_adopted_stream_delete(stream));
            [x, back].into_iter().for_each(|array| ok(seriatim_array_delete(array)));
            ok(seriatim_gpu_delete(gpu));
        }
    }
}

unsafe extern "C-unwind" fn touches_undeclared(argument: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    let mut address = null_mut();
    // SAFETY: the argument is a live array.
    let status = unsafe { seriatim_array_read_on(argument.cast(), run, &mut address) };
    refused(status, Status::UndeclaredAccess, "it has not declared");
    assert!(address.is_null());
    0
}

unsafe extern "C-unwind" fn completes_on_the_processor(
    _: *mut c_void,
    _: *const SeriatimRunContext,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: it was given to this function.
    ok(unsafe { seriatim_completion_complete_after(completion, null_mut()) });
}

#[test]
fn what_does_not_go_is_refused() {
    let engine = engine(2, "per-device");
    let gpu = gpu(&engine);
    let (x, y, pinned) = (array(gpu, DEVICE, 8, None), array(gpu, DEVICE, 9, None), array(gpu, PINNED, 8, None));
    let (mut none, mut other) = (null_mut(), null_mut());
    let mut bytes = [0u8; 8];
    // SAFETY: the handles live, and the operations run before they are deleted.
    unsafe {
        refused(seriatim_gpu_open(engine.0, 2, &mut other), Status::DeviceUnavailable, "2 devices");
        refused(seriatim_gpu_open(engine.0, 1024, &mut other), Status::UnknownDevice, "gpu(1024)");
        refused(seriatim_array_new(gpu, 2, 8, null(), &mut none), Status::BadArgument, "2 is not a kind of memory");
        refused(seriatim_array_new(gpu, DEVICE, 8192, null(), &mut none), Status::OutOfMemory, "the limit is 4096");
        refused(seriatim_array_new(null(), DEVICE, 8, null(), &mut none), Status::NullPointer, "gpu");
        assert!(none.is_null());
        refused(seriatim_copy(x, x), Status::BufferMismatch, "itself");
        refused(seriatim_copy(x, y), Status::BufferMismatch, "9");
        refused(seriatim_copy(pinned, array(gpu, PINNED, 8, None)), Status::BufferMismatch, "the processor's");
        refused(seriatim_copy(x, null()), Status::NullPointer, "to");
        let (room, source) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.as_ptr().cast::<c_void>());
        ok(engine.wait());
        refused(seriatim_array_get(x, 0, room, 8), Status::BadArgument, "on a GPU");
        refused(seriatim_array_get(pinned, 1, room, 8), Status::BadArgument, "not in an array of 8");
        refused(seriatim_array_get(pinned, usize::MAX, room, 8), Status::BadArgument, "not in an array of 8");
        refused(seriatim_array_set(pinned, 9, source, 0), Status::BadArgument, "not in an array of 8");
        refused(seriatim_array_get(pinned, 0, null_mut(), 1), Status::NullPointer, "to");
        refused(seriatim_array_set(pinned, 0, null(), 1), Status::NullPointer, "from");
        ok(seriatim_array_get(pinned, 8, null_mut(), 0));
        let variable = engine.variable();
        let operation = SeriatimOperation { context: GPU, ..writing(&variable) };
        ok(seriatim_push(engine.0, &operation, Some(touches_undeclared), x.cast(), None));
        ok(engine.wait());
        let there = writing(&variable);
        ok(seriatim_push_async(engine.0, &there, Some(completes_on_the_processor), null_mut(), None));
        refused(engine.wait(), Status::NoStream, "has no streams");
        assert_eq!(seriatim_array_length(null()), 0);
        assert_eq!(seriatim_array_variable(null()), SeriatimVariable::default());
        [x, y, pinned, null_mut()].into_iter().for_each(|array| ok(seriatim_array_delete(array)));
        ok(seriatim_gpu_delete(gpu));
    }
}

/// Counts its calls, in the value that comes first in the argument, and increments the array that
/// comes second.
unsafe extern "C-unwind" fn counted(argument: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    // SAFETY: the argument is such a pair, which outlives the graph.
    unsafe {
        let (count, array) = &*argument.cast::<(AtomicU32, *mut SeriatimArray)>();
        count.fetch_add(1, SeqCst);
        increment(array.cast(), run)
    }
}

/// Without graphs of the driver, as here, `device_graph` has no effect: the function is called in
/// each replay.
#[test]
fn copies_and_operations_that_ask_for_a_device_graph_are_recorded() {
    for kind in KINDS {
        let engine = engine(1, kind);
        let gpu = gpu(&engine);
        let (from, x, back) = (array(gpu, PINNED, 8, None), array(gpu, DEVICE, 8, None), array(gpu, PINNED, 8, None));
        let pair = (AtomicU32::new(0), x);
        let (mut capture, mut graph) = (null_mut(), null_mut());
        // SAFETY: the handles live until they are deleted, and the pair outlives the graph.
        unsafe {
            let variable = seriatim_array_variable(x);
            ok(seriatim_capture_begin(engine.0, null(), &mut capture));
            ok(seriatim_capture_copy(capture, from, x));
            let operation = SeriatimOperation { context: GPU, device_graph: 1, ..writing(&variable) };
            let argument = std::ptr::from_ref(&pair).cast_mut().cast();
            ok(seriatim_capture_push(capture, &operation, Some(counted), argument, None));
            ok(seriatim_capture_copy(capture, x, back));
            refused(seriatim_capture_copy(capture, x, x), Status::BufferMismatch, "to itself");
            refused(seriatim_capture_copy(capture, from, back), Status::BufferMismatch, "both the processor's");
            refused(seriatim_capture_copy(null_mut(), from, x), Status::NullPointer, "capture is null");
            refused(seriatim_capture_copy(capture, null(), x), Status::NullPointer, "from is null");
            refused(seriatim_capture_copy(capture, x, null()), Status::NullPointer, "to is null");
            ok(seriatim_capture_end(capture, &mut graph));
            for round in 0..3u8 {
                ok(seriatim_array_set(from, 0, [round; 8].as_ptr().cast(), 8));
                ok(seriatim_graph_replay(graph, 0));
                ok(engine.wait());
                assert_eq!(found(back, 8), [round + 1; 8], "{kind}");
            }
            assert_eq!(pair.0.load(SeqCst), 3, "{kind}");
            ok(seriatim_graph_delete(graph));
            [from, x, back].into_iter().for_each(|array| ok(seriatim_array_delete(array)));
            ok(seriatim_gpu_delete(gpu));
        }
    }
}
