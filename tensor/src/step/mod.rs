//! `Step`: a closure's calls as one graph of the engine, which is run again and again.
//!
//! Programs capture a step once and run it often. `src/ndarray/capturing.rs` keeps the calls while
//! the closure runs; here they become a graph. `returned.rs` has what closures return.

#![forbid(unsafe_code)]

mod returned;

pub use returned::Returned;

use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing::{self, Session};
use crate::ndarray::runtime::Runtime;
use crate::operator::tape::{self, Tape};
use seriatim::{Graph, Variable};
use std::collections::HashSet;
use std::fmt;

/// The calls of a closure, captured once and run many times: inference, or a training step with
/// forward pass, backward pass and update.
///
/// A run gives the same bits as the calls of the closure would, pushed one by one. It costs less:
/// shapes, memory and order are settled at the capture. A run pushes one operation, allocates
/// nothing, and takes no lock.
///
/// ```
/// use seriatim_tensor::{autograd, optimizer::Sgd, NDArray, OpReq, Step};
/// let weight = NDArray::from_slice(&[0.0f32], [1])?;
/// weight.attach_grad(OpReq::Write)?;
/// let mut sgd = Sgd::new(0.1, 0.9, 0.0)?;
/// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
/// let y = NDArray::from_slice(&[3.0f32, 6.0], [2])?;
/// let mut train = Step::capture(&[&x, &y], |inputs| {
///     let loss = autograd::record(|| inputs[0].mul(&weight)?.sub(&inputs[1])?.square()?.mean())?;
///     autograd::backward(&[&loss])?;
///     sgd.step(&[&weight], 1.0)?;
///     Ok(loss)
/// })?;
/// for _ in 0..200 {
///     train.run(&[&x, &y])?;
/// }
/// assert!((weight.as_scalar::<f32>()? - 3.0).abs() < 1e-3);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
///
/// **What is captured** is each call of an operator, fill, copy and draw on arrays of the runtime,
/// by the capturing thread. Nothing of it runs during the capture.
///
/// - **Numbers** of the program are fixed at the capture: factors, slices that are copied in, the
///   branch of an `if`. A [`Parameter`](crate::Parameter) is read in each run. Optimisers count
///   their steps and compute their learning rates in operations, so these go on from run to run.
/// - **Random numbers** are new in each run: the generator goes on as if the calls were pushed.
/// - **Inputs** are arrays of the step's own. A run copies into them what it is given.
/// - **Arrays from outside**, such as weights, are read and changed as if the calls were pushed.
/// - **Arrays that are made inside** end with the step, and only the step can use them, unless the
///   closure returns them. What it returns is written anew by each run.
/// - **GPUs**: copies and kernels of GPUs are captured as well, and arrays that are made there.
///   What queues a kernel is called in each run, on a thread of the GPU.
/// - **Reading an array or waiting** inside is an error of kind
///   [`Capturing`](ErrorKind::Capturing), and so are attaching a gradient, setting a parameter and
///   running a step.
/// - Operations that a program pushes to the engine by itself are not captured. They run at once.
///
/// **One step has one shape.** A run with another is refused with
/// [`ShapeMismatch`](ErrorKind::ShapeMismatch). A capture takes long, and would come when a run is
/// expected to be short, so the program says when: it captures one step for each shape. Steps may
/// share weights and optimisers.
///
/// **Failures.** If an operation of a run fails, what depends on it is skipped, also in later runs,
/// until a wait for an array that the failure has reached takes it. Then runs go on.
pub struct Step<R = NDArray> {
    /// Before the arrays: the graph ends first.
    graph: Graph,
    runtime: Runtime,
    inputs: Vec<NDArray>,
    returned: R,
    is_short: bool,
}

/// Steps with at most so many elements in all calls run in [`Step::call`], rather than on another
/// core.
const SHORT: usize = 1 << 16;

/// Puts a thread's tape aside, and brings it back, also if a closure panics.
struct Aside {
    tape: Tape,
    was: (bool, bool),
}

impl Aside {
    fn put() -> Aside {
        Aside { tape: tape::with(std::mem::take), was: tape::set(false, false) }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let inside = tape::with(|tape| std::mem::replace(tape, std::mem::take(&mut self.tape)));
        tape::set(self.was.0, self.was.1);
        // Behind the exchange: its arrays may push their deletions.
        drop(inside);
    }
}

