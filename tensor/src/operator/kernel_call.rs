//! What the operation of a call carries: it declares its arguments as it is pushed, and calls the
//! kernel with them (`places.rs`).
//!
//! Used by `call.rs`, on the thread that calls an operator, for forward and backward passes. It
//! fits into a block of the engine, so a call allocates nothing in steady state. The kernel runs on
//! a worker, or inside of the push. Of arrays of a device `device_call.rs` makes an operation of
//! the device.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut, SHORT};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing::{self, Use};
use crate::ndarray::frame::{Argument, Frame};
use crate::ndarray::profiled;
use crate::ndarray::runtime::Runtime;
use crate::operator::implementations::OnDevice;
use crate::operator::op::Op;
use crate::operator::places::{Places, ReplayedCall};
use crate::operator::property::{Given, OpContext, Operator};
use crate::request::OpReq;
use crate::resource::manager::Granted;
use crate::resource::{Resource, ResourceRequest};
use crate::shape::Shape;
use seriatim::{Name, RunContext, Variable};
use smallvec::SmallVec;
use std::fmt::Write;

/// What an operation carries. It is the operation's closure.
pub struct KernelCall {
    pub op: Op,
    pub frame: Frame,
    /// How many elements the arrays have that are read or written.
    elements: usize,
    pub is_train: bool,
    pub is_backward: bool,
    /// The inputs; of a backward pass gradients, inputs and outputs, of which some are not needed.
    pub inputs: SmallVec<[Option<Argument>; 6]>,
    pub auxiliary: SmallVec<[Argument; 2]>,
    pub outputs: SmallVec<[Argument; 3]>,
    pub resources: SmallVec<[Granted; 1]>,
    /// Arrays whose ends do not wait for the operation: those of a device, and outputs that are
    /// not written, whose variables it does not name. It reads their shapes.
    kept: SmallVec<[NDArray; 1]>,
}

/// Copies of inputs, which live until the call is pushed.
pub type Copied = SmallVec<[NDArray; 1]>;

/// The engine keeps a closure of so many bytes in its own blocks.
const CLOSURE: usize = 512;
const _: () = assert!(size_of::<KernelCall>() <= CLOSURE);

impl KernelCall {
    /// A call without arrays as yet: outputs are added first.
    pub fn new(op: &Op, runtime: &Runtime, is_train: bool, is_backward: bool) -> KernelCall {
        KernelCall {
            op: op.clone(),
            frame: Frame::new(runtime),
            elements: 0,
            is_train,
            is_backward,
            inputs: SmallVec::new(),
            auxiliary: SmallVec::new(),
            outputs: SmallVec::new(),
            resources: SmallVec::new(),
            kept: SmallVec::new(),
        }
    }

    fn add(&mut self, array: &NDArray) -> Result<Argument, Error> {
        if array.is_on_device() {
            self.kept.push(array.clone());
        }
        self.frame.add(array)
    }

    /// Adds the outputs. Those in the same memory give out no slices.
    pub fn add_outputs(&mut self, outputs: &[(&NDArray, OpReq)]) -> Result<(), Error> {
        for (at, (array, req)) in outputs.iter().enumerate() {
            let mut others = outputs.iter().enumerate().filter(|(other, _)| *other != at);
            let shared = others.any(|(_, (other, _))| array.overlaps(other));
            match req.is_null() {
                true => self.kept.push((*array).clone()),
                false => self.elements += array.size(),
            }
            let argument = self.add(array)?.written(*req, shared);
            self.outputs.push(argument);
        }
        Ok(())
    }

    /// Adds an input at a place, beside outputs of which some may be in its memory: it shares that
    /// where the operator works in place, and is a copy elsewhere.
    pub fn add_input(
        &mut self,
        array: &NDArray,
        place: usize,
        outputs: &[(&NDArray, OpReq)],
        (inplace, copies): (&[(usize, usize)], &mut Copied),
    ) -> Result<(), Error> {
        let (mut shared, mut is_copied) = (false, false);
        for (to, (output, req)) in outputs.iter().enumerate() {
            if req.is_null() || !array.overlaps(output) {
                continue;
            }
            let is_same = array.layout() == output.layout() && array.dtype() == output.dtype();
            match is_same && inplace.contains(&(place, to)) {
                true => (shared, self.outputs[to].shared) = (true, true),
                false => is_copied = true,
            }
        }
        self.elements += array.size();
        if is_copied {
            let copy = array.copy()?;
            let argument = self.add(&copy)?;
            self.inputs.push(Some(argument));
            copies.push(copy);
        } else {
            let argument = self.add(array)?.beside(shared);
            self.inputs.push(Some(argument));
        }
        Ok(())
    }

    /// Adds the place of an input that is not needed.
    pub fn add_nothing(&mut self) {
        self.inputs.push(None);
    }

    /// Adds an auxiliary state.
    pub fn add_state(&mut self, state: &NDArray) -> Result<(), Error> {
        let argument = self.add(state)?;
        self.auxiliary.push(argument);
        Ok(())
    }

    /// Asks for resources, of the device where the call runs.
    pub fn add_resources(&mut self, device: Option<&OnDevice>, requests: &[ResourceRequest]) -> Result<(), Error> {
        if !requests.is_empty() {
            self.resources = capturing::grant(&self.frame.runtime, device.map(|device| device.context), requests)?;
        }
        Ok(())
    }

