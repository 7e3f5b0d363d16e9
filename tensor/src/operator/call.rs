//! A call of an operator: shapes and types are checked, outputs are made, and one operation is
//! pushed that declares what it reads and changes.
//!
//! Used by `arithmetic.rs`, `views.rs` and others here, by `autograd/` and `optimizer/`, and by
//! programs. `kernel_call.rs` has what the operation carries and does.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::placing::common_device;
use crate::operator::implementations::OnDevice;
use crate::operator::kernel_call::{described, Copied, KernelCall};
use crate::operator::op::Op;
use crate::operator::tape::{self, Node};
use crate::request::OpReq;
use crate::shape::Shape;
use seriatim::Context;
use smallvec::SmallVec;

/// The results of an operator, most often one.
pub type Outputs = SmallVec<[NDArray; 1]>;

/// What is known of a call before it is pushed. Shapes and types are there of all outputs.
struct Inferred {
    shapes: SmallVec<[Option<Shape>; 2]>,
    types: SmallVec<[Option<DType>; 2]>,
    device: Option<OnDevice>,
}

const STATE_IS_SHARED: &str = "an auxiliary state is in the memory of another argument: give it an array of its own";

impl Op {
    /// Calls the operator, and returns its first output. The call does not wait: what fails later
    /// is the error of a wait.
    ///
    /// # Errors
    /// [`WrongArguments`](ErrorKind::WrongArguments), [`ShapeMismatch`](ErrorKind::ShapeMismatch),
    /// [`UnsupportedType`](ErrorKind::UnsupportedType), [`ForeignArray`](ErrorKind::ForeignArray),
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) where the operator has no kernel, and
    /// for a view of an array of a GPU whose elements do not lie in order, and
    /// [`ContextMismatch`](ErrorKind::ContextMismatch) if only some arrays lie on a GPU, with the
    /// operator, and the shapes and types of its arguments; those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{operator::Op, ErrorKind, NDArray};
    /// let x = NDArray::from_slice(&[0.0f32, 1.0], [2])?;
    /// assert_eq!(Op::new("exp", &[])?.invoke(&[&x])?.to_vec::<f32>()?[0], 1.0);
    /// let error = Op::new("elemwise_add", &[])?.invoke(&[&x, &x.slice(0, 0, 1, 1)?]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
    /// assert!(error.to_string().contains("'elemwise_add' of float32 [2], float32 [1]"));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn invoke(&self, inputs: &[&NDArray]) -> Result<NDArray, Error> {
        let mut outputs = self.invoke_all(inputs)?;
        Ok(outputs.swap_remove(0))
    }

    /// Calls the operator, and returns its visible outputs. Auxiliary states come behind the
    /// arguments.
    ///
    /// # Errors
    /// Those of [`invoke`](Op::invoke).
    ///
    /// ```
    /// use seriatim_tensor::{operator::Op, NDArray};
    /// let x = NDArray::from_slice(&[0.0f32, 1.0], [2])?;
    /// assert_eq!(Op::new("exp", &[])?.invoke_all(&[&x])?.len(), 1);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn invoke_all(&self, inputs: &[&NDArray]) -> Result<Outputs, Error> {
        let (inner, inferred) = (&*self.inner, self.infer(inputs, &[])?);
        let runtime = inputs[0].runtime();
        let context = inferred.device.as_ref().map_or(Context::cpu(0), |device| device.context);
        let mut outputs = Outputs::new();
        for (shape, dtype) in inferred.shapes.iter().zip(&inferred.types) {
            if let (Some(shape), Some(dtype)) = (shape, dtype) {
                outputs.push(NDArray::new(runtime, *shape, *dtype, context)?);
            }
        }
        {
            let mut written = SmallVec::<[(&NDArray, OpReq); 2]>::new();
            outputs.iter().for_each(|output| written.push((output, OpReq::Write)));
            self.push_forward(inputs, &written, inferred.device)?;
        }
        let (arguments, auxiliary) = inputs.split_at(inner.arguments);
        tape::record(self, arguments, auxiliary, &outputs);
        outputs.truncate(inner.visible);
        Ok(outputs)
    }

    /// Calls the operator with arrays for its outputs, each with how it is to be written. An input
    /// that an output would overwrite is copied first, unless the operator works in place there.
    ///
    /// # Errors
    /// Those of [`invoke`](Op::invoke); [`OverlappingView`](ErrorKind::OverlappingView);
    /// [`Recording`](ErrorKind::Recording) if an input is one of which gradients are recorded.
    ///
    /// ```
    /// use seriatim_tensor::{operator::Op, NDArray, OpReq};
    /// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
    /// let sum = NDArray::from_slice(&[10.0f32, 20.0], [2])?;
    /// Op::new("square", &[])?.invoke_into(&[&x], &[(&sum, OpReq::Add)])?;
    /// assert_eq!(sum.to_vec::<f32>()?, [11.0, 24.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn invoke_into(&self, inputs: &[&NDArray], outputs: &[(&NDArray, OpReq)]) -> Result<(), Error> {
        let written: SmallVec<[&NDArray; 2]> = outputs.iter().map(|(output, _)| *output).collect();
        let device = self.infer(inputs, &written)?.device;
        if tape::is_recording() && inputs.iter().chain(&written).any(|array| tape::is_tracked(array)) {
            let message = "a result is written into an array while gradients are recorded of one of the arrays: \
                           let the operator make its result, or pause recording";
            return Err(self.said(inputs, &Error::new(ErrorKind::Recording, message)));
        }
        self.push_forward(inputs, outputs, device)
    }

    /// Pushes the backward pass of a recorded call: `in_grad` are the gradients to write.
    pub(crate) fn push_backward(
        &self,
        node: &Node,
        out_grad: &[Option<&NDArray>],
        in_grad: &[(&NDArray, OpReq)],
    ) -> Result<(), Error> {
        let (inner, in_data, out_data) = (&*self.inner, &node.inputs, &node.outputs);
        let Some(runtime) = in_data.first().map(NDArray::runtime) else { return Ok(()) };
        let groups = out_grad.iter().copied().chain(in_data.iter().map(Some)).chain(out_data.iter().map(Some));
        let device = self.place(groups.clone().flatten().chain(in_grad.iter().map(|(array, _)| *array)))?;
        let mut call = KernelCall::new(self, runtime, node.is_train, true);
        call.add_outputs(in_grad)?;
        // A gradient may be written that the pass reads too.
        let mut copies = Copied::new();
        let needed = groups.zip(inner.needs.iter().flatten()).map(|(array, needed)| array.filter(|_| *needed));
        for (place, array) in needed.clone().enumerate() {
            match array {
                Some(array) => call.add_input(array, place, in_grad, (&inner.backward_inplace, &mut copies))?,
                None => call.add_nothing(),
            }
        }
        for state in &node.auxiliary {
            if needed.clone().flatten().any(|other| state.overlaps(other))
                || in_grad.iter().any(|(array, _)| state.overlaps(array))
            {
                let inputs: SmallVec<[&NDArray; 4]> = in_data.iter().collect();
                return Err(self.said(&inputs, &Error::new(ErrorKind::WrongArguments, STATE_IS_SHARED)));
            }
            call.add_state(state)?;
        }
        call.add_resources(device.as_ref(), &inner.resources[1])?;
        call.push(device)
    }

    /// The shapes and types of all outputs, and the device of all arrays if they lie on one.
    fn infer(&self, inputs: &[&NDArray], outputs: &[&NDArray]) -> Result<Inferred, Error> {
        let inner = &*self.inner;
        let wrong = |kind, message: String| Err(self.said(inputs, &Error::new(kind, message)));
        let expected = inner.arguments + inner.auxiliary;
        if inputs.len() != expected || !(outputs.is_empty() || outputs.len() == inner.outputs) {
            let names = [inner.property.list_arguments(), inner.property.list_auxiliary_states()].concat();
            let message = format!(
                "it has inputs {names:?} and {} outputs, and was given {} and {}",
                inner.outputs,
                inputs.len(),
                outputs.len()
            );
            return wrong(ErrorKind::WrongArguments, message);
        }
        let Some(first) = inputs.first() else {
            return wrong(ErrorKind::WrongArguments, "an operator without inputs cannot be called".into());
        };
        if inputs.iter().chain(outputs).any(|array| !array.runtime().is(first.runtime())) {
            let message = "its arrays belong to different runtimes: copy values by to_vec and from_slice";
            return wrong(ErrorKind::ForeignArray, message.into());
        }
        let device = self.place(inputs.iter().chain(outputs).copied()).map_err(|error| self.said(inputs, &error))?;
        let mut known = Inferred { shapes: SmallVec::new(), types: SmallVec::new(), device };
        let (mut shapes, mut types) = (SmallVec::<[Option<Shape>; 4]>::new(), SmallVec::<[Option<DType>; 4]>::new());
        for array in inputs {
            shapes.push(Some(array.shape()));
            types.push(Some(array.dtype()));
        }
        for at in 0..inner.outputs {
            known.shapes.push(outputs.get(at).map(|array| array.shape()));
            known.types.push(outputs.get(at).map(|array| array.dtype()));
        }
        let property = &*inner.property;
        if !property.types().contains(&first.dtype()) {
            let listed: Vec<&str> = property.types().iter().map(|dtype| dtype.name()).collect();
            let message = format!("it has no kernel for {}, but for {}", first.dtype(), listed.join(", "));
            return wrong(ErrorKind::UnsupportedType, message);
        }
        let ((shape, aux_shape), (dtype, aux_type)) =
            (shapes.split_at_mut(inner.arguments), types.split_at_mut(inner.arguments));
        let shapes_known = property.infer_shape(shape, &mut known.shapes, aux_shape);
        let types_known = property.infer_type(dtype, &mut known.types, aux_type);
        let all_known = shapes_known.and_then(|shapes| types_known.map(|types| shapes && types));
        if !all_known.map_err(|error| self.said(inputs, &error))? {
            return wrong(ErrorKind::ShapeMismatch, "the shapes or types of its outputs do not follow".into());
        }
        Ok(known)
    }

    /// Where the work is done on arrays; none stands for the processor.
    fn place<'a>(&self, arrays: impl Iterator<Item = &'a NDArray> + Clone) -> Result<Option<OnDevice>, Error> {
        match common_device(arrays)? {
            None => self.inner.implementations.of_processor().map(|_| None),
            Some(context) => self.inner.on_device(context).map(Some),
        }
    }

    fn push_forward(
        &self,
        inputs: &[&NDArray],
        outputs: &[(&NDArray, OpReq)],
        device: Option<OnDevice>,
    ) -> Result<(), Error> {
        let inner = &*self.inner;
        for (output, _) in outputs.iter().filter(|(_, req)| !req.is_null()) {
            output.check_writable().map_err(|error| self.said(inputs, &error))?;
        }
        let (arguments, auxiliary) = inputs.split_at(inner.arguments);
        let mut call = KernelCall::new(self, inputs[0].runtime(), tape::is_training(), false);
        call.add_outputs(outputs)?;
        for (number, state) in auxiliary.iter().enumerate() {
            let mut others = arguments.iter().chain(&auxiliary[..number]);
            if others.any(|other| state.overlaps(other)) || outputs.iter().any(|(array, _)| state.overlaps(array)) {
                return Err(self.said(inputs, &Error::new(ErrorKind::WrongArguments, STATE_IS_SHARED)));
            }
            call.add_state(state)?;
        }
        let mut copies = Copied::new();
        for (place, array) in arguments.iter().enumerate() {
            call.add_input(array, place, outputs, (&inner.inplace, &mut copies))?;
        }
        call.add_resources(device.as_ref(), &inner.resources[0])?;
        call.push(device)
    }

    /// An error with the operator, and the shapes and types of its inputs.
    fn said(&self, inputs: &[&NDArray], error: &Error) -> Error {
        let inputs = inputs.iter().map(|array| (array.dtype(), array.shape()));
        error.within(described(self.name(), inputs))
    }
}
