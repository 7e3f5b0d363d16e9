//! What a steady step costs: no call of the system's allocator, by any thread, from the first call
//! of a training step to the end of its last operation; and what a storage gives out and keeps.
//!
//! One test has the counter to itself: it counts the whole process.

mod common;

use common::{runtime, Draws};
use seriatim::{Context, Kind};
use seriatim_tensor::operator::Op;
use seriatim_tensor::optimizer::{Adam, Schedule, Sgd};
use seriatim_tensor::storage::{Handle, Pooling, Storage};
use seriatim_tensor::{autograd, DType, Distribution, Error, NDArray, OpReq, Runtime, Step};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Tests of this file run one after the other.
static TURN: Mutex<()> = Mutex::new(());

/// What a training step uses.
struct Trainer {
    ops: [Op; 4],
    weights: Vec<NDArray>,
    data: NDArray,
    label: NDArray,
    sgd: Sgd,
}

impl Trainer {
    fn new(runtime: &Runtime) -> Result<Trainer, Error> {
        let ops = [
            Op::new("FullyConnected", &[("num_hidden", "32")])?,
            Op::new("Activation", &[("act_type", "relu")])?,
            Op::new("FullyConnected", &[("num_hidden", "10")])?,
            Op::new("SoftmaxOutput", &[])?,
        ];
        runtime.seed(5)?;
        let shapes = [&[32, 64][..], &[32], &[10, 32], &[10]];
        let mut weights = Vec::new();
        for shape in shapes {
            let weight = runtime.random(shape, DType::F32, Distribution::Uniform { low: -0.1, high: 0.1 })?;
            weight.attach_grad(OpReq::Write)?;
            weights.push(weight);
        }
        let data = runtime.random([32, 64], DType::F32, Distribution::Uniform { low: 0.0, high: 1.0 })?;
        let label = runtime.random([32], DType::F32, Distribution::Whole { low: 0, high: 10 })?;
        Ok(Trainer { ops, weights, data, label, sgd: Sgd::new(0.05, 0.9, 1e-4)? })
    }

    fn step(&mut self) -> Result<(), Error> {
        let [first, activation, second, loss] = &self.ops;
        let [w1, b1, w2, b2] = &self.weights[..] else { unreachable!("there are four") };
        let out = autograd::record(|| {
            let hidden = activation.invoke(&[&first.invoke(&[&self.data, w1, b1])?])?;
            loss.invoke(&[&second.invoke(&[&hidden, w2, b2])?, &self.label])
        })?;
        autograd::backward(&[&out])?;
        // Views, in-place changes and scalars belong to a step too.
        w1.slice(0, 0, 16, 1)?.mul_scalar_assign(0.9999)?;
        b1.add_assign(&w1.sum()?)?;
        self.sgd.step(&[w1, b1, w2, b2], 1.0 / 32.0)
    }
}

/// The least number of allocations of ten steps, when nothing is left to grow.
fn least(mut steps: impl FnMut()) -> usize {
    let mut least = usize::MAX;
    for _ in 0..30 {
        let before = ALLOCATIONS.load(SeqCst);
        steps();
        least = least.min(ALLOCATIONS.load(SeqCst) - before);
        if least == 0 {
            break;
        }
    }
    least
}

#[test]
fn a_steady_training_step_calls_no_allocator() {
    let _turn = TURN.lock();
    for (kind, workers) in [(Kind::Naive, 1), (Kind::Pooled, 1), (Kind::PerDevice, 2)] {
        let runtime = runtime(kind, workers);
        let mut trainer = Trainer::new(&runtime).unwrap();
        let mut ten = || {
            (0..10).for_each(|_| trainer.step().unwrap());
            runtime.engine().wait_for_all().unwrap();
        };
        ten();
        assert_eq!(least(&mut ten), 0, "{kind} {workers}");
        // The counter counts.
        assert!(least(|| ten_and_one(&mut ten)) > 0);
    }
}

