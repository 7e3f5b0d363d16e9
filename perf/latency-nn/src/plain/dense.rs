//! A layer whose units see all inputs. Weights lie with the outputs last, so each loop over outputs
//! becomes vectors.

use super::Update;

/// A layer with its gradients and momenta.
pub struct Dense<const IN: usize, const OUT: usize> {
    weight: [[f32; OUT]; IN],
    bias: [f32; OUT],
    weight_grad: [[f32; OUT]; IN],
    bias_grad: [f32; OUT],
    weight_momentum: [[f32; OUT]; IN],
    bias_momentum: [f32; OUT],
}

impl<const IN: usize, const OUT: usize> Dense<IN, OUT> {
    pub fn zeros() -> Self {
        let zeros = [[0.0; OUT]; IN];
        Dense {
            weight: zeros,
            bias: [0.0; OUT],
            weight_grad: zeros,
            bias_grad: [0.0; OUT],
            weight_momentum: zeros,
            bias_momentum: [0.0; OUT],
        }
    }

    /// Takes weights that lie with the inputs last, as those of `FullyConnected`.
    pub fn set(&mut self, weight: &[f32], bias: &[f32]) {
        for (input, row) in self.weight.iter_mut().enumerate() {
            for (output, value) in row.iter_mut().enumerate() {
                *value = weight[output * IN + input];
            }
        }
        self.bias.copy_from_slice(bias);
    }

    /// Weight and bias, as `set` takes them.
    pub fn get(&self) -> [Vec<f32>; 2] {
        let weight = (0..OUT).flat_map(|output| self.weight.iter().map(move |row| row[output]));
        [weight.collect(), self.bias.to_vec()]
    }

    #[inline(always)]
    pub fn forward(&self, x: &[f32; IN]) -> [f32; OUT] {
        let mut out = self.bias;
        for (x, weights) in x.iter().zip(&self.weight) {
            out.iter_mut().zip(weights).for_each(|(out, weight)| *out += x * weight);
        }
        out
    }

    /// Adds the gradients by the weights; returns that by the input.
    #[inline(always)]
    pub fn backward(&mut self, x: &[f32; IN], grad: &[f32; OUT]) -> [f32; IN] {
        self.bias_grad.iter_mut().zip(grad).for_each(|(sum, grad)| *sum += grad);
        let mut by_x = [0.0; IN];
        for ((x, by_x), (weights, sums)) in x.iter().zip(&mut by_x).zip(self.weight.iter().zip(&mut self.weight_grad)) {
            sums.iter_mut().zip(grad).for_each(|(sum, grad)| *sum += x * grad);
            *by_x = weights.iter().zip(grad).map(|(weight, grad)| weight * grad).sum();
        }
        by_x
    }

    #[inline(always)]
    pub fn update(&mut self, update: Update) {
        update.each(
            self.weight.as_flattened_mut(),
            self.weight_grad.as_flattened_mut(),
            self.weight_momentum.as_flattened_mut(),
        );
        update.each(&mut self.bias, &mut self.bias_grad, &mut self.bias_momentum);
    }
}

/// Where the output of a unit is not above 0, nothing comes back through it.
#[inline(always)]
pub fn through_relu<const OUT: usize>(grad: &mut [f32; OUT], out: &[f32; OUT]) {
    grad.iter_mut().zip(out).for_each(|(grad, out)| *grad = if *out > 0.0 { *grad } else { 0.0 });
}
