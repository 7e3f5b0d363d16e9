//! Where the arrays of a call stand while its kernel runs: [`Places`], and [`ReplayedCall`], which
//! keeps them from run to run.
//!
//! Used by `kernel_call.rs`: operations that are pushed make their places and fill them. In a graph
//! that is run again and again the places are made once. Making them takes longer than a short
//! kernel.

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
    /// memory of the storage still. The caller is in the operation of the call.
    #[inline]
    fn refill(&mut self, call: &'a KernelCall) -> bool {
        let frame = &call.frame;
        let mut all = true;
        // SAFETY: the call has declared the variables of its arrays, as in `fill`, and these have
        // been put there by it.
        unsafe {
            for (place, input) in self.inputs.iter_mut().zip(&call.inputs) {
                all &= input.is_some_and(|input| place.follow(frame, input));
            }
            for (place, input) in self.given.iter_mut().zip(&call.inputs) {
                all &= place.as_mut().zip(*input).is_none_or(|(place, input)| place.follow(frame, input));
            }
            for (place, state) in self.states.iter_mut().zip(&call.auxiliary) {
                all &= place.follow(frame, *state);
            }
            for (place, output) in self.outputs.iter_mut().zip(&call.outputs) {
                all &= output.req.is_null() || place.follow(frame, *output);
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
    call: Box<KernelCall>,
    places: Places<'static>,
    /// Whether a run has put arrays into the places.
    is_filled: bool,
}

// SAFETY: a `KernelCall` is `Send`, and between two runs nobody looks at the places.
unsafe impl Send for ReplayedCall {}

impl ReplayedCall {
    pub fn new(call: KernelCall) -> ReplayedCall {
        ReplayedCall { call: Box::new(call), places: Places::new(), is_filled: false }
    }

    /// Runs in a replay. Errors say what was called.
    pub fn run(&mut self, run_ctx: &RunContext<'_>) -> Result<(), Error> {
        // SAFETY: the call stays where it is and unchanged for as long as this value, and so do the
        // records of its arrays. Where their memory is the places learn anew in each run.
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
