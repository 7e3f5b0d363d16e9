//! Each error of the driver, as a fault that says what happened and what to do.

use crate::client::{call, Standin};
use crate::handles::Driver;
use crate::Entered;
use seriatim::gpu::{Backend, Class, DriverError};
use std::ffi::c_void;

/// What a query says when the driver answers it with a code.
fn query_fails_with(code: i32) -> DriverError {
    let standin = Standin::begin(1, 128);
    let gpu = Entered::new(&standin);
    let mark = gpu.mark();
    standin.fail("cuEventQuery", 1, code);
    let fault = gpu.cuda.reached(mark).expect_err("the call fails");
    // Nothing stays: the stand-in was told to fail once.
    assert_eq!(gpu.cuda.reached(mark), Ok(true));
    fault
}

#[track_caller]
fn assert_says(fault: &DriverError, lost: bool, parts: &[&str]) {
    assert_eq!(fault.is_lost(), lost, "{fault}");
    for part in parts {
        assert!(fault.to_string().contains(part), "'{fault}' does not say '{part}'");
    }
}

/// A test for each code: its name, its number, whether the device is lost, and what to do.
macro_rules! codes {
    ($($name:ident: $code:literal, $lost:literal, $advice:literal;)*) => {$(
        #[test]
        fn $name() {
            let fault = query_fails_with($code);
            assert_says(&fault, $lost, &["cuEventQuery", concat!("error ", $code), $advice]);
        }
    )*};
}

codes! {
    an_illegal_address: 700, true, "compute-sanitizer";
    a_launch_that_failed: 719, true, "compute-sanitizer";
    an_assertion_on_the_device: 710, true, "compute-sanitizer";
    a_hardware_stack_error: 714, true, "compute-sanitizer";
    an_illegal_instruction: 715, true, "compute-sanitizer";
    a_misaligned_address: 716, true, "compute-sanitizer";
    an_invalid_address_space: 717, true, "compute-sanitizer";
    an_invalid_program_counter: 718, true, "compute-sanitizer";
    a_leak_of_tensor_memory: 721, true, "compute-sanitizer";
    a_launch_that_took_too_long: 702, true, "make it shorter";
    memory_that_cannot_be_corrected: 214, true, "Xid";
    a_link_that_cannot_be_corrected: 220, true, "Xid";
    a_contained_error: 226, true, "Xid";
    an_error_of_an_external_device: 911, true, "Xid";
    an_unknown_error: 999, true, "Xid";
    a_destroyed_context: 709, true, "has reset the device";
    a_driver_that_ends: 4, true, "the process is ending";
    a_system_that_is_not_ready: 802, true, "nvidia-fabricmanager";
    no_connection_to_the_service: 805, true, "Multi-Process Service";
    a_failed_call_of_the_service: 806, true, "Multi-Process Service";
    a_service_that_is_not_ready: 807, true, "Multi-Process Service";
    a_client_that_the_service_ended: 810, true, "Multi-Process Service";
    a_service_that_is_full: 808, false, "Multi-Process Service";
    no_memory: 2, false, "free memory of the device";
    not_initialised: 3, false, "does not survive a fork";
    a_stub: 34, false, "LD_LIBRARY_PATH";
    a_device_of_another_process: 46, false, "nvidia-smi";
    an_invalid_handle: 400, false, "has been destroyed";
    a_driver_that_does_not_fit: 803, false, "install one driver";
    an_error_that_is_not_known: 12_345, false, "documentation";
}

#[test]
fn every_error_of_a_capture_says_that_the_stream_is_being_captured() {
    for code in 900..=908 {
        assert_says(&query_fails_with(code), false, &["cuEventQuery", "the stream is being captured; end its capture"]);
    }
    assert_says(&query_fails_with(909), false, &["documentation"]);
}

