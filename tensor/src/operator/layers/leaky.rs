//! `LeakyReLU` and its kind: functions that let something of negative elements through.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::{Error, ErrorKind};
use crate::kernel::leaky as kernel;
use crate::kernel::math::Math;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::layers::dropout::draw;
use crate::operator::map::{map, map_in_parts, with_float};
use crate::operator::parameters::{Choices, Parameters};
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::reduction::sum_to;
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::resource::ResourceRequest;
use crate::shape::{Layout, Shape, MAX_RANK};
use smallvec::SmallVec;

/// The functions of `LeakyReLU`.
#[derive(Clone, Copy, PartialEq, Debug, Choices)]
pub(crate) enum Function {
    Leaky,
    Elu,
    Prelu,
    Rrelu,
    Gelu,
    Selu,
}

/// Of `LeakyReLU`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct LeakyParameters {
    /// The function: leaky, elu, prelu with a learned slope, rrelu with a random one, gelu or selu.
    #[parameter(default = "leaky")]
    pub act_type: Function,
    /// What negative elements are multiplied by, for leaky and elu.
    #[parameter(default = 0.25)]
    pub slope: f64,
    /// The least slope, for rrelu.
    #[parameter(default = 0.125)]
    pub lower_bound: f64,
    /// The greatest slope, for rrelu; the mean of both counts outside of training.
    #[parameter(default = 0.334)]
    pub upper_bound: f64,
}

const SELU_SLOPE: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

#[derive(Clone, Debug)]
struct Leaky {
    parameters: LeakyParameters,
}

impl Leaky {
    fn is(&self, function: Function) -> bool {
        self.parameters.act_type == function
    }

    /// The function, for those of one array.
    fn of<T: Element + Math>(&self) -> kernel::Leaky<T> {
        let of = |value: f64| T::from_number(value.to_number());
        let slope = of(self.parameters.slope);
        match self.parameters.act_type {
            Function::Gelu => kernel::Leaky::Gelu,
            Function::Elu => kernel::Leaky::Elu { scale: T::one(), slope },
            Function::Selu => kernel::Leaky::Elu { scale: of(SELU_SCALE), slope: of(SELU_SLOPE) },
            _ => kernel::Leaky::Linear { slope },
        }
    }

    /// The slopes along the data: one, or one for each place of the second axis.
    fn spread(layout: &Layout, shape: &Shape) -> Result<Layout, Error> {
        if layout.shape.size() == 1 {
            return Layout { shape: Shape::new(&[1])?, strides: [0; MAX_RANK], ..*layout }.broadcast_to(*shape);
        }
        let mut dims = SmallVec::<[usize; MAX_RANK]>::from_elem(1, shape.rank());
        dims[1] = layout.shape.size();
        let mut spread = Layout { shape: Shape::new(&dims)?, ..*layout };
        spread.strides = [0; MAX_RANK];
        spread.strides[1] = layout.strides[0];
        spread.broadcast_to(*shape)
    }
}

impl OperatorProperty for Leaky {
    by_parameters!();

    fn list_arguments(&self) -> Vec<&'static str> {
        if self.is(Function::Prelu) {
            vec!["data", "gamma"]
        } else {
            vec!["data"]
        }
    }

    fn list_outputs(&self) -> Vec<&'static str> {
        if self.is(Function::Rrelu) {
            vec!["output", "mask"]
        } else {
            vec!["output"]
        }
    }

    fn num_visible_outputs(&self) -> usize {
        1
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0].or(out_shape[0]) else { return Ok(false) };
        assign_shape("data", &mut in_shape[0], shape)?;
        if self.is(Function::Prelu) {
            let channels = shape.dims().get(1).copied().unwrap_or(1);
            let gamma = *in_shape[1].get_or_insert(Shape::new(&[channels])?);
            if gamma.rank() != 1 || gamma.size() != 1 && gamma.size() != channels {
                let message = format!("'gamma' has shape {gamma} where [1] or [{channels}] belongs");
                return Err(Error::new(ErrorKind::ShapeMismatch, message));
            }
        }
        out_shape.iter_mut().try_for_each(|out| assign_shape("output", out, shape)).map(|()| true)
    }

    fn forward_resource(&self) -> Vec<ResourceRequest> {
        if self.is(Function::Rrelu) {
            vec![ResourceRequest::Random]
        } else {
            Vec::new()
        }
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        match self.parameters.act_type {
            Function::Rrelu => vec![out_grad[0], out_data[1]],
            _ => [out_grad, in_data].concat(),
        }
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        // The random slopes are written by the signs of elements, which must still be there.
        if self.is(Function::Rrelu) {
            Vec::new()
        } else {
            vec![(0, 0)]
        }
    }
}

