//! The settings of an engine: chosen by the builder (`src/api/builder.rs`) or by `SERIATIM_*`
//! environment variables, and checked here. They do not change once the engine is made, so any
//! thread reads them. Only the number of nested threads has a copy that changes:
//! `Core::nested_threads`, which `Engine::set_nested_threads` stores (`api/control.rs`).
//!
//! A new setting is added in six places of this file: the field of [`Settings`], `Settings::new`,
//! `Settings::check` (if it is a number with limits), `Settings::set`, `KEYS`, and the list of
//! values in the test, which has the order of `KEYS`. The C interface has two more, both in
//! `capi/src/engine.rs`: the function `value`, and the list of keys in the comment of
//! `SeriatimSetting`.

#![forbid(unsafe_code)]

pub use crate::engine::kind::{IdlePolicy, Kind, WhenFull};
use crate::engine::setting_values::{
    bad, cores, count, named, priority, switch, up_to, workers, MOST_PRIORITY, MOST_WORKERS,
};
use crate::error::{Error, ErrorKind};
use crate::platform::affinity;
use crate::platform::low_memory::LOCKS;
use crate::platform::scheduling::HAS_FIFO;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// The settings of an engine, as its builder or the environment chose them.
///
/// ```
/// let engine = seriatim::Engine::builder().cpu_workers(2).build()?;
/// assert_eq!(engine.settings().cpu_workers, 2);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Which engine. `SERIATIM_ENGINE`: `naive`, `pooled`, `per-device` (default).
    pub kind: Kind,
    /// Workers for the processor. `SERIATIM_CPU_WORKERS`; default: one less than there are cores,
    /// at least 1.
    pub cpu_workers: usize,
    /// Workers for prioritised operations (per-device engine). `SERIATIM_PRIORITY_WORKERS`; default
    /// 4.
    pub priority_workers: usize,
    /// Workers for each GPU, 1 to 16, beside its one copy worker. `SERIATIM_GPU_WORKERS`; default
    /// 2. If they are asked for in an engine without GPUs, it has a
    /// [warning](crate::Engine::warnings).
    pub gpu_workers: usize,
    /// How many operations are queued on a stream of a GPU at most before one of them is done, 1 to
    /// 1024. `SERIATIM_GPU_AHEAD`; default 64.
    pub gpu_ahead: usize,
    /// The most bytes that the engine's buffers on each GPU come to; 0 (default): no limit.
    /// `SERIATIM_GPU_MEMORY`.
    pub gpu_memory: usize,
    /// Whether processor workers of the per-device engine are pinned. `SERIATIM_PIN`: `on`
    /// (default), `off`.
    pub pin: bool,
    /// The cores that workers are pinned to, used in turn, beginning after the one that the engine
    /// is first used from. `SERIATIM_CORES`, such as `0,2-5`; default: those of the calling thread.
    pub cores: Vec<usize>,
    /// Whether a thread that waits is moved off a worker's core, instead of the worker.
    /// `SERIATIM_MOVE_CALLERS`: `on`, `off` (default).
    pub move_callers: bool,
    /// What idle workers do. `SERIATIM_IDLE`: `spin`, `spin-then-park` (default), `park`.
    pub idle: IdlePolicy,
    /// How long a worker looks for work before it parks, with [`IdlePolicy::SpinThenPark`]. See
    /// [`Builder::spin_for`](crate::Builder::spin_for). `SERIATIM_SPIN_FOR`, in microseconds;
    /// default 400.
    pub spin_for: Duration,
    /// Operations in flight at most; 0 (default): no bound. `SERIATIM_BOUND`.
    pub bound: usize,
    /// What a push does at the bound. `SERIATIM_WHEN_FULL`: `block` (default), `help`,
    /// `would-block`.
    pub when_full: WhenFull,
    /// Whether a waiting thread runs ready operations. `SERIATIM_WAITERS_HELP`: `on` (default),
    /// `off`.
    pub waiters_help: bool,
    /// Operations whose closures take less than this on average may run inside their push; zero
    /// (default): those that are declared short, below 1 µs. See
    /// [`Builder::inline_below`](crate::Builder::inline_below). `SERIATIM_INLINE_BELOW`, in
    /// nanoseconds.
    pub inline_below: Duration,
    /// Threads that one operation may use itself. `SERIATIM_NESTED_THREADS`; default 1.
    pub nested_threads: usize,
    /// How long a `fork` waits for operations in flight. See
    /// [`Builder::fork_patience`](crate::Builder::fork_patience). `SERIATIM_FORK_PATIENCE`, in
    /// milliseconds; default 100.
    pub fork_patience: Duration,
    /// Whether the memory of blocks is locked. See
    /// [`Builder::lock_memory`](crate::Builder::lock_memory). `SERIATIM_LOCK_MEMORY`: `on`, `off`
    /// (default).
    pub lock_memory: bool,
    /// The priority of workers under `SCHED_FIFO`; 0 (default): none. See
    /// [`Builder::fifo_priority`](crate::Builder::fifo_priority). `SERIATIM_FIFO_PRIORITY`.
    pub fifo_priority: u32,
    /// Whether the engine says on standard error what it starts and stops. `SERIATIM_INFO`: `on`,
    /// `off` (default).
    pub info: bool,
    /// The folder of the socket at which other processes see what the engine does. See
    /// [`Builder::publish`](crate::Builder::publish). `SERIATIM_PUBLISH`; default: none.
    pub publish: Option<PathBuf>,
    /// Whether workers for GPUs were asked for, and whether the engine may have some.
    pub(crate) asks_for_gpus: bool,
    pub(crate) has_gpus: bool,
    /// What the numbers of the timelines of devices follow. Only tests begin elsewhere.
    pub(crate) gpu_start: u64,
    /// Whether operations may run inside their push. Only the models switch it off, to explore the
    /// enlisted way as well.
    pub(crate) inline: bool,
}

