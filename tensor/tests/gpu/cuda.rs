//! Arrays of GPUs by CUDA, over a stand-in for the driver: it runs late and out of step, judges
//! every use of its memory, and fails where it is told to.

use crate::client::{self, Count, Fault, Standin};
use crate::implementations::{self, Kernel};
use crate::programs::program;
use crate::resources::{self, Draw};
use crate::{builder, check_pools_of_contexts, simple, steps, CONTEXTS, GPU, KINDS};
use seriatim::{Context, Kind, RunContext};
use seriatim_tensor::{dlpack, DType, Error, ErrorKind, Runtime};
use std::process::Command;
use std::time::{Duration, Instant};

fn runtime(kind: Kind) -> Runtime {
    Runtime::new(&builder(kind).build().unwrap())
}

/// Ends an engine before the stand-in is begun anew: deletions are operations too.
fn end(runtime: Runtime) {
    let _ = runtime.wait_all();
}

/// A program on an engine of its own; says what is wrong, and what is left.
fn judged(standin: &Standin, kind: Kind, seed: u64) -> Result<(), String> {
    standin.again(seed, [20, 60, 200][seed as usize % 3]);
    standin.devices(2);
    let runtime = runtime(kind);
    let done = program(&runtime, &CONTEXTS, seed, 60);
    end(runtime);
    done?;
    match standin.reports().first() {
        Some(report) => Err(report.clone()),
        None if standin.count(Count::Allocations) > 0 => Err("memory was not given back".into()),
        None => Ok(()),
    }
}

#[test]
fn random_programs_over_the_driver_equal_the_hosts() {
    let standin = Standin::begin(1, 60);
    for (seed, kind) in (1..=60).zip(KINDS.into_iter().cycle()) {
        judged(&standin, kind, seed).unwrap_or_else(|said| panic!("seed {seed} on {kind}: {said}"));
    }
}

/// The test above would notice.
#[test]
fn a_driver_that_swallows_waits_is_found() {
    let standin = Standin::begin(1, 60);
    let is_found = |seed: &u64| {
        standin.again(*seed, 20);
        standin.devices(2);
        standin.plant(Fault::WaitSwallowed, 1);
        let runtime = runtime(Kind::PerDevice);
        let failed = program(&runtime, &CONTEXTS, *seed, 60).is_err();
        end(runtime);
        failed || !standin.reports().is_empty()
    };
    let found = (1..=10).filter(is_found).count();
    assert!(found >= 8, "{found} of 10");
}

const INVALID: i32 = 1;
const NO_MEMORY: i32 = 2;
const ILLEGAL_ADDRESS: i32 = 700;

/// What a call of the driver that fails is to the program, and that the next one works.
fn failing(kind: Kind, function: &str, make: impl Fn(&Runtime) -> Result<(), Error>) -> Error {
    let standin = Standin::begin(1, 200);
    standin.devices(2);
    let runtime = runtime(kind);
    // The devices are ready, and there is no memory that could be used again.
    for context in [GPU, Context::gpu(1)] {
        runtime.zeros_in([1], DType::F32, context).unwrap().wait_to_read().unwrap();
    }
    for context in [GPU, Context::gpu(1)] {
        runtime.release_all(context).unwrap();
    }
    runtime.wait_all().unwrap();
    standin.fail(function, 1, if function.starts_with("cuMemAlloc") { NO_MEMORY } else { INVALID });
    let error = make(&runtime).expect_err(function);
    // The wait above has taken the error of one array; this takes what others have left.
    let _ = runtime.wait_all();
    make(&runtime).unwrap_or_else(|error| panic!("{function} on {kind}, afterwards: {error}"));
    end(runtime);
    assert_eq!(standin.reports(), [""; 0], "{function} on {kind}");
    assert_eq!(standin.count(Count::Allocations), 0, "{function} on {kind}");
    error
}

fn says(error: &Error, kind: ErrorKind, parts: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    parts.iter().for_each(|part| assert!(error.to_string().contains(part), "{error} does not have {part}"));
}

