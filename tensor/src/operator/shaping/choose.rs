//! `where`: elements of one of two arrays; and `clip`, which keeps elements within bounds.

#![forbid(unsafe_code)]

use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::{in_parts, map_in_parts, with_work, zero};
use crate::operator::parameters::Parameters;
use crate::operator::parts::Workers;
use crate::operator::property::{
    assign_shape, assign_type, by_parameters, Given, OpContext, Operator, OperatorProperty, NUMBERS,
};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};
use seriatim::Context;
use smallvec::SmallVec;

/// Of `clip`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct ClipParameters {
    /// The least value; lesser elements become it.
    pub a_min: f64,
    /// The greatest value; greater elements become it.
    pub a_max: f64,
}

#[derive(Clone, Debug)]
struct Where;

/// How many elements are chosen at a time.
const BLOCK: usize = 256;

/// The layout of a condition along the shape of the arrays: of that shape, or one value a place of
/// the first axis.
fn condition_along(of: &Layout, shape: &Shape) -> Result<Layout, Error> {
    let mut layout = *of;
    if layout.shape == *shape {
        return Ok(layout);
    }
    let mut dims = smallvec::SmallVec::<[usize; 8]>::from_elem(1, shape.rank());
    dims[0] = layout.shape.dims()[0];
    layout.shape = Shape::new(&dims)?;
    layout.broadcast_to(*shape)
}

/// Writes elements of `x` where the condition is not 0, and else of `y`. A missing array is zeros.
fn choose(
    workers: Workers<'_>,
    condition: &Blob<'_>,
    [x, y]: [Option<Blob<'_>>; 2],
    out: &mut BlobMut<'_>,
    req: OpReq,
) -> Result<(), Error> {
    if let (Some(x), Some(y), true) = (x, y, condition.dtype() == out.dtype()) {
        return with_work!(out.dtype(), W => map_in_parts::<W>(workers, &[*condition, x, y], out, req, |x, out| {
            for (((out, is_x), x), y) in out.iter_mut().zip(x[0]).zip(x[1]).zip(x[2]) {
                *out = if *is_x == W::default() { *y } else { *x };
            }
        }));
    }
    let mut inputs = SmallVec::<[Blob<'_>; 3]>::from_slice(&[*condition]);
    inputs.extend(x.into_iter().chain(y));
    let (has_x, has_y) = (x.is_some(), y.is_some());
    in_parts(workers, &inputs, &mut [out.again()], |inputs, outs| {
        let (condition, out) = (&inputs[0], &mut outs[0]);
        let arrays = [has_x.then(|| inputs[1]), has_y.then(|| inputs[inputs.len() - 1])];
        with_work!(out.dtype(), W => choose_part::<W>(condition, arrays, out, req));
        Ok(())
    })
}

/// The same on this thread.
fn choose_part<W: Element>(condition: &Blob<'_>, arrays: [Option<Blob<'_>>; 2], out: &mut BlobMut<'_>, req: OpReq) {
    let (mut left, mut is_x) = (out.size(), [false; BLOCK]);
    let (mut conditions, mut values) = (condition.reader::<bool>(), [[W::default(); BLOCK]; 2]);
    let mut readers = arrays.map(|blob| blob.map(|blob| blob.reader::<W>()));
    let mut writer = out.writer::<W>(req);
    while left > 0 {
        let count = left.min(BLOCK);
        conditions.fill(&mut is_x[..count]);
        for (reader, values) in readers.iter_mut().zip(&mut values) {
            if let Some(reader) = reader {
                reader.fill(&mut values[..count]);
            }
        }
        let [x, y] = &mut values;
        for ((x, y), is_x) in x.iter_mut().zip(y).zip(is_x) {
            *x = if is_x { *x } else { *y };
        }
        writer.put(&x[..count]);
        // A missing array is zeros in the next block too.
        if readers[0].is_none() {
            x.fill(W::default());
        }
        left -= count;
    }
}

impl OperatorProperty for Where {
    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }

    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["condition", "x", "y"]
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[1].or(in_shape[2]).or(out_shape[0]) else { return Ok(false) };
        assign_shape("x", &mut in_shape[1], shape)?;
        assign_shape("y", &mut in_shape[2], shape)?;
        assign_shape("output", &mut out_shape[0], shape)?;
        let Some(condition) = in_shape[0] else { return Ok(false) };
        let is_of_rows = condition.rank() == 1 && shape.dims().first() == condition.dims().first();
        if condition != shape && !is_of_rows {
            let message = format!("'condition' has shape {condition}: shape {shape} or its first axis alone belongs");
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        }
        Ok(true)
    }

    /// The condition may have a type of its own.
    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        _: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        let Some(dtype) = in_type[1].or(in_type[2]).or(out_type[0]) else { return Ok(false) };
        for (name, place) in ["x", "y"].into_iter().zip(&mut in_type[1..]).chain([("output", &mut out_type[0])]) {
            assign_type(name, place, dtype)?;
        }
        Ok(in_type[0].is_some())
    }

    fn types(&self) -> &'static [DType] {
        &DType::ALL
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [out_grad, &in_data[..1]].concat()
    }
}

