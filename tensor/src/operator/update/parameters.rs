//! The parameters of the updates. The names and defaults are those of MXNet 1.9, as far as it has
//! them.
//!
//! `rules.rs` beside this file goes by them.

#![forbid(unsafe_code)]

use super::Rate;
use crate::operator::parameters::Parameters;

/// Parameters of an update: all have a learning rate.
pub(super) trait UpdateParameters: Parameters + Clone + Send + Sync + 'static {
    fn rate(&self) -> Rate;
}

macro_rules! rated {
    ($($name:ident),*) => {$(
        impl UpdateParameters for $name {
            fn rate(&self) -> Rate {
                self.lr
            }
        }
    )*};
}

rated!(SgdParameters, AdamParameters, RmsPropParameters, AdaGradParameters, FtrlParameters);

/// What becomes of a gradient before an update uses it.
#[derive(Clone, Debug, Parameters)]
pub(super) struct GradientParameters {
    /// What the gradient is multiplied by first.
    #[parameter(default = 1)]
    pub rescale_grad: f64,
    /// Between minus this and this the gradient is kept; below 0 it is not.
    #[parameter(default = -1)]
    pub clip_gradient: f64,
}

/// Of gradient descent, with momentum and without.
#[derive(Clone, Debug, Parameters)]
pub(super) struct SgdParameters {
    /// The learning rate.
    pub lr: Rate,
    /// How much of the last step is added to the next.
    #[parameter(default = 0, range = 0.0..1.0)]
    pub momentum: f64,
    /// The weight decay: how much of the weight is added to the gradient.
    #[parameter(default = 0, range = 0.0..)]
    pub wd: f64,
    #[parameter(flatten)]
    pub gradient: GradientParameters,
}

/// Of Adam and AdamW.
#[derive(Clone, Debug, Parameters)]
pub(super) struct AdamParameters {
    /// The learning rate.
    pub lr: Rate,
    /// How slowly the mean of the gradients moves.
    #[parameter(default = 0.9, range = 0.0..1.0)]
    pub beta1: f64,
    /// How slowly the mean of their squares moves.
    #[parameter(default = 0.999, range = 0.0..1.0)]
    pub beta2: f64,
    /// Added to the root of the second mean.
    #[parameter(default = 1e-8, range = 0.0..)]
    pub epsilon: f64,
    /// The weight decay; AdamW takes it off the weight, Adam adds it to the gradient.
    #[parameter(default = 0, range = 0.0..)]
    pub wd: f64,
    #[parameter(flatten)]
    pub gradient: GradientParameters,
}

/// Of RMSProp.
#[derive(Clone, Debug, Parameters)]
pub(super) struct RmsPropParameters {
    /// The learning rate.
    pub lr: Rate,
    /// How slowly the mean of the squares moves.
    #[parameter(default = 0.95, range = 0.0..1.0)]
    pub gamma1: f64,
    /// Added to that mean, under the root.
    #[parameter(default = 1e-8, range = 0.0..)]
    pub epsilon: f64,
    /// The weight decay: how much of the weight is added to the gradient.
    #[parameter(default = 0, range = 0.0..)]
    pub wd: f64,
    #[parameter(flatten)]
    pub gradient: GradientParameters,
    /// Between minus this and this the weight is kept; below 0 it is not.
    #[parameter(default = -1)]
    pub clip_weights: f64,
}

/// Of AdaGrad.
#[derive(Clone, Debug, Parameters)]
pub(super) struct AdaGradParameters {
    /// The learning rate.
    pub lr: Rate,
    /// Added to the root of the sum of squares.
    #[parameter(default = 1e-10, range = 0.0..)]
    pub epsilon: f64,
    /// The weight decay: how much of the weight is added to the gradient.
    #[parameter(default = 0, range = 0.0..)]
    pub wd: f64,
    #[parameter(flatten)]
    pub gradient: GradientParameters,
}

/// Of FTRL.
#[derive(Clone, Debug, Parameters)]
pub(super) struct FtrlParameters {
    /// The learning rate.
    pub lr: Rate,
    /// How far from 0 a sum has to be for its weight not to be 0.
    #[parameter(default = 0.01, range = 0.0..)]
    pub lamda1: f64,
    /// Added to the root of the sum of squares.
    #[parameter(default = 1, range = 0.0..)]
    pub beta: f64,
    /// The weight decay: how much the weights shrink.
    #[parameter(default = 0, range = 0.0..)]
    pub wd: f64,
    #[parameter(flatten)]
    pub gradient: GradientParameters,
}
