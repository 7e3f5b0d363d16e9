//! rayon and tokio. They know no dependencies, so they run only programs that have none within
//! their memory: each operation is spawned from outside, and counts itself off.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::Thread;

use super::Runner;
use crate::program::Program;

/// Counts spawned operations off, and wakes the thread that waits for the last.
struct Countdown {
    left: AtomicUsize,
    waiter: Thread,
}

impl Countdown {
    fn new(count: usize) -> Arc<Countdown> {
        Arc::new(Countdown { left: AtomicUsize::new(count), waiter: std::thread::current() })
    }

    fn one_less(&self) {
        // Release: the waiter sees what the bodies did. Acquire is the waiter's.
        if self.left.fetch_sub(1, Ordering::Release) == 1 {
            self.waiter.unpark();
        }
    }

    fn wait(&self) {
        while self.left.load(Ordering::Acquire) != 0 {
            std::thread::park();
        }
    }
}

/// Refuses programs in which the order of two operations matters.
fn without_dependencies(program: &Program) -> Result<(), String> {
    let mut touched = vec![false; program.variables()];
    for operation in program.sequence() {
        if !program.reads(*operation).is_empty() {
            return Err(String::from("it knows no dependencies"));
        }
        for variable in program.writes(*operation) {
            if std::mem::replace(&mut touched[*variable as usize], true) {
                return Err(String::from("it knows no dependencies"));
            }
        }
    }
    Ok(())
}

/// A rayon pool.
pub struct Rayon {
    pool: rayon::ThreadPool,
    program: Option<&'static Program>,
}

impl Rayon {
    pub fn start(workers: usize) -> Result<Rayon, String> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().map_err(|error| error.to_string())?;
        Ok(Rayon { pool, program: None })
    }
}

impl Runner for Rayon {
    fn prepare(&mut self, program: &'static Program) -> Result<(), String> {
        without_dependencies(program)?;
        self.program = Some(program);
        Ok(())
    }

    fn run(&mut self) {
        let program = self.program.expect("a prepared program");
        let countdown = Countdown::new(program.sequence().len());
        for (place, operation) in program.sequence().iter().copied().enumerate() {
            program.pace(place);
            let countdown = Arc::clone(&countdown);
            self.pool.spawn(move || {
                program.execute(operation);
                countdown.one_less();
            });
        }
        countdown.wait();
    }

    fn version(&self) -> String {
        crate::versions::of("rayon")
    }
}

/// A tokio runtime of several threads.
pub struct Tokio {
    runtime: tokio::runtime::Runtime,
    program: Option<&'static Program>,
}

impl Tokio {
    pub fn start(workers: usize) -> Result<Tokio, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build();
        Ok(Tokio { runtime: runtime.map_err(|error| error.to_string())?, program: None })
    }
}

impl Runner for Tokio {
    fn prepare(&mut self, program: &'static Program) -> Result<(), String> {
        without_dependencies(program)?;
        self.program = Some(program);
        Ok(())
    }

    fn run(&mut self) {
        let program = self.program.expect("a prepared program");
        let countdown = Countdown::new(program.sequence().len());
        for (place, operation) in program.sequence().iter().copied().enumerate() {
            program.pace(place);
            let countdown = Arc::clone(&countdown);
            self.runtime.spawn(async move {
                program.execute(operation);
                countdown.one_less();
            });
        }
        countdown.wait();
    }

    fn version(&self) -> String {
        crate::versions::of("tokio")
    }
}
