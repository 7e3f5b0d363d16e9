//! A call of an operator: shapes and types are checked, outputs are made, and one operation is
//! pushed that declares what it reads and changes.
//!
//! Used by `arithmetic.rs`, `views.rs` and others here, by `autograd/` and `optimizer/`, and by
//! programs. `kernel_call.rs` has what the operation carries and does.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::Argument;
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing;
use crate::ndarray::placing::common_device;
use crate::ndarray::runtime::Runtime;
use crate::operator::implementations::OnDevice;
use crate::operator::kernel_call::{described, Input, KernelCall, Output};
use crate::operator::op::Op;
use crate::operator::tape::{self, Node};
use crate::request::OpReq;
use crate::shape::Shape;
use seriatim::Context;
use smallvec::SmallVec;

/// The results of an operator, most often one.
pub type Outputs = SmallVec<[NDArray; 1]>;

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
        let (shapes, types, runtime, device) = self.infer(inputs, &[])?;
        let context = device.as_ref().map_or(Context::cpu(0), |device| device.context);
        let made = shapes.iter().zip(&types).map(|(shape, dtype)| NDArray::new(runtime, *shape, *dtype, context));
        let mut outputs = made.collect::<Result<Outputs, Error>>()?;
        let written = outputs.iter().map(|output| (output, OpReq::Write));
        self.push_forward(inputs, &written.collect::<SmallVec<[_; 2]>>(), device)?;
        let (arguments, auxiliary) = inputs.split_at(self.inner.arguments);
        tape::record(self, arguments, auxiliary, &outputs);
        outputs.truncate(self.inner.visible);
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
        let (_, _, _, device) = self.infer(inputs, &written)?;
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
        let needed = inner.needs.iter().flatten();
        let mut outputs: SmallVec<[Output; 3]> = in_grad.iter().map(|(array, req)| output(array, *req)).collect();
        keep_apart(&mut outputs);
        // A gradient may be written that the pass reads too.
        let (mut inputs, mut copies) = (SmallVec::<[Option<Input>; 6]>::new(), SmallVec::<[NDArray; 1]>::new());
        for (number, (array, needed)) in groups.zip(needed).enumerate() {
            inputs.push(match array.filter(|_| *needed) {
                Some(array) => {
                    Some(input_beside(array, number, &mut outputs, (&inner.backward_inplace[..], &mut copies))?)
                }
                None => None,
            });
        }
        let auxiliary: SmallVec<[Argument; 2]> = node.auxiliary.iter().map(Argument::from).collect();
        for state in &auxiliary {
            let mut others = inputs.iter().flatten().map(|input| &input.argument);
            if others.any(|other| state.overlaps(other)) || outputs.iter().any(|out| state.overlaps(&out.argument)) {
                let inputs: SmallVec<[&NDArray; 4]> = in_data.iter().collect();
                return Err(self.said(&inputs, &Error::new(ErrorKind::WrongArguments, STATE_IS_SHARED)));
            }
        }
        let call = KernelCall {
            op: self.clone(),
            runtime: runtime.clone(),
            is_train: node.is_train,
            is_backward: true,
            inputs,
            auxiliary,
            outputs,
            resources: capturing::grant(runtime, device.as_ref().map(|device| device.context), &inner.resources[1])?,
        };
        call.push(device)
    }

    /// The shapes and types of all outputs, the runtime of all arrays, and the device of all if
    /// they lie on one.
    #[expect(clippy::type_complexity, reason = "four things that are used at once")]
    fn infer<'a>(
        &self,
        inputs: &[&'a NDArray],
        outputs: &[&NDArray],
    ) -> Result<(SmallVec<[Shape; 2]>, SmallVec<[DType; 2]>, &'a Runtime, Option<OnDevice>), Error> {
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
        let mut shapes: SmallVec<[Option<Shape>; 6]> = inputs.iter().map(|array| Some(array.shape())).collect();
        let mut types: SmallVec<[Option<DType>; 6]> = inputs.iter().map(|array| Some(array.dtype())).collect();
        let of = |at: usize| outputs.get(at).copied();
        let mut out_shapes: SmallVec<[Option<Shape>; 2]> =
            (0..inner.outputs).map(|at| of(at).map(NDArray::shape)).collect();
        let mut out_types: SmallVec<[Option<DType>; 2]> =
            (0..inner.outputs).map(|at| of(at).map(NDArray::dtype)).collect();
        let property = &*inner.property;
        if !property.types().contains(&first.dtype()) {
            let listed: Vec<&str> = property.types().iter().map(|dtype| dtype.name()).collect();
            let message = format!("it has no kernel for {}, but for {}", first.dtype(), listed.join(", "));
            return wrong(ErrorKind::UnsupportedType, message);
        }
        let ((shape, aux_shape), (dtype, aux_type)) =
            (shapes.split_at_mut(inner.arguments), types.split_at_mut(inner.arguments));
        let shapes_known = property.infer_shape(shape, &mut out_shapes, aux_shape);
        let types_known = property.infer_type(dtype, &mut out_types, aux_type);
        let known = shapes_known.and_then(|shapes| types_known.map(|types| shapes && types));
        if !known.map_err(|error| self.said(inputs, &error))? {
            return wrong(ErrorKind::ShapeMismatch, "the shapes or types of its outputs do not follow".into());
        }
        let (out_shapes, out_types) = (out_shapes.into_iter().flatten(), out_types.into_iter().flatten());
        Ok((out_shapes.collect(), out_types.collect(), first.runtime(), device))
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
        let runtime = inputs[0].runtime();
        for (output, _) in outputs.iter().filter(|(_, req)| !req.is_null()) {
            output.check_writable().map_err(|error| self.said(inputs, &error))?;
        }
        let (arguments, auxiliary) = inputs.split_at(inner.arguments);
        let mut outputs: SmallVec<[Output; 3]> = outputs.iter().map(|(array, req)| output(array, *req)).collect();
        keep_apart(&mut outputs);
        for (number, state) in auxiliary.iter().enumerate() {
            let state = Argument::from(*state);
            let others = arguments.iter().chain(&auxiliary[..number]).map(|array| Argument::from(*array));
            if others.chain(outputs.iter().map(|output| output.argument)).any(|other| state.overlaps(&other)) {
                return Err(self.said(inputs, &Error::new(ErrorKind::WrongArguments, STATE_IS_SHARED)));
            }
        }
        let mut copies: SmallVec<[NDArray; 1]> = SmallVec::new();
        let mut taken: SmallVec<[Option<Input>; 6]> = SmallVec::new();
        for (place, array) in arguments.iter().enumerate() {
            let input = input_beside(array, place, &mut outputs, (&inner.inplace[..], &mut copies))?;
            taken.push(Some(input));
        }
        let call = KernelCall {
            op: self.clone(),
            runtime: runtime.clone(),
            is_train: tape::is_training(),
            is_backward: false,
            inputs: taken,
            auxiliary: auxiliary.iter().map(|array| Argument::from(*array)).collect(),
            outputs,
            resources: capturing::grant(runtime, device.as_ref().map(|device| device.context), &inner.resources[0])?,
        };
        call.push(device)
    }

    /// An error with the operator, and the shapes and types of its inputs.
    fn said(&self, inputs: &[&NDArray], error: &Error) -> Error {
        let inputs = inputs.iter().map(|array| (array.dtype(), array.shape()));
        error.within(described(self.name(), inputs))
    }
}

