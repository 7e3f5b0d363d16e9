//! `Concat` and `stack`: arrays one behind the other, along an axis or along a new one.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::lists::numbered;
use crate::operator::map::copy;
use crate::operator::parameters::Parameters;
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};
use smallvec::SmallVec;

/// Of `Concat`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct ConcatParameters {
    /// How many arrays there are.
    #[parameter(range = 1..=4096)]
    pub num_args: usize,
    /// The axis along which they are joined, counted from the end if negative.
    #[parameter(default = 1)]
    pub dim: isize,
}

/// Of `stack`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct StackParameters {
    /// How many arrays there are.
    #[parameter(range = 1..=4096)]
    pub num_args: usize,
    /// Where the new axis is in the result, counted from the end if negative.
    #[parameter(default = 0)]
    pub axis: isize,
}

#[derive(Clone, Debug)]
struct Concat {
    parameters: ConcatParameters,
}

#[derive(Clone, Debug)]
struct Stack {
    parameters: StackParameters,
}

/// Pieces of the result, one an input.
trait Join {
    /// How many places of the result's axis an input takes.
    fn length(&self, axis: usize, input: &Shape) -> usize;

    /// The axis of the result.
    fn axis(&self, out: &Shape) -> Result<usize, Error>;

    /// The places of the result that are an input's, laid out as that.
    fn piece(&self, layout: &Layout, axis: usize, begin: usize, length: usize) -> Result<Layout, Error>;
}

impl Join for Concat {
    fn length(&self, axis: usize, input: &Shape) -> usize {
        input.dims()[axis]
    }

    fn axis(&self, out: &Shape) -> Result<usize, Error> {
        out.axis(self.parameters.dim)
    }

    fn piece(&self, layout: &Layout, axis: usize, begin: usize, length: usize) -> Result<Layout, Error> {
        layout.slice(axis, begin, begin + length, 1)
    }
}

impl Join for Stack {
    fn length(&self, _: usize, _: &Shape) -> usize {
        1
    }

    fn axis(&self, out: &Shape) -> Result<usize, Error> {
        out.axis(self.parameters.axis)
    }

    fn piece(&self, layout: &Layout, axis: usize, begin: usize, _: usize) -> Result<Layout, Error> {
        layout.slice(axis, begin, begin + 1, 1)?.without(axis)
    }
}

impl OperatorProperty for Concat {
    by_parameters!();

    fn list_arguments(&self) -> Vec<&'static str> {
        numbered("arg", self.parameters.num_args)
    }

    /// One shape may be missing if the result's is known.
    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(known) = in_shape.iter().flatten().next().copied().or(out_shape[0]) else { return Ok(false) };
        let axis = known.axis(self.parameters.dim)?;
        let mut dims = SmallVec::<[usize; 8]>::from_slice(known.dims());
        dims[axis] = 0;
        for (number, shape) in in_shape.iter().enumerate() {
            let Some(shape) = shape else { continue };
            let others = || shape.dims().iter().zip(known.dims()).enumerate().filter(|(at, _)| *at != axis);
            if shape.rank() != known.rank() || others().any(|(_, (one, other))| one != other) {
                let message = format!("'arg{number}' has shape {shape}, which differs from {known} beside axis {axis}");
                return Err(Error::new(ErrorKind::ShapeMismatch, message));
            }
            dims[axis] = dims[axis].saturating_add(shape.dims()[axis]);
        }
        let missing = in_shape.iter().filter(|shape| shape.is_none()).count();
        match (missing, out_shape[0]) {
            (0, _) => assign_shape("output", &mut out_shape[0], Shape::new(&dims)?).map(|()| true),
            (1, Some(out)) if out.rank() == dims.len() && out.dims()[axis] >= dims[axis] => {
                dims[axis] = out.dims()[axis] - dims[axis];
                let left = Shape::new(&dims)?;
                in_shape.iter_mut().filter(|shape| shape.is_none()).for_each(|shape| *shape = Some(left));
                dims[axis] = out.dims()[axis];
                assign_shape("output", &mut out_shape[0], Shape::new(&dims)?).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    fn types(&self) -> &'static [DType] {
        &DType::ALL
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], _: &[usize], _: &[usize]) -> Vec<usize> {
        out_grad.to_vec()
    }
}

impl OperatorProperty for Stack {
    by_parameters!();

    fn list_arguments(&self) -> Vec<&'static str> {
        numbered("arg", self.parameters.num_args)
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let from_out = || {
            let out = out_shape[0]?;
            Layout::contiguous(out).without(out.axis(self.parameters.axis).ok()?).ok().map(|layout| layout.shape)
        };
        let Some(known) = in_shape.iter().flatten().next().copied().or_else(from_out) else { return Ok(false) };
        for (number, shape) in in_shape.iter_mut().enumerate() {
            assign_shape(&format!("arg{number}"), shape, known)?;
        }
        // The new axis is counted among those of the result.
        let mut dims = SmallVec::<[usize; 8]>::from_slice(known.dims());
        dims.push(self.parameters.num_args);
        let axis = Shape::new(&dims)?.axis(self.parameters.axis)?;
        dims[axis..].rotate_right(1);
        assign_shape("output", &mut out_shape[0], Shape::new(&dims)?).map(|()| true)
    }

    fn types(&self) -> &'static [DType] {
        &DType::ALL
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], _: &[usize], _: &[usize]) -> Vec<usize> {
        out_grad.to_vec()
    }
}

macro_rules! joins {
    ($($joined:ident),*) => {$(
        impl Operator for $joined {
            fn forward(
                &self,
                ctx: &mut OpContext<'_, '_>,
                in_data: &[Blob<'_>],
                req: &[OpReq],
                out_data: &mut [BlobMut<'_>],
                _: &mut [BlobMut<'_>],
            ) -> Result<(), Error> {
                let (axis, mut begin) = (self.axis(&out_data[0].shape())?, 0);
                for input in in_data {
                    let length = self.length(axis, &input.shape());
                    let piece = self.piece(out_data[0].layout(), axis, begin, length)?;
                    copy(ctx.workers(), input, &mut out_data[0].with_layout(&piece), req[0])?;
                    begin += length;
                }
                Ok(())
            }

            fn backward(
                &self,
                ctx: &mut OpContext<'_, '_>,
                out_grad: Given<'_>,
                _: Given<'_>,
                _: Given<'_>,
                req: &[OpReq],
                in_grad: &mut [BlobMut<'_>],
                _: &mut [BlobMut<'_>],
            ) -> Result<(), Error> {
                let grad = out_grad.get(0)?;
                let (axis, mut begin) = (self.axis(&grad.shape())?, 0);
                for (grad_of, req) in in_grad.iter_mut().zip(req) {
                    let length = self.length(axis, &grad_of.shape());
                    copy(ctx.workers(), &grad.with_layout(&self.piece(grad.layout(), axis, begin, length)?), grad_of, *req)?;
                    begin += length;
                }
                Ok(())
            }
        }
    )*};
}

joins!(Concat, Stack);

/// Both.
pub(super) fn all(add: &mut Builtin<'_>) {
    for name in ["Concat", "concat"] {
        let about = "Arrays one behind the other along an axis";
        add(name, about, Maker::of(|parameters: ConcatParameters| Ok(Box::new(Concat { parameters }))));
    }
    let about = "Arrays of one shape one behind the other along a new axis";
    add("stack", about, Maker::of(|parameters: StackParameters| Ok(Box::new(Stack { parameters }))));
}
