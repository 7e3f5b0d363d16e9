//! Arrays of GPUs: copies between contexts, typed errors for all that has no kernel there, and
//! memory. Here devices are the processor (`Immediate`), so it runs anywhere; `gpu/cuda.rs` has the
//! same and more over a stand-in for CUDA's driver, with the feature `cuda`.

#[cfg(all(feature = "cuda", target_os = "linux", target_pointer_width = "64"))]
#[path = "../../tests/cuda-standin/client.rs"]
#[allow(unused_imports, reason = "other tests call the driver by its macro")]
mod client;
mod common;
#[cfg(all(feature = "cuda", target_os = "linux", target_pointer_width = "64"))]
#[path = "gpu/cuda.rs"]
mod cuda;
#[path = "gpu/implementations.rs"]
mod implementations;
#[path = "gpu/programs.rs"]
mod programs;
#[path = "gpu/resources.rs"]
mod resources;
#[path = "gpu/simple.rs"]
mod simple;
#[path = "gpu/steps.rs"]
mod steps;

use seriatim::gpu::Immediate;
use seriatim::{Builder, Context, Device, Engine, Kind, RunContext};
use seriatim_tensor::operator::{list_all_ops, Op};
use seriatim_tensor::storage::{Pooling, Storage, Tag};
use seriatim_tensor::{DType, Distribution, Element, ErrorKind, NDArray, Number, OpReq, Runtime, Step};
use std::time::{Duration, Instant};

const KINDS: [Kind; 3] = [Kind::Naive, Kind::Pooled, Kind::PerDevice];
const CONTEXTS: [Context; 4] = [Context::cpu(0), Context::cpu_pinned(0), Context::gpu(0), Context::gpu(1)];
const GPU: Context = Context::gpu(0);

fn builder(kind: Kind) -> Builder {
    let builder = Engine::builder().kind(kind).pin(false).on_error(|_| ());
    if kind == Kind::Naive {
        builder
    } else {
        builder.cpu_workers(2)
    }
}

fn runtime(kind: Kind) -> Runtime {
    Runtime::new(&builder(kind).gpus(Immediate::new(2)).build().unwrap())
}

fn there_and_back<T: Element>(runtime: &Runtime, context: Context) {
    for shape in [&[][..], &[1], &[2, 3], &[0, 4], &[5000]] {
        let count = shape.iter().product();
        let values: Vec<T> = (0..count).map(|at: usize| T::from_number(Number::Whole(at as i64 % 120))).collect();
        let x = runtime.from_slice_in(&values, shape, context).unwrap();
        assert_eq!((x.context(), x.dtype(), x.shape().dims()), (context, T::DTYPE, shape));
        assert_eq!(x.to_vec::<T>().unwrap(), values, "{} {shape:?}", T::DTYPE);
        for other in CONTEXTS {
            let y = x.as_in_context(other).unwrap();
            assert_eq!((y.context(), y.to_vec::<T>().unwrap()), (other, values.clone()), "{} {shape:?}", T::DTYPE);
        }
        let zeros = runtime.zeros_in(shape, T::DTYPE, context).unwrap();
        assert_eq!(zeros.to_vec::<T>().unwrap(), vec![T::default(); count]);
    }
}

#[test]
fn arrays_of_every_type_go_to_a_gpu_and_back() {
    for runtime in KINDS.map(runtime) {
        for context in CONTEXTS {
            there_and_back::<f32>(&runtime, context);
            there_and_back::<f64>(&runtime, context);
            there_and_back::<half::f16>(&runtime, context);
            there_and_back::<half::bf16>(&runtime, context);
            there_and_back::<i8>(&runtime, context);
            there_and_back::<u8>(&runtime, context);
            there_and_back::<i32>(&runtime, context);
            there_and_back::<i64>(&runtime, context);
            there_and_back::<bool>(&runtime, context);
        }
        runtime.wait_all().unwrap();
    }
}

#[test]
fn random_programs_equal_the_hosts() {
    for (seed, kind) in (1..=90).zip(KINDS.into_iter().cycle()) {
        let runtime = runtime(kind);
        programs::program(&runtime, &CONTEXTS, seed, 60).unwrap_or_else(|said| panic!("{kind}: {said}"));
    }
}

