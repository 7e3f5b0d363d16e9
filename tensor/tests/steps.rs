//! Steps: what is captured gives the same bits as what is pushed, on every engine and with any
//! number of workers; and what a step cannot have is refused with its kind of error.

mod common;

use common::{runtime, runtimes, Draws};
use rand_core::RngCore;
use seriatim::{Context, Kind};
use seriatim_tensor::autograd::Function;
use seriatim_tensor::initializer::Initializer;
use seriatim_tensor::metric::{self, Metric};
use seriatim_tensor::operator::{Op, SimpleOp};
use seriatim_tensor::optimizer::{Adam, Ftrl, Nag, Schedule, Sgd};
use seriatim_tensor::resource::ResourceRequest;
use seriatim_tensor::step::Returned;
use seriatim_tensor::{autograd, DType, Distribution, Error, ErrorKind, NDArray, OpReq, Parameter, Runtime, Step};

const RUNS: usize = 6;
const BATCH: usize = 12;

/// Makes a case on a runtime.
type Make = fn(&Runtime) -> Result<Case, Error>;

type Body = Box<dyn FnMut(&[NDArray]) -> Result<Vec<NDArray>, Error>>;

/// A closure to be pushed or captured, with what it changes.
struct Case {
    body: Body,
    watched: Vec<NDArray>,
    /// What the program does before each run.
    before: Box<dyn FnMut(usize) -> Result<(), Error>>,
}

impl Case {
    fn new(
        watched: Vec<NDArray>,
        body: impl FnMut(&[NDArray]) -> Result<Vec<NDArray>, Error> + 'static,
    ) -> Result<Case, Error> {
        Ok(Case { body: Box::new(body), watched, before: Box::new(|_| Ok(())) })
    }
}

fn bits(arrays: &[NDArray]) -> Result<Vec<u64>, Error> {
    let mut all = Vec::new();
    for array in arrays {
        all.extend(array.astype(DType::F64)?.to_vec::<f64>()?.iter().map(|value| value.to_bits()));
    }
    Ok(all)
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Pushed,
    /// Without a wait until the last run.
    Ahead,
    Captured,
    CapturedAhead,
}

/// Data and labels of a run.
fn inputs(runtime: &Runtime, draws: &mut Draws) -> Result<[NDArray; 2], Error> {
    let data: Vec<f32> = draws.values(BATCH * 9, -1.0, 1.0).iter().map(|value| *value as f32).collect();
    let label: Vec<f32> = (0..BATCH).map(|_| draws.below(5) as f32).collect();
    Ok([runtime.from_slice(&data, [BATCH, 9])?, runtime.from_slice(&label, [BATCH])?])
}

/// Runs a case; returns the bits of all that it returns and changes, after each run or the last.
fn run(make: Make, runtime: &Runtime, way: Way) -> Result<Vec<Vec<u64>>, Error> {
    runtime.seed(11)?;
    let mut case = make(runtime)?;
    let mut draws = Draws::new(9);
    let mut step = None;
    if matches!(way, Way::Captured | Way::CapturedAhead) {
        let [data, label] = inputs(runtime, &mut Draws::new(1))?;
        step = Some(Step::capture(&[&data, &label], &mut case.body)?);
    }
    let mut found = Vec::new();
    for number in 0..RUNS {
        (case.before)(number)?;
        let [data, label] = inputs(runtime, &mut draws)?;
        let returned = match &mut step {
            Some(step) => step.run(&[&data, &label])?.clone(),
            None => (case.body)(&[data.copy()?, label.copy()?])?,
        };
        if number + 1 == RUNS || matches!(way, Way::Pushed | Way::Captured) {
            found.push([bits(&returned)?, bits(&case.watched)?].concat());
        }
    }
    Ok(found)
}

fn weights(runtime: &Runtime, shapes: &[&[usize]]) -> Result<Vec<NDArray>, Error> {
    let of = |shape: &&[usize]| {
        let weight = Initializer::Normal { deviation: 0.3 }.make(runtime, shape, DType::F32)?;
        weight.attach_grad(OpReq::Write)?;
        Ok(weight)
    };
    shapes.iter().map(of).collect()
}

/// A perceptron of two layers.
struct Network {
    ops: [Op; 4],
    weights: Vec<NDArray>,
}

impl Network {
    fn new(runtime: &Runtime) -> Result<Network, Error> {
        let ops = [
            Op::new("FullyConnected", &[("num_hidden", "7")])?,
            Op::new("Activation", &[("act_type", "tanh")])?,
            Op::new("FullyConnected", &[("num_hidden", "5")])?,
            Op::new("SoftmaxOutput", &[])?,
        ];
        Ok(Network { ops, weights: weights(runtime, &[&[7, 9], &[7], &[5, 7], &[5]])? })
    }

