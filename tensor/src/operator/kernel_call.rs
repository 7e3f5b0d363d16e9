//! What the operation of a call carries: it declares its arguments as it is pushed, and calls the
//! kernel with them.
//!
//! Used by `call.rs`, on the thread that calls an operator, for forward and backward passes. It
//! lies in a block of the storage, so a call allocates nothing in steady state. The kernel runs on
//! a worker, or inside of the push. Of arrays of a device `device_call.rs` makes an operation of
//! the device.

use crate::dtype::DType;
use crate::error::Error;
use crate::ndarray::access::{Argument, Blob, BlobMut, SHORT};
use crate::ndarray::capturing::{self, Use};
use crate::ndarray::profiled;
use crate::ndarray::runtime::Runtime;
use crate::operator::implementations::OnDevice;
use crate::operator::op::Op;
use crate::operator::property::{Given, OpContext, Operator};
use crate::request::OpReq;
use crate::resource::manager::Granted;
use crate::shape::Shape;
use crate::storage::boxed::Boxed;
use seriatim::{Name, RunContext, Variable};
use smallvec::SmallVec;
use std::fmt::Write;

/// What an operation carries.
pub struct KernelCall {
    pub op: Op,
    pub runtime: Runtime,
    pub is_train: bool,
    pub is_backward: bool,
    /// The inputs; of a backward pass gradients, inputs and outputs, of which some are not needed.
    pub inputs: SmallVec<[Option<Input>; 6]>,
    pub auxiliary: SmallVec<[Argument; 2]>,
    pub outputs: SmallVec<[Output; 3]>,
    pub resources: SmallVec<[Granted; 1]>,
}

#[derive(Clone, Copy)]
pub struct Input {
    pub argument: Argument,
    /// Whether an output is in the same memory.
    pub shared: bool,
}

#[derive(Clone, Copy)]
pub struct Output {
    pub argument: Argument,
    pub req: OpReq,
    pub shared: bool,
}

impl KernelCall {
    /// Pushes the operation to where its arrays lie, or keeps it for the graph of a step.
    pub fn push(self, device: Option<OnDevice>) -> Result<(), Error> {
        if let Some(device) = device {
            return self.push_to(device);
        }
        let (runtime, name) = (self.runtime.clone(), self.name());
        if capturing::is_active() {
            return self.record(&runtime, name);
        }
        let arguments = || self.inputs.iter().flatten().map(|input| &input.argument);
        let written = || self.outputs.iter().filter(|output| !output.req.is_null()).map(|output| &output.argument);
        let elements: usize = arguments().chain(written()).map(|argument| argument.layout.shape.size()).sum();
        let changed = written().chain(&self.auxiliary).map(|argument| argument.variable);
        let changed = changed.chain(self.resources.iter().map(Granted::variable));
        let builder = runtime.engine().op(name).reads(arguments().map(|argument| argument.variable)).writes(changed);
        let builder = if elements <= SHORT { builder.short() } else { builder };
        let builder = if profiled::is_active() { builder.profiled() } else { builder };
        let call = Boxed::new(runtime.storage(), self)?;
        builder.push(move |run| call.run(run).map_err(|error| error.within(call.described())))?;
        Ok(())
    }

    /// Keeps the call for the graph of a step.
    fn record(self, runtime: &Runtime, name: Name) -> Result<(), Error> {
        let of = |argument: &Argument, covers| Use { argument: *argument, covers };
        let reads: SmallVec<[Use; 6]> = self.inputs.iter().flatten().map(|input| of(&input.argument, false)).collect();
        let outputs = self.outputs.iter().filter(|output| !output.req.is_null());
        let written = outputs.map(|Output { argument, req, .. }| of(argument, req.overwrites() && argument.is_whole()));
        let changed: SmallVec<[Use; 4]> =
            self.auxiliary.iter().map(|argument| of(argument, false)).chain(written).collect();
        let resources: SmallVec<[Variable; 1]> = self.resources.iter().map(Granted::variable).collect();
        let uses = (reads.into_iter(), changed.into_iter());
        capturing::record(runtime, name, uses, resources.into_iter(), move |run| {
            self.run(run).map_err(|error| error.within(self.described()))
        })
    }

