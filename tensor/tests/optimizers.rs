//! Optimisers against loops that are written out in `f64`, schedules against their formulas,
//! initialisers against their distributions, and metrics against counting by hand.

mod common;

use common::{runtime, Draws};
use seriatim::Kind;
use seriatim_tensor::initializer::{Fan, Initializer};
use seriatim_tensor::metric::{self, Metric};
use seriatim_tensor::operator::Op;
use seriatim_tensor::optimizer::{AdaGrad, Adam, AdamW, Ftrl, Nag, RmsProp, Schedule, Sgd};
use seriatim_tensor::{DType, Error, ErrorKind, NDArray, OpReq, Runtime};

/// More than one block of the walk, and no multiple of it.
const SIZE: usize = 300;
const STEPS: usize = 7;

/// A weight and its states, and what a step makes of them: the number of the step, the weight and
/// the gradient.
type Loop<'a> = &'a dyn Fn(f64, &mut f64, f64, &mut [f64; 2]);

/// Runs steps with random gradients; returns the weights of the optimiser and of the loop.
fn compare(
    dtype: DType,
    mut step: impl FnMut(&[&NDArray]) -> Result<(), Error>,
    written_out: Loop<'_>,
) -> (Vec<f64>, Vec<f64>) {
    let runtime = Runtime::global().unwrap();
    let mut draws = Draws::new(3);
    let start = draws.values(SIZE, -2.0, 2.0);
    let weight = runtime.from_slice(&start, [SIZE]).unwrap().astype(dtype).unwrap();
    weight.attach_grad(OpReq::Write).unwrap();
    let mut expected = weight.astype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    let mut states = vec![[0.0; 2]; SIZE];
    for number in 1..=STEPS {
        let grads = draws.values(SIZE, -1.0, 1.0);
        let grads = runtime.from_slice(&grads, [SIZE]).unwrap().astype(dtype).unwrap();
        grads.copy_to(&weight.grad().unwrap()).unwrap();
        step(&[&weight]).unwrap();
        let grads = grads.astype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        for ((weight, grad), state) in expected.iter_mut().zip(grads).zip(&mut states) {
            written_out(number as f64, weight, grad, state);
        }
    }
    (weight.astype(DType::F64).unwrap().to_vec().unwrap(), expected)
}

fn assert_near(name: &str, step: impl FnMut(&[&NDArray]) -> Result<(), Error>, written_out: Loop<'_>) {
    let (found, expected) = compare(DType::F64, step, written_out);
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{name} at {at}: {found}, {expected}");
    }
}

/// A weight that gets no gradient any more: its momentum ends, and does not stay at numbers that
/// processors are slow with. In slices and, with 16 bits, in blocks.
#[test]
fn a_momentum_without_gradients_ends() {
    let momentum = Op::new("sgd_mom_update", &[("lr", "0.1"), ("momentum", "0.9")]).unwrap();
    for dtype in [DType::F32, DType::Bf16] {
        let [weight, grad, state] = [1.0f32, 0.0, 1.0]
            .map(|value| Runtime::global().unwrap().from_slice(&[value; SIZE], [SIZE]).unwrap().astype(dtype).unwrap());
        for _ in 0..1_000 {
            momentum.invoke_into(&[&weight, &grad, &state], &[(&weight, OpReq::Write)]).unwrap();
        }
        let left = state.astype(DType::F32).unwrap().to_vec::<f32>().unwrap();
        assert!(left.iter().all(|left| left.to_bits() == 0), "{dtype}: {:e}", left[0]);
    }
}

/// The gradients are 0.5 of those given, as `rescale` says.
const RESCALE: f64 = 0.5;