#[test]
fn views_are_read_and_written() {
    for runtime in KINDS.map(runtime) {
        let x = runtime.from_slice_in(&[1, 2, 3, 4, 5, 6], [2, 3], GPU).unwrap();
        let turned = x.transpose().unwrap();
        assert_eq!(turned.to_vec::<i32>().unwrap(), [1, 4, 2, 5, 3, 6]);
        assert_eq!(x.at(1).unwrap().as_in_context(Context::cpu(0)).unwrap().to_vec::<i32>().unwrap(), [4, 5, 6]);
        assert_eq!(turned.as_in_context(Context::gpu(1)).unwrap().to_vec::<i32>().unwrap(), [1, 4, 2, 5, 3, 6]);
        assert_eq!(x.reshape([6]).unwrap().to_vec::<i32>().unwrap(), [1, 2, 3, 4, 5, 6]);
        x.reshape([6]).unwrap().copy_from_slice(&[6, 5, 4, 3, 2, 1]).unwrap();
        let now = || x.to_vec::<i32>().unwrap();
        // Parts in order and otherwise, from a slice, from the processor and from GPUs.
        x.at(0).unwrap().copy_from_slice(&[7, 8, 9]).unwrap();
        assert_eq!(now(), [7, 8, 9, 3, 2, 1]);
        let two = runtime.from_slice(&[10, 20], [2, 1]).unwrap();
        two.copy_to(&x.slice(1, 2, 3, 1).unwrap()).unwrap();
        assert_eq!(now(), [7, 8, 10, 3, 2, 20]);
        two.mul_scalar(2.0)
            .unwrap()
            .as_in_context(Context::gpu(1))
            .unwrap()
            .copy_to(&x.slice(1, 0, 1, 1).unwrap())
            .unwrap();
        assert_eq!(now(), [20, 8, 10, 40, 2, 20]);
        turned.copy_from_slice(&[1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(now(), [1, 3, 5, 2, 4, 6]);
        x.at(0).unwrap().copy_to(&x.at(1).unwrap()).unwrap();
        assert_eq!(now(), [1, 3, 5, 1, 3, 5]);
        // What nothing has written is zero beside it.
        let fresh = runtime.empty_in([2, 2], DType::Bool, GPU).unwrap();
        fresh.at(1).unwrap().copy_from_slice(&[true, true]).unwrap();
        assert_eq!(fresh.to_vec::<bool>().unwrap(), [false, false, true, true]);
        let wide = x.at(0).unwrap().broadcast_to([4, 3]).unwrap();
        let ones = runtime.ones([4, 3], DType::I32).unwrap();
        assert_eq!(ones.copy_to(&wide).unwrap_err().kind(), ErrorKind::OverlappingView);
        assert_eq!(now(), [1, 3, 5, 1, 3, 5]);
        runtime.wait_all().unwrap();
    }
}

#[test]
fn copies_are_refused_that_do_not_go_together() {
    let (runtime, other) = (runtime(Kind::Pooled), self::runtime(Kind::Pooled));
    let x = runtime.zeros_in([2], DType::F32, GPU).unwrap();
    let refused = |to: &NDArray| [x.copy_to(to), to.copy_to(&x)].map(|done| done.unwrap_err().kind());
    assert_eq!(refused(&other.zeros([2], DType::F32).unwrap()), [ErrorKind::ForeignArray; 2]);
    assert_eq!(refused(&runtime.zeros([3], DType::F32).unwrap()), [ErrorKind::ShapeMismatch; 2]);
    assert_eq!(refused(&runtime.zeros([2], DType::F64).unwrap()), [ErrorKind::UnsupportedType; 2]);
    x.copy_to(&x).unwrap();
    let unwritten = runtime.empty_in([2], DType::F32, GPU).unwrap();
    assert_eq!(unwritten.to_vec::<f32>().unwrap_err().kind(), ErrorKind::Unwritten);
    // What is copied from it fails likewise, and says what it is.
    let y = unwritten.as_in_context(Context::gpu(1)).unwrap();
    let error = y.wait_to_read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unwritten);
    assert!(error.to_string().contains("copy of float32 [2] from gpu(0) to gpu(1)"), "{error}");
}

#[test]
fn every_operator_says_that_it_has_no_kernel_for_a_gpu() {
    let runtime = runtime(Kind::PerDevice);
    let (x, host) = (runtime.zeros_in([2, 2], DType::F32, GPU).unwrap(), runtime.zeros([2, 2], DType::F32).unwrap());
    let mut called = 0;
    for (name, _) in list_all_ops() {
        let Ok(op) = Op::new(name, &[]) else { continue };
        let property = op.property();
        // Other tests here register some.
        if property.devices().contains(&Device::Gpu) || name.starts_with("implemented") {
            continue;
        }
        let inputs = property.list_arguments().len() + property.list_auxiliary_states().len();
        if inputs == 0 {
            continue;
        }
        let error = op.invoke(&vec![&x; inputs]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedContext, "{error}");
        let text = error.to_string();
        for part in [name, "gpu(0)", "float32 [2, 2]", "as_in_context(Context::cpu(0))"] {
            assert!(text.contains(part), "{text} does not have {part}");
        }
        if inputs > 1 {
            let mut mixed = vec![&host; inputs];
            mixed[inputs - 1] = &x;
            let error = op.invoke(&mixed).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ContextMismatch, "{error}");
            assert!(error.to_string().contains("gpu(0)") && error.to_string().contains("cpu(0)"), "{error}");
        }
        called += 1;
    }
    assert!(called > 60, "{called} operators were called");
    let into = Op::new("square", &[]).unwrap().invoke_into(&[&host], &[(&x, OpReq::Write)]).unwrap_err();
    assert_eq!(into.kind(), ErrorKind::ContextMismatch);
    for refused in [x.fill(1), x.fill_random(Distribution::Uniform { low: 0.0, high: 1.0 })] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedContext, "{error}");
        assert!(error.to_string().contains("gpu(0)"), "{error}");
    }
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0; 4]);
}

