//! `CaptureBuilder`: an operation of a graph that is being captured. `Capture::op`
//! (`src/api/capture.rs`) makes it.
//!
//! It has the methods of `OperationBuilder` (`src/api/operation.rs`), but for `cost_key`,
//! `profiled`, `operator` and `async_operator`; it alone has `device_graph`. A method is changed in
//! both files. The ends for typed values are in `src/api/typed/run.rs`. It is `Send`: a thread may
//! hand it to another. It borrows the recording of its capture, so nothing else uses that
//! meanwhile. The collected request lies in a `Draft` (`src/engine/draft.rs`).

use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::draft::Draft;
use crate::engine::replay::assemble::{Captured, Joins, Recording};
use crate::engine::replay::program::{detached, sync, Body};
use crate::engine::request::Request;
use crate::error::Error;
use crate::operation::access::Mode;
use crate::operation::closure::IntoOutcome;
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::property::Property;
use crate::variable::handle::Variable;
use std::fmt;

/// An operation of a graph that is being put together, from
/// [`Capture::op`](crate::Capture::op).
///
/// ```
/// # let engine = seriatim::Engine::new()?;
/// # let [x, y] = [engine.new_variable(), engine.new_variable()];
/// let (graph, ()) = engine.capture(|c| c.op("axpy").reads([x]).writes([y]).priority(2).push(|_| ()))?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "an operation is not recorded until push() is called"]
pub struct CaptureBuilder<'c> {
    core: &'c Core,
    recording: &'c mut Recording,
    pub(super) draft: Draft,
    joins: Joins,
}

impl<'c> CaptureBuilder<'c> {
    pub(super) fn new(core: &'c Core, recording: &'c mut Recording, draft: Draft) -> CaptureBuilder<'c> {
        CaptureBuilder { core, recording, draft, joins: Joins::No }
    }
}

