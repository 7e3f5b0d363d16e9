//! The public face of the crate: engines, and how operations are pushed to them and waited for.

mod batch;
mod builder;
mod claims;
mod core;
mod diagnose;
mod dispatch;
mod failures;
mod life;
mod naive;
mod operation;
mod operator;
mod per_device;
mod pooled;
mod push;
mod settings;
mod variable;
mod wait;
mod waiters;

pub use batch::{Batch, MemberBuilder};
pub use builder::Builder;
pub use operation::OperationBuilder;
pub use operator::Operator;
pub use settings::{IdlePolicy, Kind, Settings, WhenFull};
pub use variable::Variable;

use self::core::{Core, PROFILING, SHUTDOWN};
use crate::device::Context;
use crate::error::Error;
use crate::operation::block::NOTE_DELETE;
use crate::operation::closure::{sync_vtable, IntoOutcome};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::profile::Profile;
use crate::sync::Ordering::*;
use crate::variable::access::Mode;
use crate::variable::table::Table;
use push::{Claim, Request};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A dependency engine: push functions, say which variables each reads and which it changes, and it runs them in parallel so that
/// *two of which at least one changes a common variable run in the order in which they were pushed*.
///
/// A handle: clones are the same engine, and may be used from any number of threads at once. Pushes from several threads get one
/// total order, the same on every variable. When the last clone is dropped, the engine runs what is in flight, then ends its
/// threads.
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

/// What all clones share; its end is the engine's.
struct Handle(Arc<Core>);

impl Drop for Handle {
    fn drop(&mut self) {
        life::close(&self.0);
    }
}