/// The memory of this back end is the processor's, and what is put on a stream is done at once.
fn at_once(run: &RunContext<'_>, kernel: implementations::Kernel) {
    assert!(run.stream().is_some());
    let [from, to] = [kernel.from, kernel.to].map(std::ptr::with_exposed_provenance_mut::<f32>);
    // SAFETY: the operation has declared both arrays, which have as many elements.
    unsafe { kernel.run(from, to) };
}

#[test]
fn an_operator_has_one_implementation_a_context() {
    for runtime in KINDS.map(runtime) {
        implementations::each_context_has_its_implementation(&runtime, at_once);
        implementations::what_is_new_is_made_or_refused(&runtime, at_once);
        implementations::views_in_order_are_operands(&runtime, at_once);
        implementations::gradients_go_through_a_gpu(&runtime, at_once);
        implementations::without_an_implementation_a_call_is_refused(&runtime, at_once);
        implementations::elements_of_a_gpu_are_out_of_reach(&runtime);
    }
}

/// As `at_once`.
fn drawn_at_once(run: &RunContext<'_>, draw: resources::Draw) {
    assert!(run.stream().is_some());
    let to = std::ptr::with_exposed_provenance_mut::<f32>(draw.to);
    // SAFETY: the operation has the space, which has room for as many elements.
    unsafe { draw.run(to) };
}

#[test]
fn an_operator_has_space_and_numbers_of_its_gpu() {
    for runtime in KINDS.map(runtime) {
        resources::space_and_numbers_of_a_gpu(&runtime, at_once, drawn_at_once);
    }
}

#[test]
fn a_step_runs_kernels_of_a_gpu() {
    for runtime in KINDS.map(runtime) {
        steps::a_step_gives_what_its_calls_give(&runtime, at_once);
        steps::arrays_of_a_step_are_new_in_each_run(&runtime, at_once);
        steps::a_training_step_goes_through_a_gpu(&runtime, at_once);
    }
}