#[test]
fn what_the_driver_refuses_is_a_typed_error_at_the_wait() {
    let values = [1.0f32; 6000];
    for kind in KINDS {
        let error = failing(kind, "cuMemcpyHtoDAsync_v2", |runtime| {
            runtime.from_slice_in(&values, [2, 3000], GPU)?.wait_to_read()
        });
        says(&error, ErrorKind::DeviceFailed, &["copy of float32 [2, 3000] from cpu(0) to gpu(0)"]);
        let error = failing(kind, "cuMemcpyDtoHAsync_v2", |runtime| {
            let x = runtime.from_slice_in(&values, [2, 3000], GPU)?;
            // The failure goes on to what is computed of it.
            x.as_in_context(Context::cpu(0))?.add_scalar(1.0)?.wait_to_read()
        });
        says(&error, ErrorKind::DeviceFailed, &["copy of float32 [2, 3000] from gpu(0) to cpu(0)"]);
        let error = failing(kind, "cuMemcpyDtoDAsync_v2", |runtime| {
            runtime.from_slice_in(&values, [6000], GPU)?.as_in_context(Context::gpu(1))?.wait_to_read()
        });
        says(&error, ErrorKind::DeviceFailed, &["copy of float32 [6000] from gpu(0) to gpu(1)"]);
        let error = failing(kind, "cuMemsetD8Async", |runtime| runtime.zeros_in([7], DType::F32, GPU)?.wait_to_read());
        says(&error, ErrorKind::DeviceFailed, &["'zeros' of float32 [7] on gpu(0)"]);
        let error = failing(kind, "cuMemAlloc_v2", |runtime| runtime.zeros_in([5000], DType::F32, GPU)?.wait_to_read());
        says(&error, ErrorKind::OutOfMemory, &["float32 [5000]", "gpu(0)"]);
        let error =
            failing(kind, "cuMemHostAlloc", |runtime| runtime.from_slice_in(&values, [6000], GPU)?.wait_to_read());
        says(&error, ErrorKind::OutOfMemory, &["gpu(0)"]);
    }
}

/// The stand-in runs the kernel when its stream comes to it, and judges the accesses.
fn queued(run: &RunContext<'_>, kernel: Kernel) {
    let stream = run.stream().expect("there is one on a GPU").raw();
    let code = client::queue(stream, move || {
        if kernel.count == 0 {
            return 0;
        }
        let bytes = kernel.count * size_of::<f32>();
        let from = client::memory(kernel.from as u64, bytes, false, 1);
        let to = client::memory(kernel.to as u64, bytes, true, 2);
        assert!(!from.is_null() && !to.is_null(), "{kernel:?}");
        // SAFETY: the stand-in has said where the memory is, and that it may be accessed.
        unsafe { kernel.run(from.cast(), to.cast()) };
        0
    });
    assert_eq!(code, 0);
}

