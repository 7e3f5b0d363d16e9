//! What arrays take over from the engine: calls that return at once, the budget of threads,
//! profiles, the I/O worker, and memory of several contexts.

mod common;

use common::runtime;
use seriatim::{Context, Kind, Profile, Property};
use seriatim_tensor::operator::{unary_map, Op, SimpleOp};
use seriatim_tensor::optimizer::Sgd;
use seriatim_tensor::{autograd, profiled, DType, Error, ErrorKind, NDArray, OpReq, Runtime, Step};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

#[test]
fn calls_return_within_microseconds_while_a_slow_kernel_runs() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static STOP: AtomicBool = AtomicBool::new(false);
    SimpleOp::unary("slow", |x, _, out, req| {
        STARTED.store(true, SeqCst);
        while !STOP.load(SeqCst) {
            std::thread::sleep(Duration::from_micros(100));
        }
        unary_map(x.0, out, req, |x| x + 1.0)
    })
    .register()
    .unwrap();
    let runtime = runtime(Kind::PerDevice, 2);
    // More elements than are run inside of their push.
    let x = runtime.zeros([5_000], DType::F64).unwrap();
    let y = Op::new("slow", &[]).unwrap().invoke(&[&x]).unwrap();
    while !STARTED.load(SeqCst) {
        std::thread::yield_now();
    }
    // Half of the calls depend on the slow one, and the others could run beside it.
    let mut times = Vec::new();
    let mut kept = Vec::new();
    for at in 0..401 {
        let of = if at % 2 == 0 { &y } else { &x };
        let began = Instant::now();
        let z = of.add_scalar(1.0).unwrap();
        times.push(began.elapsed());
        kept.push(z);
    }
    assert!(!STOP.load(SeqCst), "the kernel runs still");
    STOP.store(true, SeqCst);
    times.sort_unstable();
    // Without optimisation a call takes some ten times as long.
    let bound = Duration::from_micros(if cfg!(debug_assertions) { 200 } else { 20 });
    assert!(times[200] < bound, "the median of 401 calls took {:?}", times[200]);
    assert_eq!(kept[400].to_vec::<f64>().unwrap(), vec![2.0; 5_000]);
}

#[test]
fn operators_are_told_how_many_threads_they_may_use() {
    SimpleOp::unary("budget", |x, env, out, req| {
        let threads = env.ctx.run_ctx.nested_threads() as f64;
        unary_map(x.0, out, req, |_| threads)
    })
    .gradient_by_input(|_, x, env, out, req| {
        let threads = env.ctx.run_ctx.nested_threads() as f64;
        unary_map(x.0, out, req, |_| 10.0 * threads)
    })
    .register()
    .unwrap();
    let op = Op::new("budget", &[]).unwrap();
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let runtime = runtime(kind, 2);
        let x = runtime.zeros([1], DType::F64).unwrap();
        x.attach_grad(OpReq::Write).unwrap();
        let mut step = Step::capture(&[&x], |inputs| op.invoke(&[&inputs[0]])).unwrap();
        for threads in [1, 3, 2] {
            runtime.engine().set_nested_threads(threads).unwrap();
            let y = autograd::record(|| op.invoke(&[&x])).unwrap();
            autograd::backward(&[&y]).unwrap();
            let of = |array: &NDArray| array.as_scalar::<f64>().unwrap();
            let found = [of(&y), of(&x.grad().unwrap()), of(step.run(&[&x]).unwrap())];
            let threads = threads as f64;
            assert_eq!(found, [threads, 10.0 * threads, threads], "{kind}");
        }
        assert!(runtime.engine().set_nested_threads(0).is_err());
    }
}

/// How often each name is among the events.
fn names(profile: &Profile) -> BTreeMap<&'static str, usize> {
    let mut names = BTreeMap::new();
    profile.events().iter().for_each(|event| *names.entry(event.name).or_insert(0) += 1);
    names
}

