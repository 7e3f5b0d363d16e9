//! What an operator is: [`OperatorProperty`] has its meaning, [`Operator`] does its work.
//!
//! Operators of this crate and of programs implement both. `op.rs` asks a property once for what
//! does not depend on shapes, `call.rs` asks for shapes and types at each call and calls the
//! operator inside of an operation of the engine.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::runtime::Runtime;
use crate::operator::parts::Workers;
use crate::request::OpReq;
use crate::resource::{Resource, ResourceRequest};
use crate::shape::Shape;
use crate::storage::{Handle, Storage, Tag};
use seriatim::{Context, Device, RunContext};

/// What an operator is told beside its arrays.
#[derive(Debug)]
pub struct OpContext<'a, 'r> {
    /// Whether it runs to train: inside of [`record`](crate::autograd::record).
    pub is_train: bool,
    /// The engine's context of the operation that it runs in.
    pub run_ctx: &'a RunContext<'r>,
    /// The resources, in the order in which the property has asked for them.
    pub requested: &'a mut [Resource<'r>],
    /// The scalar of a [`SimpleOp`](crate::operator::SimpleOp) that has one, otherwise 0.
    pub scalar: f64,
    pub(crate) runtime: &'a Runtime,
}

impl OpContext<'_, '_> {
    /// Memory of the storage for so many elements, which is the operator's until it is dropped.
    /// What is in it is undefined. Unlike temporary space it keeps no other operation waiting.
    ///
    /// # Errors
    /// [`OutOfMemory`](ErrorKind::OutOfMemory).
    pub fn scratch<T: crate::Element>(&self, elements: usize) -> Result<Scratch<T>, Error> {
        Scratch::new(self.runtime.storage(), elements)
    }

    /// Where parts of a long kernel run.
    pub(super) fn workers(&self) -> Workers<'_> {
        Workers::new(self.runtime)
    }
}

/// Memory for an operator's own use, from [`OpContext::scratch`].
///
/// A few elements lie in it, as a row of a small network: taking a block would take longer than the
/// work on them.
#[derive(Debug)]
pub struct Scratch<T> {
    /// Of the storage, if they are more than a few.
    block: Option<Handle>,
    small: [T; SMALL],
    elements: usize,
}

/// How many elements lie in a [`Scratch`] itself.
const SMALL: usize = 32;

impl<T: crate::Element> Scratch<T> {
    pub(super) fn new(storage: &Storage, elements: usize) -> Result<Scratch<T>, Error> {
        let bytes = elements.checked_mul(size_of::<T>()).ok_or_else(|| {
            Error::new(ErrorKind::TooLarge, format!("{elements} elements of scratch are more than memory has"))
        })?;
        let block = if elements <= SMALL { None } else { Some(storage.alloc_as(Tag::NONE, bytes, Context::cpu(0))?) };
        Ok(Scratch { block, small: [T::default(); SMALL], elements })
    }

    /// The elements.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match &mut self.block {
            Some(block) => block.elements_mut(self.elements),
            None => &mut self.small[..self.elements],
        }
    }
}

/// The arrays that a backward pass is given. Those that the property has not declared are missing.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a>(pub(crate) &'a [Option<Blob<'a>>]);

impl<'a> Given<'a> {
    /// The array at a place.
    ///
    /// # Errors
    /// [`WrongArguments`](ErrorKind::WrongArguments) if it was not declared.
    pub fn get(&self, at: usize) -> Result<Blob<'a>, Error> {
        self.0.get(at).copied().flatten().ok_or_else(|| {
            let message = format!("array {at} is not in declare_backward_dependency, so the backward pass has it not");
            Error::new(ErrorKind::WrongArguments, message)
        })
    }
}

/// The work of an operator.
///
/// Any worker calls it, at the same time for several operations. All arrays have been made. A
/// request says how each result is written; with [`OpReq::Null`] the work for it can be left out.
pub trait Operator: Send + Sync {
    /// Computes `out_data` from `in_data`. `req[i]` belongs to `out_data[i]`. `aux_states` are
    /// arrays that the operator keeps from call to call.
    ///
    /// # Errors
    /// Whatever the operator finds; the operation then fails.
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error>;

    /// Computes `in_grad`, the gradient by each input, from `out_grad`, that by each output.
    ///
    /// # Errors
    /// As for `forward`. An operator without this method has no gradient.
    #[expect(clippy::too_many_arguments, reason = "they are the document's")]
    fn backward(
        &self,
        _ctx: &mut OpContext<'_, '_>,
        _out_grad: Given<'_>,
        _in_data: Given<'_>,
        _out_data: Given<'_>,
        _req: &[OpReq],
        _in_grad: &mut [BlobMut<'_>],
        _aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        Err(Error::new(ErrorKind::NoGradient, "the operator has no backward pass"))
    }
}

/// The types of floats, which most operators have kernels for.
pub const FLOATS: &[DType] = &[DType::F32, DType::F64, DType::F16, DType::Bf16];

/// The types of numbers.
pub const NUMBERS: &[DType] =
    &[DType::F32, DType::F64, DType::F16, DType::Bf16, DType::I8, DType::U8, DType::I32, DType::I64];

/// The kinds of devices whose memory the processor reaches.
pub(super) const PROCESSOR: &[Device] = &[Device::Cpu, Device::CpuPinned];

/// The meaning of an operator with its parameters: names, shapes, types, what it needs.
pub trait OperatorProperty: Send + Sync {
    /// The parameters as text, by name: those that differ from others of the kind.
    fn get_params(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The names of the inputs, those of auxiliary states left out.
    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["data"]
    }