#[test]
fn gradient_descent_is_the_loop() {
    let mut sgd = Sgd::new(0.1, 0.0, 0.01).unwrap();
    assert_near("sgd", |weights| sgd.step(weights, RESCALE), &|_, weight, grad, _| {
        *weight -= 0.1 * (RESCALE * grad + 0.01 * *weight);
    });
    let mut sgd = Sgd::new(0.1, 0.9, 0.01).unwrap().clip_gradient(0.2).unwrap();
    assert_near("momentum", |weights| sgd.step(weights, RESCALE), &|_, weight, grad, [mom, _]| {
        *mom = 0.9 * *mom - 0.1 * ((RESCALE * grad).clamp(-0.2, 0.2) + 0.01 * *weight);
        *weight += *mom;
    });
    let mut nag = Nag::new(0.1, 0.9, 0.01).unwrap().clip_gradient(0.2).unwrap();
    assert_near("nag", |weights| nag.step(weights, RESCALE), &|_, weight, grad, [mom, _]| {
        let down = 0.1 * ((RESCALE * grad).clamp(-0.2, 0.2) + 0.01 * *weight);
        *mom = 0.9 * *mom - down;
        *weight += 0.9 * *mom - down;
    });
    let mut plain = Nag::new(0.1, 0.0, 0.01).unwrap();
    assert_near("nag without momentum", |weights| plain.step(weights, RESCALE), &|_, weight, grad, _| {
        *weight -= 0.1 * (RESCALE * grad + 0.01 * *weight);
    });
    assert_eq!(plain.states().len(), 1, "no momentum, so no state");
}

#[test]
fn ftrl_is_the_loop_and_makes_weights_zero() {
    let make = || Ftrl::new(0.1).unwrap().lamda1(0.4).unwrap().beta(0.5).unwrap().decay(0.02).unwrap();
    let mut ftrl = make().clip_gradient(0.3).unwrap();
    assert_near("ftrl", |weights| ftrl.step(weights, RESCALE), &|_, weight, grad, [z, n]| {
        let grad = (RESCALE * grad).clamp(-0.3, 0.3);
        let before = n.sqrt();
        *n += grad * grad;
        *z += grad - (n.sqrt() - before) / 0.1 * *weight;
        *weight = if z.abs() <= 0.4 { 0.0 } else { (0.4 * z.signum() - *z) / ((0.5 + n.sqrt()) / 0.1 + 0.02) };
    });
    let mut ftrl = make();
    let (found, _) = compare(DType::F64, |weights| ftrl.step(weights, RESCALE), &|_, _, _, _| {});
    let zeros = found.iter().filter(|weight| **weight == 0.0).count();
    assert!((SIZE / 20..SIZE * 19 / 20).contains(&zeros), "{zeros} of {SIZE} weights are 0");
}

#[test]
fn adam_is_the_loop() {
    let means = |grad: f64, [mean, var]: &mut [f64; 2]| {
        *mean = 0.8 * *mean + (1.0 - 0.8) * grad;
        *var = 0.95 * *var + (1.0 - 0.95) * grad * grad;
    };
    let make = || Adam::new(0.1).unwrap().betas(0.8, 0.95).unwrap().epsilon(1e-3).unwrap().decay(0.02).unwrap();
    let mut adam = make();
    assert_near("adam", |weights| adam.step(weights, RESCALE), &|step, weight, grad, states| {
        means(RESCALE * grad + 0.02 * *weight, states);
        let rate = 0.1 * (1.0 - 0.95f64.powf(step)).sqrt() / (1.0 - 0.8f64.powf(step));
        *weight -= rate * states[0] / (states[1].sqrt() + 1e-3);
    });
    let mut clipped = make().clip_gradient(0.1).unwrap();
    assert_near("clipped adam", |weights| clipped.step(weights, RESCALE), &|step, weight, grad, states| {
        means((RESCALE * grad + 0.02 * *weight).clamp(-0.1, 0.1), states);
        let rate = 0.1 * (1.0 - 0.95f64.powf(step)).sqrt() / (1.0 - 0.8f64.powf(step));
        *weight -= rate * states[0] / (states[1].sqrt() + 1e-3);
    });
    let mut adamw = AdamW::new(0.1).unwrap().betas(0.8, 0.95).unwrap().epsilon(1e-3).unwrap().decay(0.02).unwrap();
    assert_near("adamw", |weights| adamw.step(weights, RESCALE), &|step, weight, grad, states| {
        *weight -= 0.1 * 0.02 * *weight;
        means(RESCALE * grad, states);
        let (mean, var) = (states[0] / (1.0 - 0.8f64.powf(step)), states[1] / (1.0 - 0.95f64.powf(step)));
        *weight -= 0.1 * mean / (var.sqrt() + 1e-3);
    });
}

