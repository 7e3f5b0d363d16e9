//! What the tests of steps capture and push: closures with networks, optimisers, random numbers,
//! parameters and resources, and a run of one in four ways.

use crate::common::Draws;
use rand_core::RngCore;
use seriatim_tensor::autograd::Function;
use seriatim_tensor::initializer::Initializer;
use seriatim_tensor::metric::{self, Metric};
use seriatim_tensor::operator::{Op, SimpleOp};
use seriatim_tensor::optimizer::{Adam, Ftrl, Nag, Schedule, Sgd};
use seriatim_tensor::resource::ResourceRequest;
use seriatim_tensor::{autograd, DType, Distribution, Error, ErrorKind, NDArray, OpReq, Parameter, Runtime, Step};

pub const RUNS: usize = 6;
pub const BATCH: usize = 12;

/// Makes a case on a runtime.
pub type Make = fn(&Runtime) -> Result<Case, Error>;

pub type Body = Box<dyn FnMut(&[NDArray]) -> Result<Vec<NDArray>, Error>>;

/// A closure to be pushed or captured, with what it changes.
pub struct Case {
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

pub fn bits(arrays: &[NDArray]) -> Result<Vec<u64>, Error> {
    let mut all = Vec::new();
    for array in arrays {
        all.extend(array.astype(DType::F64)?.to_vec::<f64>()?.iter().map(|value| value.to_bits()));
    }
    Ok(all)
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Way {
    Pushed,
    /// Without a wait until the last run.
    Ahead,
    Captured,
    CapturedAhead,
}

/// Data and labels of a run.
pub fn inputs(runtime: &Runtime, draws: &mut Draws) -> Result<[NDArray; 2], Error> {
    let data: Vec<f32> = draws.values(BATCH * 9, -1.0, 1.0).iter().map(|value| *value as f32).collect();
    let label: Vec<f32> = (0..BATCH).map(|_| draws.below(5) as f32).collect();
    Ok([runtime.from_slice(&data, [BATCH, 9])?, runtime.from_slice(&label, [BATCH])?])
}

/// Runs a case; returns the bits of all that it returns and changes, after each run or the last.
pub fn run(make: Make, runtime: &Runtime, way: Way) -> Result<Vec<Vec<u64>>, Error> {
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

pub fn weights(runtime: &Runtime, shapes: &[&[usize]]) -> Result<Vec<NDArray>, Error> {
    let of = |shape: &&[usize]| {
        let weight = Initializer::Normal { deviation: 0.3 }.make(runtime, shape, DType::F32)?;
        weight.attach_grad(OpReq::Write)?;
        Ok(weight)
    };
    shapes.iter().map(of).collect()
}

/// A perceptron of two layers.
pub struct Network {
    ops: [Op; 4],
    pub weights: Vec<NDArray>,
}

impl Network {
    pub fn new(runtime: &Runtime) -> Result<Network, Error> {
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

    pub fn backward(&self, data: &NDArray, label: &NDArray) -> Result<NDArray, Error> {
        let out = autograd::record(|| self.ops[3].invoke(&[&self.forward(data)?, label]))?;
        autograd::backward(&[&out])?;
        Ok(out)
    }

    fn watched(&self) -> Vec<NDArray> {
        self.weights.iter().cloned().chain(self.weights.iter().map(|weight| weight.grad().unwrap())).collect()
    }

    pub fn all(&self) -> Vec<&NDArray> {
        self.weights.iter().collect()
    }
}

pub fn inference(runtime: &Runtime) -> Result<Case, Error> {
    let network = Network::new(runtime)?;
    Case::new(network.weights.clone(), move |inputs| {
        let scores = network.forward(&inputs[0])?;
        Ok(vec![scores.softmax()?, Op::new("argmax", &[("axis", "1")])?.invoke(&[&scores])?])
    })
}

pub fn sgd_with_a_schedule(runtime: &Runtime) -> Result<Case, Error> {
    let network = Network::new(runtime)?;
    let mut sgd = Sgd::new(Schedule::cosine(0.2, 5, 0.01)?.warm_up(2, 0.05)?, 0.9, 1e-3)?;
    Case::new(network.watched(), move |inputs| {
        let out = network.backward(&inputs[0], &inputs[1])?;
        sgd.step(&network.all(), 1.0 / BATCH as f64)?;
        Ok(vec![out])
    })
}

pub fn adam_with_its_number(runtime: &Runtime) -> Result<Case, Error> {
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

pub fn nag(runtime: &Runtime) -> Result<Case, Error> {
    let network = Network::new(runtime)?;
    let mut nag = Nag::new(Schedule::factor(0.2, 2, 0.5, 0.0)?, 0.9, 1e-3)?;
    Case::new(network.watched(), move |inputs| {
        let out = network.backward(&inputs[0], &inputs[1])?;
        nag.step(&network.all(), 1.0 / BATCH as f64)?;
        Ok(vec![out])
    })
}

pub fn ftrl(runtime: &Runtime) -> Result<Case, Error> {
    let network = Network::new(runtime)?;
    let mut ftrl = Ftrl::new(Schedule::factor(0.2, 2, 0.5, 0.0)?)?.lamda1(1e-4)?;
    Case::new(network.watched(), move |inputs| {
        let out = network.backward(&inputs[0], &inputs[1])?;
        ftrl.step(&network.all(), 1.0 / BATCH as f64)?;
        Ok(vec![out])
    })
}

/// A squared distance with a gradient of its own, which is taken to a power that runs read.
pub struct Distance {
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
pub fn function(runtime: &Runtime) -> Result<Case, Error> {
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
pub fn random_numbers(runtime: &Runtime) -> Result<Case, Error> {
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
pub fn parameters(runtime: &Runtime) -> Result<Case, Error> {
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
pub fn fresh_arrays(runtime: &Runtime) -> Result<Case, Error> {
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
pub fn resources(_: &Runtime) -> Result<Case, Error> {
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
pub fn mix(runtime: &Runtime) -> Result<Case, Error> {
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
