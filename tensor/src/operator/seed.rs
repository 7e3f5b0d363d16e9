//! A seed that operations read: [`Runtime::seed_by`]. Programs call it on any thread.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::parameter::Parameter;
use crate::ndarray::runtime::Runtime;
use crate::operator::op::Op;
use crate::operator::property::{assign_shape, OpContext, Operator, OperatorProperty};
use crate::request::OpReq;
use crate::resource::manager::MOST_GENERATORS;
use crate::resource::{Philox, ResourceRequest};
use crate::shape::Shape;
use seriatim::Context;
use std::sync::OnceLock;

impl Runtime {
    /// Seeds the generators by a parameter, whose value is read in the operation's turn. A captured
    /// step reads it in each run.
    ///
    /// # Errors
    /// [`ForeignArray`](crate::ErrorKind::ForeignArray) if the parameter is of another runtime;
    /// those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{Distribution, DType, Runtime};
    /// let runtime = Runtime::global()?;
    /// let of = Distribution::Uniform { low: 0.0, high: 1.0 };
    /// let seed = runtime.parameter(1i64)?;
    /// runtime.seed_by(&seed)?;
    /// let one = runtime.random([4], DType::F32, of)?;
    /// runtime.seed(1)?;
    /// assert_eq!(one.to_vec::<f32>()?, runtime.random([4], DType::F32, of)?.to_vec::<f32>()?);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn seed_by(&self, seed: &Parameter<i64>) -> Result<(), Error> {
        static OPS: [OnceLock<Result<Op, Error>>; MOST_GENERATORS] = [const { OnceLock::new() }; MOST_GENERATORS];
        let generators = self.resources().generators().len();
        let op = OPS[generators - 1].get_or_init(|| Op::of_property("seed", Box::new(Seed { generators })));
        let op = op.as_ref().map_err(Error::clone)?;
        if !seed.array().runtime().is(self) {
            let message = "the seed is a parameter of another runtime: make one by this runtime's parameter()";
            return Err(Error::new(crate::ErrorKind::ForeignArray, message));
        }
        op.invoke_into(&[seed.array()], &[])?;
        self.resources().deal_from_first();
        Ok(())
    }
}

/// Seeds so many generators, which are all that there are.
#[derive(Clone)]
struct Seed {
    generators: usize,
}

impl OperatorProperty for Seed {
    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["seed"]
    }

    fn list_outputs(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        assign_shape("seed", &mut in_shape[0], Shape::new(&[])?).map(|()| true)
    }

    fn types(&self) -> &'static [DType] {
        &[DType::I64]
    }

    fn forward_resource(&self) -> Vec<ResourceRequest> {
        vec![ResourceRequest::Random; self.generators]
    }

    fn has_gradient(&self) -> bool {
        false
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Seed {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        _: &[OpReq],
        _: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let mut seed = 0i64;
        in_data[0].reader::<i64>().fill(std::slice::from_mut(&mut seed));
        for resource in ctx.requested.iter_mut() {
            let generator = resource.get_random()?;
            *generator = Philox::new(seed as u64, generator.stream());
        }
        Ok(())
    }
}