const MOST_GPU_WORKERS: usize = 16;
const MOST_AHEAD: usize = 1024;

impl Settings {
    /// The defaults, on this machine.
    pub(crate) fn new() -> Settings {
        let cores = affinity::cores();
        Settings {
            kind: Kind::default(),
            cpu_workers: cores.len().saturating_sub(1).max(1),
            priority_workers: 4,
            gpu_workers: 2,
            gpu_ahead: 64,
            gpu_memory: 0,
            pin: true,
            cores,
            move_callers: false,
            fork_patience: Duration::from_millis(100),
            idle: IdlePolicy::default(),
            spin_for: Duration::from_micros(400),
            bound: 0,
            when_full: WhenFull::default(),
            waiters_help: true,
            inline_below: Duration::ZERO,
            nested_threads: 1,
            lock_memory: false,
            fifo_priority: 0,
            info: false,
            publish: None,
            asks_for_gpus: false,
            has_gpus: cfg!(feature = "cuda"),
            gpu_start: 0,
            inline: true,
        }
    }

    /// Checks the limits of the numbers, which the methods of the builder do not. Called by
    /// `Builder::build`.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_nested_threads(self.nested_threads)?;
        let counts = [
            ("cpu_workers", self.cpu_workers, MOST_WORKERS),
            ("priority_workers", self.priority_workers, MOST_WORKERS),
            ("gpu_workers", self.gpu_workers, MOST_GPU_WORKERS),
            ("gpu_ahead", self.gpu_ahead, MOST_AHEAD),
        ];
        for (name, value, most) in counts {
            if !(1..=most).contains(&value) {
                return Err(bad(name, &value.to_string(), &format!("1 to {most}")));
            }
        }
        if let Some(core) = self.cores.iter().find(|core| **core >= 1024) {
            return Err(bad("cores", &core.to_string(), "core numbers from 0 to 1023"));
        }
        self.check_system()
    }

    /// Checks what is asked of the system.
    fn check_system(&self) -> Result<(), Error> {
        if self.fifo_priority > MOST_PRIORITY || self.fifo_priority > 0 && self.kind == Kind::Naive {
            let valid = format!("0 to {MOST_PRIORITY}, and 0 for the naive engine, which has no workers");
            return Err(bad("fifo_priority", &self.fifo_priority.to_string(), &valid));
        }
        if self.fifo_priority > 0 && !HAS_FIFO {
            return Err(Error::new(
                ErrorKind::PriorityRefused,
                "this system has no SCHED_FIFO for threads, or none that is used here: leave fifo_priority at 0",
            ));
        }
        if self.publish.is_some() && cfg!(not(unix)) {
            return Err(Error::new(ErrorKind::BadSetting, "publish cannot be set: this system has no Unix sockets"));
        }
        if self.lock_memory && !LOCKS {
            return Err(Error::new(
                ErrorKind::MemoryLockRefused,
                "memory is not locked on this system: leave lock_memory off",
            ));
        }
        Ok(())
    }

    /// What the settings ask for and do not get.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let gpus = (self.asks_for_gpus && !self.has_gpus).then(|| {
            format!("{} workers for each GPU were asked for in a build without GPUs: there are none", self.gpu_workers)
        });
        let cores: BTreeSet<usize> = self.cores.iter().copied().collect();
        let spins = self.kind == Kind::PerDevice && self.pin && self.idle == IdlePolicy::Spin;
        // Cores that the settings name and others that callers may use.
        let all: BTreeSet<usize> = cores.iter().copied().chain(affinity::cores()).collect();
        let crowded = (spins && !cores.is_empty() && self.cpu_workers >= all.len()).then(|| {
            format!(
                "{} workers that spin are pinned to {} cores, which are all that the process may use: the threads that push and wait \
                 have none of their own. Choose fewer cpu_workers, or IdlePolicy::SpinThenPark",
                self.cpu_workers,
                cores.len()
            )
        });
        let greedy = (self.fifo_priority > 0 && self.idle == IdlePolicy::Spin).then(|| {
            String::from(
                "workers that spin under SCHED_FIFO leave their cores to no other thread, but for what the system keeps back \
                 (sched_rt_runtime_us). Choose IdlePolicy::SpinThenPark, or cores that nothing else uses",
            )
        });
        gpus.into_iter().chain(crowded).chain(greedy).collect()
    }

    /// Reads every `SERIATIM_*` variable.
    pub(crate) fn from_env() -> Result<Settings, Error> {
        let mut settings = Settings::new();
        // Sorted by name, so that of several mistakes the same one is reported each time.
        let variables: BTreeMap<_, _> = std::env::vars_os().collect();
        for (key, value) in variables {
            let (key, value) = (key.to_string_lossy(), value.to_string_lossy());
            if key.starts_with(PREFIX) {
                settings.set(&key, value.trim())?;
            }
        }
        Ok(settings)
    }

    /// Changes one setting by the name of its environment variable.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        match key.strip_prefix(PREFIX).unwrap_or(key) {
            "ENGINE" => self.kind = named(key, value)?,
            "CPU_WORKERS" => self.cpu_workers = workers(key, value)?,
            "PRIORITY_WORKERS" => self.priority_workers = workers(key, value)?,
            "GPU_WORKERS" => {
                (self.gpu_workers, self.asks_for_gpus) = (up_to(MOST_GPU_WORKERS, key, value)?, true);
            }
            "GPU_AHEAD" => self.gpu_ahead = up_to(MOST_AHEAD, key, value)?,
            "GPU_MEMORY" => self.gpu_memory = count(key, value)?,
            "GPU_COPY_WORKERS" => {
                let message = format!("{key} is not a setting any more: each GPU has one copy worker");
                return Err(Error::new(ErrorKind::BadSetting, message));
            }
            "PIN" => self.pin = switch(key, value)?,
            "CORES" => self.cores = cores(key, value)?,
            "MOVE_CALLERS" => self.move_callers = switch(key, value)?,
            "IDLE" => self.idle = named(key, value)?,
            "SPIN_FOR" => self.spin_for = Duration::from_micros(count(key, value)? as u64),
            "BOUND" => self.bound = count(key, value)?,
            "WHEN_FULL" => self.when_full = named(key, value)?,
            "WAITERS_HELP" => self.waiters_help = switch(key, value)?,
            "INLINE_BELOW" => self.inline_below = Duration::from_nanos(count(key, value)? as u64),
            "NESTED_THREADS" => self.nested_threads = workers(key, value)?,
            "FORK_PATIENCE" => self.fork_patience = Duration::from_millis(count(key, value)? as u64),
            "LOCK_MEMORY" => self.lock_memory = switch(key, value)?,
            "FIFO_PRIORITY" => self.fifo_priority = priority(key, value)?,
            "INFO" => self.info = switch(key, value)?,
            "PUBLISH" => self.publish = (!value.is_empty()).then(|| PathBuf::from(value)),
            _ => {
                let known: Vec<String> = KEYS.iter().map(|key| format!("{PREFIX}{key}")).collect();
                return Err(Error::new(
                    ErrorKind::BadSetting,
                    format!("{key} is not a setting; there are {}", known.join(", ")),
                ));
            }
        }
        Ok(())
    }
}

