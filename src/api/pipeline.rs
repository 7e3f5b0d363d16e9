//! `Pipeline`: operations that were captured, and are pushed one by one in each replay; so replays
//! overlap. A graph (`src/api/graph.rs`) is replayed as a whole.
//!
//! `Capture::finish_pipeline` makes pipelines, of the same recording as graphs. Each operation
//! becomes an operator (`src/api/operator.rs`), whose closure is a step of
//! `src/engine/replay/pipelined.rs`. A replay pushes them all, on the calling thread, which has the
//! pipeline to itself. The operators may be called on any thread, also after the pipeline is
//! dropped.

use crate::api::capture::Capture;
use crate::api::engine::Engine;
use crate::api::graph::{delete_own_variable, find_devices};
use crate::api::operator::Operator;
use crate::device::Context;
use crate::engine::claims;
use crate::engine::core::Core;
use crate::engine::inline::cost_key::CostKey;
use crate::engine::push::admission::stopped;
use crate::engine::replay::assemble::Captured;
use crate::engine::replay::pipelined::{AsyncStep, SyncStep};
use crate::engine::replay::program::Body;
use crate::engine::request::{Claim, Request};
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::start_limits::StartLimits;
use crate::variable::handle::Variable;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// Operations that were captured once, by [`Engine::capture_pipeline`], to be pushed one by one
/// many times. Replays overlap: an operation of a replay runs as soon as the operations of the
/// replay before have let go of *its* variables, as if each had been pushed by hand.
///
/// It is for iterations whose operations take some 200 ns and more, and where one iteration leaves
/// threads without work. A [`Graph`](crate::Graph) takes its turn as a whole instead. So it costs
/// some nanoseconds an operation and not some tens, but the next replay waits for all of it.
///
/// | | `Graph` | `Pipeline` |
/// |---|---|---|
/// | a replay is | one operation | as many as were captured |
/// | a variable is free again | at the end of the replay | at the end of its last use |
/// | beside other pushes | none comes between its operations | those of other threads may |
/// | [private variables](Capture::private_variable) | yes | no: use ordinary ones |
/// | [`device_graph`](crate::CaptureBuilder::device_graph) | yes | changes nothing |
///
/// Replays run ahead of the operations. A [bound](crate::Builder::bound) on the engine bounds by
/// how much, and their memory.
///
/// ```
/// use seriatim::{Data, Engine, Error};
/// let engine = Engine::builder().bound(1024).build()?;
/// let cells: Vec<_> = (0..4).map(|index| Data::new(&engine, index as f64)).collect();
/// let (mut steps, ()) = engine.capture_pipeline(|c| {
///     for [left, right] in cells.windows(2).map(|pair| [pair[0].clone(), pair[1].clone()]) {
///         c.op("relax").read(&right).write(&left).push(move |_| {
///             let mut left = left.write()?;
///             *left = (*left + *right.read()?) / 2.0;
///             Ok::<(), Error>(())
///         })?;
///     }
///     Ok(())
/// })?;
/// for _ in 0..50 {
///     steps.replay()?; // its first operation runs while the last ones of the replay before do
/// }
/// engine.wait_for_all()?;
/// assert!((*cells[0].read()? - 3.0).abs() < 1e-6);
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct Pipeline {
    core: Arc<Core>,
    name: Name,
    steps: Box<[PipelineStep]>,
    devices: Box<[Context]>,
    /// The capture's own variable, and those of operations that change no other.
    own: Box<[Variable]>,
}

/// An operation of a pipeline.
struct PipelineStep {
    operator: Operator,
    context: Context,
    priority: i32,
}

impl Engine {
    /// Captures a pipeline: `record` pushes operations into it, as for
    /// [`capture`](Engine::capture). Each [`Pipeline::replay`] pushes them all.
    ///
    /// # Errors
    /// The error of `record`, or one of those of [`finish_pipeline`](Capture::finish_pipeline). No
    /// pipeline is made then.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// let (mut steps, ()) = engine.capture_pipeline(|c| c.op("step").writes([x]).push(|_| ()))?;
    /// (0..3).try_for_each(|_| steps.replay())?;
    /// engine.wait_for_var(x)?;
    /// assert_eq!(engine.version(x)?, 3);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn capture_pipeline<T>(
        &self,
        record: impl FnOnce(&mut Capture) -> Result<T, Error>,
    ) -> Result<(Pipeline, T), Error> {
        let mut capture = self.begin_capture();
        let value = record(&mut capture)?;
        Ok((capture.finish_pipeline()?, value))
    }
}