#[test]
fn adaptive_steps_are_the_loop() {
    let mut rmsprop = RmsProp::new(0.1, 0.9).unwrap().epsilon(1e-3).unwrap().decay(0.02).unwrap();
    rmsprop = rmsprop.clip_weights(1.5).unwrap().clip_gradient(0.4).unwrap();
    assert_near("rmsprop", |weights| rmsprop.step(weights, RESCALE), &|_, weight, grad, [n, _]| {
        let grad = (RESCALE * grad + 0.02 * *weight).clamp(-0.4, 0.4);
        *n = (1.0 - 0.9) * (grad * grad) + 0.9 * *n;
        *weight = (*weight - 0.1 * (grad / (*n + 1e-3).sqrt())).clamp(-1.5, 1.5);
    });
    let mut adagrad = AdaGrad::new(0.1).unwrap().epsilon(1e-3).unwrap().decay(0.02).unwrap();
    adagrad = adagrad.clip_gradient(0.4).unwrap();
    assert_near("adagrad", |weights| adagrad.step(weights, RESCALE), &|_, weight, grad, [history, _]| {
        let grad = (RESCALE * grad).clamp(-0.4, 0.4) + 0.02 * *weight;
        *history += grad * grad;
        *weight -= 0.1 * grad / (history.sqrt() + 1e-3);
    });
}

/// States of 16 bits are no slices of the type of the computation: they are copied and written
/// back.
#[test]
fn small_floats_take_the_same_steps_but_for_rounding() {
    for (dtype, near) in [(DType::F32, 1e-5), (DType::F16, 2e-2), (DType::Bf16, 0.1)] {
        let mut adam = Adam::new(0.05).unwrap().epsilon(1e-2).unwrap();
        let (found, expected) = compare(dtype, |weights| adam.step(weights, 1.0), &|step, weight, grad, state| {
            state[0] = 0.9 * state[0] + 0.1 * grad;
            state[1] = 0.999 * state[1] + 0.001 * grad * grad;
            let rate = 0.05 * (1.0 - 0.999f64.powf(step)).sqrt() / (1.0 - 0.9f64.powf(step));
            *weight -= rate * state[0] / (state[1].sqrt() + 1e-2);
        });
        let apart = found.iter().zip(&expected).map(|(found, expected)| (found - expected).abs());
        let apart = apart.fold(0.0, f64::max);
        assert!(apart < near && found != [0.0; SIZE], "{dtype}: {apart}");
    }
}

#[test]
fn learning_rates_follow_their_source() {
    let runtime = Runtime::global().unwrap();
    let weight = runtime.zeros([1], DType::F64).unwrap();
    weight.attach_grad(OpReq::Write).unwrap();
    weight.grad().unwrap().fill(1.0).unwrap();
    let value = || weight.as_scalar::<f64>().unwrap();
    // A schedule: the weight has gone down by the sum of the rates.
    let schedule = Schedule::multi_factor(0.5, &[2, 3], 0.5).unwrap();
    let mut sgd = Sgd::new(schedule, 0.0, 0.0).unwrap();
    (0..4).for_each(|_| sgd.step(&[&weight], 1.0).unwrap());
    assert_eq!(value(), -(0.5 + 0.5 + 0.25 + 0.125));
    assert_eq!(sgd.set_learning_rate(1.0).unwrap_err().kind(), ErrorKind::BadParameter);
    assert_eq!(sgd.states()[0].to_vec::<f64>().unwrap(), [4.0, 0.125]);
    // A parameter, which two optimisers may share.
    weight.fill(0.0).unwrap();
    let rate = runtime.parameter(1.0f64).unwrap();
    let mut sgd = Sgd::new(&rate, 0.0, 0.0).unwrap();
    sgd.step(&[&weight], 1.0).unwrap();
    rate.set(0.25).unwrap();
    sgd.step(&[&weight], 1.0).unwrap();
    assert_eq!(value(), -1.25);
    // A number, before the first step and after it.
    weight.fill(0.0).unwrap();
    let mut sgd = Sgd::new(8.0, 0.0, 0.0).unwrap();
    sgd.set_learning_rate(1.0).unwrap();
    sgd.step(&[&weight], 1.0).unwrap();
    sgd.set_learning_rate(0.25).unwrap();
    sgd.step(&[&weight], 1.0).unwrap();
    assert_eq!(value(), -1.25);
}

