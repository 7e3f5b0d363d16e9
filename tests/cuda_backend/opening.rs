//! What there is when the driver is missing, or lacks something. Each in a process of its own,
//! since a process has one driver.

use crate::client::{call, load_without, Standin};
use crate::common::{assert_says, child, run_child_well};
use crate::handles::Driver;
use crate::Entered;
use seriatim::gpu::{Backend, Class, Cuda, DeviceClock};
use seriatim::{Context, Engine, ErrorKind};

/// Those without which nothing works.
const NEEDED: [&str; 25] = [
    "cuDriverGetVersion",
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxGetStreamPriorityRange",
    "cuStreamCreateWithPriority",
    "cuStreamWaitEvent",
    "cuStreamSynchronize",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemsetD8Async",
    // Of these there are older forms, of 32 bits, which would cut an address off.
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
];

/// Those that have an older form.
const RENAMED: [&str; 3] = ["cuDevicePrimaryCtxRelease", "cuStreamDestroy", "cuEventDestroy"];

/// What a child process does.
pub fn carry_out(task: &str) {
    let mut words = task.split(' ');
    let what = words.next();
    let symbols: Vec<&str> = words.collect();
    match what {
        Some("no-driver") => no_driver(),
        Some("refused-without") => {
            load_without(&symbols);
            let fault = Driver::open().expect_err("something is missing").to_string();
            for part in [&format!("no function {}:", symbols[0]), "install NVIDIA's driver anew"] {
                assert!(fault.contains(part), "'{fault}' does not say '{part}'");
            }
        }
        Some("works-without") => {
            load_without(&symbols);
            everything_works();
        }
        Some("no-clock-without") => {
            load_without(&symbols);
            let _standin = Standin::begin(1, 128);
            let cuda = Driver::open().expect("it can do without a clock");
            assert!(cuda.clock().is_none());
        }
        Some("has-no-graphs-without") => {
            load_without(&symbols);
            assert!(Cuda::open().unwrap().graphs().is_none());
            everything_works();
        }
        Some("changes-no-graph-without") => {
            load_without(&symbols);
            assert!(!changes_a_graph());
        }
        _ => panic!("nothing is known of '{task}'"),
    }
}

fn no_driver() {
    let there = ["libcuda.so", "libcuda.so.1"].map(|name| {
        let name = std::ffi::CString::new(name).unwrap();
        // SAFETY: it runs what the back end would run.
        unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }
    });
    if there.iter().any(|there| !there.is_null()) {
        println!("skipped: this machine has a driver");
        return;
    }
    for _ in 0..2 {
        let fault = Driver::open().expect_err("there is no driver");
        assert!(!fault.is_lost());
        for part in ["there is no CUDA driver", "libcuda.so", "install NVIDIA's driver", "LD_LIBRARY_PATH"] {
            assert!(fault.to_string().contains(part), "{fault}");
        }
    }
    // The engine refuses what is for a device, and goes on.
    let engine = Engine::builder().cpu_workers(1).build().unwrap();
    let x = engine.new_variable();
    let error = engine.op("kernel").context(Context::gpu(0)).writes([x]).push(|_| ()).unwrap_err();
    assert_says(&error, ErrorKind::DeviceUnavailable, &["gpu(0)", "there is no CUDA driver"]);
    engine.op("after").writes([x]).push(|_| ()).unwrap();
    engine.wait_for_all().unwrap();
    assert_eq!(engine.version(x).unwrap(), 1, "what was refused was not pushed");
}

/// Streams and marks, from the beginning to the end.
fn everything_works() {
    let standin = Standin::begin(1, 128);
    let cuda = Driver::open().expect("older names do as well");
    let before = cuda.enter(0).unwrap();
    let (stream, mark, other) = (cuda.stream(0, Class::Compute).unwrap(), cuda.mark(0).unwrap(), cuda.mark(0).unwrap());
    let timed = [0; 2].map(|_| cuda.timed_mark(0).unwrap());
    [timed[0], mark, timed[1]].into_iter().for_each(|mark| cuda.record(mark, stream).unwrap());
    cuda.finish(stream).unwrap();
    assert_eq!(cuda.reached(mark), Ok(true));
    assert_eq!((cuda.elapsed(timed[0], timed[1]), cuda.elapsed(timed[1], timed[0])), (Ok(2000), Ok(-2000)));
    let fault = cuda.elapsed(mark, timed[1]).unwrap_err();
    assert!(!fault.is_lost() && fault.to_string().contains("cuEventElapsedTime"), "{fault}");
    timed.into_iter().for_each(|mark| cuda.drop_mark(mark));
    cuda.drop_mark(mark);
    cuda.drop_stream(stream);
    standin.fail("cuEventQuery", 1, 700);
    let fault = cuda.reached(other).unwrap_err();
    assert!(fault.is_lost() && fault.to_string().contains("error 700"), "{fault}");
    // What a lost device has is not given back.
    cuda.drop_mark(other);
    cuda.leave(before);
    for name in RENAMED {
        let calls = standin.calls(name) + standin.calls(&format!("{name}_v2"));
        // The context is not released: a device was lost.
        let expected = match name {
            "cuDevicePrimaryCtxRelease" => 0,
            "cuEventDestroy" => 3,
            _ => 1,
        };
        assert_eq!(calls, expected, "{name}");
    }
}