    fn forward(&self, data: &NDArray) -> Result<NDArray, Error> {
        let [w1, b1, w2, b2] = &self.weights[..] else { unreachable!("there are four") };
        let hidden = self.ops[1].invoke(&[&self.ops[0].invoke(&[data, w1, b1])?])?;
        self.ops[2].invoke(&[&hidden, w2, b2])
    }

    fn backward(&self, data: &NDArray, label: &NDArray) -> Result<NDArray, Error> {
        let out = autograd::record(|| self.ops[3].invoke(&[&self.forward(data)?, label]))?;
        autograd::backward(&[&out])?;
        Ok(out)
    }

    fn watched(&self) -> Vec<NDArray> {
        self.weights.iter().cloned().chain(self.weights.iter().map(|weight| weight.grad().unwrap())).collect()
    }

    fn all(&self) -> Vec<&NDArray> {
        self.weights.iter().collect()
    }
}

fn inference(runtime: &Runtime) -> Result<Case, Error> {
    let network = Network::new(runtime)?;
    Case::new(network.weights.clone(), move |inputs| {
        let scores = network.forward(&inputs[0])?;
        Ok(vec![scores.softmax()?, Op::new("argmax", &[("axis", "1")])?.invoke(&[&scores])?])
    })
}

fn sgd_with_a_schedule(runtime: &Runtime) -> Result<Case, Error> {
    let network = Network::new(runtime)?;
    let mut sgd = Sgd::new(Schedule::cosine(0.2, 5, 0.01)?.warm_up(2, 0.05)?, 0.9, 1e-3)?;
    Case::new(network.watched(), move |inputs| {
        let out = network.backward(&inputs[0], &inputs[1])?;
        sgd.step(&network.all(), 1.0 / BATCH as f64)?;
        Ok(vec![out])
    })
}

fn adam_with_its_number(runtime: &Runtime) -> Result<Case, Error> {
    let network = Network::new(runtime)?;
    let mut adam = Adam::new(0.02)?.decay(1e-3)?;
    let accuracy = Metric::new(runtime, metric::Kind::Accuracy)?;
    let watched = network.watched();
    // The first step is pushed: the captured ones go on behind it.
    let zeros = [runtime.zeros([BATCH, 9], DType::F32)?, runtime.zeros([BATCH], DType::F32)?];
    network.backward(&zeros[0], &zeros[1])?;
    adam.step(&network.all(), 1.0)?;
    let clock = adam.states();
    Case::new([watched, clock].concat(), move |inputs| {
        let out = network.backward(&inputs[0], &inputs[1])?;
        accuracy.update(&inputs[1], &out)?;
        adam.step(&network.all(), 1.0 / BATCH as f64)?;
        Ok(vec![out])
    })
}

fn nag(runtime: &Runtime) -> Result<Case, Error> {
    let network = Network::new(runtime)?;
    let mut nag = Nag::new(Schedule::factor(0.2, 2, 0.5, 0.0)?, 0.9, 1e-3)?;
    Case::new(network.watched(), move |inputs| {
        let out = network.backward(&inputs[0], &inputs[1])?;
        nag.step(&network.all(), 1.0 / BATCH as f64)?;
        Ok(vec![out])
    })
}

fn ftrl(runtime: &Runtime) -> Result<Case, Error> {
    let network = Network::new(runtime)?;
    let mut ftrl = Ftrl::new(Schedule::factor(0.2, 2, 0.5, 0.0)?)?.lamda1(1e-4)?;
    Case::new(network.watched(), move |inputs| {
        let out = network.backward(&inputs[0], &inputs[1])?;
        ftrl.step(&network.all(), 1.0 / BATCH as f64)?;
        Ok(vec![out])
    })
}

/// A squared distance with a gradient of its own, which is taken to a power that runs read.
struct Distance {
    power: Parameter<f32>,
    saved: Option<NDArray>,
}

impl Function for Distance {
    fn forward(&mut self, inputs: &[&NDArray]) -> Result<Vec<NDArray>, Error> {
        let apart = inputs[0].sub(inputs[1])?;
        self.saved = Some(apart.clone());
        Ok(vec![apart.square()?.mul(self.power.array())?, apart])
    }

