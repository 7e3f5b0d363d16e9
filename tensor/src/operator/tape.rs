//! The tape: which calls led to which arrays, while a thread records.
//!
//! Used by `call.rs` and `views.rs`, which write to it, and by `autograd/`, which begins, ends and
//! walks it. Each thread has a tape of its own, which keeps its room from step to step.

#![forbid(unsafe_code)]

use crate::ndarray::array::NDArray;
use crate::operator::function::Function;
use crate::operator::op::Op;
use crate::request::OpReq;
use crate::shape::Layout;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// What is attached to an array whose gradient is wanted.
#[derive(Debug)]
pub(crate) struct Attached {
    /// The number of the array. Views and what is detached share its memory, and not its gradient.
    pub of: u64,
    pub gradient: NDArray,
    pub req: OpReq,
}

/// How an array has come about.
pub(crate) enum Step {
    /// By a call.
    Call(Op),
    /// It shows elements of the one input: it is laid out so where the input is contiguous.
    View(Layout),
    /// It has the values of the one input, in another context.
    Copy,
    /// By a program's own function.
    Function(Box<RefCell<dyn Function>>),
}

pub(crate) struct Node {
    pub step: Step,
    pub inputs: SmallVec<[NDArray; 3]>,
    pub auxiliary: SmallVec<[NDArray; 2]>,
    pub outputs: SmallVec<[NDArray; 1]>,
    /// Whether the call ran to train: its backward pass does what it did.
    pub is_train: bool,
}

#[derive(Default)]
pub(crate) struct Tape {
    pub nodes: Vec<Node>,
    /// The node and the place among its outputs by which a value was made.
    pub made: HashMap<u64, (usize, usize)>,
}

thread_local! {
    static TAPE: RefCell<Tape> = RefCell::default();
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    static TRAINING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the thread records.
pub(crate) fn is_recording() -> bool {
    RECORDING.get()
}

/// Whether operators run to train.
pub(crate) fn is_training() -> bool {
    TRAINING.get()
}

/// Sets whether the thread records and trains; returns what was set before.
pub(crate) fn set(recording: bool, training: bool) -> (bool, bool) {
    (RECORDING.replace(recording), TRAINING.replace(training))
}

/// Sets back what the thread recorded before, also if a closure panics.
pub(crate) struct Before((bool, bool));

impl Before {
    /// Sets whether the thread records and trains, until this is dropped.
    pub fn set(recording: bool, training: bool) -> Before {
        Before(set(recording, training))
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        set(self.0 .0, self.0 .1);
    }
}

/// Lends the thread's tape.
pub(crate) fn with<R>(use_it: impl FnOnce(&mut Tape) -> R) -> R {
    TAPE.with_borrow_mut(use_it)
}

/// What is attached to an array itself, not to one that it was computed from.
pub(crate) fn attached(array: &NDArray) -> Option<&Attached> {
    array.chunk().gradient().get()?.downcast_ref().filter(|attached: &&Attached| attached.of == array.id())
}

/// Whether gradients flow back to an array: it has one attached, or the tape knows it.
pub(crate) fn is_tracked(array: &NDArray) -> bool {
    attached(array).is_some() || with(|tape| tape.made.contains_key(&array.id()))
}

/// Notes a call, if the thread records and one of the inputs is tracked.
pub(crate) fn record(op: &Op, inputs: &[&NDArray], auxiliary: &[&NDArray], outputs: &[NDArray]) {
    if is_recording() && inputs.iter().any(|input| is_tracked(input)) {
        push(Node {
            step: Step::Call(op.clone()),
            inputs: inputs.iter().map(|input| (*input).clone()).collect(),
            auxiliary: auxiliary.iter().map(|state| (*state).clone()).collect(),
            outputs: outputs.iter().cloned().collect(),
            is_train: is_training(),
        });
    }
}

/// Notes a view of a contiguous array, in the same way.
pub(crate) fn record_view(input: &NDArray, layout: Layout, output: &NDArray) {
    if is_recording() && is_tracked(input) {
        push(Node {
            step: Step::View(layout),
            inputs: [input.clone()].into_iter().collect(),
            auxiliary: SmallVec::new(),
            outputs: [output.clone()].into_iter().collect(),
            is_train: is_training(),
        });
    }
}

/// Notes a copy in another context, in the same way.
pub(crate) fn record_copy(input: &NDArray, output: &NDArray) {
    if is_recording() && is_tracked(input) {
        push(Node {
            step: Step::Copy,
            inputs: [input.clone()].into_iter().collect(),
            auxiliary: SmallVec::new(),
            outputs: [output.clone()].into_iter().collect(),
            is_train: is_training(),
        });
    }
}

/// Notes a function of a program, in the same way.
pub(crate) fn record_function(
    function: impl FnOnce() -> Box<RefCell<dyn Function>>,
    inputs: &[&NDArray],
    outputs: &[NDArray],
) {
    if is_recording() && inputs.iter().any(|input| is_tracked(input)) {
        push(Node {
            step: Step::Function(function()),
            inputs: inputs.iter().map(|input| (*input).clone()).collect(),
            auxiliary: SmallVec::new(),
            outputs: outputs.iter().cloned().collect(),
            is_train: is_training(),
        });
    }
}

fn push(node: Node) {
    with(|tape| {
        let number = tape.nodes.len();
        tape.made.extend(node.outputs.iter().enumerate().map(|(at, output)| (output.id(), (number, at))));
        tape.nodes.push(node);
    });
}