#[test]
fn steps_that_do_not_go_together_are_refused_before_anything_is_pushed() {
    let of = |shape: &[usize]| {
        let weight = NDArray::zeros(shape, DType::F32).unwrap();
        weight.attach_grad(OpReq::Write).unwrap();
        weight
    };
    let (one, other, bare) = (of(&[2]), of(&[3]), NDArray::zeros([2], DType::F32).unwrap());
    let mut adam = Adam::new(0.1).unwrap();
    adam.step(&[&one], 1.0).unwrap();
    assert_eq!(adam.step(&[&other], 1.0).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    assert_eq!(adam.step(&[&one, &bare], 1.0).unwrap_err().kind(), ErrorKind::NotRecorded);
    assert_eq!(adam.states()[0].to_vec::<f64>().unwrap(), [1.0, 0.1]);
    adam.step(&[], 1.0).unwrap();
    // The operator by itself: another type, and a clock of another shape.
    let clock = NDArray::zeros([2], DType::F64).unwrap();
    let update = Op::new("sgd_update", &[("lr", "clock")]).unwrap();
    let grad = one.grad().unwrap();
    let kind = |inputs: &[&NDArray]| update.invoke_into(inputs, &[(&one, OpReq::Inplace)]).unwrap_err().kind();
    assert_eq!(kind(&[&one, &grad, &one]), ErrorKind::UnsupportedType);
    assert_eq!(kind(&[&one, &grad, &NDArray::zeros([3], DType::F64).unwrap()]), ErrorKind::ShapeMismatch);
    assert_eq!(kind(&[&one, &grad]), ErrorKind::WrongArguments);
    assert_eq!(kind(&[&one, &NDArray::zeros([2], DType::F64).unwrap(), &clock]), ErrorKind::UnsupportedType);
    assert!(Op::new("sgd_update", &[("lr", "soon")]).unwrap_err().to_string().contains("clock"));
}

/// FTRL divides by the rate. MXNet then has weights that are no numbers.
#[test]
fn ftrl_refuses_a_rate_of_zero() {
    let made = Op::new("ftrl_update", &[("lr", "0")]).unwrap_err();
    assert!(made.kind() == ErrorKind::BadParameter && made.to_string().contains("'ftrl_update'"), "{made}");
    assert!(Op::new("sgd_update", &[("lr", "0")]).is_ok());
    let weight = NDArray::from_slice(&[1.0f64, -2.0], [2]).unwrap();
    weight.attach_grad(OpReq::Write).unwrap();
    weight.grad().unwrap().fill(0.5).unwrap();
    // A decay that has come to its end.
    let mut ftrl = Ftrl::new(Schedule::poly(0.1, 2, 1.0, 0.0).unwrap()).unwrap();
    ftrl.step(&[&weight], 1.0).unwrap();
    assert!(weight.to_vec::<f64>().unwrap().iter().all(|weight| weight.is_finite()));
    ftrl.step(&[&weight], 1.0).unwrap();
    let error = weight.wait_to_read().unwrap_err();
    assert!(error.kind() == ErrorKind::BadParameter && error.to_string().contains("'ftrl_update'"), "{error}");
}

#[test]
fn schedules_refuse_what_they_cannot_do() {
    let wrong = [
        Schedule::constant(f64::NAN),
        Schedule::factor(1.0, 0, 0.5, 0.0),
        Schedule::factor(1.0, 1, 1.5, 0.0),
        Schedule::multi_factor(1.0, &[3, 3], 0.5),
        Schedule::multi_factor(1.0, &[3], 0.0),
        Schedule::poly(1.0, 0, 1.0, 0.0),
        Schedule::poly(1.0, 1, -1.0, 0.0),
        Schedule::cosine(1.0, 0, 0.0),
        Schedule::cosine(1.0, 10, 0.0).unwrap().warm_up(10, 0.0),
        Schedule::multi_factor(1.0, &[3], 0.5).unwrap().warm_up(3, 0.0),
        Schedule::constant(1.0).unwrap().warm_up(3, 2.0),
    ];
    for (number, refused) in wrong.into_iter().enumerate() {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::BadParameter, "{number}");
    }
}

