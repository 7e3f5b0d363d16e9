//! `Graph`: operations that were captured, as users see them. They are replayed, drawn and dropped.
//!
//! `Capture::finish` in `api/capture.rs` makes graphs. A replay is pushed here as one operation;
//! `engine/replay/mod.rs` runs it. Each graph has a variable of its own, which every replay of it
//! changes: so only one is under way at a time. Programs call it, on any thread. A `Graph` does not
//! change. Its program (`engine/replay/program.rs`) is shared with the threads that run a replay,
//! which do not count as users: its drop keeps the program until all replays are over. The thread
//! that drops the last reference drops it: often the one that runs the deletion of that variable,
//! or the last to leave a replay. `api/instances.rs` has several. `delete_own_variable`
//! is also called by `api/capture.rs`, `api/pipeline.rs`, `api/prepare.rs` and
//! `api/device_array.rs`.

use crate::device::Context;
use crate::engine::claims::Declared;
use crate::engine::core::Core;
use crate::engine::diagnose::{escaped, shown};
use crate::engine::gpu::admit;
use crate::engine::push::admission::stopped;
use crate::engine::push::{push, push_erased, run_now};
use crate::engine::replay::program::Program;
use crate::engine::replay::replaying::{LimitedReplaying, ReplayClosure, Replaying};
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::kill;
use crate::error::Error;
use crate::operation::access::Mode;
use crate::operation::block::{FLAG_BEYOND, FLAG_DELETE, FLAG_UNLOOKED};
use crate::operation::closure::{catch_call, sync_vtable};
use crate::operation::context::RunContext;
use crate::operation::erased_closure::erase;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::operation::start_limits::StartLimits;
use crate::variable::handle::Variable;
use std::fmt::{self, Write};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// Operations that were captured once, by [`Engine::capture`](crate::Engine::capture), to be run
/// many times.
///
/// A replay is one operation of the engine: it uses all variables of the captured operations but
/// those that are [private](crate::Capture::private_variable) to the graph. So it takes its turn
/// among other pushes and other graphs as if they were all pushed in a row at that moment. Which of
/// its operations waits for which was resolved by the capture: inside, a replay touches no queue,
/// and allocates nothing. Replays of one graph follow each other.
///
/// A replay differs from pushing the operations one by one. The variables are free again, and their
/// versions step, when all of the operations are done. An asynchronous operation ends when its
/// completion was used *and* its call has returned.
///
/// Operations of GPUs are queued by their closures, in each replay anew. A replay ends when they
/// are queued; what comes after it waits for the device, as after a single push.
///
/// Short replays run on one thread, long ones and the first on all threads of the engine: a replay
/// looks at the clock (see `src/engine/replay/spread_policy.rs`).
///
/// ```
/// use seriatim::{Data, Engine, Error};
/// let engine = Engine::new()?;
/// let (x, y) = (Data::new(&engine, 1u64), Data::new(&engine, 0u64));
/// let (graph, ()) = engine.capture(|c| {
///     let (from, to) = (x.clone(), y.clone());
///     c.op("add").read(&x).write(&y).push(move |_| {
///         *to.write()? += *from.read()?;
///         Ok::<(), Error>(())
///     })?;
///     let double = x.clone();
///     c.op("double").write(&x).push(move |_| {
///         *double.write()? *= 2;
///         Ok::<(), Error>(())
///     })
/// })?;
/// for _ in 0..10 {
///     graph.replay()?;
/// }
/// engine.wait_for_var(y.variable())?;
/// assert_eq!(*y.read()?, 1023);
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct Graph {
    inner: Arc<Program>,
    /// For drawing: the pairs of operations of which the second waits for the first, by their
    /// numbers as recorded.
    edges: Box<[(u32, u32)]>,
}

impl Graph {
    pub(crate) fn new(inner: Program, edges: Box<[(u32, u32)]>) -> Graph {
        Graph { inner: Arc::new(inner), edges }
    }

