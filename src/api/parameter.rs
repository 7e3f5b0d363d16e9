//! `Parameter`: a value that the operations of one graph read, and that can be replaced between
//! replays.
//!
//! `Capture::parameter` in `src/api/capture.rs` makes it. `get` is called inside operations of the
//! graph, on the threads that run them. `set` is called on any thread, and pushes an operation that
//! changes the graph's own variable, as each replay does (`src/api/graph.rs`). So no replay reads
//! the value while it is replaced. The thread that runs this operation replaces the value, drops
//! the old one and counts in `changes`. All parameters of the graph share this count, and
//! `src/engine/replay/device_graph.rs` reads it.

use crate::engine::core::Core;
use crate::engine::push::admission::stopped;
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::resolve;
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::block::FLAG_UNLOOKED;
use crate::operation::closure::{drop_quietly, sync_vtable};
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::variable::handle::Variable;
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// A value of a [`Graph`](crate::Graph), from [`Capture::parameter`](crate::Capture::parameter),
/// that can be replaced between replays.
///
/// Replays that were pushed before a [`set`](Parameter::set) see the old value, replays after it
/// the new one. Reading it costs a comparison: while a replay runs, no thread can replace it.
///
/// ```
/// use seriatim::{Data, Engine, Error};
/// let engine = Engine::new()?;
/// let x = Data::new(&engine, 1.0);
/// let (graph, factor) = engine.capture(|c| {
///     let factor = c.parameter(2.0);
///     let (of_x, by) = (x.clone(), factor.clone());
///     c.op("scale").write(&x).push(move |run| {
///         *of_x.write()? *= by.get(run)?;
///         Ok::<(), Error>(())
///     })?;
///     Ok(factor)
/// })?;
/// graph.replay()?;
/// factor.set(10.0)?;
/// graph.replay()?;
/// engine.wait_for_var(x.variable())?;
/// assert_eq!(*x.read()?, 20.0);
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct Parameter<T>(Arc<ParameterCell<T>>);

struct ParameterCell<T> {
    core: Arc<Core>,
    /// The number of the graph, which `RunContext::graph` has inside its operations.
    graph: u64,
    variable: Variable,
    /// How often parameters of the graph were replaced.
    changes: Arc<AtomicU64>,
    value: UnsafeCell<T>,
}

// SAFETY: an operation that changes the graph's variable replaces the value. Only operations of the
// graph or of the pipeline read it. Those of a graph run inside a replay, which has the variable to
// itself meanwhile; those of a pipeline read the variable. So no read meets a change. `T: Sync`,
// because several operations may read at once.
unsafe impl<T: Send + Sync> Sync for ParameterCell<T> {}
// SAFETY: the value moves to the other thread with the cell, and `T: Send`.
unsafe impl<T: Send> Send for ParameterCell<T> {}

impl<T: Send + Sync + 'static> Parameter<T> {
    /// Of the graph of this number, which has this variable and counts its changes there.
    pub(crate) fn new(
        core: &Arc<Core>,
        (graph, variable, changes): (u64, Variable, &Arc<AtomicU64>),
        value: T,
    ) -> Parameter<T> {
        let (core, changes, value) = (Arc::clone(core), Arc::clone(changes), UnsafeCell::new(value));
        Parameter(Arc::new(ParameterCell { core, graph, variable, changes, value }))
    }

    /// Borrows the value, inside an operation of the graph.
    ///
    /// # Errors
    /// [`BorrowConflict`](ErrorKind::BorrowConflict) anywhere else, where the value could be
    /// replaced at any time.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, n) = engine.capture(|c| {
    ///     let n = c.parameter(7);
    ///     let inside = n.clone();
    ///     c.op("look").push(move |run| {
    ///         assert_eq!(*inside.get(run)?, 7);
    ///         Ok::<(), seriatim::Error>(())
    ///     })?;
    ///     Ok(n)
    /// })?;
    /// graph.replay()?;
    /// engine.op("elsewhere").push(move |run| assert!(n.get(run).is_err()))?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn get<'a>(&'a self, run: &'a RunContext<'_>) -> Result<&'a T, Error> {
        if run.graph != self.0.graph {
            return Err(elsewhere());
        }
        // SAFETY: `run` belongs to an operation of the graph, which cannot end before its call has
        // returned, and `run` lives no longer than the call. So the replay, or the operation of a
        // pipeline, is under way for as long as the borrow lasts. It uses the graph's variable, and
        // so excludes the operation by which `set` replaces the value.
        Ok(unsafe { &*self.0.value.get() })
    }

    /// Replaces the value for replays that are pushed from now on. It does not wait for those in
    /// flight: it pushes an operation that comes after them, and that operation drops the old
    /// value. Like any push it may wait for room under a bound. Values of up to 500 bytes cost no
    /// allocation.
    ///
    /// # Errors
    /// [`VariableDeleted`](ErrorKind::VariableDeleted) once the graph is dropped, or the capture if
    /// no graph was made; [`EngineFull`](ErrorKind::EngineFull), [`Stopped`](ErrorKind::Stopped),
    /// [`ThreadRefused`](ErrorKind::ThreadRefused) and
    /// [`PriorityRefused`](ErrorKind::PriorityRefused) as for
    /// [`Engine::push_sync`](crate::Engine::push_sync). The new value is dropped then.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, rate) = engine.capture(|c| Ok(c.parameter(0.5)))?;
    /// rate.set(0.25)?;
    /// drop(graph);
    /// assert!(rate.set(0.125).is_err());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn set(&self, value: T) -> Result<(), Error> {
        if self.0.core.is_closed() {
            drop_quietly(value);
            return Err(stopped());
        }
        // Of a graph that was dropped while the engine was stopped nothing else knows: the variable
        // is dead and no deletion was pushed, so that this thread may own it still.
        if let Err(error) = resolve(&self.0.core, self.0.variable) {
            drop_quietly(value);
            return Err(error);
        }
        let inner = Arc::clone(&self.0);
        let replace = move |_: &RunContext<'_>| {
            // SAFETY: this operation changes the graph's variable, so no replay and no other `set`
            // is under way.
            let old = std::mem::replace(unsafe { &mut *inner.value.get() }, value);
            // Relaxed: replays come before or after this by the graph's variable.
            inner.changes.fetch_add(1, Relaxed);
            drop(old);
        };
        // Closures read the value, and devices do not: this does not wait for what replays have
        // queued there.
        let flags = if self.0.core.state.load(Relaxed).uses_devices() { FLAG_UNLOOKED } else { 0 };
        let request = Request { property: Property::NoSkip, flags, ..Request::named(Name::from("set parameter")) };
        let claim = Claim { variable: self.0.variable, mode: Mode::Write };
        push(&self.0.core, &request, &[claim][..], sync_vtable(&replace), replace)
    }
}

#[cold]
fn elsewhere() -> Error {
    Error::new(
        ErrorKind::BorrowConflict,
        "a parameter can be read inside the operations of its own graph only: use Data for what others read as well",
    )
}

// As for a mutex: a panic in an operation is told where the value is used next.
impl<T> UnwindSafe for Parameter<T> {}
impl<T> RefUnwindSafe for Parameter<T> {}

impl<T> Clone for Parameter<T> {
    fn clone(&self) -> Parameter<T> {
        Parameter(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Parameter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameter of graph {}", self.0.graph)
    }
}
