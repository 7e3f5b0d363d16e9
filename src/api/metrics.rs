//! `Engine::record_metrics`, with the feature `metrics`: what `src/engine/stats.rs` adds up, for
//! the recorder that the program has installed by the crate of that name. Programs call it, on any
//! thread.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use metrics::{counter, gauge};

impl Engine {
    /// Tells the recorder of the crate `metrics` what [`stats`](Engine::stats) says. Call it once
    /// in so many seconds, or when the numbers are asked for. Without a recorder it tells nobody.
    ///
    /// | name | kind | labels |
    /// |---|---|---|
    /// | `seriatim_in_flight`, `seriatim_ready`, `seriatim_running` | gauge | engine |
    /// | `seriatim_pushed_total`, `seriatim_completed_total` | counter | engine |
    /// | `seriatim_blocks`, `seriatim_block_bytes`, `seriatim_threads`, `seriatim_variables` | gauge | engine |
    /// | `seriatim_worker_busy_seconds`, `seriatim_worker_idle_seconds` | gauge | engine, worker |
    /// | `seriatim_worker_steals_total`, `seriatim_worker_parks_total`, `seriatim_worker_wake_ups_total` | counter | engine, worker |
    ///
    /// `engine` is the number that messages give the engine, `worker` the usual name of its thread.
    ///
    /// Worst case: that of [`stats`](Engine::stats), and what the recorder takes.
    ///
    /// # Panics
    /// Only if the recorder does.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.op("work").push(|_| ())?;
    /// engine.record_metrics();
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn record_metrics(&self) {
        let stats = self.stats();
        let engine = self.core().memory.id.to_string();
        let pool = stats.pool;
        counter!("seriatim_pushed_total", "engine" => engine.clone()).absolute(stats.pushed);
        counter!("seriatim_completed_total", "engine" => engine.clone()).absolute(stats.completed);
        gauge!("seriatim_in_flight", "engine" => engine.clone()).set(stats.in_flight as f64);
        gauge!("seriatim_ready", "engine" => engine.clone()).set(stats.ready as f64);
        gauge!("seriatim_running", "engine" => engine.clone()).set(stats.running as f64);
        gauge!("seriatim_blocks", "engine" => engine.clone()).set(pool.blocks as f64);
        gauge!("seriatim_block_bytes", "engine" => engine.clone()).set(pool.bytes as f64);
        gauge!("seriatim_threads", "engine" => engine.clone()).set(pool.threads as f64);
        gauge!("seriatim_variables", "engine" => engine.clone()).set(pool.variables as f64);
        for worker in &stats.workers {
            let labels = [("engine", engine.clone()), ("worker", worker.name())];
            gauge!("seriatim_worker_busy_seconds", &labels).set(worker.busy.as_secs_f64());
            gauge!("seriatim_worker_idle_seconds", &labels).set(worker.idle.as_secs_f64());
            counter!("seriatim_worker_steals_total", &labels).absolute(worker.steals);
            counter!("seriatim_worker_parks_total", &labels).absolute(worker.parks);
            counter!("seriatim_worker_wake_ups_total", &labels).absolute(worker.wake_ups);
        }
    }
}