impl Operator for Leaky {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let data = in_data[0];
        let LeakyParameters { lower_bound, upper_bound, .. } = self.parameters;
        match self.parameters.act_type {
            Function::Prelu => {
                let spread = Leaky::spread(in_data[1].layout(), &data.shape())?;
                let gamma = in_data[1].with_layout(&spread);
                with_float!(data.dtype(), W => map::<W>(&[data, gamma], &mut out_data[0], req[0], |x, out| {
                    for ((out, x), gamma) in out.iter_mut().zip(x[0]).zip(x[1]) {
                        *out = if *x > 0.0 { *x } else { gamma * x };
                    }
                }))
            }
            Function::Rrelu => with_float!(data.dtype(), W => {
                let mut factors = ctx.scratch::<W>(data.size())?;
                let factors = factors.as_mut_slice();
                if ctx.is_train {
                    draw(ctx, factors, |word| {
                        let share = (f64::from(word) + 0.5) / 4_294_967_296.0;
                        (lower_bound + (upper_bound - lower_bound) * share) as W
                    })?;
                } else {
                    factors.fill((0.5 * (lower_bound + upper_bound)) as W);
                }
                let layout = Layout::contiguous(data.shape());
                map::<W>(&[data, Blob::of_slice(factors, &layout)], &mut out_data[0], req[0], |x, out| {
                    for ((out, x), factor) in out.iter_mut().zip(x[0]).zip(x[1]) {
                        *out = if *x > 0.0 { *x } else { factor * x };
                    }
                })?;
                map::<W>(&[data, Blob::of_slice(factors, &layout)], &mut out_data[1], req[1], |x, out| {
                    for ((out, x), factor) in out.iter_mut().zip(x[0]).zip(x[1]) {
                        *out = if *x > 0.0 { 1.0 } else { *factor };
                    }
                })
            }),
            _ => with_float!(data.dtype(), W => {
                let of = self.of::<W>();
                map_in_parts::<W>(ctx.workers(), &[data], &mut out_data[0], req[0], |x, out| of.forward(x[0], out))
            }),
        }
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        out_data: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let grad = out_grad.get(0)?;
        match self.parameters.act_type {
            Function::Prelu => {
                let (data, gamma) = (in_data.get(0)?, in_data.get(1)?);
                let spread = Leaky::spread(gamma.layout(), &data.shape())?;
                let gamma = gamma.with_layout(&spread);
                with_float!(grad.dtype(), W => {
                    map::<W>(&[grad, data, gamma], &mut in_grad[0], req[0], |x, out| {
                        for (((out, grad), x), gamma) in out.iter_mut().zip(x[0]).zip(x[1]).zip(x[2]) {
                            *out = if *x > 0.0 { *grad } else { gamma * grad };
                        }
                    })?;
                    if req[1].is_null() {
                        return Ok(());
                    }
                    let mut products = ctx.scratch::<W>(grad.size())?;
                    let layout = Layout::contiguous(grad.shape());
                    let made = &mut BlobMut::of_slice(products.as_mut_slice(), &layout);
                    map::<W>(&[grad, data], made, OpReq::Write, |x, out| {
                        for ((out, grad), x) in out.iter_mut().zip(x[0]).zip(x[1]) {
                            *out = if *x > 0.0 { 0.0 } else { grad * x };
                        }
                    })?;
                    let shape = grad.shape();
                    let of = in_grad[1].layout();
                    let mut dims = SmallVec::<[usize; MAX_RANK]>::from_elem(1, shape.rank());
                    let mut strides = [0; MAX_RANK];
                    if of.shape.size() > 1 {
                        (dims[1], strides[1]) = (of.shape.size(), of.strides[0]);
                    }
                    let channels = Layout { shape: Shape::new(&dims)?, strides, offset: of.offset };
                    let sum = &mut in_grad[1].with_layout(&channels);
                    sum_to(ctx.workers(), &Blob::of_slice(products.as_mut_slice(), &layout), sum, req[1])
                })
            }
            Function::Rrelu => with_float!(grad.dtype(), W => {
                map::<W>(&[grad, out_data.get(1)?], &mut in_grad[0], req[0], |x, out| {
                    out.iter_mut().zip(x[0]).zip(x[1]).for_each(|((out, grad), factor)| *out = grad * factor);
                })
            }),
            _ => with_float!(grad.dtype(), W => {
                let (of, inputs) = (self.of::<W>(), [grad, in_data.get(0)?]);
                map_in_parts::<W>(ctx.workers(), &inputs, &mut in_grad[0], req[0], |x, out| {
                    of.backward(x[0], x[1], out);
                })
            }),
        }
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "A function that lets something of negative elements through";
    let maker = Maker::of(|parameters: LeakyParameters| {
        let LeakyParameters { lower_bound, upper_bound, .. } = parameters;
        if (lower_bound..=upper_bound).is_empty() {
            let message = format!("lower_bound = {lower_bound} is not below upper_bound = {upper_bound}");
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
        Ok(Box::new(Leaky { parameters }))
    });
    add("LeakyReLU", about, maker);
}
