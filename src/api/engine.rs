//! `Engine`: the handle of an engine, how it ends, its variables and its settings.
//!
//! The other methods of `Engine` are in the files beside this one: those that push in
//! `src/api/push.rs`, those that wait, stop and look in `src/api/control.rs`, those that make
//! engines in `src/api/builder.rs`, captures in `src/api/capture.rs`. Programs call them, on any
//! thread.
//!
//! All handles share one `Core` (`src/engine/core.rs`). Workers, watchers of devices and a thread
//! that forks use it too. Graphs, parameters and arrays of devices hold the `Core` without a
//! handle: they do not keep the engine from ending. Values have a [`WeakEngine`] too, from which
//! guards get a handle (`src/api/typed/`). A deferred call frees the slots of deleted variables
//! (`recycle_slots`), on any thread.

use crate::engine::core::Core;
use crate::engine::gpu::devices::Gpus;
use crate::engine::on_error::OnError;
use crate::engine::resolve::resolve;
use crate::engine::settings::{Kind, Settings};
use crate::engine::{dispatch, lifecycle};
use crate::error::Error;
use crate::variable::handle::Variable;
use crate::variable::table::Table;
use crate::worker::group::Group;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Weak};

/// A dependency engine: push functions, and say which variables each reads and which it changes.
/// The engine runs them in parallel and keeps one promise: *two functions, of which at least one
/// changes a common variable, run in the order in which they were pushed*.
///
/// A handle: clones are the same engine, and may be used from any number of threads at once. Pushes
/// from several threads get one total order, the same on every variable. When the last clone is
/// dropped, the engine runs what is in flight, then ends its threads. If the last clone is dropped
/// inside one of the engine's own operations, which would wait for itself, the engine ends on a
/// thread of its own. A process that ends meanwhile loses the operations in flight, so a line on
/// standard error says so if any others are in flight. Errors that no wait has taken go to
/// [`Builder::on_error`](crate::Builder::on_error).
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use std::sync::Arc;
///
/// let engine = seriatim::Engine::new()?;
/// let total = engine.new_variable();
/// let sum = Arc::new(AtomicU64::new(0));
/// for n in 1..=100 {
///     let sum = Arc::clone(&sum);
///     engine.op("add").writes([total]).push(move |_| {
///         sum.store(sum.load(Relaxed) + n, Relaxed); // nobody else changes it meanwhile
///     })?;
/// }
/// engine.wait_for_var(total)?;
/// assert_eq!(sum.load(Relaxed), 5050);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone)]
pub struct Engine(Arc<Handle>);

/// A handle that does not keep its engine from ending.
pub(crate) struct WeakEngine(Weak<Handle>);

impl WeakEngine {
    /// A handle, unless the last one is gone.
    pub(crate) fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(Engine)
    }
}

/// What all clones share. Its drop, on the thread that drops the last clone, ends the engine.
struct Handle(Arc<Core>);

impl Drop for Handle {
    fn drop(&mut self) {
        lifecycle::close(&self.0);
    }
}

impl Engine {
    pub(crate) fn with_settings(settings: Settings, on_error: OnError, gpus: Gpus) -> Result<Engine, Error> {
        let dispatch = dispatch::of(&settings);
        let core = Arc::new(Core::new(settings, on_error, dispatch, gpus)?);
        #[cfg(all(unix, not(any(loom, shuttle))))]
        crate::engine::fork::register(&core);
        core.say(|| format!("made, {:?}", core.settings));
        Ok(Engine(Arc::new(Handle(core))))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0 .0
    }

