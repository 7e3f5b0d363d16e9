//! The stand-in itself: what it finds, and what else of the driver it has.

use crate::client::{call, memory, touch, Count, Standin};
use crate::handles::Driver;
use crate::Entered;
use seriatim::gpu::{Backend, Class};
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

#[test]
fn an_unordered_pair_is_found_whatever_ran_first() {
    let standin = Standin::begin(1, 128);
    let mut firsts = [0; 2];
    for seed in 1..=100 {
        for with_wait in [false, true] {
            standin.again(seed, 40);
            let gpu = Entered::new(&standin);
            let (one, two, mark) = (gpu.stream(), gpu.stream(), gpu.mark());
            standin.access(one.raw(), 9, true, 1);
            gpu.cuda.record(mark, one).unwrap();
            if with_wait {
                gpu.cuda.wait(two, mark).unwrap();
            }
            standin.access(two.raw(), 9, false, 2);
            standin.run_all();
            let reports = standin.reports();
            assert_eq!(reports.len(), usize::from(!with_wait), "seed {seed}: {reports:?}");
            if !with_wait {
                firsts[usize::from(reports[0].contains("the write '1' on stream 1 is not ordered"))] += 1;
            }
        }
    }
    assert!(firsts.iter().all(|count| *count > 10), "either stream came first: {firsts:?}");
}

#[test]
fn the_host_is_ordered_by_what_it_has_learnt() {
    let standin = Standin::begin(1, 128);
    for learns in [false, true] {
        standin.again(1, 128);
        let gpu = Entered::new(&standin);
        let (stream, mark) = (gpu.stream(), gpu.mark());
        standin.host_access(1, true, 1);
        standin.access(stream.raw(), 1, true, 2);
        gpu.cuda.record(mark, stream).unwrap();
        standin.run_all();
        if learns {
            assert_eq!(gpu.cuda.reached(mark), Ok(true));
        }
        standin.host_access(1, false, 3);
        let expected = "cell 1: the read '3' on the host is not ordered after the write '2' on stream 1".to_owned();
        assert_eq!(standin.reports(), if learns { Vec::new() } else { vec![expected] });
    }
}

#[test]
fn queued_functions_run_in_the_order_of_their_stream_and_tell_what_they_touch() {
    let standin = Standin::begin(3, 60);
    let gpu = Entered::new(&standin);
    let (one, two) = (gpu.stream(), gpu.stream());
    let count = Arc::new(AtomicUsize::new(0));
    for expected in 0..50 {
        let count = Arc::clone(&count);
        standin.queue(one.raw(), move || {
            touch(4, true, expected);
            assert_eq!(count.fetch_add(1, SeqCst) as u64, expected);
            0
        });
    }
    standin.queue(two.raw(), || {
        touch(4, false, 99);
        0
    });
    gpu.cuda.finish(one).unwrap();
    gpu.cuda.finish(two).unwrap();
    assert_eq!(count.load(SeqCst), 50);
    assert!(!standin.reports().is_empty(), "nothing orders the second stream");
}

/// Adds one to each of `n` numbers.
unsafe extern "C" fn add_one(_: usize, arguments: *const *const u8, _: *const u32, _: *const u32) -> i32 {
    // SAFETY: the kernel is registered with an address and a number.
    let (at, n) = unsafe { ((*arguments).cast::<u64>().read(), (*arguments.add(1)).cast::<u32>().read()) };
    let values = memory(at, n as usize * 4, true, 1).cast::<f32>();
    if values.is_null() {
        return 700;
    }
    for at in 0..n as usize {
        // SAFETY: `memory` has found so much room there.
        unsafe { *values.add(at) += 1.0 };
    }
    0
}

fn register(name: &std::ffi::CStr, sizes: &[usize]) {
    type Kernel = unsafe extern "C" fn(usize, *const *const u8, *const u32, *const u32) -> i32;
    call!(standin_kernel(
        name.as_ptr() => *const c_char, sizes.as_ptr() => *const usize, sizes.len() => usize,
        add_one => Kernel, 0 => usize
    ));
}

fn launch(function: *mut c_void, stream: *mut c_void, at: u64, n: u32) -> i32 {
    let (mut at, mut n) = (at, n);
    let mut arguments = [(&raw mut at).cast::<c_void>(), (&raw mut n).cast()];
    call!(cuLaunchKernel(
        function => *mut c_void, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 0 => u32,
        stream => *mut c_void, arguments.as_mut_ptr() => *mut *mut c_void, null_mut() => *mut *mut c_void
    ) -> i32)
}

fn function(name: &std::ffi::CStr) -> *mut c_void {
    let (mut module, mut function) = (null_mut(), null_mut());
    let image = c"".as_ptr().cast();
    assert_eq!(call!(cuModuleLoadData(&raw mut module => *mut *mut c_void, image => *const c_void) -> i32), 0);
    let found = call!(cuModuleGetFunction(
        &raw mut function => *mut *mut c_void, module => *mut c_void, name.as_ptr() => *const c_char
    ) -> i32);
    assert_eq!(found, 0);
    function
}