    /// The arrays that are read.
    pub(super) fn arguments(&self) -> impl Iterator<Item = Argument> + '_ {
        self.inputs.iter().copied().flatten()
    }

    /// The outputs that are written.
    pub(super) fn written(&self) -> impl Iterator<Item = Argument> + '_ {
        self.outputs.iter().copied().filter(|output| !output.req.is_null())
    }

    /// The variables that are changed.
    pub(super) fn changed(&self) -> impl Iterator<Item = Variable> + '_ {
        let arrays = self.written().chain(self.auxiliary.iter().copied()).map(|argument| argument.variable);
        arrays.chain(self.resources.iter().map(Granted::variable))
    }

    /// Pushes the operation to where its arrays lie, or keeps it for the graph of a step.
    pub fn push(self, device: Option<OnDevice>) -> Result<(), Error> {
        if let Some(device) = device {
            return self.push_to(device);
        }
        if capturing::is_active() {
            return self.record();
        }
        let runtime = self.frame.runtime.clone();
        let builder = runtime.engine().op(self.name());
        let builder = builder.reads(self.arguments().map(|argument| argument.variable)).writes(self.changed());
        let builder = if self.elements <= SHORT { builder.short() } else { builder };
        let builder = if profiled::is_active() { builder.profiled() } else { builder };
        builder.push(move |run| self.run(run))?;
        Ok(())
    }

    /// How it uses its arrays: what it reads, and what it changes.
    pub(super) fn uses(&self) -> (SmallVec<[Use; 6]>, SmallVec<[Use; 4]>) {
        let reads = self.arguments().map(|argument| self.frame.used(argument, false));
        let written = self.written().map(|output| self.frame.used(output, output.req.overwrites()));
        let states = self.auxiliary.iter().map(|argument| self.frame.used(*argument, false));
        (reads.collect(), states.chain(written).collect())
    }

    /// Keeps the call for the graph of a step.
    fn record(self) -> Result<(), Error> {
        let resources: SmallVec<[Variable; 1]> = self.resources.iter().map(Granted::variable).collect();
        let (runtime, name) = (self.frame.runtime.clone(), self.name());
        let (reads, changes) = self.uses();
        let uses = (reads.into_iter(), changes.into_iter());
        let also = (resources.into_iter(), self.elements);
        let mut call = ReplayedCall::new(self);
        capturing::record(&runtime, name, uses, also, move |run| call.run(run))
    }

    pub(super) fn name(&self) -> Name {
        match self.is_backward {
            false => self.op.inner.name,
            true => self.op.inner.backward_name,
        }
    }

    pub(super) fn described(&self) -> String {
        let inputs = self.arguments().map(|argument| (self.frame.dtype(argument), self.frame.shape(argument)));
        described(self.name().as_str(), inputs)
    }

    /// Stands for an output that is not to be written.
    pub(super) fn nothing(&self, argument: Argument) -> BlobMut<'_> {
        BlobMut::nothing(self.frame.layout(argument), self.frame.dtype(argument))
    }

    /// Runs on a worker, or inside of the push. Errors say what was called.
    fn run(&self, run_ctx: &RunContext<'_>) -> Result<(), Error> {
        self.run_kernel(run_ctx).map_err(|error| error.within(self.described()))
    }

    fn run_kernel(&self, run_ctx: &RunContext<'_>) -> Result<(), Error> {
        let mut places = Places::new();
        places.fill(self)?;
        places.run(self, run_ctx)
    }

    /// Calls an implementation with its arrays: the inputs, or what a backward pass is given.
    #[inline]
    pub(super) fn call<'r>(
        &'r self,
        operator: &dyn Operator,
        run_ctx: &RunContext<'r>,
        (inputs, given): (&[Blob<'_>], &[Option<Blob<'_>>]),
        requests: &[OpReq],
        (written, auxiliary): (&mut [BlobMut<'_>], &mut [BlobMut<'_>]),
    ) -> Result<(), Error> {
        if self.resources.is_empty() {
            return self.call_with(&mut [], operator, run_ctx, (inputs, given), requests, (written, auxiliary));
        }
        let lent = self.resources.iter().map(|granted| granted.lend(self.frame.runtime.storage()));
        let mut lent: SmallVec<[Resource<'_>; 1]> = lent.collect::<Result<_, Error>>()?;
        self.call_with(&mut lent, operator, run_ctx, (inputs, given), requests, (written, auxiliary))
    }

    /// The same with resources.
    #[inline]
    fn call_with<'r>(
        &self,
        requested: &mut [Resource<'r>],
        operator: &dyn Operator,
        run_ctx: &RunContext<'r>,
        (inputs, given): (&[Blob<'_>], &[Option<Blob<'_>>]),
        requests: &[OpReq],
        (written, auxiliary): (&mut [BlobMut<'_>], &mut [BlobMut<'_>]),
    ) -> Result<(), Error> {
        let (inner, runtime) = (&*self.op.inner, &self.frame.runtime);
        let mut ctx = OpContext { is_train: self.is_train, run_ctx, requested, scalar: self.op.scalar, runtime };
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
