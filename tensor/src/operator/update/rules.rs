//! What a step of each optimiser does to an element.
//!
//! Used by `mod.rs` beside this file, which walks over the elements. `sgd_update`,
//! `sgd_mom_update`, `adam_update` and `rmsprop_update` have the names, parameters and formulas of
//! MXNet 1.9 (`src/operator/optimizer_op-inl.h`). `adamw_update` and `adagrad_update` have the
//! formulas that PyTorch documents (`torch.optim.AdamW`, `torch.optim.Adagrad`).
//!
//! Where the number of the step is known, Adam and AdamW correct the bias of their means. In MXNet
//! `python/mxnet/optimizer/optimizer.py` does that, before it calls `adam_update`.

#![forbid(unsafe_code)]

use super::{Moment, Rate, Rule, Update};
use crate::dtype::Element;
use crate::error::Error;
use crate::operator::parameters::Parameters;
use crate::operator::property::OperatorProperty;
use crate::operator::Builtin;
use num_traits::Float;

/// Of gradient descent.
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
    /// What the gradient is multiplied by first.
    #[parameter(default = 1)]
    pub rescale_grad: f64,
    /// Between minus this and this the gradient is kept; below 0 it is not.
    #[parameter(default = -1)]
    pub clip_gradient: f64,
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
    /// What the gradient is multiplied by first.
    #[parameter(default = 1)]
    pub rescale_grad: f64,
    /// Between minus this and this the gradient is kept; below 0 it is not.
    #[parameter(default = -1)]
    pub clip_gradient: f64,
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
    /// What the gradient is multiplied by first.
    #[parameter(default = 1)]
    pub rescale_grad: f64,
    /// Between minus this and this the gradient is kept; below 0 it is not.
    #[parameter(default = -1)]
    pub clip_gradient: f64,
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
    /// What the gradient is multiplied by first.
    #[parameter(default = 1)]
    pub rescale_grad: f64,
    /// Between minus this and this the gradient is kept; below 0 it is not.
    #[parameter(default = -1)]
    pub clip_gradient: f64,
}

/// A number as one of the type of the computation.
fn of<W: Element>(value: f64) -> W {
    W::from_number(value.to_number())
}

/// Keeps values between minus `limit` and `limit`, unless that is below 0.
fn clip<W: Element + Float>(limit: f64) -> impl Fn(W) -> W {
    let most = of::<W>(limit);
    move |value| if limit >= 0.0 { value.max(-most).min(most) } else { value }
}

impl SgdParameters {
    /// What is taken off the weight, momentum left out.
    fn down<W: Element + Float>(&self, at: Moment) -> impl Fn(W, W) -> W {
        let (lr, wd, rescale) = (of::<W>(at.rate), of::<W>(self.wd), of::<W>(self.rescale_grad));
        let clip = clip(self.clip_gradient);
        move |weight, grad| lr * (clip(grad * rescale) + wd * weight)
    }
}

#[derive(Clone)]
struct Sgd(SgdParameters);

impl Rule<0> for Sgd {
    const STATES: [&'static str; 0] = [];

    fn params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn rate(&self) -> Rate {
        self.0.lr
    }

    fn element<W: Element + Float>(&self, at: Moment) -> impl Fn(W, W, [W; 0]) -> (W, [W; 0]) {
        let down = self.0.down(at);
        move |weight, grad, []| (weight - down(weight, grad), [])
    }
}

#[derive(Clone)]
struct Momentum(SgdParameters);

impl Rule<1> for Momentum {
    const STATES: [&'static str; 1] = ["mom"];

    fn params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn rate(&self) -> Rate {
        self.0.lr
    }

    fn element<W: Element + Float>(&self, at: Moment) -> impl Fn(W, W, [W; 1]) -> (W, [W; 1]) {
        let (down, momentum) = (self.0.down(at), of::<W>(self.0.momentum));
        move |weight, grad, [mom]| {
            let step = momentum * mom - down(weight, grad);
            (weight + step, [step])
        }
    }
}

impl AdamParameters {
    /// What the two means are to be divided by, since they begin as 0.
    fn corrections(&self, at: Moment) -> [f64; 2] {
        at.step.map_or([1.0; 2], |step| [1.0 - self.beta1.powf(step), 1.0 - self.beta2.powf(step)])
    }

