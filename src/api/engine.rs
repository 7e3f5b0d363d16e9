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
#[cfg(unix)]
use crate::engine::publish::{self, Published};
use crate::engine::resolve::resolve;
use crate::engine::settings::{Kind, Settings};
use crate::engine::thread_hooks::ThreadHooks;
use crate::engine::{dispatch, lifecycle};
use crate::error::{Error, ErrorKind};
use crate::operation::name::Name;
use crate::variable::handle::Variable;
use crate::variable::names;
use crate::variable::slot::Slot;
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
struct Handle {
    core: Arc<Core>,
    /// The socket for other processes, if there is one.
    #[cfg(unix)]
    _published: Option<Published>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        lifecycle::close(&self.core);
    }
}

impl Engine {
    pub(crate) fn with_settings(
        settings: Settings,
        on_error: OnError,
        threads: ThreadHooks,
        gpus: Gpus,
    ) -> Result<Engine, Error> {
        let dispatch = dispatch::of(&settings);
        let core = Arc::new(Core::new(settings, (on_error, threads), dispatch, gpus)?);
        #[cfg(all(unix, not(any(loom, shuttle))))]
        crate::engine::fork::register(&core);
        core.say(|| format!("made, {:?}", core.settings));
        #[cfg(unix)]
        let _published = core.settings.publish.as_ref().map(|folder| publish::start(&core, folder)).transpose()?;
        Ok(Engine(Arc::new(Handle {
            core,
            #[cfg(unix)]
            _published,
        })))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
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
        self.open_variable(Table::open)
    }

    /// Makes a *commutative* variable, at version 0: operations may [commute] there, which run in
    /// any order, one at a time. All else is as for other variables, but that each push to it takes
    /// some 300 ns more: it is one to which several threads push from the start.
    ///
    /// Worst case: that of [`new_variable`](Engine::new_variable).
    ///
    /// [commute]: crate::OperationBuilder::commutes
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_commutative_variable();
    /// // One at a time, so a load and a store are enough.
    /// static SUM: AtomicU64 = AtomicU64::new(0);
    /// for part in 1..=100 {
    ///     engine.op("add").commutes([x]).push(move |_| SUM.store(SUM.load(Relaxed) + part, Relaxed))?;
    /// }
    /// engine.wait_for_var(x)?;
    /// assert_eq!((SUM.load(Relaxed), engine.version(x)?), (5050, 100));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new_commutative_variable(&self) -> Variable {
        self.open_variable(Table::open_commutative)
    }

    #[inline(always)]
    fn open_variable(&self, open: unsafe fn(&Table, &Slot) -> u32) -> Variable {
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
            generation: unsafe { open(table, slot) },
        }
    }

    /// Names a variable, for people: the name stands in errors that tell of the variable, where it
    /// is shown by `{:?}`, in the graph of [`dump_dot`](Engine::dump_dot), and in profiles. A
    /// second name replaces the first. The variables of values are named in the same way:
    /// `engine.name_variable(x.variable(), "x")`.
    ///
    /// The name of a deleted variable is known until a new one that has its place is named.
    ///
    /// Worst case: a lock, which errors and reports take to look for names, and an entry in a
    /// table. See [`Name`] for names that are made of a `String`.
    ///
    /// # Errors
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted),
    /// [`ForeignVariable`](crate::ErrorKind::ForeignVariable).
    ///
    /// ```
    /// use std::time::Duration;
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.name_variable(x, "weights")?;
    /// assert!(format!("{x:?}").ends_with("'weights'"));
    /// let (open, gate) = std::sync::mpsc::channel::<()>();
    /// engine.op("update").writes([x]).push(move |_| _ = gate.recv())?;
    /// let error = engine.wait_for_var_timeout(x, Duration::from_millis(1)).unwrap_err();
    /// assert!(error.to_string().contains("'weights' is not free"));
    /// drop(open);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn name_variable(&self, variable: impl Into<Variable>, name: impl Into<Name>) -> Result<(), Error> {
        let variable = variable.into();
        match resolve(self.core(), variable) {
            Err(error) if error.kind() != ErrorKind::PrivateVariable => Err(error),
            // What is private to a graph has a name as well.
            _ => {
                names::set((variable.engine, variable.index), variable.generation, name.into().as_str());
                Ok(())
            }
        }
    }

    /// The name that [`name_variable`](Engine::name_variable) has given to a variable.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let (x, y) = (engine.new_variable(), engine.new_variable());
    /// engine.name_variable(x, format!("tile {}", 3))?;
    /// assert_eq!((engine.variable_name(x), engine.variable_name(y)), (Some("tile 3"), None));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn variable_name(&self, variable: impl Into<Variable>) -> Option<&'static str> {
        let variable = variable.into();
        names::get((variable.engine, variable.index), names::ordinal(variable.generation))
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
    pub fn version(&self, variable: impl Into<Variable>) -> Result<u64, Error> {
        let (core, variable) = (self.core(), variable.into());
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
