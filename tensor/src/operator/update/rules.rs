//! What a step of each optimiser does to an element.
//!
//! Used by `mod.rs` beside this file, which walks over the elements. `sgd_update`,
//! `sgd_mom_update`, `nag_mom_update`, `adam_update`, `rmsprop_update` and `ftrl_update` have the
//! names, parameters and formulas of MXNet 1.9 (`src/operator/optimizer_op-inl.h`).
//! `adamw_update` and `adagrad_update` have the formulas that PyTorch documents
//! (`torch.optim.AdamW`, `torch.optim.Adagrad`).
//!
//! Where the number of the step is known, Adam and AdamW correct the bias of their means. In MXNet
//! `python/mxnet/optimizer/optimizer.py` does that, before it calls `adam_update`.

#![forbid(unsafe_code)]

use super::parameters::{
    AdaGradParameters, AdamParameters, FtrlParameters, RmsPropParameters, SgdParameters, UpdateParameters,
};
use super::{check_rate, Moment, Rule, Update};
use crate::dtype::Element;
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use num_traits::Float;

/// A number as one of the type of the computation.
fn of<W: Element>(value: f64) -> W {
    W::from_number(value.to_number())
}

/// Keeps values between minus `limit` and `limit`, unless that is below 0.
fn clip<W: Element + Float>(limit: f64) -> impl Fn(W) -> W + Copy + Sync {
    let most = of::<W>(limit);
    move |value| if limit >= 0.0 { value.max(-most).min(most) } else { value }
}

/// What is taken off the weight by gradient descent, momentum left out.
fn down<W: Element + Float>(parameters: &SgdParameters, at: Moment) -> impl Fn(W, W) -> W + Copy {
    let (lr, wd, rescale) = (of::<W>(at.rate), of::<W>(parameters.wd), of::<W>(parameters.gradient.rescale_grad));
    let clip = clip(parameters.gradient.clip_gradient);
    move |weight, grad| lr * (clip(grad * rescale) + wd * weight)
}

struct Sgd;