    /// The next means, of the gradient and the means.
    fn means<W: Element + Float>(&self) -> impl Fn(W, [W; 2]) -> [W; 2] {
        let (beta1, beta2) = (of::<W>(self.beta1), of::<W>(self.beta2));
        let (one, two) = (W::one() - beta1, W::one() - beta2);
        move |grad, [mean, var]| [beta1 * mean + one * grad, beta2 * var + two * grad * grad]
    }
}

#[derive(Clone)]
struct Adam(AdamParameters);

impl Rule<2> for Adam {
    const STATES: [&'static str; 2] = ["mean", "var"];

    fn params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn rate(&self) -> Rate {
        self.0.lr
    }

    fn element<W: Element + Float>(&self, at: Moment) -> impl Fn(W, W, [W; 2]) -> (W, [W; 2]) {
        let [first, second] = self.0.corrections(at);
        let lr = of::<W>(at.rate * second.sqrt() / first);
        let (wd, rescale) = (of::<W>(self.0.wd), of::<W>(self.0.rescale_grad));
        let (epsilon, clip, means) = (of::<W>(self.0.epsilon), clip(self.0.clip_gradient), self.0.means());
        move |weight, grad, states| {
            let [mean, var] = means(clip(grad * rescale + wd * weight), states);
            (weight - lr * mean / (var.sqrt() + epsilon), [mean, var])
        }
    }
}

#[derive(Clone)]
struct AdamW(AdamParameters);

impl Rule<2> for AdamW {
    const STATES: [&'static str; 2] = ["mean", "var"];

    fn params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn rate(&self) -> Rate {
        self.0.lr
    }

    fn element<W: Element + Float>(&self, at: Moment) -> impl Fn(W, W, [W; 2]) -> (W, [W; 2]) {
        let [first, second] = self.0.corrections(at);
        let (lr, root) = (of::<W>(at.rate / first), of::<W>(second.sqrt()));
        let (left, rescale) = (of::<W>(1.0 - at.rate * self.0.wd), of::<W>(self.0.rescale_grad));
        let (epsilon, clip, means) = (of::<W>(self.0.epsilon), clip(self.0.clip_gradient), self.0.means());
        move |weight, grad, states| {
            let [mean, var] = means(clip(grad * rescale), states);
            (weight * left - lr * mean / (var.sqrt() / root + epsilon), [mean, var])
        }
    }
}

#[derive(Clone)]
struct RmsProp(RmsPropParameters);

impl Rule<1> for RmsProp {
    const STATES: [&'static str; 1] = ["n"];

    fn params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn rate(&self) -> Rate {
        self.0.lr
    }

    fn element<W: Element + Float>(&self, at: Moment) -> impl Fn(W, W, [W; 1]) -> (W, [W; 1]) {
        let (lr, wd, rescale) = (of::<W>(at.rate), of::<W>(self.0.wd), of::<W>(self.0.rescale_grad));
        let (gamma, epsilon) = (of::<W>(self.0.gamma1), of::<W>(self.0.epsilon));
        let (clip_grad, clip_weight) = (clip(self.0.clip_gradient), clip(self.0.clip_weights));
        move |weight, grad, [n]| {
            let grad = clip_grad(grad * rescale + wd * weight);
            let n = (W::one() - gamma) * (grad * grad) + gamma * n;
            (clip_weight(weight - lr * (grad / (n + epsilon).sqrt())), [n])
        }
    }
}

#[derive(Clone)]
struct AdaGrad(AdaGradParameters);

impl Rule<1> for AdaGrad {
    const STATES: [&'static str; 1] = ["history"];

    fn params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn rate(&self) -> Rate {
        self.0.lr
    }

    fn element<W: Element + Float>(&self, at: Moment) -> impl Fn(W, W, [W; 1]) -> (W, [W; 1]) {
        let (lr, wd, rescale) = (of::<W>(at.rate), of::<W>(self.0.wd), of::<W>(self.0.rescale_grad));
        let (epsilon, clip) = (of::<W>(self.0.epsilon), clip(self.0.clip_gradient));
        move |weight, grad, [history]| {
            let grad = clip(grad * rescale) + wd * weight;
            let history = history + grad * grad;
            (weight - lr * grad / (history.sqrt() + epsilon), [history])
        }
    }
}

/// Makes a property of parameters as text.
type Make = fn(&[(&str, &str)]) -> Result<Box<dyn OperatorProperty>, Error>;

/// All operators, by name, each with its formula.
pub(super) fn all(add: &mut Builtin<'_>) {
    let ops: [(&str, &str, Make); 6] = [
        ("sgd_update", "weight - lr (grad + wd weight)", |given| {
            Ok(Box::new(Update(Sgd(SgdParameters::init(given)?))))
        }),
        ("sgd_mom_update", "weight + mom, with mom = momentum mom - lr (grad + wd weight)", |given| {
            Ok(Box::new(Update(Momentum(SgdParameters::init(given)?))))
        }),
        ("adam_update", "weight - lr mean / (√var + epsilon), with the moving means of the gradients and squares", {
            |given| Ok(Box::new(Update(Adam(AdamParameters::init(given)?))))
        }),
        ("adamw_update", "like adam_update, but the weight shrinks by itself, by lr wd weight", |given| {
            Ok(Box::new(Update(AdamW(AdamParameters::init(given)?))))
        }),
        ("rmsprop_update", "weight - lr grad / √(n + epsilon), with n the moving mean of squares", |given| {
            Ok(Box::new(Update(RmsProp(RmsPropParameters::init(given)?))))
        }),
        ("adagrad_update", "weight - lr grad / (√history + epsilon), with history the sum of squares", |given| {
            Ok(Box::new(Update(AdaGrad(AdaGradParameters::init(given)?))))
        }),
    ];
    for (name, about, make) in ops {
        add(name, about, Box::new(make));
    }
}