/// Checks the limits of a number of nested threads.
pub(crate) fn check_nested_threads(threads: usize) -> Result<(), Error> {
    if (1..=MOST_WORKERS).contains(&threads) {
        return Ok(());
    }
    Err(bad("nested_threads", &threads.to_string(), &format!("1 to {MOST_WORKERS}")))
}

const PREFIX: &str = "SERIATIM_";
/// The names that [`Settings::set`] takes. The list of values in the test below has the same order.
const KEYS: [&str; 21] = [
    "ENGINE",
    "CPU_WORKERS",
    "PRIORITY_WORKERS",
    "GPU_WORKERS",
    "GPU_AHEAD",
    "GPU_MEMORY",
    "PIN",
    "CORES",
    "MOVE_CALLERS",
    "IDLE",
    "SPIN_FOR",
    "BOUND",
    "WHEN_FULL",
    "WAITERS_HELP",
    "INLINE_BELOW",
    "NESTED_THREADS",
    "FORK_PATIENCE",
    "LOCK_MEMORY",
    "FIFO_PRIORITY",
    "INFO",
    "PUBLISH",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_settable_and_errors_list_what_is_valid() {
        let values = [
            "pooled",
            "2",
            "3",
            "1",
            "1",
            "4096",
            "off",
            "0,2-3",
            "on",
            "park",
            "80",
            "10",
            "help",
            "off",
            "300",
            "2",
            "50",
            "on",
            "7",
            "on",
            "/run/seen",
        ];
        let mut settings = Settings::new();
        for (key, value) in KEYS.iter().zip(values) {
            settings.set(&format!("{PREFIX}{key}"), value).unwrap();
        }
        assert_eq!(settings.inline_below, Duration::from_nanos(300));
        assert_eq!(settings.spin_for, Duration::from_micros(80));
        assert_eq!(settings.cores, [0, 2, 3]);
        assert_eq!((settings.bound, settings.when_full), (10, WhenFull::Help));
        for (key, valid) in [
            ("SERIATIM_ENGINE", "naive, pooled, per-device"),
            ("SERIATIM_IDLE", "spin, spin-then-park, park"),
            ("SERIATIM_WHEN_FULL", "block, help, would-block"),
            ("SERIATIM_SPIN_FOR", "a whole number"),
            ("SERIATIM_PIN", "on, off"),
            ("SERIATIM_CORES", "0,2-5"),
            ("SERIATIM_BOUND", "a whole number"),
            ("SERIATIM_LOCK_MEMORY", "on, off"),
            ("SERIATIM_FIFO_PRIORITY", "0 to 99"),
            ("SERIATIM_CPU_WORKERS", "1 to 1024"),
            ("SERIATIM_GPU_WORKERS", "1 to 16"),
            ("SERIATIM_GPU_AHEAD", "1 to 1024"),
            ("SERIATIM_GPU_COPY_WORKERS", "one copy worker"),
            ("SERIATIM_WORKERS", "SERIATIM_CPU_WORKERS"),
        ] {
            let error = settings.set(key, "nonsense").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadSetting);
            let text = error.to_string();
            assert!(text.contains(valid) && text.contains(key), "{text}");
        }
        settings.cpu_workers = 0;
        assert!(settings.check().unwrap_err().to_string().contains("1 to 1024"));
    }
}
