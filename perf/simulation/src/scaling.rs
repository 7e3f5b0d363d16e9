//! What becomes of the engine on 2 to 64 cores: one pusher and many workers, many pushers.

use crate::budget::steps;
use crate::page::{row, table};
use crate::runs::{pushers, workload, How, Load, ENGINES};
use crate::words::Sources;
use seriatim_sim::lines::Parameters;
use std::fmt::Write;

/// One pusher, and workers that run bodies of so many nanoseconds. Says what moves on 16 cores, if
/// that is among them.
pub fn workers(
    name: &str,
    body: u64,
    cores: &[usize],
    each: usize,
    machine: &Parameters,
    sources: &mut Sources,
) -> String {
    let mut page = table(
        &[
            "cores",
            "workers",
            "busy",
            "ns an operation",
            "ns a push",
            "workers that such pushes feed",
            "lines an operation",
        ],
        0,
    );
    let mut close = String::new();
    for cores in cores.iter().copied() {
        let count = cores - 1;
        let outcome = workload(name, each * count.max(4), How::Shipped, count, body, machine);
        let push = outcome.pushing as f64 / outcome.operations as f64;
        let cells = [
            cores.to_string(),
            count.to_string(),
            format!("{:.0} %", 100.0 * outcome.busy),
            format!("{:.0}", outcome.each()),
            format!("{push:.0}"),
            format!("{:.1}", body as f64 / push),
            format!("{:.1}", outcome.lines()),
        ];
        row(&mut page, &cells.each_ref().map(String::as_str));
        if cores == 16 && body == 2000 {
            let _ = write!(close, "\nOn 16 cores, an operation:\n\n{}", steps(&outcome, sources, 12));
        }
    }
    page + &close
}

/// Many pushers of empty operations: how many times as many operations as one. Says what moves
/// where there are most.
pub fn many_pushers(load: Load, counts: &[usize], each: usize, machine: &Parameters, sources: &mut Sources) -> String {
    let mut page = table(
        &[
            "pushers",
            "shipped, a worker each: pushed",
            "done",
            "lines",
            "inline below 300 ns: done",
            "lines",
            "naive: done",
            "lines",
        ],
        0,
    );
    let mut ones = [0.0; 4];
    let mut close = String::new();
    for count in counts.iter().copied() {
        let mut cells = vec![count.to_string()];
        let mut at = 0;
        let mut times = |rate: f64| {
            if count == 1 {
                ones[at] = rate;
            }
            at += 1;
            format!("{:.1} × ({:.1} M/s)", rate / ones[at - 1], rate)
        };
        for (how, _) in ENGINES {
            // One worker for each pusher; where pushers run everything themselves, one that has
            // nothing to do.
            let helpers = if how == How::Shipped { count } else { 1 };
            let outcome = pushers(count, each, load, how, helpers, machine);
            if how == How::Shipped && Some(&count) == counts.last() {
                let _ = write!(close, "\n{count} pushers, shipped, an operation:\n\n{}", steps(&outcome, sources, 8));
            }
            let rate = |time: u64| outcome.operations as f64 * 1e3 / time as f64;
            if how == How::Shipped {
                cells.push(times(rate(outcome.pushing)));
            }
            cells.push(times(rate(outcome.elapsed)));
            cells.push(format!("{:.1}", outcome.lines()));
        }
        row(&mut page, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    page + &close
}
