//! `Builder` and the methods of `Engine` that make engines.
//!
//! Programs call it, and a builder belongs to one thread. `src/api/gpu.rs`, `src/api/hooks.rs` and
//! `src/api/system.rs` have further methods. The settings themselves, their environment variables,
//! their defaults and their checks are in `src/engine/settings.rs`: a new setting is a field there
//! and a method here.
//!
//! [`Engine::global`] keeps its engine in a static, under a `OnceLock`: the first thread that asks
//! makes it, any thread reads it, and none drops it.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::engine::gpu::devices::{GivenBackend, Gpus};
use crate::engine::on_error::OnError;
use crate::engine::settings::{IdlePolicy, Kind, Settings, WhenFull};
use crate::engine::thread_hooks::ThreadHooks;
use crate::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

impl Engine {
    /// A per-device engine with default [`Settings`]. It does not look at the environment:
    /// [`from_env`](Engine::from_env) and [`Builder::from_env`] do.
    ///
    /// Its threads start when they are first needed: the first push pays for that, unless
    /// [`prepare`](Engine::prepare) was called.
    ///
    /// # Errors
    /// [`EnginesExhausted`](crate::ErrorKind::EnginesExhausted), and no other with the defaults.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new() -> Result<Engine, Error> {
        Engine::builder().build()
    }

    /// Begins with the default settings, to choose others.
    ///
    /// ```
    /// let engine = seriatim::Engine::builder().kind(seriatim::Kind::Naive).build()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// An engine with the settings of the environment: every [`Settings`] field names its variable.
    /// [`Builder::from_env`] begins with them and can override some.
    ///
    /// # Errors
    /// [`BadSetting`](crate::ErrorKind::BadSetting) for an unknown `SERIATIM_*` variable or value,
    /// with those that are valid; and those of [`build`](Builder::build).
    ///
    /// ```
    /// let engine = seriatim::Engine::from_env()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn from_env() -> Result<Engine, Error> {
        Builder::from_env()?.build()
    }

    /// The engine of the process, made from the environment by the first call. It is never dropped:
    /// call [`wait_for_all`](Engine::wait_for_all) before `main` returns, or the operations in
    /// flight then are lost with the process.
    ///
    /// # Errors
    /// Those of [`from_env`](Engine::from_env).
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
}

/// Chooses the settings of an engine. See [`Settings`] for what each means and its default.
///
/// ```
/// use seriatim::{Engine, IdlePolicy, Kind};
/// let engine = Engine::builder()
///     .kind(Kind::PerDevice)
///     .cpu_workers(2)
///     .idle(IdlePolicy::Spin)
///     .build()?;
/// assert_eq!(engine.kind(), Kind::PerDevice);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build() is called"]
pub struct Builder {
    pub(super) settings: Settings,
    pub(super) on_error: OnError,
    pub(super) threads: ThreadHooks,
    pub(super) gpus: GivenBackend,
}

macro_rules! setter {
    ($name:ident: $type:ty, $about:literal, $example:literal) => {
        #[doc = $about]
        ///
        /// ```
        #[doc = concat!("let engine = seriatim::Engine::builder().", $example, ".build()?;")]
        /// engine.wait_for_all()?;
        /// # Ok::<(), seriatim::Error>(())
        /// ```
        pub fn $name(mut self, $name: $type) -> Builder {
            self.settings.$name = $name;
            self
        }
    };
}

