//! Capturing: `Capture` and `CaptureBuilder` (`src/api/capture_builder.rs`) record pushes, of which
//! `src/engine/replay/assemble.rs` makes a [`Graph`], or `src/api/pipeline.rs` a pipeline. There
//! `Recording::record` checks each operation when it is pushed, and `Recording::assemble`, called
//! by `finish`, the whole graph.
//!
//! A capture belongs to the thread that has it, which may hand it to another. Two parts of its
//! recording are shared. The operation of `Parameter::set` counts in `changes`, on the thread that
//! runs it. The slots of private variables may be in use until their deletions have run, on any
//! thread. Any thread counts in the static `GRAPHS` when it begins a capture.

use crate::api::capture_builder::CaptureBuilder;
use crate::api::engine::Engine;
use crate::api::graph::{delete_own_variable, Graph};
use crate::api::operator::Operator;
use crate::api::parameter::Parameter;
use crate::device::Context;
use crate::engine::draft::Draft;
use crate::engine::replay::assemble::{Captured, Joins, Recording, Whole};
use crate::error::Error;
use crate::operation::name::Name;
use crate::variable::handle::Variable;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A graph that is being captured, in [`Engine::capture`] or from [`Engine::begin_capture`]. An
/// operation that is pushed through it is recorded, and not run. If it is dropped before
/// [`finish`](Capture::finish), there is no graph.
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
#[must_use = "a capture makes no graph until finish() is called"]
pub struct Capture {
    pub(super) engine: Engine,
    pub(super) id: u64,
    pub(super) name: Name,
    pub(super) variable: Variable,
    pub(super) recording: Recording,
    /// Whether `finish` made a graph, or `finish_pipeline` a pipeline, which then deletes
    /// `variable`; otherwise our drop does.
    pub(super) made: bool,
    spreads_after: Option<u32>,
}

impl Engine {
    /// Captures a graph: `record` pushes operations into it, with closures that can be called again
    /// and again. Each [`Graph::replay`] runs them all, as one operation. What `record` returns
    /// comes back beside the graph: its parameters, say.
    ///
    /// Takes time and memory proportional to the operations and their variables: about 150 bytes an
    /// operation beside its closure.
    ///
    /// To push several operations as a whole, replay a graph once and drop it: they take their turn
    /// together, as one operation with the variables of all (MXNet's `set_bulk_size`). The version
    /// of each variable steps once for each operation that changes it, and a failure skips the
    /// operations that depend on it, not the rest. A capture and one replay take longer than single
    /// pushes, some ten times for a graph of a hundred operations: a graph has to be replayed often
    /// to make up for its capture.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let [x, y] = [engine.new_variable(), engine.new_variable()];
    /// let record = |c: &mut seriatim::Capture| {
    ///     c.op("load").writes([x]).push(|_| ())?;
    ///     c.op("sum").reads([x]).writes([y]).push(|_| ())
    /// };
    /// engine.capture(record)?.0.replay()?; // nothing that another thread pushes comes between the two
    /// engine.wait_for_var(y)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `record`, or one of those of [`finish`](Capture::finish). No graph is made
    /// then.
    pub fn capture<T>(&self, record: impl FnOnce(&mut Capture) -> Result<T, Error>) -> Result<(Graph, T), Error> {
        let mut capture = self.begin_capture();
        let value = record(&mut capture)?;
        Ok((capture.finish()?, value))
    }

    /// Begins the capture of a graph, which [`Capture::finish`] makes. It is for programs that
    /// cannot record inside one closure, as [`capture`](Engine::capture) needs: if the capture is
    /// kept in a structure, say. The capture keeps the engine alive.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// let mut capture = engine.begin_capture();
    /// capture.op("step").writes([x]).push(|_| ())?;
    /// let graph = capture.finish()?;
    /// graph.replay()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn begin_capture(&self) -> Capture {
        static GRAPHS: AtomicU64 = AtomicU64::new(1);
        Capture {
            engine: self.clone(),
            id: GRAPHS.fetch_add(1, Relaxed),
            name: Name::from("graph"),
            variable: self.new_variable(),
            recording: Recording::default(),
            made: false,
            spreads_after: None,
        }
    }
}

impl Capture {
    /// Makes the graph of what was recorded.
    ///
    /// Takes time and memory proportional to the operations and their variables.
    ///
    /// # Errors
    /// [`EngineFull`](crate::ErrorKind::EngineFull) for more than 500 million operations, or more
    /// than 8 million variables in one of a graph that uses GPUs.
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted) if a variable was deleted after it
    /// was recorded. [`PrivateVariable`](crate::ErrorKind::PrivateVariable) if one was made private
    /// to another graph after that. If variables were made private by
    /// [`make_private`](Capture::make_private), also [`Stopped`](crate::ErrorKind::Stopped),
    /// [`ThreadRefused`](crate::ErrorKind::ThreadRefused) and
    /// [`PriorityRefused`](crate::ErrorKind::PriorityRefused).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let graph = engine.begin_capture().finish()?;
    /// assert!(graph.is_empty());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn finish(mut self) -> Result<Graph, Error> {
        let (id, name, variable, spreads_after) = (self.id, self.name, self.variable, self.spreads_after);
        let whole = Whole { id, name, variable, spreads_after };
        self.recording.private.hold(self.engine.core(), variable)?;
        let (inner, edges) = std::mem::take(&mut self.recording).assemble(self.engine.core(), whole)?;
        self.made = true;
        Ok(Graph::new(inner, edges))
    }

    /// Starts an operation of the graph. Like [`Engine::op`], but its `push` records it.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("one").writes([x]).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn op(&mut self, name: impl Into<Name>) -> CaptureBuilder<'_> {
        CaptureBuilder::new(self.engine.core(), &mut self.recording, Draft::new(name.into()))
    }

    /// Records an operation of an operator, which [`Engine::push`] would push.
    ///
    /// # Errors
    /// Those of [`CaptureBuilder::push`]; [`ForeignOperator`](crate::ErrorKind::ForeignOperator).
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
        self.recording.record(
            self.engine.core(),
            Captured { body, name, context, property, priority, joins: Joins::No },
            claims,
        )
    }

    /// Makes a value that operations of the graph read, and that can be replaced between replays.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, rate) = engine.capture(|c| Ok(c.parameter(0.5)))?;
    /// rate.set(0.25)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn parameter<T: Send + Sync + 'static>(&mut self, value: T) -> Parameter<T> {
        Parameter::new(self.engine.core(), (self.id, self.variable, &self.recording.changes), value)
    }

    /// Names the graph, for profiles and for the errors of waits that run out of time. Without a
    /// name it is called "graph".
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| Ok(c.name("time step")))?;
    /// assert!(format!("{graph:?}").contains("time step"));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn name(&mut self, name: impl Into<Name>) {
        let name = name.into();
        // What has no name is not profiled, and the operations of a graph have names of their own.
        self.name = if name.as_str().is_empty() { Name::from("graph") } else { name };
    }

    /// Makes replays spread over all lanes after so many operations: for `testing` in `src/lib.rs`.
    pub(crate) fn spreads_after(&mut self, operations: u32) {
        self.spreads_after = Some(operations);
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !self.made {
            // Only parameters know the variable, and `Parameter::set` is refused from now on. A
            // stopped engine keeps the variable until the engine ends.
            let _ = delete_own_variable(self.engine.core(), self.variable, |_| ());
        }
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capture('{}')", self.name.as_str())
    }
}