    fn backward(&mut self, out_grads: &[NDArray]) -> Result<Vec<Option<NDArray>>, Error> {
        let Some(apart) = &self.saved else { return Ok(vec![None; 2]) };
        let grad = apart.mul(&out_grads[0])?.mul(self.power.array())?.mul_scalar(2.0)?.add(&out_grads[1])?;
        Ok(vec![Some(grad.clone()), Some(grad.negative()?)])
    }
}

/// A function of the program whose gradients are its own.
fn function(runtime: &Runtime) -> Result<Case, Error> {
    let power = runtime.parameter(0.5f32)?;
    let weight = runtime.full([9], DType::F32, 0.5)?;
    weight.attach_grad(OpReq::Write)?;
    let mut sgd = Sgd::new(0.1, 0.9, 0.0)?;
    let set = power.clone();
    let case = Case::new(vec![weight.clone(), weight.grad()?], move |inputs| {
        let distance = || {
            let own = weight.broadcast_to([BATCH, 9])?;
            let outputs = autograd::apply(Distance { power: power.clone(), saved: None }, &[&own, &inputs[0]])?;
            outputs[0].add(&outputs[1].sin()?)?.mean()
        };
        let loss = autograd::record(distance)?;
        autograd::backward(&[&loss])?;
        sgd.step(&[&weight], 1.0)?;
        Ok(vec![loss])
    })?;
    Ok(Case { before: Box::new(move |number| set.set(0.5 + number as f32 / 8.0)), ..case })
}

/// Draws, a permutation, and a generator that is seeded by a parameter in between.
fn random_numbers(runtime: &Runtime) -> Result<Case, Error> {
    let (own, seed) = (runtime.clone(), runtime.parameter(5i64)?);
    let set = seed.clone();
    let case = Case::new(Vec::new(), move |inputs| {
        let uniform = Distribution::Uniform { low: 0.0, high: 1.0 };
        let noise = own.random([BATCH, 9], DType::F32, uniform)?;
        let kept = noise.greater_scalar(0.4)?.mul(&inputs[0])?;
        let order = own.permutation(33)?;
        own.seed_by(&seed)?;
        let repeated = own.random([3], DType::F64, Distribution::Normal { mean: 1.0, deviation: 2.0 })?;
        Ok(vec![kept, order, repeated, own.random([3], DType::I32, Distribution::Whole { low: 0, high: 99 })?])
    })?;
    // The seed stays for two runs, then changes.
    Ok(Case { before: Box::new(move |number| set.set(5 + number as i64 / 2)), ..case })
}

/// Factors that the program changes between runs, gradients that are added, and an array that
/// counts.
fn parameters(runtime: &Runtime) -> Result<Case, Error> {
    let (factor, rate) = (runtime.parameter(0.5f32)?, runtime.parameter(0.1f64)?);
    let weight = runtime.full([9], DType::F32, 0.5)?;
    weight.attach_grad(OpReq::Add)?;
    let count = runtime.zeros([], DType::I64)?;
    let mut sgd = Sgd::new(&rate, 0.5, 0.0)?;
    let (set, set_rate): (Parameter<f32>, Parameter<f64>) = (factor.clone(), rate.clone());
    let case = Case::new(vec![weight.clone(), weight.grad()?, count.clone()], move |inputs| {
        count.add_scalar_assign(1.0)?;
        let loss = autograd::record(|| inputs[0].mul(&weight)?.mul(factor.array())?.square()?.mean())?;
        autograd::backward(&[&loss])?;
        sgd.step(&[&weight], 1.0)?;
        Ok(vec![loss, factor.array().copy()?])
    })?;
    let before = move |number: usize| {
        set.set(0.5 + number as f32)?;
        if number % 2 == 0 {
            set_rate.set(0.1 / (1.0 + number as f64))?;
        }
        Ok(())
    };
    Ok(Case { before: Box::new(before), ..case })
}