impl Operator for Where {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        if req[0].is_null() {
            return Ok(());
        }
        let layout = condition_along(in_data[0].layout(), &in_data[1].shape())?;
        let condition = in_data[0].with_layout(&layout);
        choose(ctx.workers(), &condition, [Some(in_data[1]), Some(in_data[2])], &mut out_data[0], req[0])
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        // The condition says which, and a little more of it says the same.
        zero(&mut in_grad[0], req[0])?;
        let grad = out_grad.get(0)?;
        let condition = in_data.get(0)?;
        let layout = condition_along(condition.layout(), &grad.shape())?;
        let condition = condition.with_layout(&layout);
        for (place, arrays) in [(1, [Some(grad), None]), (2, [None, Some(grad)])] {
            if !req[place].is_null() {
                choose(ctx.workers(), &condition, arrays, &mut in_grad[place], req[place])?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Clip {
    parameters: ClipParameters,
}

impl OperatorProperty for Clip {
    by_parameters!();

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0].or(out_shape[0]) else { return Ok(false) };
        assign_shape("data", &mut in_shape[0], shape)?;
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    fn types(&self) -> &'static [DType] {
        NUMBERS
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [out_grad, in_data].concat()
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }
}

impl Operator for Clip {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let ClipParameters { a_min, a_max } = self.parameters;
        with_work!(in_data[0].dtype(), W => {
            let (least, most) = (W::from_number(a_min.to_number()), W::from_number(a_max.to_number()));
            map_in_parts::<W>(ctx.workers(), in_data, &mut out_data[0], req[0], |x, out| {
                out.iter_mut().zip(x[0]).for_each(|(out, x)| *out = W::clamp(*x, least, most));
            })
        })
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let ClipParameters { a_min, a_max } = self.parameters;
        let inputs = [out_grad.get(0)?, in_data.get(0)?];
        map_in_parts::<f64>(ctx.workers(), &inputs, &mut in_grad[0], req[0], |x, out| {
            for ((out, grad), x) in out.iter_mut().zip(x[0]).zip(x[1]) {
                *out = if *x < a_min || *x > a_max { 0.0 } else { *grad };
            }
        })
    }
}

/// Both.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "Elements of x where the condition is not 0, and else of y";
    add("where", about, Maker::of(|()| Ok(Box::new(Where))));
    let about = "Each element, or the nearer of two bounds";
    add(
        "clip",
        about,
        Maker::of(|parameters: ClipParameters| {
            if (parameters.a_min..=parameters.a_max).is_empty() {
                let ClipParameters { a_min, a_max } = parameters;
                let message = format!("a_min = {a_min} is not below a_max = {a_max}: give the lesser first");
                return Err(Error::new(ErrorKind::BadParameter, message));
            }
            Ok(Box::new(Clip { parameters }))
        }),
    );
}
