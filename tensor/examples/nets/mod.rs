//! The networks of `digits_train`: which layers each has, and its weights.
//!
//! Images have the shape (images, 1, 8, 8). A layer is an operator with as many weights as it has
//! arguments beside the data; the shapes of weights follow from the shape of the data.

use seriatim_tensor::operator::Op;
use seriatim_tensor::{DType, Distribution, Error, NDArray, OpReq, Runtime, Shape};

/// The side of an image.
pub const SIDE: usize = 8;
/// How many digits there are.
pub const CLASSES: usize = 10;

/// The layers of a network: the operator of each, and its parameters.
type Layers = &'static [(&'static str, &'static [(&'static str, &'static str)])];

/// A network before it has weights.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub name: &'static str,
    layers: Layers,
    /// How many of the test images the best of PyTorch, MXNet and scikit-learn reads right with
    /// this network, by the median of seeds.
    pub best: usize,
    /// A median below this is no chance. With the `cnn`, seeds of PyTorch have from 276 to 285
    /// right, and seeds here from 273 to 286; their median moves by some images with the rounding
    /// of a sum.
    pub enough: usize,
}

/// All networks.
pub const PLANS: [Plan; 2] = [
    Plan {
        name: "perceptron",
        layers: &[
            ("FullyConnected", &[("num_hidden", "32")]),
            ("Activation", &[("act_type", "tanh")]),
            ("FullyConnected", &[("num_hidden", "10")]),
        ],
        best: 274,
        enough: 273,
    },
    Plan {
        name: "cnn",
        layers: &[
            ("Convolution", &[("kernel", "(3,3)"), ("pad", "(1,1)"), ("num_filter", "8")]),
            ("Activation", &[("act_type", "relu")]),
            ("Pooling", &[("kernel", "(2,2)"), ("stride", "(2,2)")]),
            ("Convolution", &[("kernel", "(3,3)"), ("pad", "(1,1)"), ("num_filter", "16")]),
            ("Activation", &[("act_type", "relu")]),
            ("Pooling", &[("kernel", "(2,2)"), ("stride", "(2,2)")]),
            ("FullyConnected", &[("num_hidden", "64")]),
            ("Activation", &[("act_type", "relu")]),
            ("FullyConnected", &[("num_hidden", "10")]),
        ],
        best: 282,
        enough: 278,
    },
];

struct Layer {
    op: Op,
    weights: Vec<NDArray>,
}

/// A network: its layers with their weights, and the loss.
pub struct Network {
    layers: Vec<Layer>,
    loss: Op,
}

impl Network {
    /// Draws weights and biases from a uniform distribution within 1 / √inputs of a unit.
    pub fn new(plan: &Plan, runtime: &Runtime) -> Result<Network, Error> {
        let (mut layers, mut data) = (Vec::new(), Shape::new(&[1, 1, SIDE, SIDE])?);
        for (name, parameters) in plan.layers {
            let op = Op::new(name, parameters)?;
            let mut inputs = vec![None; op.property().list_arguments().len()];
            let mut out = [None];
            inputs[0] = Some(data);
            op.property().infer_shape(&mut inputs, &mut out, &mut [])?;
            let mut weights = Vec::new();
            // The weight comes before its bias, and its axes but the first are the inputs of a
            // unit.
            let mut bound = 0.0;
            for shape in inputs[1..].iter().flatten() {
                if let [_, others @ ..] = shape.dims() {
                    bound =
                        if others.is_empty() { bound } else { 1.0 / (others.iter().product::<usize>() as f64).sqrt() };
                }
                let weight = runtime.random(shape, DType::F32, Distribution::Uniform { low: -bound, high: bound })?;
                weight.attach_grad(OpReq::Write)?;
                weights.push(weight);
            }
            layers.push(Layer { op, weights });
            data = out[0].unwrap_or(data);
        }
        Ok(Network { layers, loss: Op::new("SoftmaxOutput", &[])? })
    }

    /// All weights, from the first layer on.
    pub fn weights(&self) -> Vec<&NDArray> {
        self.layers.iter().flat_map(|layer| &layer.weights).collect()
    }

    /// How many numbers the weights are.
    pub fn parameters(&self) -> usize {
        self.weights().iter().map(|weight| weight.size()).sum()
    }

    /// What comes out of the last layer.
    pub fn forward(&self, images: &NDArray) -> Result<NDArray, Error> {
        let mut data = images.clone();
        for Layer { op, weights } in &self.layers {
            let inputs: Vec<&NDArray> = [&data].into_iter().chain(weights).collect();
            data = op.invoke(&inputs)?;
        }
        Ok(data)
    }

    /// The softmax of what comes out, whose gradient is that of the cross entropy with labels.
    pub fn loss(&self, images: &NDArray, labels: &NDArray) -> Result<NDArray, Error> {
        self.loss.invoke(&[&self.forward(images)?, labels])
    }
}
