//! The networks on arrays: their calls pushed one by one, or captured as a step.

use crate::nets::{self, Network};
use crate::serve::{Entrant, Problem, Task};
use seriatim::{Engine, Kind};
use seriatim_tensor::optimizer::Sgd;
use seriatim_tensor::{autograd, Error, NDArray, Runtime, Step};

type Made<T> = Result<T, Box<dyn std::error::Error>>;

/// What one size of batch has: the arrays that calls read, and the step if it is captured.
struct Sized {
    data: NDArray,
    labels: NDArray,
    step: Option<Step>,
}

/// A network on a runtime.
pub struct Arrays {
    network: Network,
    weights: Vec<NDArray>,
    sgd: Sgd,
    task: Task,
    sizes: Vec<Sized>,
    is_in_place: bool,
}

/// All calls of a task; the result is the probabilities.
fn calls(network: &Network, sgd: &mut Sgd, task: Task, data: &NDArray, labels: &NDArray) -> Result<NDArray, Error> {
    if task == Task::Inference {
        return network.forward(data)?.softmax();
    }
    let out = autograd::record(|| network.loss(data, labels))?;
    autograd::backward(&[&out])?;
    sgd.step(&network.weights(), 1.0 / labels.size() as f64)?;
    Ok(out)
}

impl Arrays {
    pub fn new(runtime: &Runtime, problem: &Problem, is_captured: bool) -> Made<Arrays> {
        let (plans, training) = nets::read()?;
        let plan = plans.iter().find(|plan| plan.name == problem.name).ok_or("no such network")?;
        let mut weights = problem.weights.iter();
        let network = Network::new(plan, |shape, _| {
            let (_, values) = weights.next().map_or((&[][..], &[][..]), |(shape, values)| (shape, values));
            runtime.from_slice(values, shape)
        })?;
        let (mut sgd, mut sizes) = (training.optimiser()?, Vec::new());
        for size in problem.sizes() {
            let (data, labels) = problem.example(size);
            let mut data = runtime.from_slice(data, [&[size], &plan.input[..]].concat())?;
            let mut labels = runtime.from_slice(labels, [size])?;
            let mut step = None;
            if is_captured {
                let made = Step::capture(&[&data, &labels], |inputs| {
                    calls(&network, &mut sgd, problem.task, &inputs[0], &inputs[1])
                })?;
                (data, labels) = (made.inputs()[0].clone(), made.inputs()[1].clone());
                step = Some(made);
            }
            sizes.push(Sized { data, labels, step });
        }
        runtime.wait_all()?;
        let weights = network.weights().into_iter().cloned().collect();
        Ok(Arrays { network, weights, sgd, task: problem.task, sizes, is_in_place: problem.is_in_place })
    }

    /// Does the calls on the arrays of a size, and something with the result.
    fn run(&mut self, size: usize, then: impl FnOnce(&NDArray) -> Result<(), Error>) -> Result<(), Error> {
        let Sized { data, labels, step } = &mut self.sizes[size];
        match step {
            Some(step) => then(step.call(&[data, labels])?),
            None => then(&calls(&self.network, &mut self.sgd, self.task, data, labels)?),
        }
    }
}

impl Entrant for Arrays {
    fn infer(&mut self, data: &[f32], out: &mut [f32]) -> Made<()> {
        if self.is_in_place {
            return Ok(self.run(0, NDArray::wait_to_read)?);
        }
        self.sizes[0].data.copy_from_slice(data)?;
        Ok(self.run(0, |result| result.copy_to_slice(out))?)
    }

    fn train(&mut self, data: &[f32], labels: &[f32]) -> Made<()> {
        let size = self.sizes.iter().position(|size| size.labels.size() == labels.len()).ok_or("no such batch")?;
        self.sizes[size].data.copy_from_slice(data)?;
        self.sizes[size].labels.copy_from_slice(labels)?;
        self.run(size, NDArray::wait_to_read)?;
        // Updates come behind the result.
        Ok(self.weights.iter().try_for_each(NDArray::wait_to_read)?)
    }

    fn weights(&self) -> Made<Vec<Vec<f32>>> {
        Ok(self.weights.iter().map(NDArray::to_vec).collect::<Result<_, Error>>()?)
    }

    fn note(&self) -> Option<String> {
        self.sizes[0].step.as_ref().map(|step| format!("{} operations", step.graph().len()))
    }
}

/// A runtime where the caller runs everything, or one as it comes.
pub fn runtime(is_one_thread: bool) -> Made<Runtime> {
    let engine = if is_one_thread { Engine::builder().kind(Kind::Naive).build()? } else { Engine::new()? };
    Ok(Runtime::new(&engine))
}
