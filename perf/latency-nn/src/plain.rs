//! The network as a plain loop: a perceptron with 64 inputs, 32 hidden elements and 10 classes, its
//! training step with a softmax loss, and gradient descent with momentum.
//!
//! Weights lie with the outputs last, so each loop over outputs becomes vectors. Where the
//! processor has AVX2, the loops are compiled for it, as the kernels of `seriatim-tensor` are.

pub const INPUTS: usize = 64;
pub const HIDDEN: usize = 32;
pub const CLASSES: usize = 10;
pub const RATE: f32 = 0.05;
pub const MOMENTUM: f32 = 0.9;

/// A layer with its gradients and momenta.
#[derive(Clone)]
pub struct Layer<const IN: usize, const OUT: usize> {
    pub weight: [[f32; OUT]; IN],
    pub bias: [f32; OUT],
    weight_grad: [[f32; OUT]; IN],
    bias_grad: [f32; OUT],
    weight_momentum: [[f32; OUT]; IN],
    bias_momentum: [f32; OUT],
}

impl<const IN: usize, const OUT: usize> Layer<IN, OUT> {
    /// Of weights that lie with the inputs last, as those of `FullyConnected`.
    fn new(weight: &[f32], bias: &[f32]) -> Self {
        let zeros = [[0.0; OUT]; IN];
        Layer {
            weight: std::array::from_fn(|input| std::array::from_fn(|output| weight[output * IN + input])),
            bias: std::array::from_fn(|output| bias[output]),
            weight_grad: zeros,
            bias_grad: [0.0; OUT],
            weight_momentum: zeros,
            bias_momentum: [0.0; OUT],
        }
    }

    #[inline(always)]
    fn forward(&self, x: &[f32; IN]) -> [f32; OUT] {
        let mut out = self.bias;
        for (x, weights) in x.iter().zip(&self.weight) {
            out.iter_mut().zip(weights).for_each(|(out, weight)| *out += x * weight);
        }
        out
    }

    /// Adds the gradients by the weights; returns that by the input.
    #[inline(always)]
    fn backward(&mut self, x: &[f32; IN], grad: &[f32; OUT]) -> [f32; IN] {
        self.bias_grad.iter_mut().zip(grad).for_each(|(sum, grad)| *sum += grad);
        let mut by_x = [0.0; IN];
        for ((x, by_x), (weights, sums)) in x.iter().zip(&mut by_x).zip(self.weight.iter().zip(&mut self.weight_grad)) {
            sums.iter_mut().zip(grad).for_each(|(sum, grad)| *sum += x * grad);
            *by_x = weights.iter().zip(grad).map(|(weight, grad)| weight * grad).sum();
        }
        by_x
    }

    #[inline(always)]
    fn update(&mut self, rescale: f32) {
        let each = |weights: &mut [f32], grads: &mut [f32], momenta: &mut [f32]| {
            for ((weight, grad), momentum) in weights.iter_mut().zip(grads).zip(momenta) {
                *momentum = MOMENTUM * *momentum - RATE * (*grad * rescale);
                *weight += *momentum;
                *grad = 0.0;
            }
        };
        each(
            self.weight.as_flattened_mut(),
            self.weight_grad.as_flattened_mut(),
            self.weight_momentum.as_flattened_mut(),
        );
        each(&mut self.bias, &mut self.bias_grad, &mut self.bias_momentum);
    }
}

#[derive(Clone)]
pub struct Plain {
    pub first: Layer<INPUTS, HIDDEN>,
    pub second: Layer<HIDDEN, CLASSES>,
    is_wide: bool,
}

impl Plain {
    pub fn new(weights: &[Vec<f32>]) -> Plain {
        #[cfg(target_arch = "x86_64")]
        let is_wide = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        #[cfg(not(target_arch = "x86_64"))]
        let is_wide = false;
        Plain { first: Layer::new(&weights[0], &weights[1]), second: Layer::new(&weights[2], &weights[3]), is_wide }
    }

    #[inline(always)]
    fn infer_rows(&self, data: &[f32], out: &mut [f32]) {
        for (x, out) in rows(data).zip(out.chunks_exact_mut(CLASSES)) {
            let hidden = self.first.forward(x).map(|value| value.max(0.0));
            out.copy_from_slice(&softmax(self.second.forward(&hidden)));
        }
    }

    #[inline(always)]
    fn train_rows(&mut self, data: &[f32], labels: &[f32], out: &mut [f32]) {
        for ((x, label), out) in rows(data).zip(labels).zip(out.chunks_exact_mut(CLASSES)) {
            let hidden = self.first.forward(x).map(|value| value.max(0.0));
            let mut grad = softmax(self.second.forward(&hidden));
            out.copy_from_slice(&grad);
            grad[*label as usize] -= 1.0;
            let mut by_hidden = self.second.backward(&hidden, &grad);
            by_hidden.iter_mut().zip(&hidden).filter(|(_, hidden)| **hidden <= 0.0).for_each(|(grad, _)| *grad = 0.0);
            self.first.backward(x, &by_hidden);
        }
        let rescale = 1.0 / labels.len() as f32;
        self.first.update(rescale);
        self.second.update(rescale);
    }

    /// Writes the probabilities of each row.
    pub fn infer(&self, data: &[f32], out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if self.is_wide {
            #[target_feature(enable = "avx2,fma")]
            unsafe fn wide(network: &Plain, data: &[f32], out: &mut [f32]) {
                network.infer_rows(data, out);
            }
            // SAFETY: the processor has both, as `new` has found.
            return unsafe { wide(self, data, out) };
        }
        self.infer_rows(data, out);
    }

    /// Does a step, and writes the probabilities of each row before it.
    pub fn train(&mut self, data: &[f32], labels: &[f32], out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if self.is_wide {
            #[target_feature(enable = "avx2,fma")]
            unsafe fn wide(network: &mut Plain, data: &[f32], labels: &[f32], out: &mut [f32]) {
                network.train_rows(data, labels, out);
            }
            // SAFETY: the processor has both, as `new` has found.
            return unsafe { wide(self, data, labels, out) };
        }
        self.train_rows(data, labels, out);
    }
}

/// The rows of a batch.
#[inline(always)]
fn rows(data: &[f32]) -> impl Iterator<Item = &[f32; INPUTS]> {
    data.chunks_exact(INPUTS).map(|row| row.try_into().expect("a chunk is as long as a row"))
}

#[inline(always)]
fn softmax(values: [f32; CLASSES]) -> [f32; CLASSES] {
    let most = values.iter().copied().fold(f32::MIN, f32::max);
    let exps = values.map(|value| (value - most).exp());
    let sum: f32 = exps.iter().sum();
    exps.map(|exp| exp / sum)
}
