//! The methods of `Engine` that wait, stop and start it, and show what it does.
//!
//! They are called by programs, on any thread. Most hand on to their module: waits to
//! `src/engine/wait/`, stops and starts to `src/engine/lifecycle.rs`, `prepare` to
//! `src/api/prepare.rs`, reports to `src/profile/` and `src/engine/diagnose.rs`. Waits, stops,
//! starts and `prepare` are refused inside operations of the same engine: those modules decide so,
//! by a check of `src/engine/nesting.rs`. The other methods set atomics of `Core` themselves, which
//! threads that push and run operations read: the shutdown, the profiler, and how many threads an
//! operation may use. There is no state here.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::api::prepare;
use crate::engine::settings::check_nested_threads;
use crate::engine::wait::{for_all, for_var};
use crate::engine::{diagnose, lifecycle};
use crate::error::Error;
use crate::operation::access::Mode;
use crate::profile::Profile;
use crate::sync::Ordering::*;
use crate::variable::handle::Variable;
use crate::variable::names;
use std::time::Duration;

impl Engine {
    /// Waits until the writes of `variable` that were pushed before are complete. Running reads do
    /// not hold it up.
    ///
    /// The calling thread may run other ready operations meanwhile. **Hold no lock that an
    /// operation takes**: the thread may run that operation and wait for itself for ever.
    /// [`waiters_help`](crate::Builder::waiters_help) turns this help off.
    ///
    /// Worst case: a few loads if no write is pending. Otherwise it takes as long as the writes
    /// take. If the thread helps, it looks at the variable after 16 operations, so that it may run
    /// up to 15 more when the last write has completed. It gives back the operations that it took
    /// and has not run, a step for each.
    ///
    /// # Errors
    /// The failure that the variable is marked with. The wait thereby clears it on every variable,
    /// so a second wait succeeds. Operations that this thread pushed before the wait, and that
    /// depend on the failed one, are skipped all the same; those of other threads are not, if they
    /// run later. [`WaitInsideOperation`](crate::ErrorKind::WaitInsideOperation),
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted),
    /// [`ForeignVariable`](crate::ErrorKind::ForeignVariable),
    /// [`PrivateVariable`](crate::ErrorKind::PrivateVariable). In the child of a `fork` that could
    /// not stop the engine, [`Stopped`](crate::ErrorKind::Stopped) if something is pending.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.op("fail").writes([x]).push(|_| Err("out of paper"))?;
    /// assert!(engine.wait_for_var(x).is_err());
    /// assert!(engine.wait_for_var(x).is_ok());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_for_var(&self, variable: impl Into<Variable>) -> Result<(), Error> {
        for_var::for_variable(self.core(), variable.into(), Mode::Read, None)
    }

    /// Like [`wait_for_var`](Engine::wait_for_var), but waits no longer than `timeout`, and runs no
    /// operations itself. It returns as late as the timed wait of a condition variable, and up to
    /// 60 µs later. A wait that runs out of time leaves about 200 bytes behind until the variable
    /// is free: it is not a way to poll a variable that stays busy.
    ///
    /// One exception, on the naive engine: the wait may have to finish the push of another thread
    /// that has lost its core in the middle of it. If that operation is then ready, the wait runs
    /// it first.
    ///
    /// # Errors
    /// Also [`TimedOut`](crate::ErrorKind::TimedOut), which names what is pending and behind what.
    /// The wait looks for them in the oldest blocks of the engine for about 20 µs, and the message
    /// says so if there are more blocks; [`dump_dot`](Engine::dump_dot) looks at all.
    ///
    /// ```
    /// use std::time::Duration;
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// let (wake, alarm) = std::sync::mpsc::channel::<()>();
    /// engine.op("nap").writes([x]).push(move |_| { let _ = alarm.recv(); })?;
    /// let error = engine.wait_for_var_timeout(x, Duration::from_millis(1)).unwrap_err();
    /// assert_eq!(error.kind(), seriatim::ErrorKind::TimedOut);
    /// assert!(error.to_string().contains("'nap'"));
    /// drop(wake);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_for_var_timeout(&self, variable: impl Into<Variable>, timeout: Duration) -> Result<(), Error> {
        for_var::for_variable(self.core(), variable.into(), Mode::Read, Some(timeout))
    }

    /// Waits until every operation that uses `variable` and was pushed before is complete, reads
    /// included. Then what the variable stands for may be changed or freed outside the engine.
    ///
    /// In push order the wait stands where a change of the variable would stand: operations that
    /// use it and are pushed later, by other threads, begin after the wait is over. The variable's
    /// version stays as it is. As in [`wait_for_var`](Engine::wait_for_var), the calling thread may
    /// run operations meanwhile, so it should hold no lock that they take.
    ///
    /// Worst case: the push of an operation that changes the variable, and as long as what is
    /// pending on it takes.
    ///
    /// # Errors
    /// Those of [`wait_for_var`](Engine::wait_for_var).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// let (open, gate) = std::sync::mpsc::channel::<()>();
    /// engine.op("reads").reads([x]).push(move |_| _ = gate.recv())?;
    /// engine.wait_for_var(x)?; // does not wait for the read
    /// drop(open);
    /// engine.wait_until_unused(x)?;
    /// assert_eq!(engine.version(x)?, 0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_until_unused(&self, variable: impl Into<Variable>) -> Result<(), Error> {
        for_var::for_variable(self.core(), variable.into(), Mode::Write, None)
    }

    /// Like [`wait_until_unused`](Engine::wait_until_unused), but waits no longer than `timeout`,
    /// and does not help: it runs an operation only on the naive engine, if its own end makes that
    /// ready. After an error the wait keeps its place in push order until the variable is free.
    ///
    /// # Errors
    /// Also [`TimedOut`](crate::ErrorKind::TimedOut), as
    /// [`wait_for_var_timeout`](Engine::wait_for_var_timeout) has it.
    ///
    /// ```
    /// use std::time::Duration;
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// let (open, gate) = std::sync::mpsc::channel::<()>();
    /// engine.op("reads").reads([x]).push(move |_| _ = gate.recv())?;
    /// let error = engine.wait_until_unused_timeout(x, Duration::from_millis(1)).unwrap_err();
    /// assert_eq!(error.kind(), seriatim::ErrorKind::TimedOut);
    /// drop(open);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_until_unused_timeout(&self, variable: impl Into<Variable>, timeout: Duration) -> Result<(), Error> {
        for_var::for_variable(self.core(), variable.into(), Mode::Write, Some(timeout))
    }

    /// Waits until every operation that was pushed before is complete. Pushes that go on meanwhile
    /// may hold it up. As in [`wait_for_var`](Engine::wait_for_var), the calling thread may run
    /// operations meanwhile, so it should hold no lock that they take.
    ///
    /// Worst case: if nothing is in flight, a look at each thread that has used the engine, and a
    /// sort of all failures that no wait has taken.
    ///
    /// # Errors
    /// Of the errors that no wait has taken, the error of the operation that was pushed first; all
    /// are cleared. Between the pushes of different threads, push order is known only roughly:
    /// numbers are dealt to threads 64 at a time. The first 1,000 errors that no wait has taken are
    /// kept. Failures after them are only counted: the text of the error says how many there were,
    /// and they are cleared with the others.
    /// [`WaitInsideOperation`](crate::ErrorKind::WaitInsideOperation). In the child of a `fork`
    /// that could not stop the engine, [`Stopped`](crate::ErrorKind::Stopped) if something is in
    /// flight.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.op("fail").push(|_| Err("nothing changed, and still not lost"))?;
    /// assert!(engine.wait_for_all().is_err());
    /// assert!(engine.wait_for_all().is_ok());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_for_all(&self) -> Result<(), Error> {
        for_all::for_all(self.core(), None)
    }

    /// Like [`wait_for_all`](Engine::wait_for_all), but waits no longer than `timeout`, and runs no
    /// operations itself. It returns as late as
    /// [`wait_for_var_timeout`](Engine::wait_for_var_timeout) does.
    ///
    /// # Errors
    /// Also [`TimedOut`](crate::ErrorKind::TimedOut), which names what is pending, as that of
    /// [`wait_for_var_timeout`](Engine::wait_for_var_timeout) does.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.wait_for_all_timeout(std::time::Duration::from_secs(1))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_for_all_timeout(&self, timeout: Duration) -> Result<(), Error> {
        for_all::for_all(self.core(), Some(timeout))
    }

    /// Runs the operations in flight, then ends the threads. Pushes are refused until
    /// [`start`](Engine::start), but for pushes of operations that still run. Stopping twice is
    /// harmless.
    ///
    /// Worst case: as long as the operations in flight take.
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
        lifecycle::stop(self.core())
    }

    /// Does now what the first push would have to do otherwise. It brings all threads up, waits
    /// until they look for work, and gives the calling thread memory for 1,024 usual operations and
    /// 128 larger ones, with pages that have been touched.
    ///
    /// The calling thread's first push then does what a later one does, instruction by instruction:
    /// no thread is started, nothing is allocated, no page is touched for the first time. It may
    /// still take some 100 ns more, for code that the processor has not run lately: the push at
    /// this place in the program, and the closure. Each other thread that is to push should call
    /// `prepare` as well. A worker that has gone to sleep meanwhile is woken by the push, which
    /// takes some microseconds more ([`IdlePolicy::Spin`](crate::IdlePolicy::Spin) never sleeps).
    /// [`inline_below`](crate::Builder::inline_below) learns the cost of a closure from its first
    /// calls, unless [`expect_cost`](Engine::expect_cost) has said it. `prepare` does not start an
    /// engine that was stopped: [`start`](Engine::start) does.
    ///
    /// Worst case: the start of all threads.
    ///
    /// # Errors
    /// [`ThreadRefused`](crate::ErrorKind::ThreadRefused), [`Stopped`](crate::ErrorKind::Stopped),
    /// [`PriorityRefused`](crate::ErrorKind::PriorityRefused),
    /// [`MemoryLockRefused`](crate::ErrorKind::MemoryLockRefused) if any block so far could not be
    /// locked, [`WaitInsideOperation`](crate::ErrorKind::WaitInsideOperation).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.prepare()?;
    /// engine.op("first").push(|_| ())?; // starts no thread, makes no memory
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn prepare(&self) -> Result<(), Error> {
        prepare::prepare(self)
    }

    /// Starts a stopped engine. Starting twice is harmless.
    ///
    /// # Errors
    /// [`ThreadRefused`](crate::ErrorKind::ThreadRefused) and
    /// [`PriorityRefused`](crate::ErrorKind::PriorityRefused): the engine is then still stopped.
    /// [`WaitInsideOperation`](crate::ErrorKind::WaitInsideOperation).
    /// [`Stopped`](crate::ErrorKind::Stopped) in the child of a `fork` that could not stop the
    /// engine.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.stop()?;
    /// engine.start()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn start(&self) -> Result<(), Error> {
        lifecycle::start(self.core())
    }

    /// Tells the engine that the process is about to end: from now on operations complete without
    /// running, but for deletions.
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
        self.core().state.shut_down();
    }

    /// Changes how many threads one operation may use itself, for operations that begin from now
    /// on. See [`RunContext::nested_threads`](crate::RunContext::nested_threads).
    ///
    /// # Errors
    /// [`BadSetting`](crate::ErrorKind::BadSetting) unless it is 1 to 1024; nothing changes then.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.set_nested_threads(3)?;
    /// engine.op("solve").push(|run| assert_eq!(run.nested_threads(), 3))?;
    /// engine.wait_for_all()?;
    /// assert!(engine.set_nested_threads(0).is_err());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn set_nested_threads(&self, threads: usize) -> Result<(), Error> {
        check_nested_threads(threads)?;
        self.core().nested_threads.store(threads, Relaxed);
        Ok(())
    }

    /// Starts recording the named operations that are pushed from now on: about a million in the
    /// life of the engine, in 750 kB for each 4,096. [`Profile::lost`](crate::Profile::lost) says
    /// how many were left out.
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
        self.core().state.start_profiling();
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
        self.core().state.stop_profiling();
    }

    /// Returns what was recorded so far.
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
        let profiler = &self.core().profiler;
        let names = names::of_engine(self.core().memory.id);
        Profile::new(profiler.events(), profiler.threads(), names, profiler.lost())
    }

    /// Draws the operations in flight as a Graphviz graph: filled ones run, and an edge leads from
    /// an operation to the next one on a variable. It is a look at a moving engine, for people and
    /// not for programs.
    ///
    /// Worst case: it looks at every block that the engine ever made, and holds back their reuse
    /// until it is done.
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