#[test]
fn one_profiled_call_among_others_is_one_event() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for size in [4, 10_000] {
            let runtime = runtime(kind, 2);
            let x = runtime.ones([size], DType::F32).unwrap();
            let seen = profiled(|| x.exp()).unwrap();
            let unseen: Vec<NDArray> = (0..10).map(|_| seen.square().unwrap()).collect();
            let filled = profiled(|| unseen[0].fill(1.0));
            filled.unwrap();
            // What is inside of a closure that fails or panics is forgotten.
            let panicked = std::panic::catch_unwind(|| profiled(|| panic!("in a closure")));
            assert!(panicked.is_err());
            x.log().unwrap();
            runtime.wait_all().unwrap();
            assert_eq!(names(&runtime.engine().profile()), [("exp", 1), ("fill", 1)].into(), "{kind} {size}");
        }
    }
}

/// A training step of two layers.
struct Network {
    ops: [Op; 4],
    weights: Vec<NDArray>,
    sgd: Sgd,
}

impl Network {
    fn new(runtime: &Runtime) -> Result<Network, Error> {
        let ops = [
            Op::new("FullyConnected", &[("num_hidden", "3")])?,
            Op::new("Activation", &[("act_type", "relu")])?,
            Op::new("FullyConnected", &[("num_hidden", "2")])?,
            Op::new("SoftmaxOutput", &[])?,
        ];
        let mut weights = Vec::new();
        for shape in [&[3, 4][..], &[3], &[2, 3], &[2]] {
            let weight = runtime.full(shape, DType::F32, 0.1)?;
            weight.attach_grad(OpReq::Write)?;
            weights.push(weight);
        }
        Ok(Network { ops, weights, sgd: Sgd::new(0.1, 0.9, 0.0)? })
    }

    fn step(&mut self, data: &NDArray, label: &NDArray) -> Result<NDArray, Error> {
        let ([first, activation, second, loss], [w1, b1, w2, b2]) = (&self.ops, &self.weights[..]) else {
            unreachable!("there are four")
        };
        let out = autograd::record(|| {
            let hidden = activation.invoke(&[&first.invoke(&[data, w1, b1])?])?;
            loss.invoke(&[&second.invoke(&[&hidden, w2, b2])?, label])
        })?;
        autograd::backward(&[&out])?;
        self.sgd.step(&[w1, b1, w2, b2], 1.0)?;
        Ok(out)
    }
}

#[test]
fn a_trace_of_a_training_step_names_each_operator() {
    // Of each operator the forward pass and the backward pass, and the four updates.
    let expected = [
        ("FullyConnected", 2),
        ("FullyConnected backward", 2),
        ("Activation", 1),
        ("Activation backward", 1),
        ("SoftmaxOutput", 1),
        ("SoftmaxOutput backward", 1),
        ("sgd_mom_update", 4),
    ];
    let check = |runtime: &Runtime, what: &str| {
        let profile = runtime.engine().profile();
        let (found, mut trace) = (names(&profile), Vec::new());
        profile.write_chrome_trace(&mut trace).unwrap();
        let trace = String::from_utf8(trace).unwrap();
        for (name, count) in expected {
            assert_eq!(found.get(name), Some(&count), "{what}: {name} in {found:?}");
            assert!(trace.contains(&format!("\"{name}\"")), "{what}: {name}");
        }
    };
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for captured in [false, true] {
            let runtime = runtime(kind, 2);
            let mut network = Network::new(&runtime).unwrap();
            let data = runtime.ones([5, 4], DType::F32).unwrap();
            let label = runtime.zeros([5], DType::F32).unwrap();
            // A step before makes what updates keep.
            network.step(&data, &label).unwrap();
            if captured {
                let mut step = Step::capture(&[&data, &label], |inputs| network.step(&inputs[0], &inputs[1])).unwrap();
                runtime.wait_all().unwrap();
                runtime.engine().start_profiling();
                step.run(&[&data, &label]).unwrap();
            } else {
                runtime.wait_all().unwrap();
                runtime.engine().start_profiling();
                network.step(&data, &label).unwrap();
            }
            runtime.wait_all().unwrap();
            check(&runtime, &format!("{kind}, captured {captured}"));
        }
    }
}