/// As `queued`.
fn drawn_queued(run: &RunContext<'_>, draw: Draw) {
    let stream = run.stream().expect("there is one on a GPU").raw();
    let mut draw = Some(draw);
    let code = client::queue(stream, move || {
        let Some(draw) = draw.take() else { return INVALID };
        let to = client::memory(draw.to as u64, draw.count * size_of::<f32>(), true, 3);
        assert!(!to.is_null(), "{draw:?}");
        // SAFETY: the stand-in has said where the memory is, and that it may be accessed.
        unsafe { draw.run(to.cast()) };
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn space_numbers_and_steps_of_a_gpu_over_the_driver() {
    let standin = Standin::begin(1, 60);
    for (seed, kind) in (1..=15).zip(KINDS.into_iter().cycle()) {
        standin.again(seed, [20, 60, 200][seed as usize % 3]);
        standin.devices(2);
        let runtime = runtime(kind);
        resources::space_and_numbers_of_a_gpu(&runtime, queued, drawn_queued);
        steps::a_step_gives_what_its_calls_give(&runtime, queued);
        steps::arrays_of_a_step_are_new_in_each_run(&runtime, queued);
        steps::a_training_step_goes_through_a_gpu(&runtime, queued);
        end(runtime);
        // A graph ends when its device is done, on another thread, and the engine may end with it.
        let (began, all) = (Instant::now(), [Count::Allocations, Count::Streams, Count::Events]);
        while all.iter().any(|count| standin.count(*count) > 0) && began.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!((standin.reports(), standin.count(Count::Allocations)), (vec![], 0), "seed {seed} on {kind}");
    }
}

#[test]
fn implementations_over_the_driver_give_the_hosts_values() {
    let standin = Standin::begin(1, 60);
    let names = simple::register("queued", queued);
    for (seed, kind) in (1..=15).zip(KINDS.into_iter().cycle()) {
        standin.again(seed, [20, 60, 200][seed as usize % 3]);
        standin.devices(2);
        let runtime = runtime(kind);
        implementations::each_context_has_its_implementation(&runtime, queued);
        implementations::what_is_new_is_made_or_refused(&runtime, queued);
        implementations::views_in_order_are_operands(&runtime, queued);
        implementations::gradients_go_through_a_gpu(&runtime, queued);
        implementations::gradients_go_back_from_context_to_context(&runtime, queued);
        implementations::without_an_implementation_a_call_is_refused(&runtime, queued);
        simple::each_device_has_its_functions(&runtime, names);
        end(runtime);
        assert_eq!((standin.reports(), standin.count(Count::Allocations)), (vec![], 0), "seed {seed} on {kind}");
    }
}

#[test]
fn each_context_has_its_own_kind_of_pool_over_the_driver() {
    for (seed, kind) in (1..).zip(KINDS) {
        let standin = Standin::begin(seed, 60);
        standin.devices(2);
        let engine = builder(kind).build().unwrap();
        check_pools_of_contexts(kind, &engine);
        drop(engine);
        assert_eq!((standin.reports(), standin.count(Count::Allocations)), (vec![], 0), "{kind}");
    }
}

#[test]
fn a_lost_device_fails_and_the_processor_goes_on() {
    let standin = Standin::begin(1, 200);
    standin.devices(1);
    let runtime = runtime(Kind::PerDevice);
    let x = runtime.from_slice_in(&[1.0f32, 2.0], [2], GPU).unwrap();
    let host = runtime.from_slice(&[3.0f32, 4.0], [2]).unwrap();
    x.wait_to_read().unwrap();
    standin.lose(0, ILLEGAL_ADDRESS);
    let copied = host.copy_to(&x).and_then(|()| x.to_vec::<f32>());
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::DeviceFailed);
    assert_eq!(host.square().unwrap().to_vec::<f32>().unwrap(), [9.0, 16.0]);
    drop((x, host));
    end(runtime);
    assert_eq!(standin.reports(), [""; 0]);
}

#[test]
fn arrays_of_cuda_are_lent_by_dlpack() {
    let standin = Standin::begin(1, 60);
    standin.devices(2);
    let runtime = runtime(Kind::PerDevice);
    let x = runtime.from_slice_in(&[1, 2, 3, 4, 5, 6], [2, 3], Context::gpu(1)).unwrap();
    for (view, offset) in [(x.clone(), 0), (x.at(1).unwrap(), 12)] {
        let lent = view.to_dlpack_mut().unwrap().into_raw();
        // SAFETY: the structure is there until its deleter is called, below.
        let (tensor, deleter) = unsafe { (&lent.as_ref().dl_tensor, lent.as_ref().deleter.unwrap()) };
        assert_eq!((tensor.device.device_type, tensor.device.device_id), (dlpack::CUDA, 1));
        assert_eq!((tensor.data.addr() as u64 >> 62, tensor.data.addr() % 64), (1, offset));
        // What comes behind the loan waits for its end.
        x.copy_from_slice(&[0; 6]).unwrap();
        // SAFETY: called once.
        unsafe { deleter(lent.as_ptr()) };
        assert_eq!(x.to_vec::<i32>().unwrap(), [0; 6]);
    }
    let unwritten = runtime.empty_in([2], DType::I32, GPU).unwrap();
    assert_eq!(unwritten.to_dlpack().unwrap_err().kind(), ErrorKind::Unwritten);
    drop((x, unwritten));
    end(runtime);
    assert_eq!((standin.reports(), standin.count(Count::Allocations)), (vec![], 0));
}

/// In a process of its own, as one that has loaded the stand-in has a driver.
#[test]
fn without_a_driver_there_is_a_typed_error() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["cuda::a_child_process_has_no_driver", "--exact", "--include-ignored", "--test-threads=1"])
        .env("TEST_CHILD_TASK", "no-driver")
        .output()
        .unwrap();
    let said = [child.stdout, child.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

/// Not a test of its own.
#[test]
fn a_child_process_has_no_driver() {
    if std::env::var("TEST_CHILD_TASK").is_err() || std::path::Path::new("/dev/nvidiactl").exists() {
        return;
    }
    for kind in KINDS {
        let runtime = runtime(kind);
        let error = runtime.zeros_in([3], DType::F32, GPU).unwrap_err();
        says(&error, ErrorKind::UnsupportedContext, &["float32 [3] on gpu(0)", "driver"]);
        let pinned = runtime.from_slice_in(&[1, 2], [2], Context::cpu_pinned(0)).unwrap();
        assert_eq!(pinned.add_scalar(1.0).unwrap().to_vec::<i32>().unwrap(), [2, 3]);
    }
}
