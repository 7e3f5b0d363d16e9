//! What a user's crate does: registers an operator with parameters and a gradient, and a simple
//! one. It uses nothing but the public interface. CI runs its tests, see `.ci/run`.

#![forbid(unsafe_code)]

use seriatim::Context;
use seriatim_tensor::operator::{
    assign_shape, binary_map, register, unary_map, Given, OpContext, Operator, OperatorProperty, SimpleOp,
};
use seriatim_tensor::{Blob, BlobMut, Choices, Error, ErrorKind, OpReq, Parameters, Shape};

/// Of [`Clip`].
#[derive(Clone, Debug, Parameters)]
pub struct ClipParameters {
    /// The least value.
    pub low: f64,
    /// The largest value.
    #[parameter(default = 1)]
    pub high: f64,
    /// Whether the gradient goes through where a value was changed, too.
    #[parameter(default = "inside")]
    pub gradient: Through,
}

/// Where the gradient of [`Clip`] goes through.
#[derive(Clone, Copy, Debug, PartialEq, Choices)]
pub enum Through {
    /// Where nothing was changed.
    Inside,
    /// Everywhere.
    Everywhere,
}

/// Keeps values between two numbers.
#[derive(Clone, Debug)]
pub struct Clip(ClipParameters);

impl OperatorProperty for Clip {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        assign_shape("output", &mut out_shape[0], shape)?;
        Ok(true)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        vec![out_grad[0], in_data[0]]
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Clip {
    fn forward(
        &self,
        _: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let ClipParameters { low, high, .. } = self.0;
        unary_map(in_data[0], &mut out_data[0], req[0], |x| x.max(low).min(high))
    }

    fn backward(
        &self,
        _: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let ClipParameters { low, high, gradient } = self.0;
        let all = gradient == Through::Everywhere;
        let through = |g: f64, x: f64| if all || (low..=high).contains(&x) { g } else { 0.0 };
        binary_map(out_grad.get(0)?, in_data.get(0)?, &mut in_grad[0], req[0], through)
    }
}

/// Registers the operators of this crate; a second call is an error.
///
/// # Errors
/// [`AlreadyRegistered`](ErrorKind::AlreadyRegistered).
pub fn register_all() -> Result<(), Error> {
    register("outside_clip", "Keeps values between two numbers", |parameters: ClipParameters| {
        if parameters.low > parameters.high {
            let message = format!("low = {} is above high = {}", parameters.low, parameters.high);
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
        Ok(Box::new(Clip(parameters)))
    })?;
    SimpleOp::unary("outside_softsign", |x, _, out, req| unary_map(x.0, out, req, |x| x / (1.0 + x.abs())))
        .gradient_by_input(|g, x, _, out, req| binary_map(g.0, x.0, out, req, |g, x| g / (1.0 + x.abs()).powi(2)))
        .describe("x / (1 + |x|)")
        .register()
}
