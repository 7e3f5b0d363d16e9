//! The builder of engines.

#![forbid(unsafe_code)]

use super::settings::{IdlePolicy, Kind, Settings, WhenFull};
use super::Engine;
use crate::error::Error;
use std::time::Duration;

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
    settings: Settings,
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

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder { settings: Settings::new() }
    }

    setter!(kind: Kind, "Which of the three engines.", "kind(seriatim::Kind::Pooled)");
    setter!(cpu_workers: usize, "Workers for the processor, 1 to 1024.", "cpu_workers(3)");
    setter!(priority_workers: usize, "Workers for prioritised operations, 1 to 1024.", "priority_workers(1)");
    setter!(gpu_workers: usize, "Workers for each GPU, 1 to 1024.", "gpu_workers(2)");
    setter!(gpu_copy_workers: usize, "Copy workers for each GPU, 1 to 1024.", "gpu_copy_workers(1)");
    setter!(pin: bool, "Whether workers are pinned to cores. A pin that fails is reported by [`Engine::warnings`]. On Linux a thread that has waited for the engine, or for room under a bound, or waits and helps ([`waiters_help`](Builder::waiters_help)), does not stay on a worker's core: if the system has put it there, and it may use others, it moves to one of them; it may use the same ones as before, as they were when it was moved.", "pin(false)");
    setter!(idle: IdlePolicy, "What idle workers do.", "idle(seriatim::IdlePolicy::Park)");
    setter!(bound: usize, "Operations in flight at most; 0 for no bound. Operations pushed by operations are not held up.", "bound(1000)");
    setter!(when_full: WhenFull, "What a push does at the bound.", "when_full(seriatim::WhenFull::Help)");
    setter!(bulk_size: usize, "Operations that a batch merges into one at most.", "bulk_size(32)");
    setter!(waiters_help: bool, "Whether a waiting thread runs ready operations meanwhile.", "waiters_help(false)");
    setter!(nested_threads: usize, "Threads that one operation may use itself, as its run context tells it.", "nested_threads(2)");
    setter!(info: bool, "Whether the engine says on standard error what it starts and stops.", "info(false)");

    /// Operations whose closures have lately taken less than this run inside their push, if nothing holds them up and they need no
    /// GPU: handing a closure of some ten nanoseconds to another core costs more than calling it. Zero, the default, for none; for closures
    /// that do almost nothing, 300 ns is a good start.
    ///
    /// What is learned is kept for each type of closure, that of an operator included. The engine measures one call in 16, and holds a
    /// type to be short after four short calls in a row; a long one puts it in doubt, a second one ends it. While a type changes from short to
    /// long, up to 23 calls run inside their pushes, which then take as long: so will, now and then, those of a type that is sometimes long. Boxed
    /// closures and function pointers are one type, whatever they do. A push that finds its variables busy also runs up to 32 short operations
    /// of others that are ready.
    ///
    /// **Do not set it** if a closure may wait for something that a pushing thread does after the push: it would wait for ever. The naive engine,
    /// where this is so in any case, needs no such setting; with a [`bound`](Builder::bound) it has no effect.
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

    /// Operations are enlisted even where a loan would do: for models of the one and of the other.
    #[cfg(any(loom, shuttle))]
    #[doc(hidden)]
    pub fn without_loans(mut self) -> Builder {
        self.settings.lend = false;
        self
    }

    /// The cores to pin workers to, round and round. The first worker comes on the core behind that of the thread which starts them by its push, so that, with
    /// fewer workers than cores, that thread keeps its own. Numbers as the system has them, 0 to 1023.
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

    /// Chooses a setting by the name of its environment variable, with or without `SERIATIM_`: for settings that come as text.
    ///
    /// # Errors
    /// [`BadSetting`](crate::ErrorKind::BadSetting) for an unknown name or value, with those that are valid.
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
    /// [`BadSetting`](crate::ErrorKind::BadSetting), with the values that are valid.
    ///
    /// ```
    /// use seriatim::{Engine, ErrorKind};
    /// let error = Engine::builder().cpu_workers(0).build().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::BadSetting);
    /// ```
    pub fn build(self) -> Result<Engine, Error> {
        self.settings.check()?;
        Ok(Engine::with_settings(self.settings))
    }
}
