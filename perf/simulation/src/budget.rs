//! The hop budget: for each workload and engine, the lines that move an operation, and what moves
//! them.

use crate::page::{row, table};
use crate::runs::{workload, How, Outcome, ENGINES};
use crate::words::{Sources, Step};
use crate::workloads::NAMES;
use seriatim_sim::lines::Parameters;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Trips below this number an operation are left out of the tables.
const LITTLE: f64 = 0.05;

/// What one step costs an operation: trips, and nanoseconds that anybody, and that the pusher,
/// waits for them.
#[derive(Clone, Copy, Default)]
pub struct Share {
    /// Lines that came from another core.
    pub moved: f64,
    /// Copies that only had to be made the only one.
    pub upgraded: f64,
    /// Nanoseconds that cores waited.
    pub waited: f64,
    /// Those of the pusher among them.
    pub pusher: f64,
}

/// What an outcome's lines were moved for.
pub fn shares(outcome: &Outcome, sources: &mut Sources) -> BTreeMap<Step, Share> {
    let mut shares = BTreeMap::<Step, Share>::new();
    let each = |count: u64| count as f64 / outcome.operations as f64;
    for cause in &outcome.causes {
        let share = shares.entry(sources.step(cause)).or_default();
        share.moved += each(cause.moved);
        share.upgraded += each(cause.upgraded);
        share.waited += each(cause.waited);
        share.pusher += each(cause.first_waited);
    }
    shares
}

/// A table of the steps of one run, the dearest first.
pub fn steps(outcome: &Outcome, sources: &mut Sources, most: usize) -> String {
    let mut shares: Vec<_> = shares(outcome, sources).into_iter().collect();
    shares.sort_by(|(_, one), (_, other)| other.waited.total_cmp(&one.waited));
    let mut page = table(
        &["what for", "line", "place", "moved", "made the only copy", "ns waited", "of these by the first thread"],
        3,
    );
    for (step, share) in shares.iter().filter(|(_, share)| share.moved + share.upgraded >= LITTLE).take(most) {
        let numbers = [share.moved, share.upgraded].map(|number| format!("{number:.2}"));
        let times = [share.waited, share.pusher].map(|number| format!("{number:.0}"));
        let [moved, upgraded] = &numbers;
        let [waited, pusher] = &times;
        row(&mut page, &[&step.words, &step.line, &format!("`{}`", step.place), moved, upgraded, waited, pusher]);
    }
    page
}

/// All workloads on all engines.
pub fn tables(operations: usize, machine: &Parameters, sources: &mut Sources) -> String {
    let mut totals =
        table(&["workload", "shipped: lines", "ns", "inline below 300 ns: lines", "ns", "naive: lines", "ns"], 1);
    let mut matrix = BTreeMap::<Step, [f64; NAMES.len()]>::new();
    let mut sums = [0.0; NAMES.len()];
    for (column, name) in NAMES.into_iter().enumerate() {
        // Of the unrelated operations there is but an eighth.
        let count = if name == "unrelated" { 8 * operations } else { operations };
        let mut cells = vec![name.to_owned()];
        for (how, _) in ENGINES {
            let outcome = workload(name, count, how, 1, 0, machine);
            cells.push(format!("{:.1}", outcome.lines()));
            cells.push(format!("{:.0}", outcome.each()));
            if how == How::Shipped {
                sums[column] = outcome.lines();
                for (step, share) in shares(&outcome, sources) {
                    matrix.entry(step).or_default()[column] += share.moved + share.upgraded;
                }
            }
        }
        row(&mut totals, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let mut page = totals;
    let _ = writeln!(page, "\nShipped, by what the lines are moved for (trips an operation; rows below {LITTLE} everywhere are left\nout):\n");
    let mut head = vec!["what for", "line", "place"];
    head.extend(NAMES);
    page += &table(&head, 3);
    let mut rows: Vec<_> =
        matrix.into_iter().filter(|(_, counts)| counts.iter().any(|count| *count >= LITTLE)).collect();
    let sum = |counts: &[f64; NAMES.len()]| counts.iter().sum::<f64>();
    rows.sort_by(|(_, one), (_, other)| sum(other).total_cmp(&sum(one)));
    let number = |count: f64| if count < 0.005 { "·".to_owned() } else { format!("{count:.2}") };
    for (step, counts) in rows {
        let mut cells = vec![step.words, step.line, format!("`{}`", step.place)];
        cells.extend(counts.map(number));
        row(&mut page, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let mut cells = vec!["**all**".to_owned(), String::new(), String::new()];
    cells.extend(sums.map(|sum| format!("**{sum:.1}**")));
    row(&mut page, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    page
}