#[test]
fn input_and_output_run_on_a_thread_of_their_own() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let runtime = runtime(kind, 1);
        let (x, y) = (runtime.ones([4], DType::F32).unwrap(), runtime.empty([4], DType::F32).unwrap());
        // As an iterator reads a batch ahead: an operation of the program that names an array.
        let (sender, receiver) = std::sync::mpsc::channel();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let read_ahead = move |_: &seriatim::RunContext<'_>| {
            let _ = gate.recv();
            sender.send(std::thread::current().name().map(str::to_owned)).unwrap();
        };
        runtime.engine().op("read ahead").property(Property::Io).write(y.var()).push(read_ahead).unwrap();
        // The only worker that computes is free while the I/O worker waits.
        assert_eq!(x.square().unwrap().sqrt().unwrap().to_vec::<f32>().unwrap(), [1.0; 4], "{kind}");
        drop(open);
        let thread = receiver.recv().unwrap();
        assert!(thread.as_deref().is_some_and(|name| name.starts_with("seriatim-io")), "{kind}: {thread:?}");
    }
}

#[test]
fn arrays_go_from_context_to_context() {
    let runtime = runtime(Kind::PerDevice, 2);
    let (cpu, pinned) = (Context::cpu(0), Context::cpu_pinned(0));
    let live = |context| runtime.storage().statistics(context).unwrap().live;
    for dtype in DType::ALL {
        let x = runtime.arange(0.0, 6.0, 1.0, dtype).unwrap().reshape([2, 3]).unwrap();
        let there = x.transpose().unwrap().as_in_context(pinned).unwrap();
        assert_eq!((there.context(), there.shape().dims(), there.dtype()), (pinned, &[3, 2][..], dtype));
        let back = there.as_in_context(cpu).unwrap();
        assert_eq!((back.context(), back.var() == x.var()), (cpu, false));
        let values = |array: &NDArray| array.astype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(values(&back), values(&x.transpose().unwrap()), "{dtype}");
        // Where it is already, it is the array itself.
        assert_eq!(there.as_in_context(pinned).unwrap().var(), there.var());
        // A copy is changed by itself.
        there.fill(1).unwrap();
        assert_ne!(values(&back), values(&there));
        assert!(live(pinned) >= 6 * dtype.size());
    }
    // Operators take arrays of both.
    let x = runtime.arange(0.0, 4.0, 1.0, DType::F64).unwrap();
    let there = x.as_in_context(pinned).unwrap();
    assert_eq!(x.add(&there).unwrap().to_vec::<f64>().unwrap(), [0.0, 2.0, 4.0, 6.0]);
    there.add_assign(&x).unwrap();
    assert_eq!(there.to_vec::<f64>().unwrap(), [0.0, 2.0, 4.0, 6.0]);
    // A gradient goes back to the first context, also where it is one of several.
    for (req, times) in [(OpReq::Write, 1.0), (OpReq::Add, 2.0)] {
        let x = runtime.from_slice_in(&[1.0f64, 2.0, 3.0], [3], pinned).unwrap();
        x.attach_grad(req).unwrap();
        for _ in 0..2 {
            let y = autograd::record(|| {
                let here = x.as_in_context(cpu)?;
                let there = here.square()?.as_in_context(Context::cpu(1))?.as_in_context(pinned)?;
                there.mul(&here)?.add(&x.as_in_context(Context::cpu(1))?)?.add(&x)
            });
            autograd::backward(&[&y.unwrap()]).unwrap();
        }
        let grad = x.grad().unwrap();
        assert_eq!(grad.context(), pinned);
        // Of x³ + 2 x.
        assert_eq!(grad.to_vec::<f64>().unwrap(), [5.0 * times, 14.0 * times, 29.0 * times]);
    }
    // Where nothing is recorded, or the copy is into an array that is there, there is no way back.
    let x = runtime.ones([2], DType::F64).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    let apart = x.as_in_context(pinned).unwrap();
    let error = autograd::backward(&[&autograd::record(|| apart.square()).unwrap()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotRecorded);
    let error = autograd::record(|| x.copy_to(&apart)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Recording);
    let refused = x.as_in_context(Context::gpu(100)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::UnsupportedContext);
    drop((there, apart));
    runtime.wait_all().unwrap();
    assert_eq!(live(pinned), 0);
}
