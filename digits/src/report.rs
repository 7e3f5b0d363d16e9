//! The figures, in words.

use std::fmt::Write;

use seriatim::{Engine, Kind};

use crate::args::Args;
use digits::check::{Verdict, REFERENCE_RIGHT};
use digits::data::{FIT_ROWS, TEST_ROWS};
use digits::job::{Job, Timing};

/// The timings of the interleaved runs, and what they were made with.
#[derive(Debug)]
pub struct Report {
    kind: Kind,
    /// How many threads could run operations: the workers, or the caller alone with the naive
    /// engine.
    threads: usize,
    tile: usize,
    operations: usize,
    tiles: usize,
    pub serial: Vec<Timing>,
    pub parallel: Vec<Timing>,
    pub empty: Vec<Timing>,
    pub warnings: Vec<String>,
}

impl Report {
    pub fn new(args: &Args, engine: &Engine, job: &Job) -> Report {
        let kind = engine.kind();
        Report {
            kind,
            threads: if kind == Kind::Naive { 1 } else { args.workers },
            tile: args.tile,
            operations: job.plan.tasks.len(),
            tiles: job.plan.slots(),
            serial: Vec::new(),
            parallel: Vec::new(),
            empty: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// All of it as text; `profile` is the table of the profiled run.
    pub fn render(&self, verdict: &Verdict, profile: &str) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, verdict, profile);
        text
    }

    fn write(&self, text: &mut String, verdict: &Verdict, profile: &str) -> std::fmt::Result {
        writeln!(text, "{FIT_ROWS} images to fit, {TEST_ROWS} to test; {}", self.setting())?;
        for warning in &self.warnings {
            writeln!(text, "  note: {warning}")?;
        }
        writeln!(text)?;
        row(
            text,
            "right",
            &format!("{} of {TEST_ROWS}", verdict.right),
            &format!("test images; the reference has {REFERENCE_RIGHT}"),
        )?;
        let residual = format!("{:.1e}", verdict.residual);
        row(text, "residual", &residual, "‖A − L Lᵀ‖ / ‖A‖, Frobenius norms")?;
        let differing = format!("{} of {}", verdict.differing, self.tiles);
        row(text, "tiles differing", &differing, "from those of the plain calls, in any bit")?;
        row(text, "operations", &self.operations.to_string(), "in one run")?;
        writeln!(text)?;
        self.write_times(text)?;
        writeln!(text)?;
        writeln!(text, "Each kind of operation, in one more run, profiled:\n")?;
        writeln!(text, "{}", profile.trim_end())
    }

    fn setting(&self) -> String {
        let threads = match (self.kind, self.threads) {
            (Kind::Naive, _) => "the caller runs everything".to_owned(),
            (_, 1) => "1 worker".to_owned(),
            (_, workers) => format!("{workers} workers"),
        };
        format!("{} engine, {threads}, tiles of {}", self.kind, self.tile)
    }

    fn write_times(&self, text: &mut String) -> std::fmt::Result {
        let threads = self.threads as f64;
        let outside = |run: &Timing| 100.0 * (1.0 - kernels(run) / (seconds(run) * threads));
        let each = |run: &Timing| 1e9 * seconds(run) / self.operations as f64;
        let pairs = || self.serial.iter().zip(&self.parallel);
        let speed_up = pairs().map(|(serial, run)| seconds(serial) / seconds(run));
        let change = pairs().map(|(serial, run)| 100.0 * (kernels(run) / kernels(serial) - 1.0));
        let alone = self.empty.iter().zip(&self.parallel);
        let alone = alone.map(|(empty, run)| 100.0 * seconds(empty) / seconds(run));

        let runs = match self.serial.len() {
            1 => "One run of each, after a warm-up".to_owned(),
            runs => format!("Medians of {runs} interleaved runs of each, after a warm-up; in brackets the extremes"),
        };
        writeln!(text, "{runs}:\n")?;
        let rows = [
            ("plain calls", walls(&self.serial), "one thread, the same kernels in the same order"),
            ("with the engine", walls(&self.parallel), "from the first push to the end of the wait"),
            ("speed-up", Spread::of(speed_up).show(2, " ×"), "of each run over the plain run just before it"),
            (
                "kernel time",
                Spread::of(change).show(1, " %"),
                "more than in plain calls (or less): shared caches and cores",
            ),
        ];
        for (name, figure, meaning) in rows {
            row(text, name, &figure, meaning)?;
        }
        writeln!(text, "\nOverhead, seen in two ways:\n")?;
        let outside = Spread::of(self.parallel.iter().map(outside)).show(1, " %");
        row(text, "not in kernels", &outside, &format!("of {} × the time with the engine: waiting for", self.threads))?;
        row(text, "", "", "tiles to be ready, the engine's work, cores taken by others")?;
        row(
            text,
            "engine alone",
            &Spread::of(alone).show(1, " %"),
            "of the time with the engine: the same operations",
        )?;
        row(text, "", "", "with empty bodies; under real kernels much of it overlaps")?;
        let each = Spread::of(self.empty.iter().map(each)).show(0, " ns");
        row(text, "an operation", &each, "engine alone, from the first push to the end of the wait")
    }
}

fn seconds(run: &Timing) -> f64 {
    run.wall.as_secs_f64()
}

fn kernels(run: &Timing) -> f64 {
    run.kernels.as_secs_f64()
}

fn row(text: &mut String, name: &str, figure: &str, meaning: &str) -> std::fmt::Result {
    writeln!(text, "{}", format!("  {name:<18}{figure:<32}{meaning}").trim_end())
}

fn walls(runs: &[Timing]) -> String {
    Spread::of(runs.iter().map(|run| 1e3 * seconds(run))).show(1, " ms")
}

/// A median with the least and the most around it.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Spread { least: values[0], median, most: values[values.len() - 1] }
    }

    fn show(&self, digits: usize, unit: &str) -> String {
        let Spread { least, median, most } = self;
        format!("{median:.digits$}{unit} [{least:.digits$} to {most:.digits$}]")
    }
}
