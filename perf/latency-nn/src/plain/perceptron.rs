//! A perceptron with 64 inputs, 32 hidden elements and 10 classes.

use super::dense::{through_relu, Dense};
use super::{expect, softmax, Loops, Update, CLASSES};
use crate::serve::Problem;

const INPUTS: usize = 64;
const HIDDEN: usize = 32;

pub struct Perceptron {
    first: Dense<INPUTS, HIDDEN>,
    second: Dense<HIDDEN, CLASSES>,
}

impl Perceptron {
    pub fn new(problem: &Problem) -> Result<Perceptron, String> {
        expect(problem, &["FullyConnected num_hidden 32", "Activation act_type relu", "FullyConnected num_hidden 10"])?;
        let [(_, w1), (_, b1), (_, w2), (_, b2)] = &problem.weights[..] else { return Err("four weights".to_owned()) };
        let mut made = Perceptron { first: Dense::zeros(), second: Dense::zeros() };
        made.first.set(w1, b1);
        made.second.set(w2, b2);
        Ok(made)
    }
}

/// The rows of a batch.
#[inline(always)]
fn rows(data: &[f32]) -> impl Iterator<Item = &[f32; INPUTS]> {
    data.chunks_exact(INPUTS).map(|row| row.try_into().expect("a chunk is as long as a row"))
}

impl Loops for Perceptron {
    #[inline(always)]
    fn infer_rows(&mut self, data: &[f32], out: &mut [f32]) {
        for (x, out) in rows(data).zip(out.chunks_exact_mut(CLASSES)) {
            let hidden = self.first.forward(x).map(|value| value.max(0.0));
            out.copy_from_slice(&softmax(self.second.forward(&hidden)));
        }
    }

    #[inline(always)]
    fn train_rows(&mut self, data: &[f32], labels: &[f32], update: Update) {
        for (x, label) in rows(data).zip(labels) {
            let hidden = self.first.forward(x).map(|value| value.max(0.0));
            let mut grad = softmax(self.second.forward(&hidden));
            grad[*label as usize] -= 1.0;
            let mut by_hidden = self.second.backward(&hidden, &grad);
            through_relu(&mut by_hidden, &hidden);
            self.first.backward(x, &by_hidden);
        }
        self.first.update(update);
        self.second.update(update);
    }

    fn weights(&self) -> Vec<Vec<f32>> {
        [self.first.get(), self.second.get()].concat()
    }
}