#[test]
fn a_stream_that_is_being_captured_is_refused_and_no_device_is_lost() {
    let standin = Standin::begin(1, 128);
    let gpu = Entered::new(&standin);
    let (one, two, outer, inner) = (gpu.stream(), gpu.stream(), gpu.mark(), gpu.mark());
    gpu.cuda.record(outer, two).unwrap();
    assert_eq!(call!(cuStreamBeginCapture_v2(one.raw() => *mut c_void, 1 => i32) -> i32), 0);
    gpu.cuda.record(inner, one).unwrap();
    let refused = [gpu.cuda.finish(one), gpu.cuda.wait(one, outer), gpu.cuda.reached(inner).map(|_| ())];
    for (refused, call) in refused.into_iter().zip(["cuStreamSynchronize", "cuStreamWaitEvent", "cuEventQuery"]) {
        assert_says(&refused.unwrap_err(), false, &[call, "is being captured"]);
    }
    let mut graph = std::ptr::null_mut::<c_void>();
    let ended = call!(cuStreamEndCapture(one.raw() => *mut c_void, &raw mut graph => *mut *mut c_void) -> i32);
    assert_eq!((ended, graph.is_null()), (0, false));
    assert_eq!(gpu.cuda.finish(one), Ok(()));
}

#[test]
fn the_drivers_own_words_are_told() {
    let said = "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered";
    assert_says(&query_fails_with(700), true, &[said, "takes no more work from this process"]);
}

#[test]
fn not_ready_is_no_fault() {
    let standin = Standin::begin(1, 128);
    let gpu = Entered::new(&standin);
    let mark = gpu.mark();
    standin.fail("cuEventQuery", 1, 600);
    assert_eq!(gpu.cuda.reached(mark), Ok(false));
}

#[test]
fn every_call_that_fails_is_named() {
    let standin = Standin::begin(1, 128);
    let gpu = Entered::new(&standin);
    let cuda = &gpu.cuda;
    let (stream, mark) = (gpu.stream(), gpu.mark());
    type Call<'a> = (&'a str, Box<dyn Fn() -> Result<(), DriverError> + 'a>);
    let calls: [Call<'_>; 11] = [
        ("cuCtxGetCurrent", Box::new(|| cuda.enter(0).map(|_| ()))),
        ("cuCtxGetCurrent", Box::new(|| cuda.reenter(0))),
        ("cuCtxSetCurrent", Box::new(|| cuda.enter(0).map(|_| ()))),
        ("cuCtxGetStreamPriorityRange", Box::new(|| cuda.stream(0, Class::Urgent).map(|_| ()))),
        ("cuStreamCreateWithPriority", Box::new(|| cuda.stream(0, Class::Compute).map(|_| ()))),
        ("cuEventCreate", Box::new(|| cuda.mark(0).map(|_| ()))),
        ("cuEventRecord", Box::new(|| cuda.record(mark, stream))),
        ("cuStreamWaitEvent", Box::new(|| cuda.wait(stream, mark))),
        ("cuEventQuery", Box::new(|| cuda.reached(mark).map(|_| ()))),
        ("cuStreamSynchronize", Box::new(|| cuda.finish(stream))),
        ("cuStreamSynchronize", Box::new(|| cuda.finish(stream))),
    ];
    for (name, call) in &calls {
        standin.fail(name, 1, 2);
        assert_says(&call().expect_err(name), false, &[name, "out of memory"]);
        assert_eq!(call(), Ok(()), "{name} failed once");
    }
}

#[test]
fn opening_and_entering_pass_on_what_the_driver_says() {
    let standin = Standin::begin(1, 128);
    for name in ["cuDriverGetVersion", "cuInit", "cuDeviceGetCount", "cuDeviceGet"] {
        standin.fail(name, 1, 999);
        assert_says(&Driver::open().expect_err(name), true, &[name, "error 999"]);
        assert!(Driver::open().is_ok(), "{name} failed once");
    }
    let cuda = Driver::open().unwrap();
    standin.fail("cuDevicePrimaryCtxRetain", 1, 46);
    assert_says(&cuda.enter(0).unwrap_err(), false, &["cuDevicePrimaryCtxRetain", "nvidia-smi"]);
    let before = cuda.enter(0).expect("it failed once");
    cuda.leave(before);
}