impl<R: Returned> Step<R> {
    /// Captures the calls of a closure on arrays of the shapes and types of `examples`. The closure
    /// is called once, with the step's inputs in the same order. These hold the values of the
    /// examples until a run copies others in.
    ///
    /// Takes some ten times as long as the calls would.
    ///
    /// # Errors
    /// The error of the closure; [`Capturing`](ErrorKind::Capturing) inside of another capture;
    /// [`Recording`](ErrorKind::Recording) inside of [`record`](crate::autograd::record);
    /// [`ForeignArray`](ErrorKind::ForeignArray) if arrays belong to different runtimes; those of a
    /// push. No step is made then.
    ///
    /// ```
    /// use seriatim_tensor::{ErrorKind, NDArray, Step};
    /// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
    /// let mut double = Step::capture(&[&x], |inputs| inputs[0].mul_scalar(2.0))?;
    /// assert_eq!(double.run(&[&x])?.to_vec::<f32>()?, [2.0, 4.0]);
    /// let refused = Step::capture(&[&x], |inputs| {
    ///     inputs[0].to_vec::<f32>()?;
    ///     Ok(())
    /// });
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Capturing);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn capture(
        examples: &[&NDArray],
        closure: impl FnOnce(&[NDArray]) -> Result<R, Error>,
    ) -> Result<Step<R>, Error> {
        match examples.first() {
            Some(first) => Step::capture_on(first.runtime(), examples, closure),
            None => Step::capture_on(Runtime::global()?, examples, closure),
        }
    }

    /// The same on a runtime, for a step without inputs.
    ///
    /// # Errors
    /// Those of [`capture`](Step::capture).
    ///
    /// ```
    /// use seriatim_tensor::{DType, Distribution, Runtime, Step};
    /// let runtime = Runtime::global()?;
    /// let of = Distribution::Uniform { low: 0.0, high: 1.0 };
    /// let mut draw = Step::capture_on(runtime, &[], |_| runtime.random([4], DType::F32, of))?;
    /// let first = draw.run(&[])?.to_vec::<f32>()?;
    /// assert_ne!(first, draw.run(&[])?.to_vec::<f32>()?);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn capture_on(
        runtime: &Runtime,
        examples: &[&NDArray],
        closure: impl FnOnce(&[NDArray]) -> Result<R, Error>,
    ) -> Result<Step<R>, Error> {
        capturing::refuse("a step is captured")?;
        if tape::is_recording() {
            let message = "a step is captured inside of record: record inside of the step";
            return Err(Error::new(ErrorKind::Recording, message));
        }
        if let Some(foreign) = examples.iter().find(|example| !example.runtime().is(runtime)) {
            let message = format!("{foreign:?} belongs to another runtime than the step");
            return Err(Error::new(ErrorKind::ForeignArray, message));
        }
        let inputs = examples.iter().map(|example| example.copy()).collect::<Result<Vec<NDArray>, Error>>()?;
        let aside = Aside::put();
        let session = Session::begin(runtime)?;
        let returned = closure(&inputs)?;
        let recorder = session.end();
        // Arrays that only the tape has come to their end before the graph takes the others.
        drop(aside);
        let Some(recorder) = recorder else {
            return Err(Error::new(ErrorKind::Capturing, "the capture has ended inside of its closure"));
        };
        let mut variables: HashSet<Variable> = inputs.iter().map(NDArray::variable).collect();
        returned.visit(&mut |array| _ = variables.insert(array.variable()));
        let is_short = recorder.elements() <= SHORT;
        let graph = recorder.into_graph("step", &variables)?;
        Ok(Step { graph, runtime: runtime.clone(), inputs, returned, is_short })
    }
}