    /// The names of the outputs.
    fn list_outputs(&self) -> Vec<&'static str> {
        vec!["output"]
    }

    /// The names of the arrays that the operator keeps from call to call.
    fn list_auxiliary_states(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// How many outputs there are.
    fn num_outputs(&self) -> usize {
        self.list_outputs().len()
    }

    /// How many of them, the first ones, are for the program.
    fn num_visible_outputs(&self) -> usize {
        self.num_outputs()
    }

    /// Fills in the shapes that follow from the known ones, in any direction. `Ok(false)` says that
    /// there is not enough to know all.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if the known ones do not go together.
    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        aux_shape: &mut [Option<Shape>],
    ) -> Result<bool, Error>;

    /// Fills in the types that follow from the known ones. By default all are the same.
    ///
    /// # Errors
    /// [`UnsupportedType`](ErrorKind::UnsupportedType) if the known ones do not go together.
    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        aux_type: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        let all = || in_type.iter().chain(out_type.iter()).chain(aux_type.iter()).flatten().copied();
        let Some(first) = all().next() else { return Ok(false) };
        if let Some(other) = all().find(|other| *other != first) {
            return Err(Error::new(
                ErrorKind::UnsupportedType,
                format!("{first} and {other} in one call: convert one"),
            ));
        }
        in_type.iter_mut().chain(out_type).chain(aux_type).for_each(|dtype| *dtype = Some(first));
        Ok(true)
    }

    /// The types that the first input may have.
    fn types(&self) -> &'static [DType] {
        FLOATS
    }

    /// What the forward pass asks for.
    fn forward_resource(&self) -> Vec<ResourceRequest> {
        Vec::new()
    }

    /// What the backward pass asks for.
    fn backward_resource(&self) -> Vec<ResourceRequest> {
        Vec::new()
    }

    /// Whether there is a backward pass.
    fn has_gradient(&self) -> bool {
        true
    }

    /// Which of the arrays the backward pass needs, by their numbers. What is left out may be freed
    /// or overwritten before. By default all are needed.
    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        [out_grad, in_data, out_data].concat()
    }

    /// Which input may share its memory with which output. Elsewhere a call copies an input that
    /// its output would overwrite.
    fn forward_inplace_option(&self, _in_data: &[usize], _out_data: &[usize]) -> Vec<(usize, usize)> {
        Vec::new()
    }

    /// Which of the arrays that the backward pass needs may share its memory with which gradient,
    /// as pairs of their numbers; those of `in_grad` are places among the inputs. It is a
    /// suggestion. A gradient by an output is written over where nobody else uses it and shape and
    /// type are those of the gradient to be written. Inputs and outputs are not written over.
    fn backward_inplace_option(
        &self,
        _out_grad: &[usize],
        _in_data: &[usize],
        _out_data: &[usize],
        _in_grad: &[usize],
    ) -> Vec<(usize, usize)> {
        Vec::new()
    }

    /// The kinds of devices that there are implementations for; by default those of the processor.
    /// With [`Device::Gpu`] among them [`create_operator`](OperatorProperty::create_operator) is
    /// asked for one when arrays of a GPU are given. On others a call is refused.
    fn devices(&self) -> &[Device] {
        PROCESSOR
    }

    /// Makes what does the work in a context. It is asked for one implementation for all memory of
    /// the processor, as [`Context::cpu`]`(0)`, and for one for each GPU. They may differ.
    ///
    /// An implementation for a GPU is called on a thread of that device, in an operation that has a
    /// [stream](seriatim::RunContext::stream). It takes the
    /// [addresses](crate::Blob::device_address) of its arrays, which lie in order, and queues its
    /// kernels on the stream. It does not wait for them.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext).
    fn create_operator(&self, context: Context) -> Result<Box<dyn Operator>, Error>;
}

/// Sets a shape that may be known already.
///
/// # Errors
/// [`ShapeMismatch`](ErrorKind::ShapeMismatch), which names `what` and both shapes.
///
/// ```
/// use seriatim_tensor::{operator::assign_shape, Shape};
/// let mut weight = None;
/// assign_shape("weight", &mut weight, Shape::new(&[2, 3])?)?;
/// assert!(assign_shape("weight", &mut weight, Shape::new(&[2, 4])?).is_err());
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn assign_shape(what: &str, place: &mut Option<Shape>, shape: Shape) -> Result<(), Error> {
    match *place {
        Some(known) if known != shape => {
            let message = format!("'{what}' has shape {known} where {shape} belongs");
            Err(Error::new(ErrorKind::ShapeMismatch, message))
        }
        _ => {
            *place = Some(shape);
            Ok(())
        }
    }
}

/// Sets a type that may be known already.
pub(crate) fn assign_type(what: &str, place: &mut Option<DType>, dtype: DType) -> Result<(), Error> {
    match *place {
        Some(known) if known != dtype => {
            let message = format!("'{what}' has elements of {known} where {dtype} belongs: convert one");
            Err(Error::new(ErrorKind::UnsupportedType, message))
        }
        _ => {
            *place = Some(dtype);
            Ok(())
        }
    }
}

/// The methods of a property that is an operator too and whose field `parameters` has its
/// parameters.
macro_rules! by_parameters {
    () => {
        fn get_params(&self) -> Vec<(&'static str, String)> {
            $crate::operator::Parameters::params(&self.parameters)
        }

        fn create_operator(
            &self,
            _: seriatim::Context,
        ) -> Result<Box<dyn $crate::operator::Operator>, $crate::error::Error> {
            Ok(Box::new(self.clone()))
        }
    };
}
pub(crate) use by_parameters;
