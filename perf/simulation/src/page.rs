//! The page: assumptions, a comparison with measurements, the tables, and what is to be learned
//! from them.

use crate::runs::{workload, How, Load};
use crate::words::Sources;
use crate::{budget, scaling};
use seriatim_sim::lines::Parameters;
use std::fmt::Write;

/// How long the page may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// Some two minutes.
    Full,
    /// Some seconds: to see that it works.
    Quick,
}

/// A table's head; the first `texts` columns are text.
pub fn table(head: &[&str], texts: usize) -> String {
    let mut page = String::new();
    row(&mut page, head);
    let kinds: Vec<&str> = (0..head.len()).map(|column| if column < texts { "---" } else { "---:" }).collect();
    let _ = writeln!(page, "|{}|", kinds.join("|"));
    page
}

/// A table's row.
pub fn row(page: &mut String, cells: &[&str]) {
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

/// The two machines that everything is shown on.
fn machines(base: &Parameters) -> [(&'static str, Parameters); 2] {
    [
        ("in order, a trip 100 ns", Parameters { overlap: false, hop: 100, ..base.clone() }),
        ("overlapping, a trip 50 ns", Parameters { overlap: true, hop: 50, ..base.clone() }),
    ]
}

/// Measured medians, nanoseconds an operation: everything shipped to one worker, at hops of 23 to
/// 26 ns (the sitting of commit 312fd3e). And naive, where no line moves.
const MEASURED: [(&str, f64, f64); 7] = [
    ("independent", 29.5, 19.6),
    ("shared-read", 32.8, 23.4),
    ("chain", 26.1, 18.3),
    ("fan", 29.8, 17.4),
    ("random", 38.9, 30.7),
    ("stencil", 44.0, 31.8),
    ("brief", 50.7, 32.1),
];

/// A line's way in that sitting: half a hop.
const TRIP: u64 = 13;

fn beside_measurements(operations: usize, base: &Parameters) -> String {
    let mut page = table(&["workload", "measured", "in order", "overlapping", "naive: measured", "simulated"], 1);
    for (name, shipped, naive) in MEASURED {
        let cell = |each: f64, measured: f64| format!("{each:.0} ({:.1} ×)", each / measured);
        let mut cells = vec![name.to_owned(), format!("{shipped:.0}")];
        for overlap in [false, true] {
            let machine = Parameters { hop: TRIP, overlap, ..base.clone() };
            cells.push(cell(workload(name, operations, How::Shipped, 1, 0, &machine).each(), shipped));
        }
        cells.push(format!("{naive:.0}"));
        cells.push(cell(workload(name, operations, How::Naive, 1, 0, base).each(), naive));
        row(&mut page, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    page
}

/// Writes the page.
pub fn write(length: Length, base: &Parameters) -> String {
    let quick = length == Length::Quick;
    let mut sources = Sources::default();
    let mut page = include_str!("../assumptions.md").to_owned();
    let operations = if quick { 1000 } else { 8000 };
    let [(plain, strict), _] = machines(base);

    let _ = writeln!(page, "\n## Beside measurements\n\n{}", include_str!("../measurements.md"));
    page += &beside_measurements(operations, base);

    let _ = writeln!(page, "\n## The hop budget\n\n{}", include_str!("../budget.md"));
    let _ = writeln!(page, "Machine: {plain}.\n");
    page += &budget::tables(operations, &strict, &mut sources);

    let _ = writeln!(page, "\n## Many workers\n\n{}", include_str!("../workers.md"));
    let (cores, each): (&[usize], usize) = if quick { (&[2, 16], 100) } else { (&[2, 4, 8, 16, 32, 64], 1000) };
    for (machine, parameters) in machines(base) {
        for (name, body) in [("independent", 2000), ("random", 2000), ("independent", 20_000)] {
            let _ = writeln!(page, "\n### {name}, bodies of {} µs; {machine}\n", body / 1000);
            page += &scaling::workers(name, body, cores, each, &parameters, &mut sources);
        }
    }

    let _ = writeln!(page, "\n## Many pushers\n\n{}", include_str!("../pushers.md"));
    let (counts, each): (&[usize], usize) = if quick { (&[1, 8], 300) } else { (&[1, 2, 4, 8, 16, 32], 2000) };
    for (machine, parameters) in machines(base) {
        for (load, name) in [(Load::Own, "variables of their own"), (Load::Common, "variables in common")] {
            let _ = writeln!(page, "\n### {name}; {machine}\n");
            page += &scaling::many_pushers(load, counts, each, &parameters, &mut sources);
        }
    }
    let _ = write!(page, "\n## What does not scale\n\n{}", include_str!("../findings.md"));
    page
}