impl<R> Step<R> {
    /// Runs the step: copies values into its inputs and pushes its operations as one. Does not
    /// wait. Returns what the closure has returned: the same arrays each time, which this run
    /// writes.
    ///
    /// An array of [`inputs`](Step::inputs) itself is not copied: what was written to it is used.
    ///
    /// # Errors
    /// [`WrongArguments`](ErrorKind::WrongArguments) if there are not as many arrays as inputs;
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch), [`UnsupportedType`](ErrorKind::UnsupportedType)
    /// and [`ForeignArray`](ErrorKind::ForeignArray) if one is not like its input;
    /// [`Capturing`](ErrorKind::Capturing) inside of a capture and
    /// [`Recording`](ErrorKind::Recording) inside of [`record`](crate::autograd::record), which
    /// would not see the step's calls. Nothing is pushed then. Those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{ErrorKind, NDArray, Step};
    /// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
    /// let mut sum = Step::capture(&[&x], |inputs| inputs[0].sum())?;
    /// assert_eq!(sum.run(&[&x])?.as_scalar::<f32>()?, 3.0);
    /// let longer = NDArray::from_slice(&[1.0f32, 2.0, 3.0], [3])?;
    /// assert_eq!(sum.run(&[&longer]).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn run(&mut self, inputs: &[&NDArray]) -> Result<&R, Error> {
        self.take_in(inputs)?;
        self.graph.replay()?;
        Ok(&self.returned)
    }

    /// Runs the step like [`run`](Step::run), and waits for what it returns: for a thread that has
    /// nothing else to do, as in inference. A short step runs in the call, if nothing holds it up.
    ///
    /// # Errors
    /// Those of [`run`](Step::run); the error of an operation of which the returned arrays depend,
    /// which this takes like [`wait_to_read`](NDArray::wait_to_read).
    ///
    /// ```
    /// use seriatim_tensor::{NDArray, Step};
    /// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
    /// let mut double = Step::capture(&[&x], |inputs| inputs[0].mul_scalar(2.0))?;
    /// assert_eq!(double.call(&[&x])?.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn call(&mut self, inputs: &[&NDArray]) -> Result<&R, Error>
    where
        R: Returned,
    {
        self.take_in(inputs)?;
        if !(self.is_short && self.graph.replay_now()) {
            self.graph.replay()?;
        }
        let mut outcome = Ok(());
        self.returned.visit(&mut |array| {
            let waited = array.wait_to_read();
            if outcome.is_ok() {
                outcome = waited;
            }
        });
        outcome.map(|()| &self.returned)
    }

    /// Copies values into the inputs.
    fn take_in(&self, inputs: &[&NDArray]) -> Result<(), Error> {
        self.check(inputs)?;
        let mut others = inputs.iter().zip(&self.inputs).filter(|(given, own)| given.id() != own.id());
        others.try_for_each(|(given, own)| given.copy_to(own))
    }

    fn check(&self, inputs: &[&NDArray]) -> Result<(), Error> {
        capturing::refuse("a step is run")?;
        if tape::is_recording() {
            let message = "a step is run inside of record, which does not see its calls: record inside of the step";
            return Err(Error::new(ErrorKind::Recording, message));
        }
        if inputs.len() != self.inputs.len() {
            let message = format!("a step with {} inputs was given {}", self.inputs.len(), inputs.len());
            return Err(Error::new(ErrorKind::WrongArguments, message));
        }
        for (number, (given, own)) in inputs.iter().zip(&self.inputs).enumerate() {
            let kind = match () {
                () if !given.runtime().is(&self.runtime) => ErrorKind::ForeignArray,
                () if given.shape() != own.shape() => ErrorKind::ShapeMismatch,
                () if given.dtype() != own.dtype() => ErrorKind::UnsupportedType,
                () => continue,
            };
            let message =
                format!("input {number} of a step is {own:?}, and was given {given:?}: capture a step for it");
            return Err(Error::new(kind, message));
        }
        Ok(())
    }

    /// The step's own inputs. Writing values to them, by
    /// [`copy_from_slice`](NDArray::copy_from_slice) say, and giving them to [`run`](Step::run)
    /// saves a copy.
    ///
    /// ```
    /// use seriatim_tensor::{NDArray, Step};
    /// let x = NDArray::from_slice(&[0.0f32; 2], [2])?;
    /// let mut sum = Step::capture(&[&x], |inputs| inputs[0].sum())?;
    /// let input = sum.inputs()[0].clone();
    /// input.copy_from_slice(&[1.0f32, 2.0])?;
    /// assert_eq!(sum.run(&[&input])?.as_scalar::<f32>()?, 3.0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn inputs(&self) -> &[NDArray] {
        &self.inputs
    }

    /// What the closure has returned, as the last run writes it.
    ///
    /// ```
    /// use seriatim_tensor::{NDArray, Step};
    /// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
    /// let mut sum = Step::capture(&[&x], |inputs| inputs[0].sum())?;
    /// sum.run(&[&x])?;
    /// assert_eq!(sum.returned().as_scalar::<f32>()?, 3.0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn returned(&self) -> &R {
        &self.returned
    }

    /// The graph of the engine: to replay it with a priority or within limits, or to draw it.
    ///
    /// ```
    /// use seriatim_tensor::{NDArray, Step};
    /// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
    /// let step = Step::capture(&[&x], |inputs| inputs[0].square()?.sum())?;
    /// assert_eq!(step.graph().len(), 2);
    /// assert!(step.graph().dump_dot().contains("square"));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}

impl<R> fmt::Debug for Step<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step({} operations, inputs {:?})", self.graph.len(), self.inputs)
    }
}