/// Arrays that a pushed call would find fresh: written in part, added to, or changed in place.
fn fresh_arrays(runtime: &Runtime) -> Result<Case, Error> {
    let own = runtime.clone();
    Case::new(Vec::new(), move |inputs| {
        let part = own.empty([4], DType::F32)?;
        part.slice(0, 1, 3, 1)?.fill(2.0)?;
        part.slice(0, 2, 4, 1)?.add_scalar_assign(3.0)?;
        let sum = own.zeros([BATCH, 9], DType::F32)?;
        Op::new("square", &[])?.invoke_into(&[&inputs[0]], &[(&sum, OpReq::Add)])?;
        let added = own.empty([BATCH, 9], DType::F32)?;
        added.slice(0, 0, 1, 1)?.fill(0.25)?;
        Op::new("square", &[])?.invoke_into(&[&inputs[0]], &[(&added, OpReq::Add)])?;
        let only_added = own.empty([BATCH, 9], DType::F32)?;
        Op::new("square", &[])?.invoke_into(&[&inputs[0]], &[(&only_added, OpReq::Add)])?;
        // A result in one half, and what is changed in place in the other.
        let halves = own.empty([BATCH, 9], DType::F32)?;
        inputs[0].slice(0, 0, 6, 1)?.copy_to(&halves.slice(0, 0, 6, 1)?)?;
        halves.slice(0, 6, BATCH, 1)?.add_scalar_assign(1.0)?;
        inputs[0].mul_scalar_assign(2.0)?;
        let copied = own.from_slice(&[1.5f32, 2.5, 3.5], [3])?;
        copied.mul_assign(&copied)?;
        let flags = own.from_slice(&[true, false, true], [3])?;
        // A result of the run before would be seen here.
        let inner = own.empty([2, 2], DType::F64)?;
        inner.at(0)?.fill(1.0)?;
        inner.transpose()?.at(1)?.add_scalar_assign(1.0)?;
        Ok(vec![
            part,
            sum,
            added,
            only_added,
            halves,
            inputs[0].clone(),
            copied,
            flags,
            inner.sum()?,
            inner.mul_scalar(2.0)?,
        ])
    })
}

/// Operators of the program's own, with temporary space and a generator, in sequence and side by
/// side.
fn resources(_: &Runtime) -> Result<Case, Error> {
    let noisy = SimpleOp::unary("noisy", |x, env, out, req| {
        let [space, random] = &mut *env.ctx.requested else {
            return Err(Error::new(ErrorKind::WrongArguments, "two resources were asked for"));
        };
        let (values, generator) = (space.get_space::<f64>(x.0.size())?, random.get_random()?);
        x.0.reader::<f64>().fill(values);
        for value in &mut *values {
            *value += f64::from(generator.next_u32()) / f64::from(u32::MAX);
        }
        out.writer::<f64>(req).put(values);
        Ok(())
    });
    let registered = noisy.resource_requests(&[ResourceRequest::TempSpace, ResourceRequest::Random]).register();
    assert!(registered.is_ok() || registered.unwrap_err().kind() == ErrorKind::AlreadyRegistered);
    let noisy = Op::new("noisy", &[])?;
    Case::new(Vec::new(), move |inputs| {
        let one = noisy.invoke(&[&inputs[0]])?;
        Ok(vec![noisy.invoke(&[&one])?, noisy.invoke(&[&inputs[1]])?, one])
    })
}

/// A random program of views, changes in place, reductions and gradients, on arrays from inside and
/// outside.
fn mix(runtime: &Runtime) -> Result<Case, Error> {
    let outside = weights(runtime, &[&[BATCH, 9], &[BATCH, 9], &[9]])?;
    let watched = outside.iter().cloned().chain(outside.iter().map(|weight| weight.grad().unwrap())).collect();
    Case::new(watched, move |inputs| {
        let mut draws = Draws::new(21);
        let mut arrays = vec![inputs[0].clone(), outside[0].clone(), inputs[0].add(&outside[2])?];
        for _ in 0..40 {
            let (to, from) = (draws.below(arrays.len()), arrays[draws.below(arrays.len())].clone());
            match draws.below(7) {
                0 => arrays.push(arrays[to].mul(&from)?.tanh()?),
                1 => arrays[to].add_assign(&from.tanh()?)?,
                2 => arrays[to].slice(1, 1, 9, 2)?.sub_assign(&from.slice(1, 0, 8, 2)?)?,
                3 => arrays[to] = from.softmax()?,
                4 => arrays[to].transpose()?.at(draws.below(9))?.mul_scalar_assign(0.5)?,
                5 => {
                    let loss = autograd::record(|| outside[1].mul(&from.detach())?.add(&outside[2])?.sin()?.sum())?;
                    autograd::backward(&[&loss])?;
                    outside[1].grad()?.mul_scalar(0.01)?.copy_to(&arrays[to])?;
                }
                _ => arrays[to].sub_assign(&from.mean()?)?,
            }
        }
        Ok(arrays)
    })
}

