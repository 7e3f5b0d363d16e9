//! Capturing: from recorded pushes to a graph that can be replayed.

use super::assemble::{detached, sync, Captured, Recording, Whole};
use super::claims::Claims;
use super::graph::{delete_own_variable, Graph};
use super::operator::Operator;
use super::parameter::Parameter;
use super::variable::Variable;
use super::Engine;
use crate::device::Context;
use crate::error::Error;
use crate::operation::closure::IntoOutcome;
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::variable::access::Mode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A graph being captured, in [`Engine::capture`]. What is pushed through it is recorded, and not run.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// let (graph, ()) = engine.capture(|c| {
///     c.name("two steps");
///     c.op("first").writes([x]).push(|_| ())?;
///     c.op("second").writes([x]).push(|_| ())
/// })?;
/// graph.replay()?;
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct Capture<'a> {
    engine: &'a Engine,
    id: u64,
    name: Name,
    variable: Variable,
    recording: Recording,
    /// A graph was made, which sees to the variable.
    made: bool,
    spreads_after: Option<u32>,
}

impl Engine {
    /// Captures a graph: `record` pushes operations into it, with closures that can be called again and again, and they are run, as one
    /// operation, by each [`Graph::replay`]. What `record` returns comes back beside the graph: its parameters, say.
    ///
    /// Time and memory proportional to the operations and their variables; about 150 bytes an operation beside its closure.
    ///
    /// # Errors
    /// That of `record`; no graph is made then. [`EngineFull`](crate::ErrorKind::EngineFull) for more than a billion operations.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| {
    ///     (0..100).try_for_each(|_| c.op("tiny").writes([x]).push(|_| ()))
    /// })?;
    /// graph.replay()?;
    /// engine.wait_for_var(x)?;
    /// assert_eq!(engine.version(x)?, 100);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn capture<T>(&self, record: impl FnOnce(&mut Capture<'_>) -> Result<T, Error>) -> Result<(Graph, T), Error> {
        static GRAPHS: AtomicU64 = AtomicU64::new(1);
        let mut capture = Capture {
            engine: self,
            id: GRAPHS.fetch_add(1, Relaxed),
            name: Name::from("graph"),
            variable: self.new_variable(),
            recording: Recording::default(),
            made: false,
            spreads_after: None,
        };
        let value = record(&mut capture)?;
        let whole = Whole {
            id: capture.id,
            name: capture.name,
            variable: capture.variable,
            spreads_after: capture.spreads_after,
        };
        let graph = std::mem::take(&mut capture.recording).assemble(self.core(), whole)?;
        capture.made = true;
        Ok((graph, value))
    }
}

impl<'a> Capture<'a> {
    /// Starts an operation of the graph. As [`Engine::op`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("one").writes([x]).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn op(&mut self, name: impl Into<Name>) -> CaptureBuilder<'_, 'a> {
        CaptureBuilder {
            name: name.into(),
            claims: Claims::new(),
            context: Context::cpu(0),
            property: Property::Normal,
            priority: 0,
            capture: self,
        }
    }

    /// Records a use of an operator. As [`Engine::push`].
    ///
    /// # Errors
    /// As [`CaptureBuilder::push`], and [`ForeignOperator`](crate::ErrorKind::ForeignOperator).
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let step = engine.op("step").writes([x]).operator(|_| ())?;
    /// let (graph, ()) = engine.capture(|c| c.push(&step, seriatim::Context::cpu(0), 0))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push(&mut self, operator: &Operator, context: Context, priority: i32) -> Result<(), Error> {
        let (name, property, claims, body) = operator.captured(self.engine.core())?;
        self.recording.record(self.engine.core(), Captured { body, name, context, property, priority }, claims)
    }

    /// A value that the operations of the graph can read, and that can be replaced between replays.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, rate) = engine.capture(|c| Ok(c.parameter(0.5)))?;
    /// rate.set(0.25)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn parameter<T: Send + Sync + 'static>(&mut self, value: T) -> Parameter<T> {
        Parameter::new(self.engine.core(), self.id, self.variable, value)
    }

    /// Names the graph, for profiles and for what is said of waits that run out of time. It is "graph" otherwise.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| Ok(c.name("time step")))?;
    /// assert!(format!("{graph:?}").contains("time step"));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn name(&mut self, name: impl Into<Name>) {
        self.name = name.into();
    }

    /// Replays are spread over all lanes after so many operations, whatever the clock says: for tests.
    #[doc(hidden)]
    pub fn spreads_after(&mut self, operations: u32) {
        self.spreads_after = Some(operations);
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.made {
            // Nobody has seen it but parameters, which are refused from now on. A stopped engine keeps it until its end.
            delete_own_variable(self.engine.core(), self.variable, |_| ());
        }
    }
}

/// An operation of a graph being put together, from [`Capture::op`].
///
/// ```
/// # let engine = seriatim::Engine::new()?;
/// # let [x, y] = [engine.new_variable(), engine.new_variable()];
/// let (graph, ()) = engine.capture(|c| c.op("axpy").reads([x]).writes([y]).priority(2).push(|_| ()))?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "an operation is not recorded until push() is called"]
pub struct CaptureBuilder<'c, 'a> {
    capture: &'c mut Capture<'a>,
    name: Name,
    claims: Claims,
    context: Context,
    property: Property,
    priority: i32,
}

impl CaptureBuilder<'_, '_> {
    /// Adds variables that the operation reads.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("look").reads([x]).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn reads(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.claims.add(variable.into(), Mode::Read));
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
        variables.into_iter().for_each(|variable| self.claims.add(variable.into(), Mode::Write));
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

    /// Among ready operations of the graph that one thread could run, greater priorities run first.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("soon").priority(3).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// What kind of work the operation is: copies and prioritised ones run on their own workers.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("report").property(seriatim::Property::NoSkip).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn property(mut self, property: Property) -> Self {
        self.property = property;
        self
    }

    /// Where the operation runs.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("first worker").context(seriatim::Context::cpu(1)).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// Records the operation; in each replay it ends when the closure returns. Replays do not overlap, so the closure may change what it owns.
    ///
    /// # Errors
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted), [`ForeignVariable`](crate::ErrorKind::ForeignVariable),
    /// [`UnknownDevice`](crate::ErrorKind::UnknownDevice), [`DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable): nothing is then recorded.
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
    pub fn push<F, R>(mut self, mut closure: F) -> Result<(), Error>
    where
        F: FnMut(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let body = sync(move |run| closure(run).into_outcome());
        let claims = self.claims.ordered();
        let (name, context, property, priority) = (self.name, self.context, self.property, self.priority);
        let Capture { engine, recording, .. } = self.capture;
        recording.record(engine.core(), Captured { body, name, context, property, priority }, claims)
    }

    /// Records an asynchronous operation: in each replay it ends when its completion was used and the closure has returned.
    ///
    /// # Errors
    /// As [`push`](CaptureBuilder::push).
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
    pub fn push_async<G>(mut self, closure: G) -> Result<(), Error>
    where
        G: FnMut(&RunContext<'_>, Completion) + Send + 'static,
    {
        let body = detached(closure);
        let claims = self.claims.ordered();
        let (name, context, property, priority) = (self.name, self.context, self.property, self.priority);
        let Capture { engine, recording, .. } = self.capture;
        recording.record(engine.core(), Captured { body, name, context, property, priority }, claims)
    }
}