#[test]
fn where_there_is_no_driver_opening_says_so() {
    let said = run_child_well(&mut child("no-driver"));
    if said.contains("skipped") {
        println!("{said}");
    }
}

#[test]
fn a_missing_symbol_is_named() {
    for symbol in NEEDED {
        run_child_well(&mut child(&format!("refused-without {symbol}")));
    }
}

#[test]
fn a_symbol_whose_older_form_is_missing_too_is_named() {
    for symbol in RENAMED {
        run_child_well(&mut child(&format!("refused-without {symbol}_v2 {symbol}")));
    }
}

#[test]
fn older_forms_do_as_well() {
    let newer = RENAMED.map(|symbol| format!("{symbol}_v2")).join(" ");
    run_child_well(&mut child(&format!("works-without {newer} cuEventElapsedTime_v2")));
}

#[test]
fn without_the_function_for_times_there_is_no_clock() {
    run_child_well(&mut child("no-clock-without cuEventElapsedTime_v2 cuEventElapsedTime"));
}

/// Captured graphs are then replayed operation by operation.
#[test]
fn a_driver_without_graphs_does_as_well() {
    let functions = [
        "cuStreamBeginCapture_v2",
        "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
        "cuGraphExecDestroy",
        "cuGraphDestroy",
    ];
    for symbol in functions {
        run_child_well(&mut child(&format!("has-no-graphs-without {symbol}")));
    }
    let _standin = Standin::begin(1, 128);
    assert!(Cuda::open().unwrap().graphs().is_some());
}

/// Captures twice, with a graph of the first capture for the second; says whether that has become
/// one of the second.
fn changes_a_graph() -> bool {
    let standin = Standin::begin(1, 256);
    let gpu = Entered::new(&standin);
    let (stream, graphs) = (gpu.stream(), gpu.cuda.graphs().expect("it has graphs"));
    let (mut at, mut to) = (0u64, [0u8; 8]);
    assert_eq!(call!(cuMemAlloc_v2(&raw mut at => *mut u64, 8 => usize) -> i32), 0);
    let fill = |value: u8| {
        let code =
            call!(cuMemsetD8Async(at => u64, value => u8, 8 => usize, stream.raw() => *mut std::ffi::c_void) -> i32);
        assert_eq!(code, 0);
    };
    // SAFETY: the stream is the back end's, and so are the graphs, which are given back once.
    let is_changed = unsafe {
        graphs.begin(stream).unwrap();
        fill(1);
        let old = graphs.end(stream).unwrap();
        graphs.begin(stream).unwrap();
        fill(2);
        let graph = graphs.end_as(stream, old).unwrap();
        graphs.launch(graph, stream).unwrap();
        if graph != old {
            graphs.drop_graph(old);
        }
        graphs.drop_graph(graph);
        graph == old
    };
    let code = call!(cuMemcpyDtoHAsync_v2(
        to.as_mut_ptr().cast() => *mut std::ffi::c_void, at => u64, 8 => usize,
        stream.raw() => *mut std::ffi::c_void) -> i32);
    standin.run_all();
    assert_eq!((code, to, standin.reports()), (0, [2; 8], Vec::new()));
    is_changed
}

/// A graph that is captured again is a new one then.
#[test]
fn a_driver_that_changes_no_graph_makes_another() {
    run_child_well(&mut child("changes-no-graph-without cuGraphExecUpdate"));
    assert!(changes_a_graph());
}

#[test]
fn without_the_drivers_words_faults_have_numbers() {
    run_child_well(&mut child("works-without cuGetErrorName cuGetErrorString"));
}
