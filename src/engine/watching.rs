//! The engine's ways to wait, to stop and start, and to see what it does.

#![forbid(unsafe_code)]

use super::core::{PROFILING, SHUTDOWN};
use super::{diagnose, life, wait, Engine, Variable};
use crate::error::Error;
use crate::profile::Profile;
use crate::sync::Ordering::*;
use std::time::Duration;

impl Engine {
    /// Waits until the writes of `variable` that were pushed before are complete. Running reads do not hold it up. The calling thread
    /// may run ready operations meanwhile ([`waiters_help`](crate::Builder::waiters_help)).
    ///
    /// Worst case: a few loads if no write is pending. Otherwise it takes what the writes take, and, if it helps, the operation that it
    /// is in then and a step for each of those that it took and gives back.
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

    /// As [`wait_for_var`](Engine::wait_for_var), but not longer than `timeout`, and without running operations itself. A wait that runs out
    /// of time leaves about 200 bytes behind until the variable is free: it is not a way to poll a variable that stays busy.
    ///
    /// # Errors
    /// Also [`TimedOut`](crate::ErrorKind::TimedOut), which names what is pending and behind what: that takes a look at every block of the
    /// engine.
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
    pub fn wait_for_var_timeout(&self, variable: Variable, timeout: Duration) -> Result<(), Error> {
        wait::for_variable(self.core(), variable, Some(timeout))
    }

    /// Waits until every operation that was pushed before is complete. Pushes that go on meanwhile may hold it up.
    ///
    /// Worst case: if nothing is in flight, a look at each thread that has used the engine, and all failures that nobody has taken are sorted.
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
    /// Worst case: as long as what is in flight takes.
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
    /// Worst case: it looks at every block that the engine ever made, and holds back their reuse until it is done.
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