#[test]
fn captured_steps_give_the_bits_of_pushed_ones() {
    let cases: [(&str, Make); 11] = [
        ("inference", inference),
        ("sgd", sgd_with_a_schedule),
        ("adam", adam_with_its_number),
        ("nag", nag),
        ("ftrl", ftrl),
        ("function", function),
        ("random", random_numbers),
        ("parameters", parameters),
        ("fresh", fresh_arrays),
        ("resources", resources),
        ("mix", mix),
    ];
    for (name, make) in cases {
        let mut expected: Option<Vec<Vec<u64>>> = None;
        for (engine, runtime) in runtimes() {
            for way in [Way::Pushed, Way::Captured, Way::Ahead, Way::CapturedAhead] {
                let found = run(make, &runtime, way).unwrap_or_else(|error| panic!("{name} {engine} {way:?}: {error}"));
                let expected = expected.get_or_insert_with(|| found.clone());
                let same = if found.len() == 1 { found[0] == expected[RUNS - 1] } else { found == *expected };
                assert!(same, "{name} on {engine}, {way:?}");
            }
        }
        // Runs differ, but for the ones that should not: so a step that did nothing is noticed.
        let expected = expected.unwrap();
        assert!(expected.windows(2).all(|pair| pair[0] != pair[1]), "{name}");
    }
}

#[test]
fn a_schedule_and_a_number_of_steps_go_on_in_captured_steps() {
    let runtime = runtime(Kind::Pooled, 2);
    let weight = runtime.zeros([1], DType::F64).unwrap();
    weight.attach_grad(OpReq::Write).unwrap();
    weight.grad().unwrap().fill(1.0).unwrap();
    let mut sgd = Sgd::new(Schedule::factor(0.5, 2, 0.5, 0.0).unwrap(), 0.0, 0.0).unwrap();
    let mut step = Step::capture_on(&runtime, &[], |_| sgd.step(&[&weight], 1.0)).unwrap();
    (0..4).for_each(|_| _ = step.run(&[]).unwrap());
    sgd.step(&[&weight], 1.0).unwrap();
    assert_eq!(weight.as_scalar::<f64>().unwrap(), -(0.5 + 0.5 + 0.25 + 0.25 + 0.125));
    // A learning rate that is a number is replaced for captured steps too.
    let mut sgd = Sgd::new(1.0, 0.0, 0.0).unwrap();
    let mut step = Step::capture_on(&runtime, &[], |_| sgd.step(&[&weight], 1.0)).unwrap();
    weight.fill(0.0).unwrap();
    step.run(&[]).unwrap();
    sgd.set_learning_rate(0.25).unwrap();
    step.run(&[]).unwrap();
    assert_eq!(weight.as_scalar::<f64>().unwrap(), -1.25);
}

#[test]
fn steps_of_two_shapes_share_weights_and_an_optimiser() {
    let train = |runtime: &Runtime, captured: bool| {
        runtime.seed(3).unwrap();
        let network = Network::new(runtime).unwrap();
        let mut adam = Adam::new(0.05).unwrap();
        let of = Distribution::Uniform { low: -1.0, high: 1.0 };
        let inputs = [8, 5].map(|batch| {
            (runtime.random([batch, 9], DType::F32, of).unwrap(), runtime.ones([batch], DType::F32).unwrap())
        });
        let mut once = |data: &NDArray, label: &NDArray| {
            network.backward(data, label)?;
            adam.step(&network.all(), 1.0 / data.shape().dims()[0] as f64)
        };
        if captured {
            let mut steps = Vec::new();
            for (data, label) in &inputs {
                steps.push(Step::capture(&[data, label], |given| once(&given[0], &given[1])).unwrap());
            }
            let refused = steps[0].run(&[&inputs[1].0, &inputs[1].1]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ShapeMismatch, "{refused}");
            for number in [0, 0, 1, 0, 1] {
                steps[number].run(&[&inputs[number].0, &inputs[number].1]).unwrap();
            }
        } else {
            [0, 0, 1, 0, 1].into_iter().for_each(|number: usize| once(&inputs[number].0, &inputs[number].1).unwrap());
        }
        bits(&network.weights).unwrap()
    };
    let runtime = runtime(Kind::PerDevice, 2);
    assert_eq!(train(&runtime, true), train(&runtime, false));
}

/// A call that a step cannot have, on its input.
type Refused<'a> = &'a mut dyn FnMut(&NDArray) -> Result<(), Error>;

fn kind<R>(result: Result<R, Error>) -> ErrorKind {
    match result {
        Ok(_) => panic!("it should be refused"),
        Err(error) => error.kind(),
    }
}