/// The loops of MXNet's `lr_scheduler.py`, which change a rate as the steps go by.
#[test]
fn schedules_are_the_loops_of_mxnet() {
    let (factor, multi) = (
        Schedule::factor(0.8, 7, 0.7, 0.1).unwrap().warm_up(5, 0.2).unwrap(),
        Schedule::multi_factor(0.8, &[9, 20, 30], 0.3).unwrap(),
    );
    let (poly, cosine) = (
        Schedule::poly(0.8, 40, 2.0, 0.05).unwrap().warm_up(8, 0.1).unwrap(),
        Schedule::cosine(0.8, 40, 0.05).unwrap().warm_up(8, 0.1).unwrap(),
    );
    let (mut rate, mut count, mut multi_rate, mut passed) = (0.8f64, 0, 0.8f64, 0);
    for step in 1..=60u64 {
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-14, "{step}: {found}, {expected}");
        if step >= 5 {
            while step > count + 7 {
                count += 7;
                rate = (rate * 0.7).max(0.1);
            }
            near(factor.at(step), rate);
        } else {
            near(factor.at(step), 0.2 + (0.8 - 0.2) * step as f64 / 5.0);
        }
        while passed < 3 && step > [9, 20, 30][passed] {
            passed += 1;
            multi_rate *= 0.3;
        }
        near(multi.at(step), multi_rate);
        let part = (step.min(40) as f64 - 8.0) / 32.0;
        if step < 8 {
            near(poly.at(step), 0.1 + 0.7 * step as f64 / 8.0);
            near(cosine.at(step), 0.1 + 0.7 * step as f64 / 8.0);
        } else {
            near(poly.at(step), 0.05 + 0.75 * (1.0 - part).powi(2));
            near(cosine.at(step), 0.05 + 0.75 * (1.0 + (std::f64::consts::PI * part).cos()) / 2.0);
        }
    }
}

#[test]
fn initialisers_spread_as_they_should() {
    let runtime = runtime(Kind::Naive, 0);
    runtime.seed(5).unwrap();
    let values =
        |of: Initializer, shape: &[usize]| of.make(&runtime, shape, DType::F64).unwrap().to_vec::<f64>().unwrap();
    let moments = |values: &[f64]| {
        let (count, most) = (values.len() as f64, values.iter().fold(0f64, |most, value| most.max(value.abs())));
        let mean = values.iter().sum::<f64>() / count;
        (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt(), most)
    };
    // Shapes with a window: fan in 20 · 6, fan out 30 · 6.
    let shape = [30, 20, 2, 3];
    for (fan, size) in [(Fan::In, 120.0), (Fan::Out, 180.0), (Fan::Average, 150.0)] {
        let bound = (3.0f64 / size).sqrt();
        let (mean, deviation, most) =
            moments(&values(Initializer::Xavier { is_normal: false, fan, magnitude: 3.0 }, &shape));
        assert!(mean.abs() < 0.06 * bound && most <= bound && most > 0.99 * bound, "{fan:?}: {mean}, {most}, {bound}");
        assert!((deviation - bound / 3f64.sqrt()).abs() < 0.03 * bound, "{fan:?}: {deviation}");
        let (mean, deviation, most) = moments(&values(Initializer::msra_prelu(fan, 0.25), &shape));
        let expected = (2.0 / (1.0 + 0.0625) / size).sqrt();
        assert!(mean.abs() < 0.06 * expected && (deviation / expected - 1.0).abs() < 0.06, "{fan:?}: {deviation}");
        assert!(most > 2.0 * expected);
    }
    assert!(moments(&values(Initializer::Uniform { scale: 0.07 }, &[1000])).2 <= 0.07);
    assert!((moments(&values(Initializer::Normal { deviation: 0.01 }, &[10_000])).1 - 0.01).abs() < 4e-4);
    let array = runtime.empty([2, 0], DType::F32).unwrap();
    let kind = |of: Initializer| of.fill(&array).unwrap_err().kind();
    assert_eq!(kind(Initializer::Normal { deviation: -1.0 }), ErrorKind::BadParameter);
    assert_eq!(kind(Initializer::Xavier { is_normal: true, fan: Fan::In, magnitude: 1.0 }), ErrorKind::ShapeMismatch);
    for (name, value) in [("a_bias", 0.0), ("a_gamma", 1.0), ("a_moving_var", 1.0), ("a_running_mean", 0.0)] {
        let array = runtime.empty([3], DType::F32).unwrap();
        Initializer::xavier().fill_named(name, &array).unwrap();
        assert_eq!(array.to_vec::<f32>().unwrap(), [value; 3], "{name}");
    }
}

