//! What one would write by hand, as programs on message passing are: each thread owns a block of
//! the variables and runs the operations that change them, in order; before each it looks whether
//! the other threads have come as far as it needs them to have. No runtime, no queue, no
//! read-modify-write: the progress of a thread is a counter that it alone stores.
//!
//! The order is found beforehand, and threads spin while they wait, so this is a floor to measure
//! graphs against and not an engine.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::Runner;
use crate::program::Program;

/// An operation of one thread, and what it needs: how many operations each other thread has to have
/// done.
struct Step {
    operation: u32,
    needs: Vec<(usize, usize)>,
}

/// The operations of each thread.
struct Script {
    program: &'static Program,
    threads: Vec<Vec<Step>>,
}

/// A counter on a line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicUsize);

#[derive(Default)]
struct Shared {
    /// How many operations of this run each thread has done.
    progress: Vec<Counter>,
    /// How many runs have been started, and how often a thread has ended one.
    runs: Counter,
    ended: Counter,
    stop: AtomicBool,
    /// Changed between runs.
    script: parking_lot::RwLock<Option<Arc<Script>>>,
}

/// Threads, of which the calling one is the first.
pub struct ByHand {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    runs: usize,
}

impl ByHand {
    pub(super) fn start(threads: usize) -> ByHand {
        let shared =
            Arc::new(Shared { progress: (0..threads).map(|_| Counter::default()).collect(), ..Shared::default() });
        let spawned = (1..threads)
            .map(|number| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.follow(number))
            })
            .collect();
        ByHand { shared, threads: spawned, runs: 0 }
    }
}

impl Shared {
    /// The life of a thread but the first.
    fn follow(&self, number: usize) {
        for run in 1.. {
            while self.runs.0.load(Acquire) < run {
                if self.stop.load(Relaxed) {
                    return;
                }
                spin_loop();
            }
            let script = self.script.read().clone();
            if let Some(script) = script {
                self.perform(&script, number);
            }
            self.ended.0.fetch_add(1, Release);
        }
    }

    fn perform(&self, script: &Script, number: usize) {
        for (done, step) in script.threads[number].iter().enumerate() {
            for (other, needed) in &step.needs {
                // Acquire: what the other thread has done up to there.
                while self.progress[*other].0.load(Acquire) < *needed {
                    spin_loop();
                }
            }
            script.program.execute(step.operation);
            self.progress[number].0.store(done + 1, Release);
        }
    }
}

impl Runner for ByHand {
    fn prepare(&mut self, program: &'static Program) -> Result<(), String> {
        let threads = self.shared.progress.len();
        let mut script = Script { program, threads: (0..threads).map(|_| Vec::new()).collect() };
        // Who changed a variable last, and who has read it since: the thread, and how many
        // operations it has then done.
        let mut writes: Vec<Option<(usize, usize)>> = vec![None; program.variables()];
        let mut reads: Vec<Vec<(usize, usize)>> = vec![Vec::new(); program.variables()];
        for operation in program.sequence() {
            let owned = program.writes(*operation).first().map_or(0, |variable| *variable as usize);
            let thread = owned * threads / program.variables().max(1);
            let mut least = vec![0; threads];
            let mut need = |(other, done): (usize, usize)| least[other] = least[other].max(done);
            for variable in program.reads(*operation) {
                writes[*variable as usize].map(&mut need);
            }
            for variable in program.writes(*operation) {
                writes[*variable as usize].map(&mut need);
                reads[*variable as usize].drain(..).for_each(&mut need);
            }
            let here = (thread, script.threads[thread].len() + 1);
            program.reads(*operation).iter().for_each(|variable| reads[*variable as usize].push(here));
            program.writes(*operation).iter().for_each(|variable| writes[*variable as usize] = Some(here));
            let needs = least.into_iter().enumerate().filter(|(other, done)| *other != thread && *done > 0);
            script.threads[thread].push(Step { operation: *operation, needs: needs.collect() });
        }
        *self.shared.script.write() = Some(Arc::new(script));
        Ok(())
    }

    fn run(&mut self) {
        let shared = &self.shared;
        shared.progress.iter().for_each(|progress| progress.0.store(0, Relaxed));
        self.runs += 1;
        shared.runs.0.store(self.runs, Release);
        let script = shared.script.read().clone().expect("a prepared program");
        shared.perform(&script, 0);
        while shared.ended.0.load(Acquire) < self.runs * self.threads.len() {
            spin_loop();
        }
    }

    fn version(&self) -> String {
        String::from(env!("CARGO_PKG_VERSION"))
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