#[test]
fn what_a_step_cannot_have_is_refused() {
    let engine = runtime(Kind::Pooled, 1);
    let x = engine.from_slice(&[1.0f32, 2.0], [2]).unwrap();
    let parameter = engine.parameter(1.0f32).unwrap();
    let mut other = Step::capture(&[&x], |inputs| inputs[0].sum()).unwrap();
    let refused: [(&str, Refused<'_>); 12] = [
        ("to_vec", &mut |x| x.to_vec::<f32>().map(drop)),
        ("as_scalar", &mut |x| x.sum()?.as_scalar::<f32>().map(drop)),
        ("copy_to_slice", &mut |x| x.copy_to_slice(&mut [0.0f32; 2])),
        ("wait_to_read", &mut |x| x.wait_to_read()),
        ("wait_to_write", &mut |x| x.wait_to_write()),
        ("wait_all", &mut |x| x.runtime().wait_all()),
        ("attach_grad", &mut |x| x.square()?.attach_grad(OpReq::Write)),
        ("set", &mut |_| parameter.set(2.0)),
        ("parameter", &mut |x| x.runtime().parameter(2.0f32).map(drop)),
        ("get", &mut |_| parameter.get().map(drop)),
        ("capture", &mut |x| Step::capture(&[x], |inputs| inputs[0].sum()).map(drop)),
        ("run", &mut |x| other.run(&[x]).map(drop)),
    ];
    for (name, refused) in refused {
        let mut found = None;
        let whole = Step::capture(&[&x], |inputs| {
            found = Some(kind(refused(&inputs[0])));
            // The closure may go on.
            inputs[0].sum()
        });
        assert_eq!(found, Some(ErrorKind::Capturing), "{name}");
        assert_eq!(whole.unwrap().run(&[&x]).unwrap().as_scalar::<f32>().unwrap(), 3.0, "{name}");
        // An error of the closure is that of the capture.
        let whole = Step::capture(&[&x], |inputs| refused(&inputs[0]));
        assert_eq!(kind(whole), ErrorKind::Capturing, "{name}");
    }
    // Recording, and arrays of other runtimes.
    let weight = engine.from_slice(&[1.0f32, 2.0], [2]).unwrap();
    weight.attach_grad(OpReq::Write).unwrap();
    assert_eq!(kind(autograd::record(|| Step::capture(&[&x], |inputs| inputs[0].sum()))), ErrorKind::Recording);
    assert_eq!(kind(autograd::record(|| other.run(&[&x]).map(drop))), ErrorKind::Recording);
    let outside = autograd::record(|| weight.square()).unwrap();
    let inner = Step::capture(&[&x], |_| autograd::backward(&[&outside]));
    assert_eq!(kind(inner), ErrorKind::NotRecorded);
    autograd::backward(&[&outside]).unwrap();
    assert_eq!(weight.grad().unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
    let foreign = runtime(Kind::Naive, 0).from_slice(&[1.0f32, 2.0], [2]).unwrap();
    assert_eq!(kind(Step::capture(&[&x, &foreign], |inputs| inputs[0].sum())), ErrorKind::ForeignArray);
    assert_eq!(kind(Step::capture(&[&x], |_| foreign.sum())), ErrorKind::ForeignArray);
    assert_eq!(kind(Step::capture(&[&x], |_| foreign.fill(1.0))), ErrorKind::ForeignArray);
    // Inputs that are not those of the capture.
    assert_eq!(kind(other.run(&[&foreign])), ErrorKind::ForeignArray);
    assert_eq!(kind(other.run(&[])), ErrorKind::WrongArguments);
    assert_eq!(kind(other.run(&[&x.astype(DType::F64).unwrap()])), ErrorKind::UnsupportedType);
    assert_eq!(kind(other.run(&[&engine.zeros([3], DType::F32).unwrap()])), ErrorKind::ShapeMismatch);
    assert_eq!(other.run(&[&x]).unwrap().as_scalar::<f32>().unwrap(), 3.0);
    engine.wait_all().unwrap();
}

#[test]
fn arrays_from_inside_cannot_be_used_outside_unless_they_are_returned() {
    for (name, runtime) in runtimes() {
        let x = runtime.from_slice(&[1.0f32, 2.0], [2]).unwrap();
        let mut escaped = Vec::new();
        let mut step = Step::capture(&[&x], |inputs| {
            let square = inputs[0].square()?;
            escaped.push(square.clone());
            escaped.push(square.slice(0, 0, 1, 1)?);
            square.sum()
        })
        .unwrap();
        for dropped in [false, true] {
            for array in &escaped {
                assert_eq!(kind(array.to_vec::<f32>()), ErrorKind::InsideStep, "{name}");
                assert_eq!(kind(array.sum()), ErrorKind::InsideStep, "{name}");
                assert_eq!(kind(array.fill(1.0)), ErrorKind::InsideStep, "{name}");
                assert_eq!(kind(x.mul(&array.slice(0, 0, 1, 1).unwrap())), ErrorKind::InsideStep, "{name}");
                assert_eq!(kind(Step::capture(&[&x], |_| array.sum())), ErrorKind::InsideStep, "{name}");
            }
            if !dropped {
                let returned = step.run(&[&x]).unwrap().clone();
                drop(std::mem::replace(&mut step, Step::capture(&[&x], |inputs| inputs[0].sum()).unwrap()));
                // What is returned outlives the step, with the values of its last run.
                assert_eq!(returned.as_scalar::<f32>().unwrap(), 5.0, "{name}");
            }
        }
        drop(escaped);
        runtime.wait_all().unwrap();
    }
}

#[test]
fn the_memory_of_a_step_ends_with_it() {
    for (name, runtime) in runtimes() {
        let live = || runtime.storage().statistics(Context::cpu(0)).unwrap().live;
        runtime.wait_all().unwrap();
        let before = live();
        let x = runtime.random([64, 64], DType::F32, Distribution::Uniform { low: 0.0, high: 1.0 }).unwrap();
        let mut escaped = None;
        let mut step = Step::capture(&[&x], |inputs| {
            let doubled = inputs[0].mul_scalar(2.0)?;
            escaped = Some(doubled.clone());
            doubled.dot(&inputs[0])?.sum()
        })
        .unwrap();
        (0..20).for_each(|_| _ = step.run(&[&x]).unwrap());
        // The runs are under way.
        drop(step);
        drop(x);
        drop(escaped);
        // A closure that fails leaves nothing either.
        let x = runtime.ones([64], DType::F32).unwrap();
        let failed = Step::capture(&[&x], |inputs| {
            let product = inputs[0].mul(&inputs[0])?;
            autograd::record(|| product.reshape([3, 3]))
        });
        assert_eq!(kind(failed), ErrorKind::ShapeMismatch);
        drop(x);
        // A thread may still be about to leave the last run.
        for _ in 0..1000 {
            runtime.wait_all().unwrap();
            if live() == before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!((live(), runtime.lost()), (before, 0), "{name}");
    }
}

#[test]
fn a_failure_in_a_run_is_the_error_of_a_wait() {
    for (name, runtime) in runtimes() {
        let x = runtime.from_slice(&[1.0f32, 2.0], [2]).unwrap();
        let (state, never) = (runtime.zeros([2], DType::F32).unwrap(), runtime.empty([2], DType::F32).unwrap());
        let mut step = Step::capture(&[&x], |inputs| {
            let sum = inputs[0].add(&never)?;
            state.add_assign(&sum)?;
            Ok((sum.sum()?, inputs[0].square()?))
        })
        .unwrap();
        let (sum, square) = step.run(&[&x]).unwrap().clone();
        // What does not depend on the failure is computed.
        assert_eq!(square.to_vec::<f32>().unwrap(), [1.0, 4.0], "{name}");
        let error = sum.to_vec::<f32>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unwritten, "{name}");
        assert!(error.to_string().contains("'elemwise_add'"), "{error}");
        // A wait has taken it, and what was missing is there now.
        never.fill(1.0).unwrap();
        assert_eq!(step.run(&[&x]).unwrap().0.as_scalar::<f32>().unwrap(), 5.0, "{name}");
        assert_eq!(state.to_vec::<f32>().unwrap(), [2.0, 3.0], "{name}");
        // An array that nothing in the step has written.
        let mut empty = Step::capture_on(&runtime, &[], |_| runtime.empty([2], DType::F32)?.sum()).unwrap();
        for _ in 0..2 {
            assert_eq!(kind(empty.run(&[]).unwrap().to_vec::<f32>()), ErrorKind::Unwritten, "{name}");
        }
    }
}

#[test]
fn a_panic_in_the_closure_leaves_the_thread_as_it_was() {
    let x = NDArray::from_slice(&[1.0f32, 2.0], [2]).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = Step::capture(&[&x], |inputs| {
            let _kept = inputs[0].square()?;
            autograd::record(|| panic!("in a closure"));
            inputs[0].sum()
        });
    }));
    assert!(panicked.is_err() && !autograd::is_recording());
    assert_eq!(x.square().unwrap().to_vec::<f32>().unwrap(), [1.0, 4.0]);
    let mut step = Step::capture(&[&x], |inputs| inputs[0].sum()).unwrap();
    assert_eq!(step.run(&[&x]).unwrap().as_scalar::<f32>().unwrap(), 3.0);
}