#[test]
fn metrics_count_what_a_loop_counts() {
    let runtime = Runtime::global().unwrap();
    let mut draws = Draws::new(8);
    let kinds = [metric::Kind::Accuracy, metric::Kind::TopK(2), metric::Kind::CrossEntropy];
    let elements =
        [metric::Kind::MeanSquaredError, metric::Kind::RootMeanSquaredError, metric::Kind::MeanAbsoluteError];
    let all: Vec<Metric> = kinds
        .iter()
        .chain(&elements)
        .chain(&[metric::Kind::Loss])
        .map(|kind| Metric::new(runtime, *kind).unwrap())
        .collect();
    let (mut sums, mut rows, mut count) = ([0.0f64; 7], 0.0, 0.0);
    for batch in [5usize, 300, 1] {
        let predictions = draws.values(batch * 4, 0.0, 1.0);
        let labels: Vec<f64> =
            (0..batch).map(|row| [f64::from(draws.below(4) as u8), -1.0][usize::from(row % 7 == 6)]).collect();
        let targets = draws.values(batch * 4, 0.0, 1.0);
        let predicted = runtime.from_slice(&predictions, [4, batch]).unwrap().transpose().unwrap();
        let read = predicted.to_vec::<f64>().unwrap();
        for (row, label) in read.chunks(4).zip(&labels).filter(|(_, label)| **label >= 0.0) {
            let own = row[*label as usize];
            let greater = row.iter().filter(|other| **other > own).count();
            sums[0] += f64::from(u8::from(greater == 0));
            sums[1] += f64::from(u8::from(greater < 2));
            sums[2] -= (own + 1e-12).ln();
            rows += 1.0;
        }
        for (prediction, target) in read.iter().zip(&targets) {
            sums[3] += (prediction - target) * (prediction - target);
            sums[5] += (prediction - target).abs();
            sums[6] += prediction;
            count += 1.0;
        }
        let (labels, targets) =
            (runtime.from_slice(&labels, [batch]).unwrap(), runtime.from_slice(&targets, [batch, 4]).unwrap());
        for (number, metric) in all.iter().enumerate() {
            metric.update(if number < 3 { &labels } else { &targets }, &predicted).unwrap();
        }
    }
    let found: Vec<f64> = all.iter().map(|metric| metric.get().unwrap()).collect();
    let expected = [
        sums[0] / rows,
        sums[1] / rows,
        sums[2] / rows,
        sums[3] / count,
        (sums[3] / count).sqrt(),
        sums[5] / count,
        sums[6] / count,
    ];
    assert_eq!(found, expected);
    assert!(found[0] > 0.0 && found[0] < found[1] && found[1] < 1.0);
    all[0].reset().unwrap();
    assert!(all[0].get().unwrap().is_nan());
    // Of equal predictions the first counts; a class that there is not is left out.
    let equal = runtime.from_slice(&[0.5f32, 0.5, 0.5, 0.5, 0.1, 0.9], [3, 2]).unwrap();
    all[0].update(&runtime.from_slice(&[1.0f32, 0.0, 2.0], [3]).unwrap(), &equal).unwrap();
    assert_eq!(all[0].get().unwrap(), 0.5);
    let kind = |labels: &NDArray, predictions: &NDArray| all[0].update(labels, predictions).unwrap_err().kind();
    assert_eq!(kind(&equal, &equal), ErrorKind::ShapeMismatch);
    let whole = runtime.from_slice(&[1i64, 0, 2], [3]).unwrap();
    assert_eq!(kind(&whole, &equal), ErrorKind::UnsupportedType);
}