impl Engine {
    /// A per-device engine with default [`Settings`].
    ///
    /// # Errors
    /// None with the defaults; the signature is that of every way to make an engine.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new() -> Result<Engine, Error> {
        Engine::builder().build()
    }

    /// Chooses settings.
    ///
    /// ```
    /// let engine = seriatim::Engine::builder().kind(seriatim::Kind::Naive).build()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// An engine with the settings of the environment: every [`Settings`] field names its variable.
    ///
    /// # Errors
    /// [`BadSetting`](crate::ErrorKind::BadSetting) for an unknown `SERIATIM_*` variable or value, with those that are valid.
    ///
    /// ```
    /// let engine = seriatim::Engine::from_env()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn from_env() -> Result<Engine, Error> {
        Ok(Engine::with_settings(Settings::from_env()?))
    }

    /// The engine of the process, made from the environment when it is first asked for. It is never dropped: call
    /// [`wait_for_all`](Engine::wait_for_all) before `main` returns, or what is in flight then is lost with the process.
    ///
    /// # Errors
    /// As [`from_env`](Engine::from_env).
    ///
    /// ```
    /// let engine = seriatim::Engine::global()?;
    /// engine.op("hello").push(|_| ())?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn global() -> Result<&'static Engine, Error> {
        static GLOBAL: OnceLock<Result<Engine, Error>> = OnceLock::new();
        GLOBAL.get_or_init(Engine::from_env).as_ref().map_err(Error::clone)
    }

    pub(crate) fn with_settings(settings: Settings) -> Engine {
        let core = Arc::new(Core::new(settings));
        life::register(&core);
        core.say(|| format!("made, {:?}", core.settings));
        Engine(Arc::new(Handle(core)))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0 .0
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

    /// The settings it was made with.
    ///
    /// ```
    /// assert_eq!(seriatim::Engine::new()?.settings().bound, 0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn settings(&self) -> &Settings {
        &self.core().settings
    }

    /// What did not go as the settings asked, and was not worth an error: pins that the system refused.
    ///
    /// ```
    /// for warning in seriatim::Engine::new()?.warnings() {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn warnings(&self) -> Vec<String> {
        self.core().dispatch.warnings()
    }

    /// A new variable, at version 0. Lock-free; allocates only when there are more variables than ever before.
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
            index: slot.chain.tag.index,
            // SAFETY: slots become free only when nobody looks at them any more.
            generation: unsafe { Table::open(slot) },
        }
    }

    /// Frees the slots of deleted variables, once no thread can look at them.
    fn recycle_slots(&self) {
        let memory = &self.core().memory;
        let Some(first) = memory.table.take_retired() else { return };
        if self.core().local().is_alone() {
            // SAFETY: the caller is between pushes and holds nothing, and nobody else looks.
            unsafe { memory.table.release(first) };
            return;
        }
        let table: *const Table = &memory.table;
        // SAFETY: the slots' chains are closed, so whoever pins from now on finds them void; the table outlives the
        // reclaimer, in the same memory.
        unsafe { self.core().local().defer(move || (*table).release(first)) };
    }

    /// The number of operations completed that change the variable, failed and skipped ones included. It may grow at any
    /// time while such operations are in flight.
    ///
    /// # Errors
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted), [`ForeignVariable`](crate::ErrorKind::ForeignVariable).
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
        push::resolve(self.core(), variable).map(|slot| slot.version())
    }

    /// Starts an operation in builder form; nothing happens until its `push`.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let [x, y] = [engine.new_variable(), engine.new_variable()];
    /// engine.op("axpy").reads([x]).writes([y]).priority(2).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn op(&self, name: impl Into<Name>) -> OperationBuilder<'_> {
        OperationBuilder::new(self, name.into())
    }

    /// Pushes an operation that ends when its closure returns. Lock-free, no allocation in steady state for closures of up to 64
    /// bytes; time proportional to the number of variables.
    ///
    /// # Errors
    /// Nothing is pushed, and the closure is dropped, on
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted), [`ForeignVariable`](crate::ErrorKind::ForeignVariable),
    /// [`UnknownDevice`](crate::ErrorKind::UnknownDevice), [`DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable),
    /// [`EngineFull`](crate::ErrorKind::EngineFull), [`Stopped`](crate::ErrorKind::Stopped) and
    /// [`ThreadRefused`](crate::ErrorKind::ThreadRefused).
    ///
    /// # Panics
    /// Never. A panic of the closure fails the operation.
    ///
    /// ```
    /// use seriatim::{Context, Engine, Property};
    /// let engine = Engine::new()?;
    /// let [x, y] = [engine.new_variable(), engine.new_variable()];
    /// engine.push_sync(|_| (), Context::cpu(0), &[x], &[y], Property::Normal, 0, "copy")?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[allow(clippy::too_many_arguments)]
    pub fn push_sync<F, R>(
        &self,
        closure: F,
        context: Context,
        reads: &[Variable],
        writes: &[Variable],
        property: Property,
        priority: i32,
        name: impl Into<Name>,
    ) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        self.long_form(context, reads, writes, property, priority, name.into()).push(closure)
    }

    /// Pushes an operation that ends when its completion says so, on any thread.
    ///
    /// # Errors
    /// As [`push_sync`](Engine::push_sync).
    ///
    /// ```
    /// use seriatim::{Context, Engine, Property};
    /// let engine = Engine::new()?;
    /// let x = engine.new_variable();
    /// let start = |_: &seriatim::RunContext<'_>, completion: seriatim::Completion| {
    ///     std::thread::spawn(move || completion.complete());
    /// };
    /// engine.push_async(start, Context::cpu(0), &[], &[x], Property::Async, 0, "read")?;
    /// engine.wait_for_var(x)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[allow(clippy::too_many_arguments)]
    pub fn push_async<G>(
        &self,
        closure: G,
        context: Context,
        reads: &[Variable],
        writes: &[Variable],
        property: Property,
        priority: i32,
        name: impl Into<Name>,
    ) -> Result<(), Error>
    where
        G: FnOnce(&RunContext<'_>, Completion) + Send + 'static,
    {
        self.long_form(context, reads, writes, property, priority, name.into()).push_async(closure)
    }

    fn long_form(
        &self,
        context: Context,
        reads: &[Variable],
        writes: &[Variable],
        property: Property,
        priority: i32,
        name: Name,
    ) -> OperationBuilder<'_> {
        self.op(name)
            .context(context)
            .reads(reads.iter().copied())
            .writes(writes.iter().copied())
            .property(property)
            .priority(priority)
    }

    /// Makes a reusable operator.
    ///
    /// # Errors
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted), [`ForeignVariable`](crate::ErrorKind::ForeignVariable).
    ///
    /// ```
    /// use seriatim::{Context, Engine, Property};
    /// let engine = Engine::new()?;
    /// let x = engine.new_variable();
    /// let step = engine.new_operator(|_| (), &[], &[x], Property::Normal, "step")?;
    /// engine.push(&step, Context::cpu(0), 0)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new_operator<H, R>(
        &self,
        closure: H,
        reads: &[Variable],
        writes: &[Variable],
        property: Property,
        name: impl Into<Name>,
    ) -> Result<Operator, Error>
    where
        H: Fn(&RunContext<'_>) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        self.long_form(Context::cpu(0), reads, writes, property, 0, name.into()).operator(closure)
    }

    /// Makes a reusable asynchronous operator.
    ///
    /// # Errors
    /// As [`new_operator`](Engine::new_operator).
    ///
    /// ```
    /// use seriatim::{Completion, Context, Engine, Property, RunContext};
    /// let engine = Engine::new()?;
    /// let tick = |_: &RunContext<'_>, completion: Completion| completion.complete();
    /// let tick = engine.new_async_operator(tick, &[], &[], Property::Async, "tick")?;
    /// engine.push(&tick, Context::cpu(0), 0)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new_async_operator<K>(
        &self,
        closure: K,
        reads: &[Variable],
        writes: &[Variable],
        property: Property,
        name: impl Into<Name>,
    ) -> Result<Operator, Error>
    where
        K: Fn(&RunContext<'_>, Completion) + Send + Sync + 'static,
    {
        self.long_form(Context::cpu(0), reads, writes, property, 0, name.into()).async_operator(closure)
    }

    /// Pushes an operator once more; earlier uses may still be in flight.
    ///
    /// # Errors
    /// As [`push_sync`](Engine::push_sync), and [`ForeignOperator`](crate::ErrorKind::ForeignOperator).
    ///
    /// ```
    /// use seriatim::{Context, Engine};
    /// let engine = Engine::new()?;
    /// let step = engine.op("step").operator(|_| ())?;
    /// for _ in 0..3 {
    ///     engine.push(&step, Context::cpu(0), 0)?;
    /// }
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push(&self, operator: &Operator, context: Context, priority: i32) -> Result<(), Error> {
        operator.push(self.core(), context, priority)
    }

    /// Deletes an operator: its closure is dropped after its last use. Dropping the handle does the same.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let step = engine.op("step").operator(|_| ())?;
    /// engine.push(&step, seriatim::Context::cpu(0), 0)?;
    /// engine.delete_operator(step);
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn delete_operator(&self, operator: Operator) {
        drop(operator);
    }

    /// Deletes a variable: `closure` runs after its last use, and every copy of the handle is refused from now on.
    ///
    /// The closure runs even if the variable is marked by a failure.
    ///
    /// # Errors
    /// As [`push_sync`](Engine::push_sync); the variable then lives on.
    ///
    /// ```
    /// use seriatim::{Context, Engine, ErrorKind};
    /// let engine = Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.op("use").writes([x]).push(|_| ())?;
    /// engine.delete_variable(|_| println!("nobody uses it any more"), Context::cpu(0), x)?;
    /// let refused = engine.op("late").reads([x]).push(|_| ());
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::VariableDeleted);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn delete_variable<F, R>(&self, closure: F, context: Context, variable: Variable) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let request = Request {
            context,
            property: Property::DeleteVar,
            notes: NOTE_DELETE,
            ..Request::named(Name::from("delete variable"))
        };
        let claim = Claim { variable, mode: Mode::Delete };
        push::push(self.core(), request, &[claim], sync_vtable(&closure), closure)
    }

    /// Collects small operations and merges them: see [`Batch`].
    ///
    /// # Errors
    /// Those of [`push_sync`](Engine::push_sync) for a merged operation, which is then not pushed; its members that were valid by
    /// themselves are not lost for other reasons than [`EngineFull`](crate::ErrorKind::EngineFull),
    /// [`Stopped`](crate::ErrorKind::Stopped) or a variable that another thread deleted meanwhile.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.batch(|b| {
    ///     (0..100).try_for_each(|_| b.op("tiny").writes([x]).push(|_| ()))
    /// })??;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn batch<T>(&self, collect: impl FnOnce(&mut Batch<'_>) -> T) -> Result<T, Error> {
        let mut batch = Batch::new(self);
        let value = collect(&mut batch);
        batch.finish()?;
        Ok(value)
    }

    /// Waits until the writes of `variable` that were pushed before are complete. Running reads do not hold it up. The calling thread
    /// may run ready operations meanwhile ([`Builder::waiters_help`]).
    ///
    /// # Errors
    /// The failure that the variable is marked with, which is thereby cleared everywhere: a second wait succeeds.
    /// [`WaitInsideOperation`](crate::ErrorKind::WaitInsideOperation), [`VariableDeleted`](crate::ErrorKind::VariableDeleted),
    /// [`ForeignVariable`](crate::ErrorKind::ForeignVariable).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.op("fail").writes([x]).push(|_| Err("out of paper"))?;
    /// assert!(engine.wait_for_var(x).is_err());
    /// assert!(engine.wait_for_var(x).is_ok());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_for_var(&self, variable: Variable) -> Result<(), Error> {
        wait::for_variable(self.core(), variable, None)
    }

    /// As [`wait_for_var`](Engine::wait_for_var), but not longer than `timeout`, and without running operations itself.
    ///
    /// # Errors
    /// Also [`TimedOut`](crate::ErrorKind::TimedOut), which names what is pending and behind what.
    ///
    /// ```
    /// use std::time::Duration;
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.op("nap").writes([x]).push(|_| std::thread::sleep(Duration::from_millis(50)))?;
    /// let error = engine.wait_for_var_timeout(x, Duration::from_millis(1)).unwrap_err();
    /// assert_eq!(error.kind(), seriatim::ErrorKind::TimedOut);
    /// assert!(error.to_string().contains("'nap'"));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_for_var_timeout(&self, variable: Variable, timeout: Duration) -> Result<(), Error> {
        wait::for_variable(self.core(), variable, Some(timeout))
    }

    /// Waits until every operation that was pushed before is complete. Pushes that go on meanwhile may hold it up.
    ///
    /// # Errors
    /// Of the errors that nobody has taken, that of the operation that was pushed first; all are cleared. Between the pushes of
    /// different threads, push order is known only roughly: numbers are dealt to threads 64 at a time.
    /// [`WaitInsideOperation`](crate::ErrorKind::WaitInsideOperation).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.op("fail").push(|_| Err("nothing changed, and still not lost"))?;
    /// assert!(engine.wait_for_all().is_err());
    /// assert!(engine.wait_for_all().is_ok());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_for_all(&self) -> Result<(), Error> {
        wait::for_all(self.core(), None)
    }

    /// As [`wait_for_all`](Engine::wait_for_all), but not longer than `timeout`, and without running operations itself.
    ///
    /// # Errors
    /// Also [`TimedOut`](crate::ErrorKind::TimedOut), which names what is pending.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.wait_for_all_timeout(std::time::Duration::from_secs(1))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_for_all_timeout(&self, timeout: Duration) -> Result<(), Error> {
        wait::for_all(self.core(), Some(timeout))
    }

    /// Runs what is in flight, then ends the threads. Pushes are refused until [`start`](Engine::start), but for those of
    /// operations that still run. Stopping twice is harmless.
    ///
    /// # Errors
    /// [`WaitInsideOperation`](crate::ErrorKind::WaitInsideOperation).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.stop()?;
    /// assert!(engine.op("late").push(|_| ()).is_err());
    /// engine.start()?;
    /// assert!(engine.op("again").push(|_| ()).is_ok());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn stop(&self) -> Result<(), Error> {
        life::stop(self.core())
    }

    /// Starts a stopped engine. Starting twice is harmless.
    ///
    /// # Errors
    /// [`ThreadRefused`](crate::ErrorKind::ThreadRefused): the engine is then still stopped.
    /// [`WaitInsideOperation`](crate::ErrorKind::WaitInsideOperation).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.stop()?;
    /// engine.start()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn start(&self) -> Result<(), Error> {
        life::start(self.core())
    }

    /// Says that the process is about to end: from now on operations complete without running, but for deletions.
    ///
    /// ```
    /// use seriatim::{Context, Engine};
    /// let engine = Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.notify_shutdown();
    /// engine.op("skipped").writes([x]).push(|_| println!("never printed"))?;
    /// engine.delete_variable(|_| println!("runs"), Context::cpu(0), x)?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn notify_shutdown(&self) {
        self.core().state.fetch_or(SHUTDOWN, SeqCst);
    }

    /// Starts recording named operations: those that are pushed from now on.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.start_profiling();
    /// engine.op("work").push(|_| ())?;
    /// engine.wait_for_all()?;
    /// println!("{}", engine.profile().table());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn start_profiling(&self) {
        self.core().state.fetch_or(PROFILING, SeqCst);
    }

    /// Stops recording. What was recorded is kept.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.start_profiling();
    /// engine.stop_profiling();
    /// engine.op("unseen").push(|_| ())?;
    /// engine.wait_for_all()?;
    /// assert!(engine.profile().events().is_empty());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn stop_profiling(&self) {
        self.core().state.fetch_and(!PROFILING, SeqCst);
    }

    /// What was recorded so far.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.start_profiling();
    /// engine.op("work").push(|_| ())?;
    /// engine.wait_for_all()?;
    /// assert_eq!(engine.profile().events()[0].name, "work");
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn profile(&self) -> Profile {
        Profile::new(self.core().profiler.events(), self.core().profiler.lost())
    }

    /// The operations in flight as a Graphviz graph: filled ones run, an edge leads from an operation to the next one on a variable.
    /// A look at a moving engine, for people and not for programs.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// assert!(engine.dump_dot().starts_with("digraph"));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn dump_dot(&self) -> String {
        diagnose::dot(self.core())
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine {} ({})", self.core().memory.id, self.kind())
    }
}
