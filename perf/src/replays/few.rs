//! Few long operations, on three workers: pushed one by one, as the first replay of a graph, and as
//! a later one. The bodies sleep, so that three of them run at once on any machine.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use seriatim::{Capture, Engine, Error, Graph, Variable};

const WORKERS: usize = 3;

/// What the suite measures: how many operations, and how long each is.
pub const MEASURED: [(usize, Duration); 3] =
    [(6, Duration::from_millis(5)), (3, Duration::from_millis(10)), (64, Duration::from_millis(2))];

/// Operations that sleep, each of which writes a variable of its own.
pub struct Naps {
    engine: Engine,
    variables: Vec<Variable>,
    nap: Duration,
    ran: Arc<AtomicUsize>,
}

impl Naps {
    /// So many operations of this length, on an engine whose three workers are up.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn new(operations: usize, nap: Duration) -> Result<Naps, Error> {
        let engine = Engine::builder().cpu_workers(WORKERS).build()?;
        engine.prepare()?;
        let variables = (0..operations).map(|_| engine.new_variable()).collect();
        Ok(Naps { engine, variables, nap, ran: Arc::default() })
    }

    /// What the operations take if they are pushed one by one.
    ///
    /// # Errors
    /// Those of a push.
    pub fn push(&self) -> Result<Duration, Error> {
        let start = Instant::now();
        for variable in &self.variables {
            let (nap, ran) = (self.nap, Arc::clone(&self.ran));
            self.engine.op("nap").write(*variable).push(move |_| doze(nap, &ran))?;
        }
        self.waited(start)
    }

    /// The same operations as a graph that was never replayed.
    ///
    /// # Errors
    /// Those of a capture.
    pub fn capture(&self) -> Result<Graph, Error> {
        let record = |c: &mut Capture| {
            self.variables.iter().try_for_each(|variable| {
                let (nap, ran) = (self.nap, Arc::clone(&self.ran));
                c.op("nap").write(*variable).push(move |_| doze(nap, &ran))
            })
        };
        self.engine.capture(record).map(|(graph, ())| graph)
    }

    /// What a replay of [`Naps::capture`] takes.
    ///
    /// # Errors
    /// Those of a replay.
    pub fn replay(&self, graph: &Graph) -> Result<Duration, Error> {
        let start = Instant::now();
        graph.replay()?;
        self.waited(start)
    }

    fn waited(&self, start: Instant) -> Result<Duration, Error> {
        self.engine.wait_for_all()?;
        let elapsed = start.elapsed();
        let ran = self.ran.swap(0, Relaxed);
        assert_eq!(ran, self.variables.len(), "operations were lost or ran twice");
        Ok(elapsed)
    }
}

fn doze(nap: Duration, ran: &AtomicUsize) {
    sleep(nap);
    ran.fetch_add(1, Relaxed);
}

/// What all operations took.
#[derive(Serialize, Debug)]
pub(super) struct Few {
    operations: usize,
    nap_us: u64,
    /// `pushed`, `first replay` or `later replay`.
    how: &'static str,
    /// Nanoseconds until all are over: the median of the runs, and the longest.
    ns: f64,
    longest_ns: f64,
}

/// Runs them so often in each way, in turns.
pub(super) fn measure(operations: usize, nap: Duration, runs: usize) -> Result<Vec<Few>, String> {
    in_turns(operations, nap, runs).map_err(|error| error.to_string())
}

fn in_turns(operations: usize, nap: Duration, runs: usize) -> Result<Vec<Few>, Error> {
    let naps = Naps::new(operations, nap)?;
    let later = naps.capture()?;
    naps.replay(&later)?;
    let mut took = [const { Vec::new() }; 3];
    for _ in 0..runs {
        took[0].push(naps.push()?);
        took[1].push(naps.replay(&naps.capture()?)?);
        took[2].push(naps.replay(&later)?);
    }
    let told = ["pushed", "first replay", "later replay"].into_iter().zip(took);
    let few = told.map(|(how, mut took)| {
        took.sort_unstable();
        let [ns, longest_ns] = [took[took.len() / 2], took[took.len() - 1]].map(|took| took.as_nanos() as f64);
        Few { operations, nap_us: nap.as_micros() as u64, how, ns, longest_ns }
    });
    Ok(few.collect())
}