    pub(super) fn name(&self) -> Name {
        match self.is_backward {
            false => self.op.inner.name,
            true => self.op.inner.backward_name,
        }
    }

    pub(super) fn described(&self) -> String {
        let inputs = self.inputs.iter().flatten().map(|input| &input.argument);
        described(self.name().as_str(), inputs.map(|argument| (argument.dtype(), argument.layout.shape)))
    }

    /// Runs on a worker, or inside of the push.
    fn run(&self, run_ctx: &RunContext<'_>) -> Result<(), Error> {
        let runtime = &self.runtime;
        // Before results are made: one may be in the memory of an input that nothing has written.
        let (mut given, mut inputs) = (SmallVec::<[Option<Blob<'_>>; 6]>::new(), SmallVec::<[Blob<'_>; 6]>::new());
        for input in &self.inputs {
            let blob = match input {
                // SAFETY: `push` has declared to read the variables of all inputs. Where an output
                // is in the same memory, both are shared.
                Some(input) => Some(unsafe { input.argument.read(runtime, input.shared) }?),
                None => None,
            };
            match blob.filter(|_| !self.is_backward) {
                Some(blob) => inputs.push(blob),
                None => given.push(blob),
            }
        }
        let mut auxiliary = SmallVec::<[BlobMut<'_>; 2]>::new();
        for argument in &self.auxiliary {
            // SAFETY: `push` has declared to change the variables of all auxiliary states.
            auxiliary.push(unsafe { argument.write(runtime, false, false) }?);
        }
        let (mut written, mut requests) = (SmallVec::<[BlobMut<'_>; 3]>::new(), SmallVec::<[OpReq; 3]>::new());
        for output in &self.outputs {
            requests.push(output.req);
            written.push(match output.req {
                OpReq::Null => BlobMut::nothing(&output.argument),
                // SAFETY: `push` has declared to change the variables of all outputs that are
                // written. Where an input is in the same memory, both are shared.
                req => unsafe { output.argument.write(runtime, req.overwrites(), output.shared) }?,
            });
        }
        let operator = self.op.inner.implementations.of_processor()?;
        self.call(operator, run_ctx, (&inputs[..], &given[..]), &requests, (&mut written[..], &mut auxiliary[..]))
    }

    /// Calls an implementation with its arrays: the inputs, or what a backward pass is given.
    #[inline]
    pub(super) fn call(
        &self,
        operator: &dyn Operator,
        run_ctx: &RunContext<'_>,
        (inputs, given): (&[Blob<'_>], &[Option<Blob<'_>>]),
        requests: &[OpReq],
        (written, auxiliary): (&mut [BlobMut<'_>], &mut [BlobMut<'_>]),
    ) -> Result<(), Error> {
        let (inner, runtime) = (&*self.op.inner, &self.runtime);
        let mut requested = SmallVec::<[_; 1]>::new();
        for granted in &self.resources {
            requested.push(granted.lend(runtime.storage())?);
        }
        let mut ctx =
            OpContext { is_train: self.is_train, run_ctx, requested: &mut requested, scalar: self.op.scalar, runtime };
        if self.is_backward {
            let (out_grad, rest) = given.split_at(inner.outputs);
            let (in_data, out_data) = rest.split_at(inner.arguments);
            let (out_grad, in_data, out_data) = (Given(out_grad), Given(in_data), Given(out_data));
            operator.backward(&mut ctx, out_grad, in_data, out_data, requests, written, auxiliary)
        } else {
            operator.forward(&mut ctx, inputs, requests, written, auxiliary)
        }
    }
}

/// An operator with the types and shapes of its arguments, for errors.
pub fn described(name: &str, inputs: impl Iterator<Item = (DType, Shape)>) -> String {
    let mut text = format!("operator '{name}' of ");
    for (at, (dtype, shape)) in inputs.enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{dtype} {shape}");
    }
    text
}