#[test]
fn a_capture_leaves_what_was_recorded_before() {
    let x = NDArray::from_slice(&[3.0f32], [1]).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    let y = autograd::record(|| x.square()).unwrap();
    Step::capture(&[&x], |inputs| autograd::record(|| inputs[0].exp())).unwrap();
    autograd::backward(&[&y]).unwrap();
    assert_eq!(x.grad().unwrap().as_scalar::<f32>().unwrap(), 6.0);
}

#[test]
fn every_array_of_what_is_returned_is_usable() {
    let x = NDArray::from_slice(&[2.0f32], [1]).unwrap();
    let mut step = Step::capture(&[&x], |inputs| {
        let by = |factor: f64| inputs[0].mul_scalar(factor);
        Ok((Some(by(1.0)?), vec![by(2.0)?, by(3.0)?], [by(4.0)?, by(5.0)?], (by(6.0)?, (by(7.0)?,), by(8.0)?)))
    })
    .unwrap();
    let mut found = Vec::new();
    step.run(&[&x]).unwrap().visit(&mut |array| found.push(array.clone()));
    let (one, two, three, (four, (five,), six)) = step.returned();
    let all = one.iter().chain(two).chain(three).chain([four, five, six]);
    let values: Vec<f32> = all.map(|array| array.as_scalar::<f32>().unwrap()).collect();
    assert_eq!(values, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]);
    assert_eq!(found.len(), values.len());
}

