//! What the driver writes: one JSON object a line from each measuring process, and all of them in
//! one file.

use std::io::Write;

use serde::Serialize;

use crate::entrants::{Entrant, Style};

/// Who was measured.
#[derive(Clone, Serialize, Debug)]
pub struct Who {
    /// The entrant's name.
    pub entrant: String,
    /// Whose it is.
    pub system: &'static str,
    /// How operations reached it.
    pub style: Style,
    /// The number in its name.
    pub workers: usize,
    /// Threads in all, the pushing one among them.
    pub threads: usize,
    /// The version that ran.
    pub version: String,
}

impl Who {
    /// The entrant, whose runner gave this version.
    pub fn new(entrant: &Entrant, version: String) -> Who {
        Who {
            entrant: entrant.name.clone(),
            system: entrant.system,
            style: entrant.style,
            workers: entrant.workers,
            threads: entrant.threads,
            version,
        }
    }
}

/// One measurement.
#[derive(Serialize, Debug)]
pub struct Record<M> {
    /// Which of the structures of measurements it is.
    pub kind: &'static str,
    /// Who was measured.
    #[serde(flatten)]
    pub who: Who,
    /// What came out.
    #[serde(flatten)]
    pub measured: M,
}

/// Writes a line to standard output. If nobody reads that any more, the process ends.
pub fn say(line: &str) {
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(1);
    }
}

/// Writes a record to standard output, as one line.
pub fn print<M: Serialize>(kind: &'static str, who: &Who, measured: M) {
    let record = Record { kind, who: who.clone(), measured };
    say(&serde_json::to_string(&record).expect("a record of numbers and names"));
}

/// Percentiles of a distribution, in nanoseconds.
#[derive(Serialize, Debug)]
pub struct Percentiles {
    /// How many values there were.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Pairs of a percentile, 0 to 100, and the value at it.
    pub points: Vec<(f64, u64)>,
}

/// Enough of them for a plot over the logarithm of the rarity.
const PERCENTILES: [f64; 16] =
    [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9, 99.95, 99.99, 99.999, 100.0];

impl From<&hdrhistogram::Histogram<u64>> for Percentiles {
    fn from(histogram: &hdrhistogram::Histogram<u64>) -> Percentiles {
        let points = PERCENTILES.into_iter().map(|rank| (rank, histogram.value_at_percentile(rank))).collect();
        Percentiles { count: histogram.len(), mean: histogram.mean(), points }
    }
}
