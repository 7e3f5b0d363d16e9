//! The statistics of each operation name, from histograms, and their table for people. Used by
//! `profile/mod.rs`, on a copy of the events.

#![forbid(unsafe_code)]

use crate::profile::critical::{length, CriticalPath};
use crate::profile::overlap::Overlap;
use crate::profile::recorder::Event;
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The distribution of one kind of time, in nanoseconds; percentiles to three digits.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// engine.start_profiling();
/// engine.op("work").push(|_| ())?;
/// engine.wait_for_all()?;
/// let running = engine.profile().summaries()[0].running;
/// assert!(running.min <= running.p50 && running.p50 <= running.max);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Times {
    /// The sum.
    pub total: u64,
    /// The least.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
}

/// The statistics of all operations of one name.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// engine.start_profiling();
/// engine.op("work").push(|_| ())?;
/// engine.wait_for_all()?;
/// assert_eq!(engine.profile().summaries()[0].name, "work");
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Summary {
    /// The name.
    pub name: &'static str,
    /// The number of operations.
    pub count: u64,
    /// From the push until no other operation held it up.
    pub waiting: Times,
    /// From then until it started: the time that it waited for a worker.
    pub queueing: Times,
    /// From its start to its end.
    pub running: Times,
    /// By how much each could have taken longer without making the critical path longer
    /// ([`Profile::slack`](crate::Profile::slack)).
    pub slack: Times,
    /// How long those on the [critical path](crate::Profile::critical_path) ran, in nanoseconds.
    pub critical: u64,
    /// On the device, for those that have a [span](Event::device) there; `None` if none has.
    pub on_device: Option<Times>,
}

/// So many of the names on the critical path are shown.
const NAMED: usize = 5;

/// The times of one name.
struct Recorders {
    waiting: Recorder,
    queueing: Recorder,
    running: Recorder,
    slack: Recorder,
    critical: u64,
    on_device: Option<Recorder>,
}

struct Recorder {
    histogram: Histogram<u64>,
    total: u64,
}

impl Recorder {
    fn new() -> Recorder {
        let mut histogram = Histogram::new(3).expect("three significant digits are valid");
        // The histogram grows with the values that it records.
        histogram.auto(true);
        Recorder { histogram, total: 0 }
    }

    fn record(&mut self, nanoseconds: u64) {
        // A growing histogram refuses no value that fits its type.
        let _ = self.histogram.record(nanoseconds);
        self.total = self.total.saturating_add(nanoseconds);
    }

    fn times(&self) -> Times {
        let histogram = &self.histogram;
        Times {
            total: self.total,
            min: histogram.min(),
            max: histogram.max(),
            mean: self.total as f64 / histogram.len().max(1) as f64,
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
        }
    }
}

/// Returns the statistics of each name, those with the most time running first.
pub fn summarise(events: &[Event], path: &CriticalPath, slack: &[u64]) -> Vec<Summary> {
    let new = || {
        let [waiting, queueing, running, slack] = [(); 4].map(|()| Recorder::new());
        Recorders { waiting, queueing, running, slack, critical: 0, on_device: None }
    };
    let mut names: HashMap<&'static str, Recorders> = HashMap::new();
    for (event, slack) in events.iter().zip(slack) {
        let of_name = names.entry(event.name).or_insert_with(new);
        of_name.waiting.record(event.ready.saturating_sub(event.push));
        of_name.queueing.record(event.start.saturating_sub(event.ready));
        of_name.running.record(event.end.saturating_sub(event.start));
        of_name.slack.record(*slack);
        if let Some(span) = event.device() {
            of_name.on_device.get_or_insert_with(Recorder::new).record(span.end - span.start);
        }
    }
    for event in path.operations.iter().filter_map(|at| events.get(*at)) {
        if let Some(of_name) = names.get_mut(event.name) {
            of_name.critical = of_name.critical.saturating_add(length(event));
        }
    }
    let summary = |(name, of_name): (_, Recorders)| Summary {
        name,
        count: of_name.running.histogram.len(),
        waiting: of_name.waiting.times(),
        queueing: of_name.queueing.times(),
        running: of_name.running.times(),
        slack: of_name.slack.times(),
        critical: of_name.critical,
        on_device: of_name.on_device.map(|recorder| recorder.times()),
    };
    let mut summaries: Vec<Summary> = names.into_iter().map(summary).collect();
    summaries.sort_by_key(|summary| (std::cmp::Reverse(summary.running.total), summary.name));
    summaries
}

/// Returns the statistics as a table, in microseconds, the critical path, and the overlap of each
/// device.
pub fn render(summaries: &[Summary], path: &CriticalPath, overlaps: &BTreeMap<u32, Overlap>, lost: u64) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<20} {:<9} {:>8} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   (µs)",
        "operation", "time", "count", "total", "min", "mean", "p50", "p99", "p99.9", "max"
    );
    for summary in summaries {
        let rows = [
            ("running", Some(summary.running)),
            ("on device", summary.on_device),
            ("queueing", Some(summary.queueing)),
            ("waiting", Some(summary.waiting)),
            ("slack", Some(summary.slack)),
        ];
        let rows = rows.into_iter().filter_map(|(label, times)| Some((label, times?)));
        for (index, (label, times)) in rows.enumerate() {
            let name = if index == 0 { summary.name } else { "" };
            let micro = |nanoseconds: u64| nanoseconds as f64 / 1e3;
            let _ = writeln!(
                text,
                "{name:<20} {label:<9} {:>8} {:>12.1} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
                summary.count,
                micro(times.total),
                micro(times.min),
                times.mean / 1e3,
                micro(times.p50),
                micro(times.p99),
                micro(times.p999),
                micro(times.max),
            );
        }
    }
    if !path.operations.is_empty() {
        text.push_str(&shown(path, summaries));
    }
    for (device, overlap) in overlaps {
        let _ = writeln!(text, "gpu({device}) {overlap}");
    }
    if lost > 0 {
        let _ = writeln!(text, "{lost} more operations were not recorded: the recorder was full");
    }
    text
}

/// The critical path for people: a line, with the names that it has most of.
fn shown(path: &CriticalPath, summaries: &[Summary]) -> String {
    let part = |of: u64, all: u64| 100.0 * of as f64 / all.max(1) as f64;
    let mut most: Vec<&Summary> = summaries.iter().filter(|summary| summary.critical > 0).collect();
    most.sort_by_key(|summary| std::cmp::Reverse(summary.critical));
    let names = most.iter().take(NAMED).map(|s| format!("'{}' {:.0} %", s.name, part(s.critical, path.length)));
    format!(
        "critical path: {} operations, {:.1} µs, {:.0} % of the {:.1} µs from the first push to the last end; {:.1} could run at once \
         on average; on it {}\n",
        path.operations.len(),
        path.length as f64 / 1e3,
        part(path.length, path.elapsed),
        path.elapsed as f64 / 1e3,
        path.parallelism(),
        names.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::Recorder;

    #[test]
    fn percentiles_of_what_was_recorded() {
        let mut recorder = Recorder::new();
        (1..=1000).for_each(|n| recorder.record(n * 1000));
        let times = recorder.times();
        assert_eq!((times.min, times.total), (1000, 500_500_000));
        for (seen, expected) in
            [(times.p50, 500_000), (times.p99, 990_000), (times.p999, 999_000), (times.max, 1_000_000)]
        {
            assert!(seen.abs_diff(expected) * 1000 <= expected, "{seen} is not {expected} to three digits");
        }
    }
}