#[test]
fn other_threads_push_while_one_captures() {
    let runtime = runtime(Kind::Pooled, 2);
    let x = runtime.from_slice(&[1.0f32, 2.0], [2]).unwrap();
    let total = runtime.zeros([2], DType::F32).unwrap();
    let mut step = Step::capture(&[&x], |inputs| {
        total.add_assign(&inputs[0])?;
        let pushed = std::thread::scope(|scope| {
            scope.spawn(|| total.add_scalar_assign(10.0).and_then(|()| total.to_vec::<f32>())).join().unwrap()
        });
        assert_eq!(pushed?, [10.0, 10.0]);
        Ok(())
    })
    .unwrap();
    assert_eq!(total.to_vec::<f32>().unwrap(), [10.0, 10.0]);
    step.run(&[&x]).unwrap();
    assert_eq!(total.to_vec::<f32>().unwrap(), [11.0, 12.0]);
}

#[test]
fn inputs_may_be_written_in_place_of_a_copy() {
    let x = NDArray::zeros([2], DType::F32).unwrap();
    let mut step = Step::capture(&[&x], |inputs| Ok([inputs[0].sum()?, inputs[0].clone()])).unwrap();
    let input = step.inputs()[0].clone();
    input.copy_from_slice(&[1.0f32, 2.0]).unwrap();
    assert_eq!(step.run(&[&input]).unwrap()[0].as_scalar::<f32>().unwrap(), 3.0);
    // The example is the program's, and stays as it is.
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0; 2]);
    // A view is copied, turned around as it is.
    let wide = NDArray::from_slice(&[1.0f32, 5.0, 2.0, 6.0], [2, 2]).unwrap();
    let column = wide.transpose().unwrap().at(1).unwrap();
    assert_eq!(step.run(&[&column]).unwrap()[1].to_vec::<f32>().unwrap(), [5.0, 6.0]);
    let none = Step::capture(&[], |_| Ok(())).unwrap();
    let mut visited = 0;
    none.returned().visit(&mut |_| visited += 1);
    step.returned().visit(&mut |_| visited += 1);
    assert_eq!((visited, none.graph().len()), (2, 0));
}

#[test]
fn each_run_draws_new_numbers() {
    for (name, runtime) in runtimes() {
        let uniform = Distribution::Uniform { low: 0.0, high: 1.0 };
        runtime.seed(4).unwrap();
        let mut draw = Step::capture_on(&runtime, &[], |_| runtime.random([5], DType::F64, uniform)).unwrap();
        let drawn: Vec<Vec<f64>> = (0..3).map(|_| draw.run(&[]).unwrap().to_vec().unwrap()).collect();
        assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2], "{name}");
        runtime.seed(4).unwrap();
        let pushed: Vec<Vec<f64>> =
            (0..3).map(|_| runtime.random([5], DType::F64, uniform).unwrap().to_vec().unwrap()).collect();
        assert_eq!(drawn, pushed, "{name}");
    }
}