#[test]
fn calls_at_once_have_one_implementation() {
    for runtime in KINDS.map(runtime) {
        implementations::calls_at_once_have_one_implementation(&runtime, at_once);
    }
}

#[test]
fn gradients_go_back_from_context_to_context() {
    for runtime in KINDS.map(runtime) {
        implementations::gradients_go_back_from_context_to_context(&runtime, at_once);
    }
}

#[test]
fn an_operator_of_the_processor_is_implemented_for_a_gpu() {
    let op = implementations::implement_for_a_gpu("implemented at once", at_once);
    for runtime in KINDS.map(runtime) {
        implementations::both_contexts_have_the_operator(&runtime, &op);
    }
}

#[test]
fn a_simple_operator_has_another_function_for_another_device() {
    let names = simple::register("at once", at_once);
    for runtime in KINDS.map(runtime) {
        simple::each_device_has_its_functions(&runtime, names);
    }
}

#[test]
fn a_step_copies_to_and_from_a_gpu() {
    for runtime in KINDS.map(runtime) {
        let on_device = runtime.zeros_in([2, 2], DType::F32, GPU).unwrap();
        let x = runtime.from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
        let mut step = Step::capture(&[&x], |inputs| {
            inputs[0].mul_scalar(2.0)?.transpose()?.copy_to(&on_device)?;
            on_device.as_in_context(Context::cpu(0))?.add_scalar(1.0)
        })
        .unwrap();
        for by in [1.0f32, 10.0] {
            let x = x.mul_scalar(f64::from(by)).unwrap();
            let y = step.run(&[&x]).unwrap().to_vec::<f32>().unwrap();
            assert_eq!(y, [2.0 * by + 1.0, 6.0 * by + 1.0, 4.0 * by + 1.0, 8.0 * by + 1.0]);
            assert_eq!(on_device.to_vec::<f32>().unwrap(), [2.0 * by, 6.0 * by, 4.0 * by, 8.0 * by]);
        }
        // What a copy leaves out of a new array is zero in each run.
        let small = runtime.from_slice_in(&[5.0f32, 6.0], [2], GPU).unwrap();
        let mut part = Step::capture_on(&runtime, &[], |_| {
            let new = runtime.empty([3], DType::F32)?;
            small.copy_to(&new.slice(0, 1, 3, 1)?)?;
            let before = new.copy()?;
            new.add_scalar_assign(1.0)?;
            Ok(before)
        })
        .unwrap();
        for _ in 0..2 {
            assert_eq!(part.run(&[]).unwrap().to_vec::<f32>().unwrap(), [0.0, 5.0, 6.0]);
        }
        // An array of a GPU as a step's input, and one that is made in a step.
        let mut back = Step::capture(&[&on_device], |inputs| inputs[0].as_in_context(Context::cpu(0))).unwrap();
        let other = runtime.from_slice_in(&[5.0f32; 4], [2, 2], Context::gpu(1)).unwrap();
        assert_eq!(back.run(&[&other]).unwrap().to_vec::<f32>().unwrap(), [5.0; 4]);
        let mut there = Step::capture(&[&x], |inputs| inputs[0].as_in_context(GPU)).unwrap();
        let y = there.run(&[&x]).unwrap();
        assert_eq!((y.context(), y.to_vec::<f32>().unwrap()), (GPU, vec![1.0, 2.0, 3.0, 4.0]));
    }
}

#[test]
fn memory_of_a_gpu_has_a_limit_and_is_used_again() {
    let engine = builder(Kind::PerDevice).gpus(Immediate::new(1)).gpu_memory(8192).build().unwrap();
    let runtime = Runtime::new(&engine);
    let x = runtime.zeros_in([1024], DType::F32, GPU).unwrap();
    let error = runtime.zeros_in([2, 1024], DType::F32, GPU).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("float32 [2, 1024] on gpu(0)"), "{error}");
    let now = runtime.statistics(GPU).unwrap();
    assert_eq!((now.live, now.pooled, now.peak, now.requests, now.system_calls), (4096, 0, 4096, 1, 1));
    drop(x);
    for round in 0..20 {
        let x = runtime.from_slice_in(&[round; 1024], [1024], GPU).unwrap();
        assert_eq!(x.to_vec::<i32>().unwrap(), [round; 1024]);
    }
    runtime.wait_all().unwrap();
    let now = runtime.statistics(GPU).unwrap();
    assert_eq!((now.live, now.requests), (0, 21));
    // One array may come before the closure of the last copy of the one before has gone.
    assert!(now.peak <= 8192 && now.system_calls <= 2, "{now:?}");
    runtime.release_all(GPU).unwrap();
    runtime.wait_all().unwrap();
    assert_eq!(runtime.statistics(GPU).unwrap().pooled, 0);
}