fn allocate(bytes: usize) -> u64 {
    let mut at = 0;
    assert_eq!(call!(cuMemAlloc_v2(&raw mut at => *mut u64, bytes => usize) -> i32), 0);
    at
}

#[test]
fn copies_and_kernels_work_on_memory_of_the_device() {
    let standin = Standin::begin(5, 60);
    let gpu = Entered::new(&standin);
    register(c"add_one", &[8, 4]);
    let (copies, kernels, copied, done) = (gpu.stream(), gpu.stream(), gpu.mark(), gpu.mark());
    let (at, function) = (allocate(400), function(c"add_one"));
    let (from, mut to) = ([1.5f32; 100], [0f32; 100]);
    let stream = copies.raw();
    let code = call!(cuMemcpyHtoDAsync_v2(
        at => u64, from.as_ptr().cast() => *const c_void, 400 => usize, stream => *mut c_void) -> i32);
    assert_eq!(code, 0);
    gpu.cuda.record(copied, copies).unwrap();
    gpu.cuda.wait(kernels, copied).unwrap();
    assert_eq!(launch(function, kernels.raw(), at, 100), 0);
    gpu.cuda.record(done, kernels).unwrap();
    gpu.cuda.wait(copies, done).unwrap();
    let code = call!(cuMemcpyDtoHAsync_v2(
        to.as_mut_ptr().cast() => *mut c_void, at => u64, 400 => usize, stream => *mut c_void) -> i32);
    assert_eq!((code, to), (0, [2.5; 100]));
    assert_eq!(standin.reports(), [""; 0]);
    assert_eq!(call!(cuMemFree_v2(at => u64) -> i32), 0);
    assert_eq!(standin.count(Count::Allocations), 0);
}

#[test]
fn memory_that_is_used_after_its_free_is_found_and_the_device_is_lost() {
    let standin = Standin::by_hand();
    let gpu = Entered::new(&standin);
    register(c"add_one", &[8, 4]);
    let (stream, mark, at) = (gpu.stream(), gpu.mark(), allocate(64));
    let function = function(c"add_one");
    assert_eq!(call!(cuMemFreeAsync(at => u64, stream.raw() => *mut c_void) -> i32), 0);
    assert_eq!(launch(function, stream.raw(), at, 16), 0);
    gpu.cuda.record(mark, stream).unwrap();
    standin.run_all();
    assert_eq!(standin.reports(), ["memory is used after its free, by '1'"]);
    assert!(gpu.cuda.reached(mark).unwrap_err().is_lost());
}

#[test]
fn a_graph_runs_what_was_captured() {
    let standin = Standin::begin(1, 128);
    let gpu = Entered::new(&standin);
    register(c"add_one", &[8, 4]);
    let (stream, at, function) = (gpu.stream(), allocate(40), function(c"add_one"));
    let raw = stream.raw();
    assert_eq!(call!(cuMemsetD8Async(at => u64, 0 => u8, 40 => usize, raw => *mut c_void) -> i32), 0);
    let (mut graph, mut instance) = (null_mut(), null_mut());
    assert_eq!(call!(cuStreamBeginCapture_v2(raw => *mut c_void, 1 => i32) -> i32), 0);
    for _ in 0..3 {
        assert_eq!(launch(function, raw, at, 10), 0);
    }
    assert_eq!(call!(cuStreamEndCapture(raw => *mut c_void, &raw mut graph => *mut *mut c_void) -> i32), 0);
    let made = call!(cuGraphInstantiateWithFlags(
        &raw mut instance => *mut *mut c_void, graph => *mut c_void, 0 => u64) -> i32);
    assert_eq!(made, 0);
    for _ in 0..2 {
        assert_eq!(call!(cuGraphLaunch(instance => *mut c_void, raw => *mut c_void) -> i32), 0);
    }
    let mut to = [0f32; 10];
    let code = call!(cuMemcpyDtoHAsync_v2(
        to.as_mut_ptr().cast() => *mut c_void, at => u64, 40 => usize, raw => *mut c_void) -> i32);
    assert_eq!((code, to, standin.reports()), (0, [6.0; 10], Vec::new()));
}

static CALLED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn called(_: *mut c_void) {
    CALLED.fetch_add(1, SeqCst);
    assert_eq!(call!(cuCtxSynchronize() -> i32), 800);
}

fn call_the_host(stream: *mut c_void) {
    type HostFn = unsafe extern "C" fn(*mut c_void);
    let code = call!(cuLaunchHostFunc(
        stream => *mut c_void, called => HostFn, null_mut() => *mut c_void) -> i32);
    assert_eq!(code, 0);
}