impl Default for Builder {
    /// The same as [`Engine::builder`].
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder::with(Settings::new())
    }

    fn with(settings: Settings) -> Builder {
        let (on_error, threads) = (OnError::default(), ThreadHooks::default());
        Builder { settings, on_error, threads, gpus: GivenBackend::default() }
    }

    /// Begins with the settings of the environment: every [`Settings`] field names its variable.
    /// Later calls on the builder override them.
    ///
    /// # Errors
    /// [`BadSetting`](crate::ErrorKind::BadSetting) for an unknown `SERIATIM_*` variable, or for a
    /// value that is not valid: the message names both, and lists what is valid.
    ///
    /// ```
    /// use seriatim::{Builder, Kind};
    /// let engine = Builder::from_env()?.kind(Kind::Naive).build()?; // whatever SERIATIM_ENGINE says
    /// assert_eq!(engine.kind(), Kind::Naive);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn from_env() -> Result<Builder, Error> {
        Ok(Builder::with(Settings::from_env()?))
    }

    setter!(kind: Kind, "Which of the three engines.", "kind(seriatim::Kind::Pooled)");
    setter!(cpu_workers: usize, "Workers for the processor, 1 to 1024.", "cpu_workers(3)");
    setter!(priority_workers: usize, "Workers for prioritised operations, 1 to 1024.", "priority_workers(1)");
    /// Whether processor workers of the per-device engine are pinned to cores
    /// ([`cores`](Builder::cores)). [`Engine::warnings`] reports a pin that fails; on macOS all
    /// pins fail, since the system cannot pin. The threads that use the engine keep the cores that
    /// they may use.
    ///
    /// A pinned worker cannot leave its core to a thread that the system has put there. So on Linux
    /// a thread that has waited for the engine looks whether it is on a worker's core. If it is,
    /// and a core of [`cores`](Builder::cores) has no worker, the worker is pinned to that core.
    ///
    /// **Sizing.** Have a core for each worker and one for the threads that push and wait: the
    /// default is one worker less than there are cores. Threads of yours that compute need cores as
    /// well: take away a worker for each, or choose `pin(false)`, so that the system can place the
    /// workers.
    ///
    /// ```
    /// let engine = seriatim::Engine::builder().pin(false).build()?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn pin(mut self, pin: bool) -> Builder {
        self.settings.pin = pin;
        self
    }

    /// How long a `fork` of the process waits until the engine's operations in flight have ended,
    /// so that the engine works in the child as well; 100 ms by default. Pushes of other threads
    /// wait as long. A fork waits for all engines at once: it takes as long as the most patient
    /// engine that is busy, and not as long as all of them together. An engine in which nothing is
    /// in flight takes some 100 µs, to end and start its threads.
    ///
    /// If the time is up the engine goes on in the parent. In the child its threads are gone in the
    /// middle of their operations. Each push, each `start` and each wait for an operation in flight
    /// is then an error of kind [`Stopped`](crate::ErrorKind::Stopped). Other engines work, and new
    /// ones can be made. An operation that stops or starts another engine, drops its last handle,
    /// or forks itself waits for the fork: the two wait for each other until the time is up. Zero
    /// is for engines that children do not use: a fork does not wait for them.
    /// `std::process::Command` forks in this sense only where it cannot do without: for `pre_exec`,
    /// another user or group, or a `PATH` of the child's own. Forks of several threads come one
    /// after the other.
    ///
    /// ```
    /// use std::time::Duration;
    /// let engine = seriatim::Engine::builder().fork_patience(Duration::ZERO).build()?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn fork_patience(mut self, fork_patience: Duration) -> Builder {
        self.settings.fork_patience = fork_patience;
        self
    }

    /// Whether a thread that has waited for the engine, and is on a pinned worker's core, is moved
    /// to another core that it may use, instead of the worker. Off by default: a library leaves its
    /// callers where they are. It works on Linux, and is for workers that have to stay where they
    /// are.
    ///
    /// The thread's affinity is changed to move it, and then restored. If another thread changes
    /// the affinity in between, that change stays. If the system does not restore it,
    /// [`Engine::warnings`] says so.
    ///
    /// ```
    /// let engine = seriatim::Engine::builder().cpu_workers(1).cores([0]).move_callers(true).build()?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn move_callers(mut self, move_callers: bool) -> Builder {
        self.settings.move_callers = move_callers;
        self
    }

    setter!(idle: IdlePolicy, "What idle workers do. [`IdlePolicy::Spin`] takes a whole core for each worker: see the sizing at [`pin`](Builder::pin). A worker that spins and shares its core with busy threads takes turns with them, some milliseconds each, and [`Engine::warnings`] says so.", "idle(seriatim::IdlePolicy::Park)");
    setter!(spin_for: Duration, "How long a worker that finds no work looks for some before it parks, with [`IdlePolicy::SpinThenPark`]; 400 µs by default. The other policies do not look at it. A pause is measured by the clock, from the first look in vain to the work that ends it. After a pause longer than `spin_for` a worker looks for 25 µs at most, until a pause has been short again. It keeps its core for the first 25 µs; after that it yields it again and again, and parks late if other threads take it. What ends a sleep begins some 30 µs after its push, which is what waking a thread takes. But if the last few sleeps ended at a regular pace, the worker gets up shortly before the next operation is due: then that begins in a few microseconds, and its push enters no system. With less than 25 µs it does not.", "spin_for(std::time::Duration::from_millis(1))");
    setter!(bound: usize, "Operations in flight at most; 0 for no bound. Operations pushed by operations, by hooks and by wakers are not held up: nobody else may be there to make room.", "bound(1000)");
    setter!(when_full: WhenFull, "What a push does at the bound.", "when_full(seriatim::WhenFull::Help)");
    /// Whether a waiting thread runs ready operations meanwhile. The default is on: a thread that
    /// waits has a core, and the operation that it waits for may be the next one to be run.
    ///
    /// **Turn it off** if a waiting thread may hold a lock that an operation takes, or anything
    /// else that an operation waits for. The thread runs the operation that it waits for or, if
    /// that cannot run yet, any ready operation: it may run the very operation that takes the lock,
    /// and wait for itself for ever. With the setting off, a worker waits in each of these
    /// operations instead, so there must be more workers than such operations. The same holds for a
    /// push that may run operations: on the naive engine, of an operation that is declared
    /// [`short`](crate::OperationBuilder::short) or has
    /// [`Property::Async`](crate::Property::Async), with [`inline_below`](Builder::inline_below),
    /// and at a [`bound`](Builder::bound) with [`WhenFull::Help`](crate::WhenFull::Help). Waits
    /// with a time limit do not help.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// let engine = seriatim::Engine::builder().waiters_help(false).cpu_workers(2).build()?;
    /// let (x, total) = (engine.new_variable(), Arc::new(Mutex::new(0)));
    /// let sum = Arc::clone(&total);
    /// let held = total.lock().unwrap();
    /// engine.op("locks").push(move |_| *sum.lock().unwrap() += 1)?;
    /// engine.op("other").writes([x]).push(|_| ())?;
    /// // A helping thread could run 'locks' here.
    /// engine.wait_for_var(x)?;
    /// drop(held);
    /// engine.wait_for_all()?;
    /// assert_eq!(*total.lock().unwrap(), 1);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn waiters_help(mut self, waiters_help: bool) -> Builder {
        self.settings.waiters_help = waiters_help;
        self
    }

    setter!(nested_threads: usize, "Threads that one operation may use itself, as its run context tells it.", "nested_threads(2)");
    setter!(info: bool, "Whether the engine says on standard error what it starts and stops.", "info(false)");

    /// Operations whose closures take less time than this on average may run inside their push, if
    /// nothing holds them up and they need no GPU. Half a second is the most. Zero, the default,
    /// means that only operations that are declared [`short`](crate::OperationBuilder::short) may,
    /// with a limit of 1 µs.
    ///
    /// Handing a closure to another core takes some 150 ns of all threads together. Closures that
    /// take less run inside their push. Closures between that and the limit do so until the thread
    /// has run them for 5 µs without a pause; then they are shipped, so that it and the workers run
    /// them at once. A pause is twice as long as the closure takes.
    ///
    /// What is learned is kept for each type of closure, that of an operator included: the mean of
    /// 128 calls. The first four calls are measured, then one in about 400, and more where
    /// something is unusual. Boxed closures and function pointers are one type, whatever they do,
    /// unless [`cost_key`](crate::OperationBuilder::cost_key) tells them apart. A push that finds
    /// its variables busy also runs up to 32 short operations of other pushes that are ready, and
    /// no more of them after 20 µs. An asynchronous push does not, and calls its closure if that
    /// returns soon; the operation may go on.
    ///
    /// **How long pushes are delayed.** Let S be 150 ns, or 8 readings of the clock if that is
    /// more, and let calls be long that take more than 16 S and more than the limit. A type of
    /// which one call in 64 or more is long runs them inside its pushes until it is shipped. Until
    /// then long calls take 2 × 768 S + 4 L of a pusher's time at most, where L is the longest of
    /// them: 0.5 ms for calls of 50 µs. That holds if they come in turn. If they come at random,
    /// they may take five times as much. One call's own length has no bound, since it is only known
    /// when it is over. Rarer long calls, and calls that are not long, count by the mean alone.
    ///
    /// **Do not set it** if a closure may wait for something that a pushing thread does after the
    /// push: the closure would wait for ever. The naive engine runs operations inside their push in
    /// any case, and needs no such setting. With a [`bound`](Builder::bound) the setting has no
    /// effect.
    ///
    /// ```
    /// use std::time::Duration;
    /// let engine = seriatim::Engine::builder().inline_below(Duration::from_nanos(300)).build()?;
    /// let x = engine.new_variable();
    /// for _ in 0..1000 {
    ///     engine.op("step").writes([x]).push(|_| ())?;
    /// }
    /// engine.wait_for_var(x)?;
    /// assert_eq!(engine.version(x)?, 1000);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn inline_below(mut self, inline_below: Duration) -> Builder {
        self.settings.inline_below = inline_below;
        self
    }

    /// Makes no operation run inside its push, for the models in `loom-tests/`, which explore both
    /// ways.
    #[cfg(any(loom, shuttle))]
    #[doc(hidden)]
    pub fn without_inline(mut self) -> Builder {
        self.settings.inline = false;
        self
    }

    /// The cores to pin workers to, round and round, by the numbers that the system gives them, 0
    /// to 1023. The first worker comes on the core behind the core of the thread whose push starts
    /// the workers. So, with fewer workers than cores, that thread keeps its core. A worker may
    /// later be moved to a core without one ([`pin`](Builder::pin)).
    ///
    /// ```
    /// let engine = seriatim::Engine::builder().cores([0]).build()?;
    /// assert_eq!(engine.settings().cores, [0]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn cores(mut self, cores: impl IntoIterator<Item = usize>) -> Builder {
        self.settings.cores = cores.into_iter().collect();
        self
    }

    /// Chooses a setting by the name of its environment variable, with or without `SERIATIM_`. It
    /// is for settings that come as text.
    ///
    /// # Errors
    /// [`BadSetting`](crate::ErrorKind::BadSetting) for an unknown name or value, with those that
    /// are valid.
    ///
    /// ```
    /// use seriatim::{Engine, Kind};
    /// let engine = Engine::builder().set("ENGINE", "pooled")?.set("SERIATIM_CPU_WORKERS", "2")?.build()?;
    /// assert_eq!(engine.kind(), Kind::Pooled);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn set(mut self, key: &str, value: &str) -> Result<Builder, Error> {
        self.settings.set(key, value)?;
        Ok(self)
    }

    /// Makes the engine. Its threads start when they are first needed.
    ///
    /// # Errors
    /// [`BadSetting`](crate::ErrorKind::BadSetting), with the values that are valid;
    /// [`MemoryLockRefused`](crate::ErrorKind::MemoryLockRefused) and
    /// [`PriorityRefused`](crate::ErrorKind::PriorityRefused), as
    /// [`lock_memory`](Builder::lock_memory) and [`fifo_priority`](Builder::fifo_priority) say;
    /// [`EnginesExhausted`](crate::ErrorKind::EnginesExhausted).
    ///
    /// ```
    /// use seriatim::{Engine, ErrorKind};
    /// let error = Engine::builder().cpu_workers(0).build().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::BadSetting);
    /// ```
    pub fn build(self) -> Result<Engine, Error> {
        self.settings.check()?;
        Engine::with_settings(self.settings, self.on_error, self.threads, Gpus::new(self.gpus))
    }
}