/// A storage with a kind of pool of its own for some contexts, which a program uses.
fn check_pools_of_contexts(kind: Kind, engine: &Engine) {
    let (cpu, pinned, [keeps, keeps_none]) = (Context::cpu(0), Context::cpu_pinned(9), [GPU, Context::gpu(1)]);
    let builder = Storage::builder().pooling(Pooling::PowersOfTwo).pooling_of(Context::cpu(7), Pooling::Pages);
    let storage = builder.pooling_of(keeps_none, Pooling::None).build();
    let capacity = |context| storage.alloc(9_000, context).unwrap().capacity();
    assert_eq!((capacity(cpu), capacity(pinned)), (3 * 4096, 16_384));
    let runtime = Runtime::builder(engine).storage(storage.clone()).build();
    programs::program(&runtime, &CONTEXTS, 7, 60).unwrap_or_else(|said| panic!("{kind}: {said}"));
    for gpu in [keeps, keeps_none] {
        runtime.zeros_in([5000], DType::F32, gpu).unwrap().wait_to_write().unwrap();
    }
    // An operation ends before its closure is dropped, which has a share of the array.
    let began = Instant::now();
    let pooled = |gpu| {
        runtime.wait_all().unwrap();
        runtime.statistics(gpu).unwrap().pooled
    };
    while pooled(keeps_none) > 0 && began.elapsed() < Duration::from_secs(20) {
        std::thread::yield_now();
    }
    assert_eq!(pooled(keeps_none), 0, "{kind}");
    assert!(pooled(keeps) > 0, "{kind}");
}

#[test]
fn each_context_has_its_own_kind_of_pool() {
    for kind in KINDS {
        check_pools_of_contexts(kind, &builder(kind).gpus(Immediate::new(2)).build().unwrap());
    }
}

#[test]
fn a_kind_of_pool_rounds_what_a_gpu_has() {
    let large = 5 << 20;
    for kind in KINDS {
        for (pooling, of_small, of_large) in [
            (Pooling::Eighths, 512, large),
            (Pooling::PowersOfTwo, 512, 8 << 20),
            (Pooling::Pages, 4096, large),
            (Pooling::None, 512, large),
        ] {
            let engine = builder(kind).gpus(Immediate::new(1)).build().unwrap();
            let storage = Storage::builder().pooling_of(GPU, pooling).build();
            let runtime = Runtime::builder(&engine).storage(storage).build();
            let live = || runtime.statistics(GPU).unwrap().live;
            let small = runtime.from_slice_in(&[1.0f32; 100], [100], GPU).unwrap();
            assert_eq!(live(), of_small, "{pooling:?}");
            let array = runtime.zeros_in([5, 1 << 18], DType::F32, GPU).unwrap();
            assert_eq!(live(), of_small + of_large, "{pooling:?}");
            assert_eq!(small.as_in_context(Context::cpu(0)).unwrap().to_vec::<f32>().unwrap(), [1.0; 100]);
            assert!(array.at(4).unwrap().to_vec::<f32>().unwrap().iter().all(|value| *value == 0.0));
            runtime.wait_all().unwrap();
        }
    }
}