    /// Pushes one replay. Lock-free and without allocation; takes time proportional to the number
    /// of variables of the graph that are not private, and not of its operations. On a naive engine
    /// the replay runs inside the call.
    ///
    /// # Errors
    /// Those of [`Engine::push_sync`](crate::Engine::push_sync), for all variables of the graph and
    /// for the workers of all its operations, but for foreign variables, which the capture has
    /// refused; [`DeviceLost`](crate::ErrorKind::DeviceLost) if one of its GPUs is lost. None of
    /// the operations is then run.
    /// [`Stopped`](crate::ErrorKind::Stopped) when the engine's last handle is gone. An operation
    /// that fails inside a replay marks the variables that it changes, as a single push does.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("step").writes([x]).push(|_| ()))?;
    /// graph.replay()?;
    /// graph.replay()?;
    /// engine.wait_for_var(x)?;
    /// assert_eq!(engine.version(x)?, 2);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn replay(&self) -> Result<(), Error> {
        self.replay_with_priority(0)
    }

    /// Replays in this call, if nothing holds it up, and says whether it has. All operations run on
    /// the calling thread, however long they take. For a thread that waits for the replay anyway,
    /// and a graph that is shorter than the way to another core.
    ///
    /// If it has not, nothing has happened: [`replay`](Graph::replay) then. That is so for the
    /// reasons given at [`run_now`](crate::OperationBuilder::run_now), and for graphs with
    /// operations that are asynchronous or have contexts of their own.
    ///
    /// Worst case: its own work on the variables, and all closures. It waits for nobody.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("step").writes([x]).push(|_| ()))?;
    /// assert!(graph.replay_now());
    /// assert_eq!(engine.version(x)?, 1);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn replay_now(&self) -> bool {
        let inner = &self.inner;
        let core = &inner.core;
        if core.is_closed() || !inner.plain {
            return false;
        }
        let request = Request { flags: inner.flags, ..Request::named(inner.name) };
        let claims = Declared { claims: &inner.claims, located: &inner.located };
        // SAFETY: as in `push_replay`.
        let replaying = unsafe { Replaying::new(inner, 0) };
        let ran = run_now(core, &request, &claims, |run| {
            catch_call(run, || {
                // SAFETY: this is the closure of the operation.
                unsafe { replaying.run_all(run) };
                Ok(())
            })
        });
        if !ran {
            inner.take_back();
        }
        ran
    }

    /// Like [`replay`](Graph::replay), but the replay has a priority among other ready operations.
    /// The priorities of the captured operations matter among themselves only.
    ///
    /// # Errors
    /// Those of [`replay`](Graph::replay).
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("step").push(|_| ()))?;
    /// graph.replay_with_priority(5)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn replay_with_priority(&self, priority: i32) -> Result<(), Error> {
        self.push_replay(priority, |replaying| replaying)
    }

    /// Like [`replay_with_priority`](Graph::replay_with_priority), but within limits, of which a
    /// replay takes one token and one deadline for all of its operations.
    ///
    /// As a replay is its operations in a row, the token is looked at before each of them: those
    /// that have not started when it is cancelled are skipped, and mark what they change, as if
    /// each had been pushed with the token. So a replay may be cancelled in its middle. What the
    /// driver launches as one graph ([`device_graph`](crate::CaptureBuilder::device_graph)) is one
    /// operation here. The deadline is for the beginning of the replay: all of it may start, or
    /// nothing. A captured operation has no limits of its own.
    ///
    /// A replay with limits takes some tens of nanoseconds more for each operation, as a profiled
    /// one does.
    ///
    /// # Errors
    /// Those of [`replay`](Graph::replay). A token that is cancelled already is none: the replay is
    /// pushed, and its operations are skipped in its turn.
    ///
    /// ```
    /// use seriatim::{CancelToken, ErrorKind};
    /// let engine = seriatim::Engine::new()?;
    /// let [x, y] = [engine.new_variable(), engine.new_variable()];
    /// let token = CancelToken::new();
    /// let cancel = token.clone();
    /// let (graph, ()) = engine.capture(|c| {
    ///     c.op("first").write(x).push(move |_| cancel.cancel())?;
    ///     c.op("second").read(x).write(y).push(|_| unreachable!("it has not started"))
    /// })?;
    /// graph.replay_limited(0, &token)?;
    /// engine.wait_for_var(x)?;
    /// assert_eq!(engine.wait_for_var(y).unwrap_err().kind(), ErrorKind::Cancelled);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn replay_limited(&self, priority: i32, limits: impl Into<StartLimits>) -> Result<(), Error> {
        let limits = limits.into();
        self.push_replay(priority, |replaying| LimitedReplaying { replaying, limits })
    }

    /// Pushes what `closure` makes of a replay.
    #[inline(always)]
    fn push_replay<R: ReplayClosure>(&self, priority: i32, closure: impl FnOnce(Replaying) -> R) -> Result<(), Error> {
        let inner = &self.inner;
        let core = &inner.core;
        if core.is_closed() {
            return Err(stopped());
        }
        let request = Request { priority, flags: inner.flags, ..Request::named(inner.name) };
        let claims = Declared { claims: &inner.claims, located: &inner.located };
        // SAFETY: the graph's own variable is one of the claims, as a write. The drop keeps the
        // graph until its deletion, which comes after this operation.
        let replaying = closure(unsafe { Replaying::new(inner, priority) });
        let pushed = if core.always_inside(request.property) && inner.plain {
            // SAFETY: this is the closure of the operation.
            let run_all = move |run: &RunContext<'_>| unsafe { replaying.run_all(run) };
            push(core, &request, claims, sync_vtable(&run_all), run_all)
        } else {
            // Behind the quick way, which no graph with devices takes: it is not plain.
            let found = if inner.flags & FLAG_UNLOOKED != 0 { find_devices(core, &inner.devices) } else { Ok(()) };
            found.and_then(|()| erase(R::VTABLE, replaying, |replaying| push_erased(core, &request, claims, replaying)))
        };
        pushed.inspect_err(|_| inner.take_back())
    }

    /// The number of captured operations.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("one").push(|_| ()))?;
    /// assert_eq!(graph.len(), 1);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.inner.captured
    }

    /// Whether nothing was captured.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|_| Ok(()))?;
    /// assert!(graph.is_empty());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.inner.captured == 0
    }

    /// Draws the graph for Graphviz. Each operation is a box, with an edge to each operation that
    /// waits for it. A frame is around the operations of one lane, which one thread at a time runs.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| {
    ///     c.op("load").writes([x]).push(|_| ())?;
    ///     c.op("use").reads([x]).push(|_| ())
    /// })?;
    /// assert!(graph.dump_dot().contains("n0 -> n1"));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn dump_dot(&self) -> String {
        let mut text = String::from("digraph seriatim {\n  rankdir=LR;\n  node [shape=box];\n");
        let plan = self.inner.lanes.plan();
        for (lane, segments) in plan.lanes.iter().enumerate().filter(|(_, segments)| !segments.is_empty()) {
            let _ = writeln!(text, "  subgraph cluster_{lane} {{\n    label=\"lane {lane}\";");
            for segment in &plan.segments[segments.start as usize..segments.end as usize] {
                for place in segment.operations.clone() {
                    let label = escaped(shown(self.inner.nodes[place as usize].name.as_str()));
                    let _ = writeln!(text, "    n{} [label=\"{label}\"];", plan.operations[place as usize]);
                }
            }
            text.push_str("  }\n");
        }
        for (from, to) in &self.edges {
            let _ = writeln!(text, "  n{from} -> n{to};");
        }
        text.push_str("}\n");
        text
    }
}