#[test]
fn no_device() {
    let standin = Standin::begin(1, 128);
    standin.devices(0);
    let fault = Driver::open().unwrap_err();
    assert_says(&fault, false, &["no CUDA-capable device", "nvidia-smi", "CUDA_VISIBLE_DEVICES"]);
}

#[test]
fn no_such_device() {
    let standin = Standin::begin(1, 128);
    standin.devices(2);
    let cuda = Driver::open().unwrap();
    let refused =
        [cuda.enter(2).map(|_| ()), cuda.stream(2, Class::Compute).map(|_| ()), cuda.mark(usize::MAX).map(|_| ())];
    for refused in refused {
        assert_says(&refused.unwrap_err(), false, &["there is no CUDA device", "from 0 to 1"]);
    }
}

#[test]
fn a_driver_that_is_too_old() {
    let standin = Standin::begin(1, 128);
    standin.version(11_010);
    assert_says(&Driver::open().unwrap_err(), false, &["too old", "CUDA 11.1", "11.2", "install a newer one"]);
    assert_eq!(standin.calls("cuInit"), 0, "nothing is asked of it");
    standin.version(11_020);
    assert!(Driver::open().is_ok());
}

#[test]
fn a_kernel_that_breaks_the_device_shows_in_every_later_call() {
    let standin = Standin::by_hand();
    let gpu = Entered::new(&standin);
    let (stream, mark) = (gpu.stream(), gpu.mark());
    standin.queue(stream.raw(), || 700);
    gpu.cuda.record(mark, stream).unwrap();
    assert_eq!(gpu.cuda.reached(mark), Ok(false), "it has not run");
    standin.run_all();
    let later = [
        gpu.cuda.reached(mark).map(|_| ()),
        gpu.cuda.record(mark, stream),
        gpu.cuda.wait(stream, mark),
        gpu.cuda.finish(stream),
        gpu.cuda.stream(0, Class::Compute).map(|_| ()),
        gpu.cuda.mark(0).map(|_| ()),
    ];
    for later in later {
        assert_says(&later.unwrap_err(), true, &["error 700"]);
    }
    // What is lost is left alone.
    gpu.cuda.drop_mark(mark);
    gpu.cuda.drop_stream(stream);
    drop(gpu);
    assert_eq!(standin.retained(0), 1, "the driver takes no more calls");
}

#[test]
fn one_device_is_lost_and_the_other_goes_on() {
    let standin = Standin::begin(1, 128);
    standin.devices(2);
    let cuda = Driver::open().unwrap();
    let before = cuda.enter(1).unwrap();
    let (one, one_mark) = (cuda.stream(1, Class::Compute).unwrap(), cuda.mark(1).unwrap());
    cuda.record(one_mark, one).unwrap();
    let inner = cuda.enter(0).unwrap();
    let (zero, zero_mark) = (cuda.stream(0, Class::Compute).unwrap(), cuda.mark(0).unwrap());
    cuda.record(zero_mark, zero).unwrap();
    standin.fail_for_good("cuEventRecord", 1, 719);
    assert_says(&cuda.record(zero_mark, zero).unwrap_err(), true, &["cuEventRecord"]);
    assert_says(&cuda.reached(zero_mark).unwrap_err(), true, &["cuEventQuery"]);
    cuda.leave(inner);
    assert_eq!(cuda.finish(one), Ok(()));
    assert_eq!(cuda.reached(one_mark), Ok(true));
    standin.lose(1, 214);
    assert_says(&cuda.reached(one_mark).unwrap_err(), true, &["Xid"]);
    cuda.leave(before);
}
