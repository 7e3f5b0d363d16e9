//! What the statistics say of a training step of LeNet-5, to the byte: by tag, pushed and captured.

mod common;
#[path = "../examples/nets/mod.rs"]
#[allow(dead_code, reason = "programs call what this test does not")]
mod nets;

use nets::Network;
use seriatim::{Context, Engine, Kind};
use seriatim_tensor::storage::{Statistics, Storage, Tag};
use seriatim_tensor::{autograd, DType, Distribution, Error, NDArray, Runtime, Step};
use std::thread;
use std::time::{Duration, Instant};

const CPU: Context = Context::cpu(0);
const BATCH: usize = 2;

/// Floats of each weight of LeNet-5, each followed by its bias.
const WEIGHTS: [usize; 10] = [6 * 25, 6, 16 * 6 * 25, 16, 120 * 400, 120, 84 * 120, 84, 10 * 84, 10];

/// Floats of one image in the values of the layers, from the first convolution to the softmax.
const VALUES: [usize; 12] =
    [6 * 28 * 28, 6 * 28 * 28, 6 * 14 * 14, 16 * 10 * 10, 16 * 10 * 10, 16 * 5 * 5, 120, 120, 84, 84, 10, 10];

/// The bytes of a block for so many floats: the least size that has room, of eight in each
/// doubling, and a multiple of 64.
fn block(floats: usize) -> usize {
    let (bytes, mut step) = (4 * floats, 64);
    while bytes > 16 * step {
        step *= 2;
    }
    bytes.next_multiple_of(step)
}

/// The bytes of blocks for values of a batch.
fn blocks(floats: &[usize]) -> usize {
    floats.iter().map(|floats| block(BATCH * floats)).sum()
}

/// A storage with a limit has no block that is larger than its class.
fn runtime(kind: Kind) -> Runtime {
    let engine = Engine::builder().kind(kind).pin(false);
    let engine = if kind == Kind::Naive { engine } else { engine.cpu_workers(2) };
    Runtime::builder(&engine.build().unwrap()).storage(Storage::builder().limit(1 << 30).build()).build()
}

#[test]
fn a_training_step_of_lenet_is_counted_by_tag_to_the_byte() {
    let tags = ["weights", "gradients", "states", "data", "step"].map(|name| Tag::new(name).unwrap());
    let [weights, gradients, states, data, step] = tags;
    let (plans, training) = nets::read().unwrap();
    let plan = plans.iter().find(|plan| plan.name == "lenet-5").unwrap();
    let of_weights: usize = WEIGHTS.iter().map(|floats| block(*floats)).sum();
    let of_values = blocks(&VALUES);
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let runtime = runtime(kind);
        let now = |tag| {
            runtime.wait_all().unwrap();
            runtime.storage().statistics_of(tag, CPU).unwrap()
        };
        // What is live, the most that was, and how many blocks were asked for.
        let check = |tag, live: usize, peak: usize, requests: usize, when: &str| {
            let Statistics { live: found, peak: most, requests: asked, pooled, .. } = now(tag);
            assert_eq!((found, asked, pooled), (live, requests, 0), "{kind}, {when}, {tag:?}");
            // When values end is exact where each operation runs in its push.
            let is_right =
                if kind == Kind::Naive { most == peak } else { (live..=peak.max(2 * of_values)).contains(&most) };
            assert!(is_right, "{kind}, {when}, {tag:?}: at most {most} were live, and not {peak}");
        };
        // Bytes that are live and have no tag.
        let untagged = || {
            let tagged: usize = tags.iter().map(|tag| now(*tag).live).sum();
            runtime.storage().statistics(CPU).unwrap().live - tagged
        };
        let draw = |shape: &_, bound| weights.scope(|| nets::draw(&runtime, shape, bound));
        let network = gradients.scope(|| Network::new(plan, draw)).unwrap();
        let (x, y) = data.scope(|| {
            let uniform = Distribution::Uniform { low: 0.0, high: 1.0 };
            let digits = Distribution::Whole { low: 0, high: 10 };
            (runtime.random([BATCH, 1, 28, 28], DType::F32, uniform), runtime.random([BATCH], DType::F32, digits))
        });
        let (x, y) = (x.unwrap(), y.unwrap());
        let mut sgd = training.optimiser().unwrap();
        let mut train = |x: &NDArray, y: &NDArray| -> Result<NDArray, Error> {
            let out = step.scope(|| {
                let out = autograd::record(|| network.loss(x, y))?;
                autograd::backward(&[&out]).map(|()| out)
            })?;
            states.scope(|| sgd.step(&network.weights(), 1.0 / BATCH as f64)).map(|()| out)
        };
        // The walk back has all values, and of their gradients two at a time: by what a layer has
        // given and by what it was given. The first activation has the largest.
        let most = of_values + 2 * block(BATCH * VALUES[0]);
        for round in 1..=2 {
            let when = format!("step {round}");
            let out = train(&x, &y).unwrap();
            check(weights, of_weights, of_weights, 10, &when);
            check(gradients, of_weights, of_weights, 10, &when);
            // A momentum for each weight, the learning rate, and the clock.
            check(states, of_weights + 2 * 64, of_weights + 2 * 64, 12, &when);
            check(data, blocks(&[28 * 28, 1]), blocks(&[28 * 28, 1]), 2, &when);
            // Each value and a gradient by it. The last value is in `out`.
            check(step, block(BATCH * 10), most, round * 2 * 12, &when);
            drop(out);
            check(step, 0, most, round * 2 * 12, &when);
            if kind == Kind::Naive {
                assert_eq!(untagged(), 0, "{when}");
            }
        }
        let before = runtime.storage().statistics(CPU).unwrap();
        let mut captured = Step::capture(&[&x, &y], |inputs| train(&inputs[0], &inputs[1])).unwrap();
        for round in 1..=2 {
            captured.run(&[&x, &y]).unwrap();
            // The graph keeps each value and gradient from run to run.
            check(step, 2 * of_values, 2 * of_values, 3 * 2 * 12, &format!("run {round}"));
            check(weights, of_weights, of_weights, 10, "captured");
            check(states, of_weights + 2 * 64, of_weights + 2 * 64, 12, "captured");
        }
        if kind == Kind::Naive {
            // The step has inputs of its own.
            assert_eq!(untagged(), blocks(&[28 * 28, 1]));
            let after = runtime.storage().statistics(CPU).unwrap();
            assert!(after.system_calls > before.system_calls && after.live + after.pooled >= after.peak, "{after:?}");
        }
        drop((captured, network, x, y, sgd));
        // The last worker that has run a node of the graph frees it, perhaps behind the wait.
        let until = Instant::now() + Duration::from_secs(30);
        let live = || tags.map(|tag| now(tag).live);
        while live() != [0; 5] && Instant::now() < until {
            thread::yield_now();
        }
        assert_eq!(live(), [0; 5], "{kind}");
    }
}