impl Drop for Graph {
    /// Pushes the deletion of the graph's own variable, which comes after the last replay, and
    /// after what that has queued on devices. An engine that stops refuses it, and keeps a graph
    /// that is still to be replayed until it has stopped. The closures are dropped by the deletion
    /// or by the last thread to leave that replay, which may be a moment after its end. Panics of
    /// their destructors are swallowed.
    fn drop(&mut self) {
        let core = &self.inner.core;
        let held = Arc::clone(&self.inner);
        let is_pushed =
            !core.is_closed() && delete_own_variable(core, self.inner.variable, move |_| drop(held)).is_ok();
        if !(is_pushed || self.inner.is_returned() && self.inner.devices.is_empty()) {
            // An engine that stops may still have replays to begin, and may wait for what the last
            // one has queued on devices.
            core.gpus.hold(Box::new(Arc::clone(&self.inner)));
        }
    }
}

/// Refuses a graph or a pipeline of which a device cannot be used any more.
#[cold]
pub(crate) fn find_devices(core: &Core, devices: &[Context]) -> Result<(), Error> {
    devices.iter().try_for_each(|device| admit::find(core, *device).map(|_| ()))
}

/// Deletes the variable of a graph, of a capture or an array that came to nothing, or of `prepare`;
/// calls `end` after its last use. The bound does not hold the deletion up. A stopped engine
/// refuses it: then the slot stays until the engine ends, and `end` is dropped, but the variable is
/// dead all the same, so that parameters refuse new values.
pub(crate) fn delete_own_variable(
    core: &Arc<Core>,
    variable: Variable,
    end: impl FnOnce(&RunContext<'_>) + Send + 'static,
) -> Result<(), Error> {
    let flags = FLAG_DELETE | FLAG_BEYOND;
    let request = Request { property: Property::DeleteVar, flags, ..Request::named(Name::from("delete graph")) };
    let claim = Claim { variable, mode: Mode::Delete };
    push(core, &request, &[claim][..], sync_vtable(&end), end).inspect_err(|_| {
        let _ = kill(core, variable);
    })
}

// Like `Engine`, a graph is never left half changed: its closures are called inside replays only,
// which catch their panics.
impl UnwindSafe for Graph {}
impl RefUnwindSafe for Graph {}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph('{}', {} operations)", self.inner.name.as_str(), self.len())
    }
}
