//! LeNet-5 on images of 28×28: two convolutions with pooling, and three dense layers. Convolutions
//! are direct: a row of an output stays in registers while all that it sums is added.

use super::dense::{through_relu, Dense};
use super::{expect, softmax, Loops, Update, CLASSES};
use crate::serve::Problem;

const KERNEL: usize = 5;
/// The elements of a vector.
const LANES: usize = 8;

/// The weights of a filter for one channel.
type Window = [[f32; KERNEL]; KERNEL];

/// A convolution, its ReLU, and a pooling that takes the greatest of four. `SIDE` is that of its
/// output before pooling, `HALF` that behind it, and `WIDE` the length of a row in whole vectors. A
/// row of its input has `ROW` elements, so a window that is moved to the right stays within.
struct Convolution<
    const IN: usize,
    const OUT: usize,
    const SIDE: usize,
    const HALF: usize,
    const WIDE: usize,
    const ROW: usize,
    const ROWS: usize,
> {
    weight: [[Window; IN]; OUT],
    bias: [f32; OUT],
    weight_grad: [[Window; IN]; OUT],
    bias_grad: [f32; OUT],
    weight_momentum: [[Window; IN]; OUT],
    bias_momentum: [f32; OUT],
    /// The input, with the zeros around it. Rows are as long as whole vectors need.
    x: [[[f32; ROW]; ROWS]; IN],
    by_x: [[[f32; ROW]; ROWS]; IN],
    out: [[[f32; WIDE]; SIDE]; OUT],
    grad: [[[f32; WIDE]; SIDE]; OUT],
    pooled: [[[f32; HALF]; HALF]; OUT],
}