#[test]
fn a_host_function_tells_what_it_touches_in_the_order_of_its_stream() {
    unsafe extern "C" fn touches(_: *mut c_void) {
        touch(4, true, 7);
    }
    let standin = Standin::begin(1, 128);
    for waits in [true, false] {
        standin.again(1, 0);
        let gpu = Entered::new(&standin);
        let (one, two, mark) = (gpu.stream(), gpu.stream(), gpu.mark());
        standin.access(one.raw(), 4, true, 6);
        gpu.cuda.record(mark, one).unwrap();
        if waits {
            gpu.cuda.wait(two, mark).unwrap();
        }
        let code = call!(cuLaunchHostFunc(
            two.raw() => *mut c_void, touches => unsafe extern "C" fn(*mut c_void), null_mut() => *mut c_void
        ) -> i32);
        assert_eq!(code, 0);
        standin.run_all();
        assert_eq!(standin.reports().len(), usize::from(!waits), "{:?}", standin.reports());
    }
}

#[test]
fn host_functions_may_not_call_the_driver_and_do_not_come_after_an_error() {
    let standin = Standin::by_hand();
    let gpu = Entered::new(&standin);
    let stream = gpu.stream();
    let before = CALLED.load(SeqCst);
    call_the_host(stream.raw());
    standin.run_all();
    assert_eq!(CALLED.load(SeqCst), before + 1);
    assert_eq!(standin.reports(), ["cuCtxSynchronize was called by what runs on a stream"]);
    standin.queue(stream.raw(), || 719);
    call_the_host(stream.raw());
    standin.run_all();
    assert_eq!(CALLED.load(SeqCst), before + 1);
    assert!(gpu.cuda.finish(stream).unwrap_err().is_lost());
}

#[test]
fn misuse_is_reported() {
    let standin = Standin::by_hand();
    standin.devices(2);
    let gpu = Entered::new(&standin);
    let (stream, mark) = (gpu.stream(), gpu.mark());
    gpu.cuda.drop_mark(mark);
    assert!(gpu.cuda.record(mark, stream).is_err());
    assert_eq!(call!(cuEventRecord(mark.raw() => *mut c_void, null_mut() => *mut c_void) -> i32), 400);
    let inner = gpu.cuda.enter(1).unwrap();
    let foreign = gpu.cuda.mark(1).unwrap();
    gpu.cuda.leave(inner);
    assert!(gpu.cuda.record(foreign, stream).is_err());
    standin.access(stream.raw(), 1, true, 1);
    standin.pace(128);
    gpu.cuda.drop_stream(stream);
    assert!(gpu.cuda.finish(stream).is_err());
    let expected = [
        "an event that is gone, or never was, was used",
        "the default stream was used",
        "an event was recorded on a stream of another device",
        "a stream that is gone, or never was, was used",
    ];
    let reports = standin.reports();
    let kept: Vec<&str> =
        reports.iter().map(String::as_str).filter(|text| !text.contains("before it was idle")).collect();
    assert_eq!(kept, expected);
}

#[test]
fn a_thread_that_has_not_entered_a_device_is_refused() {
    let standin = Standin::begin(1, 128);
    let cuda = Driver::open().unwrap();
    assert!(cuda.stream(0, Class::Compute).unwrap_err().to_string().contains("error 201"));
    assert_eq!(standin.count(Count::Streams), 0);
}

#[test]
fn any_call_can_be_chosen_to_fail() {
    let standin = Standin::begin(1, 128);
    // Opening and entering are eight calls and more; each of them may be the one.
    let whole = {
        let before = standin.calls("*");
        drop(Entered::new(&standin));
        standin.calls("*") - before
    };
    let mut refused = 0;
    for nth in 1..=whole {
        standin.again(1, 128);
        standin.fail("*", nth, 2);
        let outcome = Driver::open().and_then(|cuda| cuda.enter(0).map(|before| cuda.leave(before)));
        refused += usize::from(outcome.is_err());
        let current = crate::client::current();
        assert!(current.is_null() || call!(cuCtxSetCurrent(null_mut() => *mut c_void) -> i32) == 0);
    }
    assert_eq!(refused as u64, whole - 4, "all but leaving, releasing and the mode of captures, which say nothing");
}

#[test]
fn threads_can_use_it_at_once() {
    let standin = Standin::begin(1, 200);
    let gpu = Entered::new(&standin);
    let cuda = &gpu.cuda;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let standin = &standin;
            scope.spawn(move || {
                let before = cuda.enter(0).unwrap();
                let (stream, mark) = (cuda.stream(0, Class::Compute).unwrap(), cuda.mark(0).unwrap());
                for label in 0..200 {
                    standin.access(stream.raw(), thread, true, label);
                    standin.queue(stream.raw(), move || {
                        touch(thread, false, label);
                        0
                    });
                    cuda.record(mark, stream).unwrap();
                    if label % 16 == 0 {
                        cuda.finish(stream).unwrap();
                        assert_eq!(cuda.reached(mark), Ok(true));
                    }
                }
                cuda.finish(stream).unwrap();
                cuda.drop_mark(mark);
                cuda.drop_stream(stream);
                cuda.leave(before);
            });
        }
    });
    assert_eq!((standin.reports(), standin.count(Count::Streams)), (Vec::new(), 0));
}