impl CaptureBuilder<'_> {
    /// Adds variables that the operation reads; a variable that is also written counts as written.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("look").reads([x]).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn reads(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.draft.add(variable.into(), Mode::Read));
        self
    }

    /// Adds variables that the operation changes.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("change").writes([x]).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn writes(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.draft.add(variable.into(), Mode::Write));
        self
    }

    /// Adds commutative variables on which the operation commutes. In a graph such operations run
    /// in the order in which they were recorded, as if they wrote the variables; a replay as a
    /// whole writes them.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let x = engine.new_commutative_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("add").commutes([x]).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn commutes(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.draft.commute(variable.into()));
        self
    }

    /// Adds one variable that the operation reads.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("look").read(x).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn read(self, variable: impl Into<Variable>) -> Self {
        self.reads([variable])
    }

    /// Adds one variable that the operation changes.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("change").write(x).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn write(self, variable: impl Into<Variable>) -> Self {
        self.writes([variable])
    }

    /// Sets the priority, 0 by default. The capture puts its operations into the order in which one
    /// thread would run them, greater priorities first; the threads of a replay keep to that order.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("soon").priority(3).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn priority(mut self, priority: i32) -> Self {
        self.draft.request_mut().priority = priority;
        self
    }

    /// Sets the kind of work: copies and prioritised operations run on their own workers.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("report").property(seriatim::Property::NoSkip).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn property(mut self, property: Property) -> Self {
        self.draft.request_mut().property = property;
        self
    }

    /// Declares that the closure takes well under a microsecond, and waits for nothing that the
    /// replaying thread does later. This is [`Property::Short`]. The pushes of a
    /// [`Pipeline`](crate::Pipeline) may then run it themselves, as
    /// [`OperationBuilder::short`](crate::OperationBuilder::short) says. A graph measures what its
    /// operations take, and needs no such word.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.value(0);
    /// let (mut steps, ()) = engine.capture_pipeline(|c| {
    ///     c.op("count").short().run(seriatim::Write(&x), |x| *x += 1)
    /// })?;
    /// (0..100).try_for_each(|_| steps.replay())?;
    /// assert_eq!(*x.read()?, 100);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn short(self) -> Self {
        self.property(Property::Short)
    }

    /// Sets where the operation runs. The default is `cpu(0)`, any worker of the processor.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("first worker").context(seriatim::Context::cpu(1)).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn context(mut self, context: Context) -> Self {
        self.draft.request_mut().context = context;
        self
    }

    /// Lets the operation become a part of a graph of the device's driver, with others that ask for
    /// it. The operations of one device between two operations of the processor are then launched
    /// as a whole.
    ///
    /// Such a closure is called once, in the first replay, while its stream is captured: what it
    /// puts there is done in each replay, and what else it does is not done again. So it keeps to
    /// [`RunContext::stream`], and waits for nothing and allocates nothing on the device. What it
    /// reads by [`Parameter::get`](crate::Parameter::get) stays as it was; after a
    /// [`Parameter::set`](crate::Parameter::set) the next replay calls the closures anew, and so it
    /// does when the handle of a library is gone that one of them has used
    /// ([`RunContext::with_handle`]). If one of them fails, none of the whole is done, and the next
    /// replay calls them again.
    ///
    /// It changes nothing on the processor, for [`push_async`](CaptureBuilder::push_async) and
    /// [`Property::Async`], and if the back end has no [graphs](crate::gpu::DeviceGraphs): then the
    /// closure is called in each replay. CUDA's drivers have them since 11.4.
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine};
    /// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| {
    ///     c.op("kernel").context(Context::gpu(0)).write(x).device_graph().push(|run| {
    ///         let _stream = run.stream(); // a kernel is put there
    ///     })
    /// })?;
    /// graph.replay()?;
    /// engine.wait_for_var(x)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn device_graph(mut self) -> Self {
        self.joins = Joins::Asks;
        self
    }

    /// Has the operation launched with others that ask for it, if it comes after one of them.
    pub(super) fn follows(mut self) -> Self {
        self.joins = Joins::Follows;
        self
    }

    /// Records the operation. In each replay it ends when the closure returns. No two calls of it
    /// overlap, so the closure may change what it owns.
    ///
    /// # Errors
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted),
    /// [`ForeignVariable`](crate::ErrorKind::ForeignVariable),
    /// [`PrivateVariable`](crate::ErrorKind::PrivateVariable) for one of another graph,
    /// [`UnknownDevice`](crate::ErrorKind::UnknownDevice),
    /// [`DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable),
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost). Nothing is recorded then.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let mut count = 0;
    /// let (graph, ()) = engine.capture(|c| {
    ///     c.op("count").push(move |_| {
    ///         count += 1;
    ///         println!("replay {count}");
    ///     })
    /// })?;
    /// graph.replay()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push<F, R>(self, mut closure: F) -> Result<(), Error>
    where
        F: FnMut(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        self.record(sync(move |run| closure(run).into_outcome()))
    }

    /// Records an asynchronous operation. In each replay it ends when its completion was used *and*
    /// the closure has returned.
    ///
    /// # Errors
    /// Those of [`push`](CaptureBuilder::push).
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| {
    ///     c.op("fetch").writes([x]).push_async(|_, completion| {
    ///         std::thread::spawn(move || completion.complete());
    ///     })
    /// })?;
    /// graph.replay()?;
    /// engine.wait_for_var(x)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push_async<G>(self, closure: G) -> Result<(), Error>
    where
        G: FnMut(&RunContext<'_>, Completion) + Send + 'static,
    {
        self.record(detached(closure))
    }
}

impl CaptureBuilder<'_> {
    fn record(mut self, body: Body) -> Result<(), Error> {
        let Request { name, context, property, priority, .. } = *self.draft.request();
        let captured = Captured { body, name, context, property, priority, joins: self.joins };
        self.recording.record(self.core, captured, self.draft.ordered())
    }
}

impl fmt::Debug for CaptureBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaptureBuilder('{}')", self.draft.request().name.as_str())
    }
}