impl<
        const IN: usize,
        const OUT: usize,
        const SIDE: usize,
        const HALF: usize,
        const WIDE: usize,
        const ROW: usize,
        const ROWS: usize,
    > Convolution<IN, OUT, SIDE, HALF, WIDE, ROW, ROWS>
{
    fn zeros() -> Self {
        let window = [[0.0; KERNEL]; KERNEL];
        Convolution {
            weight: [[window; IN]; OUT],
            bias: [0.0; OUT],
            weight_grad: [[window; IN]; OUT],
            bias_grad: [0.0; OUT],
            weight_momentum: [[window; IN]; OUT],
            bias_momentum: [0.0; OUT],
            x: [[[0.0; ROW]; ROWS]; IN],
            by_x: [[[0.0; ROW]; ROWS]; IN],
            out: [[[0.0; WIDE]; SIDE]; OUT],
            grad: [[[0.0; WIDE]; SIDE]; OUT],
            pooled: [[[0.0; HALF]; HALF]; OUT],
        }
    }

    fn set(&mut self, weight: &[f32], bias: &[f32]) {
        self.weight.as_flattened_mut().as_flattened_mut().as_flattened_mut().copy_from_slice(weight);
        self.bias.copy_from_slice(bias);
    }

    fn get(&self) -> [Vec<f32>; 2] {
        [self.weight.as_flattened().as_flattened().as_flattened().to_vec(), self.bias.to_vec()]
    }

    /// From `x` to `pooled`.
    #[inline(always)]
    fn forward(&mut self) {
        for ((out, weights), bias) in self.out.iter_mut().zip(&self.weight).zip(&self.bias) {
            for (y, out) in out.iter_mut().enumerate() {
                let mut sums = [*bias; WIDE];
                for (weights, x) in weights.iter().zip(&self.x) {
                    for (weights, x) in weights.iter().zip(&x[y..]) {
                        for (at, weight) in weights.iter().enumerate() {
                            let x: &[f32; WIDE] = x[at..].first_chunk().expect("a row has room for the window");
                            sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
                        }
                    }
                }
                *out = sums.map(|sum| sum.max(0.0));
            }
        }
        for (pooled, out) in self.pooled.iter_mut().zip(&self.out) {
            for (pooled, rows) in pooled.iter_mut().zip(out.chunks_exact(2)) {
                for (at, pooled) in pooled.iter_mut().enumerate() {
                    let [above, below] = [0, 1].map(|row: usize| rows[row][2 * at].max(rows[row][2 * at + 1]));
                    *pooled = above.max(below);
                }
            }
        }
    }

    /// From the gradient by `pooled` to those by the weights and, if asked, by `x`.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // Several arrays by the same place.
    fn backward(&mut self, by_pooled: &[[[f32; HALF]; HALF]; OUT], is_asked: bool) {
        for output in 0..OUT {
            let (out, grad) = (&self.out[output], &mut self.grad[output]);
            for y in 0..HALF {
                for x in 0..HALF {
                    // The first of the greatest takes the gradient, if ReLU lets it through.
                    let (most, mut by) = (self.pooled[output][y][x], by_pooled[output][y][x]);
                    by = if most > 0.0 { by } else { 0.0 };
                    for (y, x) in [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(down, right)| (2 * y + down, 2 * x + right)) {
                        let takes = out[y][x] == most;
                        grad[y][x] = if takes { by } else { 0.0 };
                        by = if takes { 0.0 } else { by };
                    }
                }
            }
            self.bias_grad[output] += grad.as_flattened().iter().sum::<f32>();
            for input in 0..IN {
                for down in 0..KERNEL {
                    // A row of the gradient meets all places of the window.
                    let mut sums = [[0.0f32; LANES]; KERNEL];
                    for (grad, x) in grad.iter().zip(&self.x[input][down..]) {
                        for (at, sums) in sums.iter_mut().enumerate() {
                            let x: &[f32; WIDE] = x[at..].first_chunk().expect("a row has room for the window");
                            for (grad, x) in grad.chunks_exact(LANES).zip(x.chunks_exact(LANES)) {
                                sums.iter_mut().zip(grad.iter().zip(x)).for_each(|(sum, (grad, x))| *sum += grad * x);
                            }
                        }
                    }
                    for (sum, lanes) in self.weight_grad[output][input][down].iter_mut().zip(&sums) {
                        *sum += lanes.iter().sum::<f32>();
                    }
                }
            }
        }
        if !is_asked {
            return;
        }
        self.by_x.as_flattened_mut().as_flattened_mut().fill(0.0);
        for (grad, weights) in self.grad.iter().zip(&self.weight) {
            for (weights, by_x) in weights.iter().zip(&mut self.by_x) {
                for (y, grad) in grad.iter().enumerate() {
                    for (weights, by_x) in weights.iter().zip(&mut by_x[y..]) {
                        for (at, weight) in weights.iter().enumerate() {
                            let by_x: &mut [f32; WIDE] =
                                by_x[at..].first_chunk_mut().expect("a row has room for the window");
                            by_x.iter_mut().zip(grad).for_each(|(by_x, grad)| *by_x += weight * grad);
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn update(&mut self, update: Update) {
        update.each(
            self.weight.as_flattened_mut().as_flattened_mut().as_flattened_mut(),
            self.weight_grad.as_flattened_mut().as_flattened_mut().as_flattened_mut(),
            self.weight_momentum.as_flattened_mut().as_flattened_mut().as_flattened_mut(),
        );
        update.each(&mut self.bias, &mut self.bias_grad, &mut self.bias_momentum);
    }
}

const SIDE: usize = 28;
const PAD: usize = 2;
const FLAT: usize = 16 * 5 * 5;

pub struct LeNet {
    first: Convolution<1, 6, SIDE, 14, 32, 40, { SIDE + 2 * PAD }>,
    second: Convolution<6, 16, 10, 5, 16, 24, 14>,
    third: Dense<FLAT, 120>,
    fourth: Dense<120, 84>,
    fifth: Dense<84, CLASSES>,
}

impl LeNet {
    pub fn new(problem: &Problem) -> Result<Box<LeNet>, String> {
        expect(
            problem,
            &[
                "Convolution kernel [5,5] num_filter 6 pad [2,2]",
                "Activation act_type relu",
                "Pooling kernel [2,2] pool_type max stride [2,2]",
                "Convolution kernel [5,5] num_filter 16 pad [0,0]",
                "Activation act_type relu",
                "Pooling kernel [2,2] pool_type max stride [2,2]",
                "FullyConnected num_hidden 120",
                "Activation act_type relu",
                "FullyConnected num_hidden 84",
                "Activation act_type relu",
                "FullyConnected num_hidden 10",
            ],
        )?;
        let mut made = Box::new(LeNet {
            first: Convolution::zeros(),
            second: Convolution::zeros(),
            third: Dense::zeros(),
            fourth: Dense::zeros(),
            fifth: Dense::zeros(),
        });
        let [w1, b1, w2, b2, w3, b3, w4, b4, w5, b5] = &problem.weights[..] else {
            return Err("ten weights".to_owned());
        };
        made.first.set(&w1.1, &b1.1);
        made.second.set(&w2.1, &b2.1);
        made.third.set(&w3.1, &b3.1);
        made.fourth.set(&w4.1, &b4.1);
        made.fifth.set(&w5.1, &b5.1);
        Ok(made)
    }

    /// What comes out of the third and fourth layer, and the probabilities.
    #[inline(always)]
    fn forward(&mut self, image: &[f32]) -> ([f32; 120], [f32; 84], [f32; CLASSES]) {
        for (row, image) in self.first.x[0][PAD..].iter_mut().zip(image.chunks_exact(SIDE)) {
            row[PAD..PAD + SIDE].copy_from_slice(image);
        }
        self.first.forward();
        for (x, pooled) in self.second.x.iter_mut().zip(&self.first.pooled) {
            x.iter_mut().zip(pooled).for_each(|(row, pooled)| row[..14].copy_from_slice(pooled));
        }
        self.second.forward();
        let third = self.third.forward(self.flat()).map(|value| value.max(0.0));
        let fourth = self.fourth.forward(&third).map(|value| value.max(0.0));
        (third, fourth, softmax(self.fifth.forward(&fourth)))
    }

    #[inline(always)]
    fn flat(&self) -> &[f32; FLAT] {
        self.second.pooled.as_flattened().as_flattened().try_into().expect("16 squares of 5")
    }

    #[inline(always)]
    fn backward(
        &mut self,
        (third, fourth): (&[f32; 120], &[f32; 84]),
        grad: &[f32; CLASSES],
        image_flat: &[f32; FLAT],
    ) {
        let mut by_fourth = self.fifth.backward(fourth, grad);
        through_relu(&mut by_fourth, fourth);
        let mut by_third = self.fourth.backward(third, &by_fourth);
        through_relu(&mut by_third, third);
        let by_flat = self.third.backward(image_flat, &by_third);
        let mut by_pooled = [[[0.0; 5]; 5]; 16];
        by_pooled.as_flattened_mut().as_flattened_mut().copy_from_slice(&by_flat);
        self.second.backward(&by_pooled, true);
        let mut by_pooled = [[[0.0; 14]; 14]; 6];
        for (pooled, by_x) in by_pooled.iter_mut().zip(&self.second.by_x) {
            pooled.iter_mut().zip(by_x).for_each(|(pooled, by_x)| pooled.copy_from_slice(&by_x[..14]));
        }
        self.first.backward(&by_pooled, false);
    }
}

impl Loops for LeNet {
    #[inline(always)]
    fn infer_rows(&mut self, data: &[f32], out: &mut [f32]) {
        for (image, out) in data.chunks_exact(SIDE * SIDE).zip(out.chunks_exact_mut(CLASSES)) {
            out.copy_from_slice(&self.forward(image).2);
        }
    }

    #[inline(always)]
    fn train_rows(&mut self, data: &[f32], labels: &[f32], update: Update) {
        for (image, label) in data.chunks_exact(SIDE * SIDE).zip(labels) {
            let (third, fourth, mut grad) = self.forward(image);
            grad[*label as usize] -= 1.0;
            let flat = *self.flat();
            self.backward((&third, &fourth), &grad, &flat);
        }
        self.first.update(update);
        self.second.update(update);
        self.third.update(update);
        self.fourth.update(update);
        self.fifth.update(update);
    }

    fn weights(&self) -> Vec<Vec<f32>> {
        [self.first.get(), self.second.get(), self.third.get(), self.fourth.get(), self.fifth.get()].concat()
    }
}