#[test]
fn arrays_of_devices_count_under_their_tags() {
    let (gpu, pinned, tag) = (GPU, Context::cpu_pinned(0), Tag::new("on devices").unwrap());
    for runtime in KINDS.map(runtime) {
        let of = |context| {
            let now = runtime.statistics_of(tag, context).unwrap();
            (now.live, now.peak, now.requests, now.system_calls)
        };
        let before = runtime.zeros_in([100], DType::F32, gpu).unwrap();
        let (x, y) = tag.scope(|| {
            let x = runtime.from_slice_in(&[1.0f32; 100], [100], gpu).unwrap();
            let y = x.as_in_context(Context::gpu(1)).unwrap().as_in_context(pinned).unwrap();
            (x, y)
        });
        let view = x.slice(0, 0, 50, 1).unwrap();
        drop(x);
        runtime.wait_all().unwrap();
        assert_eq!((of(gpu), of(pinned)), ((400, 400, 1, 0), (400, 400, 1, 0)));
        assert_eq!((of(Context::gpu(1)), of(Context::cpu(0))), ((0, 400, 1, 0), (0, 0, 0, 0)));
        drop((before, view, y));
        runtime.wait_all().unwrap();
        assert_eq!((of(gpu), of(pinned)), ((0, 400, 1, 0), (0, 400, 1, 0)));
        assert!(runtime.statistics_of(tag, Context::gpu(5)).is_err());
    }
}

#[test]
fn pinned_memory_is_the_engines_where_there_is_a_gpu() {
    let (pinned, runtime) = (Context::cpu_pinned(0), runtime(Kind::PerDevice));
    let x = runtime.from_slice_in(&[1.0f32, 2.0], [2], pinned).unwrap();
    assert_eq!(runtime.engine().device(GPU).unwrap().memory(seriatim::gpu::MemoryKind::Pinned).in_use, 512);
    // Operators of the processor have it as any other array, and copies need nothing between.
    let y = x.add(&x).unwrap().as_in_context(pinned).unwrap();
    y.mul_scalar_assign(5.0).unwrap();
    let before = runtime.statistics(pinned).unwrap().requests;
    let z = y.as_in_context(GPU).unwrap().as_in_context(pinned).unwrap();
    assert_eq!(z.to_vec::<f32>().unwrap(), [10.0, 20.0]);
    assert_eq!(runtime.statistics(pinned).unwrap().requests, before + 1);
    // A part of it goes by way of other pinned memory.
    let wide = runtime.from_slice_in(&[1.0f32, 2.0, 3.0, 4.0], [4], pinned).unwrap();
    let part = wide.slice(0, 1, 4, 2).unwrap();
    assert_eq!(part.as_in_context(GPU).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
    z.as_in_context(GPU).unwrap().copy_to(&part).unwrap();
    assert_eq!(wide.to_vec::<f32>().unwrap(), [1.0, 10.0, 3.0, 20.0]);
    let without = Runtime::new(&builder(Kind::PerDevice).build().unwrap());
    let x = without.from_slice_in(&[1.0f32, 2.0], [2], Context::cpu_pinned(7)).unwrap();
    assert_eq!(x.to_dlpack().unwrap().into_raw().as_ptr().addr() % 2, 0);
    assert_eq!(without.statistics(Context::cpu_pinned(7)).unwrap().requests, 1);
}

#[test]
fn without_a_device_there_is_a_typed_error() {
    let runtime = runtime(Kind::Pooled);
    for context in [Context::gpu(2), Context::gpu(100)] {
        let error = runtime.zeros_in([3], DType::F32, context).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedContext);
        assert!(error.to_string().contains(&format!("float32 [3] on {context}")), "{error}");
        assert_eq!(runtime.statistics(context).unwrap_err().kind(), ErrorKind::UnsupportedContext);
    }
    let storage = Storage::builder().build();
    assert_eq!(storage.alloc(8, GPU).unwrap_err().kind(), ErrorKind::UnsupportedContext);
    // Addresses of this back end are no CUDA's.
    let x = runtime.zeros_in([3], DType::F32, GPU).unwrap();
    let error = x.to_dlpack().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedContext, "{error}");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn without_the_feature_there_is_no_gpu() {
    let error = NDArray::zeros([3], DType::F32).unwrap().as_in_context(GPU).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedContext);
    assert!(error.to_string().contains("feature"), "{error}");
}