impl Capture {
    /// Makes a pipeline of what was recorded.
    ///
    /// Takes time and memory proportional to the operations and their variables.
    ///
    /// # Errors
    /// [`PrivateVariable`](ErrorKind::PrivateVariable) if the capture has made variables private:
    /// operations that are pushed one by one need variables that pushes can name.
    /// [`VariableDeleted`](ErrorKind::VariableDeleted) or `PrivateVariable` if one of their
    /// variables was deleted, or made private to a graph, after they were recorded.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let mut capture = engine.begin_capture();
    /// capture.op("step").push(|_| ())?;
    /// let mut steps = capture.finish_pipeline()?;
    /// steps.replay()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn finish_pipeline(mut self) -> Result<Pipeline, Error> {
        if !self.recording.private.is_empty() {
            return Err(Error::new(
                ErrorKind::PrivateVariable,
                "a pipeline has no private variables, since its operations are pushed one by one: use Data::new or Engine::new_variable",
            ));
        }
        let core = Arc::clone(self.engine.core());
        let has_parameters = Arc::strong_count(&self.recording.changes) > 1;
        let (operations, devices) = std::mem::take(&mut self.recording).into_operations();
        let mut own = vec![self.variable];
        let mut steps = Vec::with_capacity(operations.len());
        // Operations that change nothing get a variable of their own, so that none is called on two
        // threads at once. If there is no pipeline in the end, they go as well.
        let made = (0_u64..).zip(operations).try_for_each(|(number, (captured, mut claims))| {
            if claims.iter().all(|claim| claim.mode == Mode::Read) {
                own.push(self.engine.new_variable());
                claims.extend(own.last().map(|variable| Claim { variable: *variable, mode: Mode::Write }));
            }
            if has_parameters {
                claims.push(Claim { variable: self.variable, mode: Mode::Read });
            }
            steps.push(step(&core, captured, claims::order(&mut claims), (self.id, number))?);
            Ok(())
        });
        self.made = true;
        let pipeline =
            Pipeline { core, name: self.name, steps: steps.into(), devices: devices.into(), own: own.into() };
        made.map(|()| pipeline)
    }
}

/// Makes an operation of a pipeline. The capture is `graph`, and the operation's number in it is
/// `number`.
fn step(
    core: &Arc<Core>,
    captured: Captured,
    claims: &[Claim],
    (graph, number): (u64, u64),
) -> Result<PipelineStep, Error> {
    let Captured { body, name, context, property, priority, .. } = captured;
    let request = Request { property, ..Request::named(name) };
    // All steps are closures of one type, so the engine learns by another key how long each takes.
    // The highest bit keeps these keys from the small numbers that programs give.
    let key = 1 << 63 | graph << 24 ^ number;
    let operator = match body {
        Body::Sync(call) => {
            let step = SyncStep::new(call, graph);
            // SAFETY: the claims have a variable that every operation of the step changes, and the
            // capture's own if it has parameters.
            let closure = move |run: &RunContext<'_>| unsafe { step.call(run) };
            Operator::new_sync(core, request, claims, Some(CostKey::given(key)), closure)?
        }
        Body::Async(detached) => {
            let step = AsyncStep::new(core, (name.as_str(), context), detached, graph);
            // SAFETY: as above.
            let closure = move |run: &RunContext<'_>, completion: Completion| unsafe { step.call(run, completion) };
            Operator::new_async(core, request, claims, Some(key), closure)?
        }
        Body::Part(_) => unreachable!("only the program of a graph has parts"),
    };
    Ok(PipelineStep { operator, context, priority })
}