fn output(array: &NDArray, req: OpReq) -> Output {
    Output { argument: Argument::from(array), req, shared: false }
}

/// An input at a place, beside outputs of which some may be in its memory: it shares that where the
/// operator works in place, and is a copy elsewhere.
fn input_beside(
    array: &NDArray,
    place: usize,
    outputs: &mut [Output],
    (inplace, copies): (&[(usize, usize)], &mut SmallVec<[NDArray; 1]>),
) -> Result<Input, Error> {
    let mut input = Input { argument: Argument::from(array), shared: false };
    for (to, output) in outputs.iter_mut().enumerate().filter(|(_, output)| !output.req.is_null()) {
        if !input.argument.overlaps(&output.argument) {
            continue;
        }
        let is_same = input.argument.layout == output.argument.layout && array.dtype() == output.argument.dtype();
        if is_same && inplace.contains(&(place, to)) {
            (input.shared, output.shared) = (true, true);
        } else {
            let copy = array.copy()?;
            input = Input { argument: Argument::from(&copy), shared: false };
            copies.push(copy);
        }
    }
    Ok(input)
}

/// Has outputs in the same memory give out no slices.
fn keep_apart(outputs: &mut [Output]) {
    for at in 0..outputs.len() {
        let argument = outputs[at].argument;
        let mut others = outputs.iter().enumerate().filter(|(other, _)| *other != at);
        outputs[at].shared = others.any(|(_, other)| argument.overlaps(&other.argument));
    }
}
