//! `take` and `Embedding`: the elements at places of an axis. The gradient is added up at these.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::{with_float, with_work, zero};
use crate::operator::ordered::{write, Ordered};
use crate::operator::parameters::Parameters;
use crate::operator::picking::{around, check_places, Mode};
use crate::operator::property::{
    assign_shape, assign_type, Given, OpContext, Operator, OperatorProperty, Scratch, NUMBERS,
};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Shape, MAX_RANK};
use seriatim::Context;
use smallvec::SmallVec;

/// Of `take`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct TakeParameters {
    /// The axis of the places, counted from the end if negative.
    #[parameter(default = 0)]
    pub axis: isize,
    /// What becomes of places that there are not.
    #[parameter(default = "clip")]
    pub mode: Mode,
}

/// Of `Embedding`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct EmbeddingParameters {
    /// How many rows the weight has.
    #[parameter(range = 1..)]
    pub input_dim: usize,
    /// How many elements a row has.
    #[parameter(range = 1..)]
    pub output_dim: usize,
}

#[derive(Clone, Debug)]
enum Take {
    Take(TakeParameters),
    Embedding(EmbeddingParameters),
}

impl Take {
    /// The numbers of the inputs: of the array, and of the places.
    fn inputs(&self) -> (usize, usize) {
        match self {
            Take::Take(_) => (0, 1),
            Take::Embedding(_) => (1, 0),
        }
    }

    fn axis(&self, of: &Shape) -> Result<usize, Error> {
        match self {
            Take::Take(parameters) => of.axis(parameters.axis),
            Take::Embedding(_) => Ok(0),
        }
    }

    /// The places as numbers of the axis, in order.
    fn places(&self, ctx: &OpContext<'_, '_>, places: &Blob<'_>, count: usize) -> Result<Scratch<i64>, Error> {
        let mode = match self {
            Take::Take(parameters) => parameters.mode,
            Take::Embedding(_) => Mode::Clip,
        };
        let mut found = ctx.scratch::<i64>(places.size())?;
        places.reader::<i64>().fill(found.as_mut_slice());
        for place in found.as_mut_slice() {
            *place = mode.place(*place, count)? as i64;
        }
        Ok(found)
    }
}

impl OperatorProperty for Take {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        match self {
            Take::Take(parameters) => parameters.params(),
            Take::Embedding(parameters) => parameters.params(),
        }
    }

    fn list_arguments(&self) -> Vec<&'static str> {
        match self {
            Take::Take(_) => vec!["a", "indices"],
            Take::Embedding(_) => vec!["data", "weight"],
        }
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        if let Take::Embedding(EmbeddingParameters { input_dim, output_dim }) = self {
            assign_shape("weight", &mut in_shape[1], Shape::new(&[*input_dim, *output_dim])?)?;
        }
        let (array, places) = self.inputs();
        let (Some(of), Some(places)) = (in_shape[array], in_shape[places]) else { return Ok(false) };
        let axis = self.axis(&of)?;
        let mut dims = SmallVec::<[usize; MAX_RANK]>::from_slice(&of.dims()[..axis]);
        dims.extend_from_slice(places.dims());
        dims.extend_from_slice(&of.dims()[axis + 1..]);
        assign_shape("output", &mut out_shape[0], Shape::new(&dims)?).map(|()| true)
    }

    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        _: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        let ((array, places), names) = (self.inputs(), self.list_arguments());
        let is_known = check_places(names[places], in_type[places])?;
        let Some(dtype) = in_type[array].or(out_type[0]) else { return Ok(false) };
        assign_type(names[array], &mut in_type[array], dtype)?;
        assign_type("output", &mut out_type[0], dtype)?;
        Ok(is_known)
    }

    fn types(&self) -> &'static [DType] {
        match self {
            Take::Take(_) => &DType::ALL,
            Take::Embedding(_) => NUMBERS,
        }
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [out_grad, &[in_data[self.inputs().1]]].concat()
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Take {
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
        let (array, places) = self.inputs();
        let shape = in_data[array].shape();
        let [outer, count, inner] = around(&shape, self.axis(&shape)?);
        let mut places = self.places(ctx, &in_data[places], count)?;
        with_work!(in_data[array].dtype(), W => {
            let mut elements = Ordered::<W>::new(ctx, &in_data[array])?;
            let (elements, mut writer) = (elements.get(), out_data[0].writer::<W>(req[0]));
            for number in 0..outer {
                for place in places.as_mut_slice() {
                    writer.put(&elements[(number * count + *place as usize) * inner..][..inner]);
                }
            }
        });
        Ok(())
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
        let (array, places) = self.inputs();
        zero(&mut in_grad[places], req[places])?;
        if req[array].is_null() {
            return Ok(());
        }
        let (grad, shape) = (out_grad.get(0)?, in_grad[array].shape());
        let [outer, count, inner] = around(&shape, self.axis(&shape)?);
        let mut places = self.places(ctx, &in_data.get(places)?, count)?;
        with_float!(grad.dtype(), W => {
            let (mut reader, mut part) = (grad.reader::<W>(), ctx.scratch::<W>(inner)?);
            let part = part.as_mut_slice();
            write::<W>(ctx, &mut in_grad[array], req[array], |sums| {
                sums.fill(0.0);
                for number in 0..outer {
                    for place in places.as_mut_slice() {
                        reader.fill(part);
                        let sums = &mut sums[(number * count + *place as usize) * inner..][..inner];
                        sums.iter_mut().zip(&*part).for_each(|(sum, grad)| *sum += *grad);
                    }
                }
                Ok(())
            })
        })
    }
}

/// Both.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "The elements of an array at places of an axis";
    add("take", about, Maker::of(|parameters: TakeParameters| Ok(Box::new(Take::Take(parameters)))));
    let about = "The rows of a weight at places; beyond the ends they are the first or the last";
    add("Embedding", about, Maker::of(|parameters: EmbeddingParameters| Ok(Box::new(Take::Embedding(parameters)))));
}