    pub(crate) fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.0))
    }

    /// Which of the three engines it is.
    ///
    /// ```
    /// assert_eq!(seriatim::Engine::new()?.kind(), seriatim::Kind::PerDevice);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn kind(&self) -> Kind {
        self.settings().kind
    }

    /// The settings that the engine was made with.
    ///
    /// ```
    /// assert_eq!(seriatim::Engine::new()?.settings().bound, 0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn settings(&self) -> &Settings {
        &self.core().settings
    }

    /// Says what does not go as the settings asked, and was not worth an error: GPU workers that
    /// were asked for in a build without GPUs. Spinning workers that have no core of their own, or
    /// leave none to the caller. Pins that the system refused, and memory that it did not lock.
    /// Empty if all is well.
    ///
    /// Pins are known once the threads are up: ask after [`prepare`](Engine::prepare), or after a
    /// first push.
    ///
    /// ```
    /// let engine = seriatim::Engine::builder().pin(false).build()?;
    /// assert!(engine.warnings().is_empty());
    /// // A build with the feature 'cuda' has GPUs, or says at their first use why not.
    /// let engine = seriatim::Engine::builder().gpu_workers(2).pin(false).build()?;
    /// assert!(engine.warnings().iter().all(|warning| warning.contains("without GPUs")));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn warnings(&self) -> Vec<String> {
        let settings = self.settings().warnings();
        let unlocked = self.core().memory.blocks.slabs.memory.refusal();
        settings
            .into_iter()
            .chain(unlocked)
            .chain(self.core().dispatch.groups().into_iter().flat_map(Group::warnings))
            .chain(self.core().gpus.groups().flat_map(Group::warnings))
            .collect()
    }

    /// Makes a variable, at version 0. Lock-free; allocates only when there are more variables than
    /// ever before.
    ///
    /// Worst case: a few steps, however many variables were deleted before; when the table is full,
    /// one allocation as large as the table.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// assert_eq!(engine.version(engine.new_variable())?, 0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new_variable(&self) -> Variable {
        let memory = &self.core().memory;
        let table = &memory.table;
        let slot = table.pop_free().unwrap_or_else(|| {
            self.recycle_slots();
            table.take()
        });
        Variable {
            engine: memory.id,
            index: slot.index(),
            // SAFETY: the slot comes from the table, and slots become free only when no thread
            // looks at them any more (`recycle_slots`).
            generation: unsafe { table.open(slot) },
        }
    }

    /// Frees the slots of deleted variables, once no thread can look at them.
    fn recycle_slots(&self) {
        let memory = &self.core().memory;
        let Some(retired) = memory.table.take_retired() else { return };
        if self.core().local().is_alone() {
            // SAFETY: this thread is between pushes and holds no slot, and no other thread is a
            // registered reader.
            unsafe { memory.table.release(retired) };
            return;
        }
        let table: *const Table = &memory.table;
        // SAFETY: the variables are deleted, and each thread that pins from now on finds them
        // deleted, so no thread looks at the slots when the call runs. The table outlives the
        // reclaimer, which is in the same memory.
        unsafe { self.core().local().defer(move || (*table).release(retired)) };
    }

    /// The number of completed operations that change the variable, failed and skipped ones
    /// included. It may grow at any time while such operations are in flight.
    ///
    /// Worst case: five loads.
    ///
    /// # Errors
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted),
    /// [`ForeignVariable`](crate::ErrorKind::ForeignVariable),
    /// [`PrivateVariable`](crate::ErrorKind::PrivateVariable).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.op("read").reads([x]).push(|_| ())?;
    /// engine.op("write").writes([x]).push(|_| ())?;
    /// engine.wait_for_var(x)?;
    /// assert_eq!(engine.version(x)?, 1);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn version(&self, variable: Variable) -> Result<u64, Error> {
        let core = self.core();
        let version = resolve(core, variable)?.version();
        // The slot may have become another variable's meanwhile, with a version of its own: then
        // its generation is another one, which this thread sees since it has seen that version.
        resolve(core, variable)?;
        Ok(version)
    }
}

// A panic leaves nothing of an engine half changed. Panics of closures are caught before they reach
// the engine, and calls of the interface do not unwind. Shared state changes by single atomic
// steps.
impl UnwindSafe for Engine {}
impl RefUnwindSafe for Engine {}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine {} ({})", self.core().memory.id, self.kind())
    }
}