impl Pipeline {
    /// Pushes all operations, in the order in which they were captured. Lock-free; takes the time
    /// of as many pushes of an [`Operator`], and allocates nothing in steady state. Under a
    /// [bound](crate::Builder::bound) it may wait for room, as each push does. On a naive engine
    /// the operations run inside the call.
    ///
    /// An operation that fails marks the variables that it changes, and what depends on it is
    /// skipped, also in later replays, until a wait takes the failure. One that changes no variable
    /// is itself skipped until then. If a [`Parameter::set`](crate::Parameter::set) of the pipeline
    /// fails, since the destructor of the old value panics, all operations are skipped until then.
    ///
    /// A `set` on another thread may come between two operations of a replay.
    ///
    /// # Errors
    /// [`Stopped`](ErrorKind::Stopped), or [`DeviceLost`](ErrorKind::DeviceLost) if one of its
    /// devices is lost, before anything is pushed. Otherwise those of [`Engine::push`]. If one
    /// operation is refused, those captured before it are pushed and the others are not; the
    /// message says which. Reasons are a bound with
    /// [`WhenFull::WouldBlock`](crate::WhenFull::WouldBlock), a variable that was deleted, a device
    /// that is lost meanwhile, workers that the system refuses, or a stop on another thread.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (mut steps, ()) = engine.capture_pipeline(|c| c.op("step").push(|_| ()))?;
    /// steps.replay()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn replay(&mut self) -> Result<(), Error> {
        self.push_each(|step| step.operator.push(&self.core, step.context, step.priority))
    }

    /// Like [`replay`](Pipeline::replay), but each operation starts only within these limits, as if
    /// each were pushed with them. Of a replay that is cancelled, some operations may have run.
    /// What depends on the others is skipped, also in later replays, until a wait takes the
    /// failure.
    ///
    /// # Errors
    /// Those of [`replay`](Pipeline::replay).
    ///
    /// ```
    /// use seriatim::{CancelToken, ErrorKind};
    /// let engine = seriatim::Engine::new()?;
    /// let token = CancelToken::new();
    /// let (mut steps, ()) = engine.capture_pipeline(|c| c.op("step").push(|_| ()))?;
    /// steps.replay_limited(&token)?;
    /// engine.wait_for_all()?;
    /// token.cancel();
    /// steps.replay_limited(&token)?;
    /// assert_eq!(engine.wait_for_all().unwrap_err().kind(), ErrorKind::Cancelled);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn replay_limited(&mut self, limits: impl Into<StartLimits>) -> Result<(), Error> {
        let limits = limits.into();
        self.push_each(|step| step.operator.push_limited(&self.core, (step.context, step.priority), limits.clone()))
    }

    /// Pushes all operations by `push`.
    #[inline]
    fn push_each(&self, push: impl Fn(&PipelineStep) -> Result<(), Error>) -> Result<(), Error> {
        if self.core.is_closed() {
            return Err(stopped());
        }
        find_devices(&self.core, &self.devices)?;
        for (pushed, step) in self.steps.iter().enumerate() {
            if let Err(error) = push(step) {
                return Err(self.refused(error, pushed));
            }
        }
        Ok(())
    }

    #[cold]
    fn refused(&self, error: Error, pushed: usize) -> Error {
        if pushed == 0 {
            return error;
        }
        let (name, all) = (self.name.as_str(), self.len());
        let message = format!(
            "pipeline '{name}': operation {} of {all} was refused, those before it are pushed: {error}",
            pushed + 1
        );
        Error::with_source(error.kind(), message, error)
    }

    /// The number of captured operations.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (steps, ()) = engine.capture_pipeline(|c| c.op("one").push(|_| ()))?;
    /// assert_eq!(steps.len(), 1);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing was captured.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (steps, ()) = engine.capture_pipeline(|_| Ok(()))?;
    /// assert!(steps.is_empty());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl Drop for Pipeline {
    /// Pushes the deletion of the pipeline's own variables. The closures are dropped here, or by
    /// the last of the operations in flight. Panics of their destructors are swallowed.
    fn drop(&mut self) {
        if self.core.is_closed() {
            return;
        }
        for variable in &self.own {
            // A stopped engine keeps the variable until the engine ends.
            let _ = delete_own_variable(&self.core, *variable, |_| ());
        }
    }
}

// Like `Operator`, whose closures are called inside operations only.
impl UnwindSafe for Pipeline {}
impl RefUnwindSafe for Pipeline {}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline('{}', {} operations)", self.name.as_str(), self.len())
    }
}
