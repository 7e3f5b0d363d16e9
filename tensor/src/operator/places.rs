//! Where the arrays of a call stand while its kernel runs: [`Places`], and [`ReplayedCall`], which
//! keeps them from run to run.
//!
//! Used by `kernel_call.rs`: operations that are pushed make their places and fill them. In a graph
//! the places stay, and in each run follow the memory of their arrays: filling them takes longer
//! than a short kernel. Where an array has no block of the storage, all are filled in each run.

use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::kernel_call::KernelCall;
use crate::request::OpReq;
use seriatim::RunContext;
use smallvec::SmallVec;

/// The arrays of a call as its kernel sees them, and how results are written.
pub(super) struct Places<'a> {
    /// Of a forward pass.
    inputs: SmallVec<[Blob<'a>; 6]>,
    /// What a backward pass is given.
    given: SmallVec<[Option<Blob<'a>>; 6]>,
    states: SmallVec<[BlobMut<'a>; 2]>,
    outputs: SmallVec<[BlobMut<'a>; 3]>,
    requests: SmallVec<[OpReq; 3]>,
}

impl<'a> Places<'a> {
    #[inline]
    pub fn new() -> Places<'a> {
        Places {
            inputs: SmallVec::new(),
            given: SmallVec::new(),
            states: SmallVec::new(),
            outputs: SmallVec::new(),
            requests: SmallVec::new(),
        }
    }

    /// Puts the arrays there. The caller is in the operation of the call, and uses them in it.
    #[inline]
    pub fn fill(&mut self, call: &'a KernelCall) -> Result<(), Error> {
        let frame = &call.frame;
        // Before results are made: one may be in the memory of an input that nothing has written.
        for input in call.inputs.iter().copied() {
            // SAFETY: the call has declared to read the variables of all inputs. Where an output is
            // in the same memory, both are shared.
            let blob = input.map(|argument| unsafe { frame.read(argument) }).transpose()?;
            match blob.filter(|_| !call.is_backward) {
                Some(blob) => self.inputs.push(blob),
                None => self.given.push(blob),
            }
        }
        for state in &call.auxiliary {
            // SAFETY: the call has declared to change the variables of all auxiliary states.
            self.states.push(unsafe { frame.write(*state, false) }?);
        }
        for output in call.outputs.iter().copied() {
            self.requests.push(output.req);
            self.outputs.push(match output.req {
                OpReq::Null => call.nothing(output),
                // SAFETY: the call has declared to change the variables of all outputs that are
                // written. Where an input is in the same memory, both are shared.
                req => unsafe { frame.write(output, req.overwrites()) }?,
            });
        }
        Ok(())
    }

    /// Takes all arrays away.
    fn clear(&mut self) {
        self.inputs.clear();
        self.given.clear();
        self.states.clear();
        self.outputs.clear();
        self.requests.clear();
    }

    /// Has the arrays of the last run stand where their memory is now. Returns whether all have
    /// memory of the storage still, and are at their places: a kernel may have exchanged those that
    /// it was lent to change. The caller is in the operation of the call.
    #[inline]
    fn refill(&mut self, call: &'a KernelCall) -> bool {
        let frame = &call.frame;
        let mut all = true;
        // SAFETY: the call has declared the variables of its arrays, as in `fill`, which has put
        // them there. Where one is not at its place, nobody looks at any: all are filled anew then.
        unsafe {
            for (place, input) in self.inputs.iter_mut().zip(&call.inputs) {
                all &= input.is_some_and(|input| place.follow(frame, input));
            }
            for (place, input) in self.given.iter_mut().zip(&call.inputs) {
                all &= place.as_mut().zip(*input).is_none_or(|(place, input)| place.follow(frame, input));
            }
            for (place, state) in self.states.iter_mut().zip(&call.auxiliary) {
                all &= place.is_of(frame, *state) && place.follow(frame, *state);
            }
            for (place, output) in self.outputs.iter_mut().zip(&call.outputs) {
                let is_there = output.req.is_null() || place.follow(frame, *output);
                all &= is_there && place.is_of(frame, *output);
            }
        }
        all
    }

    /// Calls the kernel of the processor with the arrays.
    #[inline]
    pub fn run(&mut self, call: &KernelCall, run_ctx: &RunContext<'_>) -> Result<(), Error> {
        let operator = call.op.inner.implementations.of_processor()?;
        let (read, changed) = ((&self.inputs[..], &self.given[..]), (&mut self.outputs[..], &mut self.states[..]));
        call.call(operator, run_ctx, read, &self.requests, changed)
    }
}

/// A call of a graph, with its places.
pub(super) struct ReplayedCall {
    /// First, as they refer to the call.
    places: Places<'static>,
    call: Box<KernelCall>,
    /// Whether a run has put arrays into the places.
    is_filled: bool,
}

// SAFETY: a `KernelCall` is `Send`, as said below. A graph has one run at a time, and each one has
// all places follow their arrays, or fills them, before it looks at them.
unsafe impl Send for ReplayedCall {}
const _: fn(KernelCall) = is_send::<KernelCall>;

fn is_send<T: Send>(_: T) {}

impl ReplayedCall {
    pub fn new(call: KernelCall) -> ReplayedCall {
        ReplayedCall { places: Places::new(), call: Box::new(call), is_filled: false }
    }

    /// Runs in a replay. Errors say what was called.
    pub fn run(&mut self, run_ctx: &RunContext<'_>) -> Result<(), Error> {
        // SAFETY: the call stays where it is and unchanged for as long as this value. Places refer
        // to it, and to the records of its arrays. Another array gets a record only after the end
        // of the one that a call names: its variable is deleted then, as captured calls have made
        // it known, and the engine refuses a run. So whoever comes here finds the record unchanged.
        let call = unsafe { &*std::ptr::from_ref(&*self.call) };
        self.run_kernel(call, run_ctx).map_err(|error| error.within(call.described()))
    }

    #[inline]
    fn run_kernel(&mut self, call: &'static KernelCall, run_ctx: &RunContext<'_>) -> Result<(), Error> {
        if !(self.is_filled && self.places.refill(call)) {
            self.is_filled = false;
            self.places.clear();
            self.places.fill(call)?;
            self.is_filled = true;
        }
        self.places.run(call, run_ctx)
    }
}
