//! A call on arrays of a device: an operation of that device, whose implementation queues kernels
//! on the stream.
//!
//! Used by `kernel_call.rs`, whose calls come here with their device. The operation has shares of
//! the memory of its arrays, since that is the engine's and does not go with their chunks.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Argument, Blob, BlobMut};
use crate::ndarray::capturing::{self, Use};
use crate::ndarray::profiled;
use crate::operator::implementations::OnDevice;
use crate::operator::kernel_call::{KernelCall, Output};
use crate::request::OpReq;
use crate::resource::manager::Granted;
use crate::storage::device::DeviceBlock;
use seriatim::{Property, RunContext};
use smallvec::SmallVec;
use std::ptr::null_mut;

/// What the operation carries.
struct DeviceCall {
    call: KernelCall,
    device: OnDevice,
    /// Those of inputs that are given, of auxiliary states, and of outputs that are written.
    blocks: SmallVec<[DeviceBlock; 6]>,
}

impl KernelCall {
    /// Pushes the operation to a device, where all arrays lie, or keeps it for the graph of a step.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) for an array whose elements do not lie
    /// in order; those of a push.
    #[cold]
    pub(super) fn push_to(self, device: OnDevice) -> Result<(), Error> {
        let inputs = || self.inputs.iter().flatten().map(|input| &input.argument);
        let outputs = || self.outputs.iter().filter(|output| !output.req.is_null());
        let changed = || self.auxiliary.iter().chain(outputs().map(|output| &output.argument));
        if !inputs().chain(changed()).all(Argument::lies_in_order) {
            let message = "a view of an array of a GPU is given whose elements do not lie in order: give a copy of it";
            let refused = Error::new(ErrorKind::UnsupportedContext, message);
            return Err(refused.within(self.described()));
        }
        let all = inputs().chain(changed());
        let blocks: Option<SmallVec<_>> = all.map(|argument| argument.device_block(&self.runtime).cloned()).collect();
        let Some(blocks) = blocks else {
            return Err(Error::new(ErrorKind::ContextMismatch, "an array lies elsewhere"));
        };
        let (runtime, name, context) = (self.runtime.clone(), self.name(), device.context);
        let also_read: SmallVec<[_; 1]> = self.resources.iter().filter_map(Granted::read_variable).collect();
        let also_changed: SmallVec<[_; 1]> = self.resources.iter().map(Granted::variable).collect();
        if capturing::is_active() {
            let of = |argument: &Argument, covers| Use { argument: *argument, covers };
            let reads: SmallVec<[Use; 6]> = inputs().map(|argument| of(argument, false)).collect();
            let states = self.auxiliary.iter().map(|state| of(state, false));
            let changes: SmallVec<[Use; 4]> =
                states.chain(outputs().map(|out| of(&out.argument, out.covers()))).collect();
            let (place, uses) = ((context, Property::Normal), (reads.into_iter(), changes.into_iter()));
            let call = DeviceCall { device, blocks, call: self };
            let run = move |run: &RunContext<'_>| call.run(run).map_err(|error| error.within(call.call.described()));
            return capturing::record_on(&runtime, (name, place), uses, (also_read, also_changed), run);
        }
        let operation = runtime.engine().op(name).context(context);
        let operation = operation.reads(inputs().map(|argument| argument.variable).chain(also_read));
        let operation = operation.writes(changed().map(|argument| argument.variable).chain(also_changed));
        let operation = if profiled::is_active() { operation.profiled() } else { operation };
        let call = DeviceCall { device, blocks, call: self };
        operation.push(move |run| call.run(run).map_err(|error| error.within(call.call.described())))?;
        Ok(())
    }
}

impl Output {
    /// Whether the operation writes all of the memory, and reads none.
    fn covers(&self) -> bool {
        self.req.overwrites() && self.argument.is_whole()
    }
}

/// Where an array begins. One without elements is nowhere.
fn base(argument: &Argument, address: impl FnOnce() -> Result<*mut u8, Error>) -> Result<*mut u8, Error> {
    if argument.layout.shape.size() == 0 {
        return Ok(null_mut());
    }
    address()
}

impl DeviceCall {
    /// Runs on a thread of the device, which does not wait for what is queued.
    fn run(&self, run: &RunContext<'_>) -> Result<(), Error> {
        let (call, mut blocks) = (&self.call, self.blocks.iter());
        let mut next = || blocks.next().expect("each array that is used has brought its block");
        let (mut given, mut inputs) = (SmallVec::<[Option<Blob<'_>>; 6]>::new(), SmallVec::<[Blob<'_>; 6]>::new());
        for input in &call.inputs {
            let blob = match input {
                Some(input) => {
                    let (argument, block) = (&input.argument, next());
                    Some(argument.read_on_device(base(argument, || block.address(run, false))?))
                }
                None => None,
            };
            match blob.filter(|_| !call.is_backward) {
                Some(blob) => inputs.push(blob),
                None => given.push(blob),
            }
        }
        let mut auxiliary = SmallVec::<[BlobMut<'_>; 2]>::new();
        for argument in &call.auxiliary {
            let block = next();
            auxiliary.push(argument.write_on_device(base(argument, || block.changed(run))?));
        }
        let (mut written, mut requests) = (SmallVec::<[BlobMut<'_>; 3]>::new(), SmallVec::<[OpReq; 3]>::new());
        let mut targets = SmallVec::<[Option<&DeviceBlock>; 3]>::new();
        for output in &call.outputs {
            let argument = &output.argument;
            let target = if output.req.is_null() { None } else { Some(next()) };
            requests.push(output.req);
            written.push(match target {
                None => BlobMut::nothing(argument),
                Some(block) => argument.write_on_device(base(argument, || match output.covers() {
                    true => block.target(run),
                    false => block.changed(run),
                })?),
            });
            targets.push(target);
        }
        let results = (&mut written[..], &mut auxiliary[..]);
        call.call(&*self.device.operator, run, (&inputs[..], &given[..]), &requests, results)?;
        for (blob, block) in written.iter().zip(targets) {
            block.filter(|_| blob.is_given()).into_iter().for_each(DeviceBlock::note_written);
        }
        Ok(())
    }
}
