//! The numbers by which a program watches an engine that runs: how much is in flight, what workers
//! do, and how large the pools have become. `api/stats.rs` has the call and `src/lib.rs` the types.
//!
//! Nothing is counted here. Threads count what they push and complete (`thread/context.rs`), and
//! workers what they do (`worker/counters.rs`); any thread that asks adds these up. How many
//! operations are ready is nowhere counted: `diagnose.rs` looks at them.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::engine::diagnose;
use crate::worker::counters::WorkerStats;
use crate::worker::group::Group;
use std::fmt;
use std::time::Duration;

/// What an engine has done so far and has to do now: [`Engine::stats`](crate::Engine::stats).
///
/// Shown as a table for people. `since` makes the numbers of an interval out of two looks.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let before = engine.stats();
/// for _ in 0..100 {
///     engine.op("work").push(|_| ())?;
/// }
/// engine.wait_for_all()?;
/// let stats = engine.stats().since(&before);
/// assert_eq!((stats.completed, stats.in_flight), (stats.pushed, 0));
/// assert!(stats.pushed >= 100);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// Since the engine was made; of [`since`](Stats::since), between the two looks.
    pub time: Duration,
    /// How many operations were pushed, waits that had to queue included. A push that is under way
    /// may be counted twice for a moment.
    pub pushed: u64,
    /// How many have completed, failed and skipped ones included; like `pushed`.
    pub completed: u64,
    /// How many are pushed and not complete. It is the difference of two numbers that grow
    /// meanwhile, so it may be too large by what completes during the look.
    pub in_flight: u64,
    /// How many of these do not run and wait for nothing but a thread or a device.
    pub ready: u64,
    /// How many of these run.
    pub running: u64,
    /// What each worker has done: those of the processor, of priorities, of I/O, then those of the
    /// devices that were used. The naive engine has none.
    pub workers: Vec<WorkerStats>,
    /// The memory that the engine has made.
    pub pool: PoolStats,
}

/// What an engine has made to hold operations and variables. It keeps that until its end, so these
/// numbers tell of the busiest moment so far.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// engine.op("work").writes([x]).push(|_| ())?;
/// let pool = engine.stats().pool;
/// assert!(pool.blocks > 0 && pool.bytes >= 128 * pool.blocks && pool.variables > 0);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PoolStats {
    /// Blocks for operations, free ones included.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// The most threads that have used the engine at once.
    pub threads: u64,
    /// The most variables that there were at once.
    pub variables: u64,
}

impl Stats {
    /// What has happened since an earlier look: the counts are differences. What is in flight, and
    /// the pool, are those of this look.
    ///
    /// ```
    /// use std::time::Duration;
    /// let engine = seriatim::Engine::builder().cpu_workers(1).build()?;
    /// let before = engine.stats();
    /// std::thread::sleep(Duration::from_millis(5));
    /// let stats = engine.stats().since(&before);
    /// assert!(stats.time >= Duration::from_millis(5));
    /// assert_eq!(stats.busy_share(), 0.0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Stats) -> Stats {
        let of = |now: &WorkerStats| {
            let mut before = earlier.workers.iter();
            let before = before.find(|before| before.is_of(now));
            before.map_or(*now, |before| now.since(before))
        };
        Stats {
            time: self.time.saturating_sub(earlier.time),
            pushed: self.pushed.saturating_sub(earlier.pushed),
            completed: self.completed.saturating_sub(earlier.completed),
            workers: self.workers.iter().map(of).collect(),
            ..*self
        }
    }

    /// The part of the time of all workers together in which they were busy, from 0 to 1.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// println!("{:.0} % busy", 100.0 * engine.stats().busy_share());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn busy_share(&self) -> f64 {
        let shares = self.workers.iter().map(WorkerStats::busy_share).sum::<f64>();
        shares / self.workers.len().max(1) as f64
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { time, pushed, completed, in_flight, ready, running, workers, pool } = self;
        let a_second = *completed as f64 / time.as_secs_f64().max(1e-9);
        writeln!(f, "{pushed} pushed, {completed} completed ({a_second:.0} a second) in {:.1} s", time.as_secs_f64())?;
        writeln!(f, "{in_flight} in flight, of which {running} run and {ready} are ready")?;
        let PoolStats { blocks, bytes, threads, variables } = pool;
        writeln!(f, "{blocks} blocks in {} kB, {variables} variables, {threads} threads", bytes / 1000)?;
        if workers.is_empty() {
            return Ok(());
        }
        writeln!(f, "{:<20} {:>7} {:>10} {:>10} {:>10}", "worker", "busy", "steals", "parks", "wake-ups")?;
        for worker in workers {
            let WorkerStats { steals, parks, wake_ups, .. } = worker;
            let (name, busy) = (worker.name(), 100.0 * worker.busy_share());
            writeln!(f, "{name:<20} {busy:>5.1} % {steals:>10} {parks:>10} {wake_ups:>10}")?;
        }
        Ok(())
    }
}

impl Core {
    /// Adds up what the threads have counted, and looks at what is in flight.
    pub fn stats(&self) -> Stats {
        let given_up = self.memory.given_up();
        let (completed, pushed) = self.memory.tally();
        let in_flight = pushed.saturating_sub(completed);
        let (ready, running) = if in_flight > 0 { diagnose::ready_and_running(self) } else { (0, 0) };
        let (blocks, bytes) = self.memory.blocks.slabs.made();
        let mut workers: Vec<WorkerStats> = self.dispatch.groups().into_iter().flat_map(Group::worker_stats).collect();
        for gpu in self.gpus.used() {
            let own = [&gpu.compute, &gpu.copies].into_iter().flat_map(|group| group.worker_stats());
            workers.extend(own.map(|worker| WorkerStats { device: Some(gpu.context()), ..worker }));
        }
        Stats {
            time: Duration::from_nanos(self.profiler.now()),
            pushed: pushed.saturating_sub(given_up),
            completed: completed.saturating_sub(given_up),
            in_flight,
            ready,
            running,
            workers,
            pool: PoolStats {
                blocks,
                bytes,
                threads: u64::from(self.memory.blocks.caches.count()),
                variables: u64::from(self.memory.table.used()),
            },
        }
    }
}