impl Rule<0> for Sgd {
    type Parameters = SgdParameters;
    const STATES: [&'static str; 0] = [];

    fn element<W: Element + Float>(
        by: &SgdParameters,
        at: Moment,
    ) -> impl Fn(W, W, [W; 0]) -> (W, [W; 0]) + Copy + Sync {
        let down = down(by, at);
        move |weight, grad, []| (weight - down(weight, grad), [])
    }
}

struct Momentum;

impl Rule<1> for Momentum {
    type Parameters = SgdParameters;
    const STATES: [&'static str; 1] = ["mom"];

    fn element<W: Element + Float>(
        by: &SgdParameters,
        at: Moment,
    ) -> impl Fn(W, W, [W; 1]) -> (W, [W; 1]) + Copy + Sync {
        let (down, momentum) = (down(by, at), of::<W>(by.momentum));
        move |weight, grad, [mom]| {
            let step = momentum * mom - down(weight, grad);
            (weight + step, [step])
        }
    }
}

/// Nesterov's momentum: the next step's part that is known already is taken with this one.
struct Nesterov;

impl Rule<1> for Nesterov {
    type Parameters = SgdParameters;
    const STATES: [&'static str; 1] = ["mom"];

    fn element<W: Element + Float>(
        by: &SgdParameters,
        at: Moment,
    ) -> impl Fn(W, W, [W; 1]) -> (W, [W; 1]) + Copy + Sync {
        let (down, momentum) = (down(by, at), of::<W>(by.momentum));
        move |weight, grad, [mom]| {
            let down = down(weight, grad);
            let step = momentum * mom - down;
            (weight + momentum * step - down, [step])
        }
    }
}

/// What the two means of Adam are to be divided by, since they begin as 0.
fn corrections(by: &AdamParameters, at: Moment) -> [f64; 2] {
    at.step.map_or([1.0; 2], |step| [1.0 - by.beta1.powf(step), 1.0 - by.beta2.powf(step)])
}

/// The next means, of the gradient and the means.
fn means<W: Element + Float>(by: &AdamParameters) -> impl Fn(W, [W; 2]) -> [W; 2] + Copy {
    let (beta1, beta2) = (of::<W>(by.beta1), of::<W>(by.beta2));
    let (one, two) = (W::one() - beta1, W::one() - beta2);
    move |grad, [mean, var]| [beta1 * mean + one * grad, beta2 * var + two * grad * grad]
}

struct Adam;

impl Rule<2> for Adam {
    type Parameters = AdamParameters;
    const STATES: [&'static str; 2] = ["mean", "var"];

    fn element<W: Element + Float>(
        by: &AdamParameters,
        at: Moment,
    ) -> impl Fn(W, W, [W; 2]) -> (W, [W; 2]) + Copy + Sync {
        let [first, second] = corrections(by, at);
        let lr = of::<W>(at.rate * second.sqrt() / first);
        let (wd, rescale, epsilon) = (of::<W>(by.wd), of::<W>(by.gradient.rescale_grad), of::<W>(by.epsilon));
        let (clip, means) = (clip(by.gradient.clip_gradient), means(by));
        move |weight, grad, states| {
            let [mean, var] = means(clip(grad * rescale + wd * weight), states);
            (weight - lr * mean / (var.sqrt() + epsilon), [mean, var])
        }
    }
}

struct AdamW;

impl Rule<2> for AdamW {
    type Parameters = AdamParameters;
    const STATES: [&'static str; 2] = <Adam as Rule<2>>::STATES;

    fn element<W: Element + Float>(
        by: &AdamParameters,
        at: Moment,
    ) -> impl Fn(W, W, [W; 2]) -> (W, [W; 2]) + Copy + Sync {
        let [first, second] = corrections(by, at);
        let (lr, root) = (of::<W>(at.rate / first), of::<W>(second.sqrt()));
        let (left, rescale) = (of::<W>(1.0 - at.rate * by.wd), of::<W>(by.gradient.rescale_grad));
        let (epsilon, clip, means) = (of::<W>(by.epsilon), clip(by.gradient.clip_gradient), means(by));
        move |weight, grad, states| {
            let [mean, var] = means(clip(grad * rescale), states);
            (weight * left - lr * mean / (var.sqrt() / root + epsilon), [mean, var])
        }
    }
}

struct RmsProp;

impl Rule<1> for RmsProp {
    type Parameters = RmsPropParameters;
    const STATES: [&'static str; 1] = ["n"];

    fn element<W: Element + Float>(
        by: &RmsPropParameters,
        at: Moment,
    ) -> impl Fn(W, W, [W; 1]) -> (W, [W; 1]) + Copy + Sync {
        let (lr, wd, rescale) = (of::<W>(at.rate), of::<W>(by.wd), of::<W>(by.gradient.rescale_grad));
        let (gamma, epsilon) = (of::<W>(by.gamma1), of::<W>(by.epsilon));
        let (clip_grad, clip_weight) = (clip(by.gradient.clip_gradient), clip(by.clip_weights));
        move |weight, grad, [n]| {
            let grad = clip_grad(grad * rescale + wd * weight);
            let n = (W::one() - gamma) * (grad * grad) + gamma * n;
            (clip_weight(weight - lr * (grad / (n + epsilon).sqrt())), [n])
        }
    }
}

struct AdaGrad;

impl Rule<1> for AdaGrad {
    type Parameters = AdaGradParameters;
    const STATES: [&'static str; 1] = ["history"];

    fn element<W: Element + Float>(
        by: &AdaGradParameters,
        at: Moment,
    ) -> impl Fn(W, W, [W; 1]) -> (W, [W; 1]) + Copy + Sync {
        let (lr, wd, rescale) = (of::<W>(at.rate), of::<W>(by.wd), of::<W>(by.gradient.rescale_grad));
        let (epsilon, clip) = (of::<W>(by.epsilon), clip(by.gradient.clip_gradient));
        move |weight, grad, [history]| {
            let grad = clip(grad * rescale) + wd * weight;
            let history = history + grad * grad;
            (weight - lr * grad / (history.sqrt() + epsilon), [history])
        }
    }
}

struct Ftrl;

impl Rule<2> for Ftrl {
    type Parameters = FtrlParameters;
    const STATES: [&'static str; 2] = ["z", "n"];
    const DIVIDES: bool = true;

    fn element<W: Element + Float>(
        by: &FtrlParameters,
        at: Moment,
    ) -> impl Fn(W, W, [W; 2]) -> (W, [W; 2]) + Copy + Sync {
        let (lr, lamda, beta) = (of::<W>(at.rate), of::<W>(by.lamda1), of::<W>(by.beta));
        let (wd, rescale, clip) = (of::<W>(by.wd), of::<W>(by.gradient.rescale_grad), clip(by.gradient.clip_gradient));
        move |weight, grad, [z, n]| {
            let grad = clip(grad * rescale);
            let squares = n + grad * grad;
            let z = z + grad - (squares.sqrt() - n.sqrt()) * weight / lr;
            let far = z.abs() > lamda;
            let weight = (z.signum() * lamda - z) / ((beta + squares.sqrt()) / lr + wd);
            (if far { weight } else { W::zero() }, [z, squares])
        }
    }
}

/// How the property of a rule is made.
fn make<R: Rule<S>, const S: usize>() -> Maker {
    Maker::of(|parameters: R::Parameters| {
        parameters.rate().0.map_or(Ok(()), |rate| check_rate(R::DIVIDES, rate))?;
        Ok(Box::new(Update::<R, S>(parameters)))
    })
}

/// All operators, by name, each with its formula.
pub(super) fn all(add: &mut Builtin<'_>) {
    let ops: [(&str, &str, Maker); 8] = [
        ("sgd_update", "weight - lr (grad + wd weight)", make::<Sgd, 0>()),
        ("sgd_mom_update", "weight + mom, with mom = momentum mom - lr (grad + wd weight)", make::<Momentum, 1>()),
        (
            "nag_mom_update",
            "weight + momentum mom - lr (grad + wd weight), with mom as in sgd_mom_update",
            make::<Nesterov, 1>(),
        ),
        (
            "adam_update",
            "weight - lr mean / (√var + epsilon), with the moving means of the gradients and squares",
            make::<Adam, 2>(),
        ),
        ("adamw_update", "like adam_update, but the weight shrinks by itself, by lr wd weight", make::<AdamW, 2>()),
        (
            "rmsprop_update",
            "weight - lr grad / √(n + epsilon), with n the moving mean of squares",
            make::<RmsProp, 1>(),
        ),
        (
            "adagrad_update",
            "weight - lr grad / (√history + epsilon), with history the sum of squares",
            make::<AdaGrad, 1>(),
        ),
        (
            "ftrl_update",
            "(sign(z) lamda1 - z) / ((beta + √n) / lr + wd), or 0 where |z| is at most lamda1; z sums the gradients",
            make::<Ftrl, 2>(),
        ),
    ];
    for (name, about, maker) in ops {
        add(name, about, maker);
    }
}
