//! `Engine::stats`: the numbers of an engine that runs. Programs call it, on any thread. What they
//! are is in `src/engine/stats.rs`, which also adds them up.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::engine::stats::Stats;

impl Engine {
    /// Looks at what the engine has done and has to do: how much is in flight, how busy each worker
    /// was, how often workers have stolen, parked and were woken, and what the pools have made.
    /// Nothing has to be switched on, and operations do not pay for it.
    ///
    /// Worst case: a look at each worker and each thread that has used the engine. While anything
    /// is in flight also at every block that the engine has ever made, to tell what is ready; that
    /// holds back the reuse of blocks as [`dump_dot`](Engine::dump_dot) does. So ask some times a
    /// second, and not for every operation.
    ///
    /// ```
    /// use std::time::Duration;
    /// let engine = seriatim::Engine::builder().cpu_workers(2).build()?;
    /// let x = engine.new_variable();
    /// let (open, gate) = std::sync::mpsc::channel::<()>();
    /// engine.op("holds").writes([x]).push(move |_| _ = gate.recv())?;
    /// for _ in 0..10 {
    ///     engine.op("waits").writes([x]).push(|_| ())?;
    /// }
    /// let stats = engine.stats();
    /// assert_eq!((stats.in_flight, stats.workers.len()), (11, 2 + 4 + 1));
    /// drop(open);
    /// engine.wait_for_all()?;
    /// println!("{}", engine.stats());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.core().stats()
    }
}
