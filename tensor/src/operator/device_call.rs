//! A call on arrays of a device: an operation of that device, whose implementation queues kernels
//! on the stream.
//!
//! Used by `kernel_call.rs`, whose calls come here with their device. The operation has shares of
//! the memory of its arrays, since that is the engine's and does not go with their chunks.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::capturing;
use crate::ndarray::frame::Argument;
use crate::ndarray::profiled;
use crate::operator::implementations::OnDevice;
use crate::operator::kernel_call::KernelCall;
use crate::request::OpReq;
use crate::storage::device::DeviceBlock;
use seriatim::RunContext;
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
    /// Pushes the operation to a device, where all arrays lie.
    ///
    /// # Errors
    /// [`Capturing`](ErrorKind::Capturing); [`UnsupportedContext`](ErrorKind::UnsupportedContext)
    /// for an array whose elements do not lie in order; those of a push.
    #[cold]
    pub(super) fn push_to(self, device: OnDevice) -> Result<(), Error> {
        let within = |error: Error| error.within(self.described());
        capturing::refuse("an operator of a GPU is called").map_err(within)?;
        let states = || self.auxiliary.iter().copied();
        let is_read = self.arguments().all(|argument| self.frame.lies_in_order(argument, false));
        if !is_read || !self.written().chain(states()).all(|argument| self.frame.lies_in_order(argument, true)) {
            let message =
                "a view of an array of a GPU is given, and its elements do not lie in order, or it is written \
                           and shows a part of the array: give a copy of it";
            return Err(within(Error::new(ErrorKind::UnsupportedContext, message)));
        }
        let all = self.arguments().chain(states()).chain(self.written());
        let blocks: Option<SmallVec<_>> = all.map(|argument| self.frame.device_block(argument).cloned()).collect();
        let Some(blocks) = blocks else {
            return Err(Error::new(ErrorKind::ContextMismatch, "an array lies elsewhere"));
        };
        let runtime = self.frame.runtime.clone();
        let operation = runtime.engine().op(self.name()).context(device.context);
        let operation = operation.reads(self.arguments().map(|argument| argument.variable)).writes(self.changed());
        let operation = if profiled::is_active() { operation.profiled() } else { operation };
        let call = DeviceCall { device, blocks, call: self };
        operation.push(move |run| call.run(run).map_err(|error| error.within(call.call.described())))?;
        Ok(())
    }
}

impl DeviceCall {
    /// Where an array begins. One without elements is nowhere.
    fn base(&self, argument: Argument, address: impl FnOnce() -> Result<*mut u8, Error>) -> Result<*mut u8, Error> {
        if self.call.frame.shape(argument).size() == 0 {
            return Ok(null_mut());
        }
        address()
    }

    /// Runs on a thread of the device, which does not wait for what is queued.
    fn run(&self, run: &RunContext<'_>) -> Result<(), Error> {
        let (call, mut blocks) = (&self.call, self.blocks.iter());
        let mut next = || blocks.next().expect("each array that is used has brought its block");
        let (mut given, mut inputs) = (SmallVec::<[Option<Blob<'_>>; 6]>::new(), SmallVec::<[Blob<'_>; 6]>::new());
        for input in &call.inputs {
            let blob = match *input {
                Some(argument) => {
                    let block = next();
                    Some(call.frame.read_on_device(argument, self.base(argument, || block.address(run, false))?))
                }
                None => None,
            };
            match blob.filter(|_| !call.is_backward) {
                Some(blob) => inputs.push(blob),
                None => given.push(blob),
            }
        }
        let mut auxiliary = SmallVec::<[BlobMut<'_>; 2]>::new();
        for argument in call.auxiliary.iter().copied() {
            let block = next();
            auxiliary.push(call.frame.write_on_device(argument, self.base(argument, || block.changed(run))?));
        }
        let (mut written, mut requests) = (SmallVec::<[BlobMut<'_>; 3]>::new(), SmallVec::<[OpReq; 3]>::new());
        let mut targets = SmallVec::<[Option<&DeviceBlock>; 3]>::new();
        for argument in call.outputs.iter().copied() {
            let target = if argument.req.is_null() { None } else { Some(next()) };
            requests.push(argument.req);
            written.push(match target {
                None => call.nothing(argument),
                Some(block) => {
                    let base = self.base(argument, || match argument.req.overwrites() {
                        true => block.target(run),
                        false => block.changed(run),
                    })?;
                    call.frame.write_on_device(argument, base)
                }
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
