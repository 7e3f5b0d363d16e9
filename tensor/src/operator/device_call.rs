//! A call on arrays of a device: an operation of that device, whose implementation queues kernels
//! on the stream.
//!
//! Used by `kernel_call.rs`, whose calls come here with their device. The operation owns its
//! arrays, whose ends do not wait for it.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::capturing;
use crate::ndarray::frame::Argument;
use crate::ndarray::profiled;
use crate::operator::implementations::OnDevice;
use crate::operator::kernel_call::KernelCall;
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
}

impl KernelCall {
    /// Pushes the operation to a device, where all arrays lie, or keeps it for the graph of a step.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) for an array whose elements do not lie
    /// in order; those of a push.
    #[cold]
    pub(super) fn push_to(self, device: OnDevice) -> Result<(), Error> {
        let states = || self.auxiliary.iter().copied();
        let all = || self.arguments().chain(states()).chain(self.written());
        if !all().all(|argument| self.frame.lies_in_order(argument)) {
            let message = "a view of an array of a GPU is given whose elements do not lie in order: give a copy of it";
            let refused = Error::new(ErrorKind::UnsupportedContext, message);
            return Err(refused.within(self.described()));
        }
        let (runtime, name, context) = (self.frame.runtime.clone(), self.name(), device.context);
        let also_read: SmallVec<[_; 1]> = self.resources.iter().filter_map(Granted::read_variable).collect();
        if capturing::is_active() {
            let also_changed: SmallVec<[_; 1]> = self.resources.iter().map(Granted::variable).collect();
            let (reads, changes) = self.uses();
            let (place, uses) = ((context, Property::Normal), (reads.into_iter(), changes.into_iter()));
            let call = DeviceCall { device, call: self };
            let also = (also_read, also_changed);
            return capturing::record_on(&runtime, (name, place), uses, also, move |run| call.run(run));
        }
        let operation = runtime.engine().op(name).context(context);
        let operation = operation.reads(self.arguments().map(|argument| argument.variable).chain(also_read));
        let operation = operation.writes(self.changed());
        let operation = if profiled::is_active() { operation.profiled() } else { operation };
        let call = DeviceCall { device, call: self };
        operation.push(move |run| call.run(run))?;
        Ok(())
    }
}

impl DeviceCall {
    fn block(&self, argument: Argument) -> Result<&DeviceBlock, Error> {
        let elsewhere = || Error::new(ErrorKind::ContextMismatch, "an array lies elsewhere");
        self.call.frame.device_block(argument).ok_or_else(elsewhere)
    }

    /// Where an array begins. One without elements is nowhere.
    fn base(&self, argument: Argument, address: impl FnOnce() -> Result<*mut u8, Error>) -> Result<*mut u8, Error> {
        if self.call.frame.shape(argument).size() == 0 {
            return Ok(null_mut());
        }
        address()
    }

    /// Runs on a thread of the device, which does not wait for what is queued. Errors say what was
    /// called.
    fn run(&self, run: &RunContext<'_>) -> Result<(), Error> {
        self.run_kernel(run).map_err(|error| error.within(self.call.described()))
    }

    fn run_kernel(&self, run: &RunContext<'_>) -> Result<(), Error> {
        let call = &self.call;
        let (mut given, mut inputs) = (SmallVec::<[Option<Blob<'_>>; 6]>::new(), SmallVec::<[Blob<'_>; 6]>::new());
        for input in &call.inputs {
            let blob = match *input {
                Some(argument) => {
                    let block = self.block(argument)?;
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
            let block = self.block(argument)?;
            auxiliary.push(call.frame.write_on_device(argument, self.base(argument, || block.changed(run))?));
        }
        let (mut written, mut requests) = (SmallVec::<[BlobMut<'_>; 3]>::new(), SmallVec::<[OpReq; 3]>::new());
        let mut targets = SmallVec::<[Option<&DeviceBlock>; 3]>::new();
        for argument in call.outputs.iter().copied() {
            let target = if argument.req.is_null() { None } else { Some(self.block(argument)?) };
            requests.push(argument.req);
            written.push(match target {
                None => call.nothing(argument),
                Some(block) => {
                    let covers = argument.req.overwrites() && call.frame.is_whole(argument);
                    let base = self.base(argument, || match covers {
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
