//! Operators of layers: `leaky.rs` has `LeakyReLU` and its kind, `layer_norm.rs` and
//! `batch_norm.rs` normalisation, `dropout.rs` `Dropout`, `loss.rs` outputs with gradients of their
//! own; `window.rs` what windows on images have in common, `convolution.rs` and `deconvolution.rs`
//! convolutions, `filtering.rs` what these two do alike, and `pooling.rs` `Pooling`. `methods.rs`
//! has the methods of arrays.

mod batch_norm;
mod convolution;
mod deconvolution;
mod dropout;
mod filtering;
mod layer_norm;
mod leaky;
mod loss;
mod methods;
mod pooling;
mod window;

use crate::operator::Builtin;

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    leaky::all(add);
    layer_norm::all(add);
    dropout::all(add);
    loss::all(add);
    convolution::all(add);
    deconvolution::all(add);
    pooling::all(add);
    batch_norm::all(add);
}