#[test]
fn a_steady_captured_step_calls_no_allocator() {
    let _turn = TURN.lock();
    for (kind, workers) in [(Kind::Naive, 1), (Kind::Pooled, 1), (Kind::PerDevice, 2)] {
        let runtime = runtime(kind, workers);
        let Trainer { ops, weights, data, label, .. } = Trainer::new(&runtime).unwrap();
        let ([first, activation, second, loss], [w1, b1, w2, b2]) = (&ops, &weights[..]) else {
            unreachable!("there are four")
        };
        let mut adam = Adam::new(Schedule::cosine(0.01, 100, 0.0).unwrap().warm_up(10, 0.0).unwrap()).unwrap();
        let factor = runtime.parameter(1.0f32).unwrap();
        let noise = Distribution::Uniform { low: -0.1, high: 0.1 };
        let mut step = Step::capture(&[&data, &label], |inputs| {
            let data = inputs[0].add(&runtime.random([32, 64], DType::F32, noise)?)?.mul(factor.array())?;
            let out = autograd::record(|| {
                let hidden = activation.invoke(&[&first.invoke(&[&data, w1, b1])?])?;
                loss.invoke(&[&second.invoke(&[&hidden, w2, b2])?, &inputs[1]])
            })?;
            autograd::backward(&[&out])?;
            // An array that is not fresh by itself gives its memory back in each run.
            let part = runtime.empty([64], DType::F32)?;
            part.slice(0, 0, 32, 1)?.fill(1.0)?;
            part.add_assign(&w1.at(0)?)?;
            adam.step(&[w1, b1, w2, b2], 1.0 / 32.0)?;
            out.sum()
        })
        .unwrap();
        let mut ten = || {
            for number in 0..10 {
                factor.set(1.0 / (1.0 + number as f32)).unwrap();
                step.run(&[&data, &label]).unwrap();
            }
            runtime.engine().wait_for_all().unwrap();
        };
        ten();
        assert_eq!(least(&mut ten), 0, "{kind} {workers}");
        assert!(step.returned().as_scalar::<f32>().unwrap() > 0.0);
    }
}

/// Light calls that are run again and again: a run is one operation that the engine is given, and
/// no allocation, however many calls and arrays the step has.
#[test]
fn a_run_of_many_light_calls_is_one_push() {
    const CALLS: usize = 64;
    let _turn = TURN.lock();
    for (kind, workers) in [(Kind::Naive, 1), (Kind::Pooled, 1), (Kind::PerDevice, 2)] {
        let runtime = runtime(kind, workers);
        let x = runtime.zeros([1], DType::F32).unwrap();
        // As many arrays of the step's as calls, and its input.
        let calls = |inputs: &[NDArray]| (1..CALLS).try_fold(inputs[0].add_scalar(1.0)?, |y, _| y.add_scalar(1.0));
        let mut step = Step::capture(&[&x], calls).unwrap();
        assert_eq!(step.graph().len(), CALLS);
        let input = step.inputs()[0].clone();
        let pushed = |run: &mut dyn FnMut()| {
            runtime.engine().wait_for_all().unwrap();
            let before = runtime.engine().stats().pushed;
            (0..10).for_each(|_| run());
            runtime.engine().wait_for_all().unwrap();
            runtime.engine().stats().pushed - before
        };
        let mut run = || _ = step.run(&[&input]).unwrap();
        let of_runs = pushed(&mut run);
        // The waits may be counted too.
        assert!((10..=12).contains(&of_runs), "{kind}: {of_runs}");
        let of_calls = pushed(&mut || _ = calls(std::slice::from_ref(&input)).unwrap());
        assert!(of_calls >= 10 * CALLS as u64, "{kind}: {of_calls}");
        let ten = || {
            (0..10).for_each(|_| run());
            runtime.engine().wait_for_all().unwrap();
        };
        assert_eq!(least(ten), 0, "{kind}");
        assert_eq!(step.returned().as_scalar::<f32>().unwrap(), CALLS as f32);
    }
}

fn ten_and_one(ten: &mut impl FnMut()) {
    ten();
    std::hint::black_box(Box::new(1));
}

