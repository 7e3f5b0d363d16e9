//! The network on arrays: its calls pushed one by one, or captured as a step.

use crate::plain::{CLASSES, HIDDEN, INPUTS, MOMENTUM, RATE};
use seriatim_tensor::operator::Op;
use seriatim_tensor::optimizer::Sgd;
use seriatim_tensor::{autograd, Error, NDArray, OpReq, Runtime, Step};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Task {
    Inference,
    Training,
}

struct Network {
    ops: [Op; 4],
    weights: [NDArray; 4],
}

impl Network {
    fn new(runtime: &Runtime, weights: &[Vec<f32>]) -> Result<Network, Error> {
        let dense = |outputs: usize| Op::new("FullyConnected", &[("num_hidden", &outputs.to_string())]);
        let ops = [
            dense(HIDDEN)?,
            Op::new("Activation", &[("act_type", "relu")])?,
            dense(CLASSES)?,
            Op::new("SoftmaxOutput", &[])?,
        ];
        let of = |number: usize, shape: &[usize]| -> Result<NDArray, Error> {
            let weight = runtime.from_slice(&weights[number], shape)?;
            weight.attach_grad(OpReq::Write)?;
            Ok(weight)
        };
        let weights = [of(0, &[HIDDEN, INPUTS])?, of(1, &[HIDDEN])?, of(2, &[CLASSES, HIDDEN])?, of(3, &[CLASSES])?];
        Ok(Network { ops, weights })
    }

    fn scores(&self, data: &NDArray) -> Result<NDArray, Error> {
        let ([first, activation, second, _], [w1, b1, w2, b2]) = (&self.ops, &self.weights);
        let hidden = activation.invoke(&[&first.invoke(&[data, w1, b1])?])?;
        second.invoke(&[&hidden, w2, b2])
    }

    /// All calls of a task; the result is the probabilities.
    fn calls(&self, task: Task, sgd: &mut Sgd, data: &NDArray, labels: &NDArray) -> Result<NDArray, Error> {
        if task == Task::Inference {
            return self.scores(data)?.softmax();
        }
        let out = autograd::record(|| self.ops[3].invoke(&[&self.scores(data)?, labels]))?;
        autograd::backward(&[&out])?;
        sgd.step(&self.weights.each_ref(), 1.0 / labels.size() as f64)?;
        Ok(out)
    }
}

/// The network on a runtime.
pub struct Arrays {
    network: Network,
    sgd: Sgd,
    task: Task,
    data: NDArray,
    labels: NDArray,
    step: Option<Step>,
}

impl Arrays {
    pub fn new(
        runtime: &Runtime,
        task: Task,
        weights: &[Vec<f32>],
        (data, labels): (&[f32], &[f32]),
        captured: bool,
    ) -> Result<Arrays, Error> {
        let network = Network::new(runtime, weights)?;
        let mut sgd = Sgd::new(f64::from(RATE), f64::from(MOMENTUM), 0.0)?;
        let mut data = runtime.from_slice(data, [labels.len(), INPUTS])?;
        let mut labels = runtime.from_slice(labels, [labels.len()])?;
        let mut step = None;
        if captured {
            let made =
                Step::capture(&[&data, &labels], |inputs| network.calls(task, &mut sgd, &inputs[0], &inputs[1]))?;
            (data, labels) = (made.inputs()[0].clone(), made.inputs()[1].clone());
            step = Some(made);
        }
        runtime.wait_all()?;
        Ok(Arrays { network, sgd, task, data, labels, step })
    }

    /// How many operations the graph has.
    pub fn operations(&self) -> Option<usize> {
        self.step.as_ref().map(|step| step.graph().len())
    }

    /// Does the task and waits for the result: on data and labels that are copied in, with a result
    /// that is copied out, or on what is in the arrays.
    pub fn once(&mut self, batch: Option<(&[f32], &[f32])>, out: &mut [f32]) -> Result<(), Error> {
        if let Some((data, labels)) = batch {
            self.data.copy_from_slice(data)?;
            if self.task == Task::Training {
                self.labels.copy_from_slice(labels)?;
            }
        }
        let pushed;
        let result = match &mut self.step {
            Some(step) => step.run(&[&self.data, &self.labels])?,
            None => {
                pushed = self.network.calls(self.task, &mut self.sgd, &self.data, &self.labels)?;
                &pushed
            }
        };
        match batch {
            Some(_) => result.copy_to_slice(out)?,
            None => result.wait_to_read()?,
        }
        // Updates come behind the result.
        match self.task {
            Task::Training => self.network.weights.iter().try_for_each(NDArray::wait_to_read),
            Task::Inference => Ok(()),
        }
    }

    /// The weights, each with the inputs last.
    pub fn weights(&self) -> Result<Vec<Vec<f32>>, Error> {
        self.network.weights.iter().map(NDArray::to_vec).collect()
    }
}