/// What a storage holds after requests of mixed sizes, as a share of the most bytes that were live
/// in blocks, and of the most that were asked for and live. Once it is warm, a million requests
/// call no allocator.
fn held_for_mixed_sizes(blocks: usize) -> (f64, f64) {
    let (storage, cpu) = (Storage::builder().build(), Context::cpu(0));
    let mut held: Vec<_> = (0..blocks).map(|_| None).collect();
    let (mut asked, mut most_asked) = (0, 0);
    // The same sizes in each round: what some rounds have made is enough for the next.
    let mut round = || {
        let mut draws = Draws::new(4);
        for _ in 0..500_000 {
            let size = 1 << draws.below(18);
            let (place, size) = (draws.below(held.len()), size + draws.below(size));
            asked -= held[place].take().as_ref().map_or(0, Handle::size);
            held[place] = Some(storage.alloc(size, cpu).unwrap());
            asked += size;
            most_asked = most_asked.max(asked);
        }
        held.iter_mut().for_each(|block| *block = None);
        asked = 0;
        storage.statistics(cpu).unwrap()
    };
    let (mut made, mut quiet, mut warm) = (round(), 0, 0);
    while quiet < 2 {
        let now = round();
        (quiet, warm) = (if now.system_calls == made.system_calls { quiet + 1 } else { 0 }, warm + 1);
        made = now;
        assert!(warm < 40, "it is not warm after {warm} rounds: {made:?}");
    }
    let before = ALLOCATIONS.load(SeqCst);
    round();
    let after = round();
    assert_eq!(ALLOCATIONS.load(SeqCst) - before, 0);
    assert_eq!((after.requests - made.requests, after.system_calls), (1_000_000, made.system_calls));
    assert_eq!((after.live, after.pooled, after.peak), (0, made.pooled, made.peak));
    assert!(made.system_calls >= blocks);
    // All bytes that are held lie in the pool now.
    let of = |most: usize| after.pooled as f64 / most as f64;
    (of(after.peak), of(most_asked))
}

#[test]
fn mixed_sizes_come_from_the_pool_once_it_is_warm() {
    let _turn = TURN.lock();
    for (blocks, most_of_blocks, most_of_asked) in [(1_000, 1.25, 1.4), (4_000, 1.15, 1.25)] {
        let (of_blocks, of_asked) = held_for_mixed_sizes(blocks);
        println!("{blocks} blocks: held {of_blocks:.3} of the most in blocks, {of_asked:.3} of the most asked for");
        assert!((1.0..=most_of_blocks).contains(&of_blocks), "{blocks} blocks: {of_blocks}");
        assert!((of_blocks..=most_of_asked).contains(&of_asked), "{blocks} blocks: {of_asked}");
    }
}

#[test]
fn every_kind_of_pool_gives_the_same_results() {
    let _turn = TURN.lock();
    let mut results = Vec::new();
    for (pooling, keeps) in
        [(Pooling::Eighths, true), (Pooling::PowersOfTwo, true), (Pooling::Pages, true), (Pooling::None, false)]
    {
        let engine = seriatim::Engine::builder().cpu_workers(1).pin(false).build().unwrap();
        let storage = Storage::builder().pooling(pooling).build();
        let runtime = Runtime::builder(&engine).storage(storage.clone()).build();
        let mut trainer = Trainer::new(&runtime).unwrap();
        (0..5).for_each(|_| trainer.step().unwrap());
        results.push(trainer.weights.iter().map(|weight| weight.to_vec::<f32>().unwrap()).collect::<Vec<_>>());
        drop(trainer);
        // The tape has no arrays left, so all memory comes back.
        runtime.wait_all().unwrap();
        let statistics = storage.statistics(Context::cpu(0)).unwrap();
        assert_eq!((statistics.live, statistics.pooled > 0), (0, keeps), "{pooling:?} {statistics:?}");
        assert_eq!(statistics.system_calls == statistics.requests, !keeps);
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
}
