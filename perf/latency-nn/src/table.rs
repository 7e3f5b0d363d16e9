//! What was measured, as tables in Markdown.

use crate::driver::Threads;
use std::fmt::Write;

/// Percentiles of a row; the last is none if there are too few calls for it.
pub struct Percentiles {
    pub p50: f64,
    p99: f64,
    p999: Option<f64>,
    calls: usize,
}

impl Percentiles {
    /// Of nanoseconds, in microseconds.
    pub fn of(times: &mut [u32]) -> Option<Percentiles> {
        times.sort_unstable();
        let at = |part: f64| f64::from(times[((times.len() - 1) as f64 * part) as usize]) / 1e3;
        (!times.is_empty()).then(|| Percentiles {
            p50: at(0.5),
            p99: at(0.99),
            p999: (times.len() >= 1000).then(|| at(0.999)),
            calls: times.len(),
        })
    }
}

/// An entrant in one table.
pub struct Row {
    pub name: String,
    pub is_ours: bool,
    /// One thread, and the library's default.
    pub columns: [Option<Percentiles>; 2],
}

/// Three figures that count.
fn figure(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

pub fn column(threads: Threads) -> usize {
    usize::from(threads == Threads::Default)
}

/// The rows, the quickest first; in a column's last place how many times longer an entrant takes
/// than the best of ours.
pub fn print(title: &str, rows: &mut [Row]) -> String {
    let median = |row: &Row| row.columns.iter().flatten().map(|one| one.p50).fold(f64::INFINITY, f64::min);
    rows.sort_by(|one, other| median(one).total_cmp(&median(other)));
    let best = [0, 1].map(|column| {
        let ours = rows.iter().filter(|row| row.is_ours).filter_map(|row| row.columns[column].as_ref());
        ours.map(|one| one.p50).fold(f64::INFINITY, f64::min)
    });
    let mut text = format!("\n### {title}\n\n");
    text += "| µs | one thread: p50 | p99 | p99.9 | to ours | default: p50 | p99 | p99.9 | to ours | calls |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for row in rows.iter() {
        let mut calls = Vec::new();
        let _ = write!(text, "| {} |", row.name);
        for (one, best) in row.columns.iter().zip(best) {
            match one {
                Some(one) => {
                    let rare = one.p999.map_or("–".to_owned(), figure);
                    let ratio = if best.is_finite() { format!("{:.2}", one.p50 / best) } else { "–".to_owned() };
                    let _ = write!(text, " {} | {} | {rare} | {ratio} |", figure(one.p50), figure(one.p99));
                    calls.push(one.calls.to_string());
                }
                None => text += " – | – | – | – |",
            }
        }
        let _ = writeln!(text, " {} |", calls.join(", "));
    }
    text
}

/// A line for each problem: our best beside the best of others, the greatest loss first.
pub fn summary(tables: &[(String, Vec<Row>)]) -> String {
    let mut lines = Vec::new();
    for (title, rows) in tables {
        let best = |is_wanted: &dyn Fn(&Row) -> bool, column: usize| {
            let all =
                rows.iter().filter(|row| is_wanted(row)).filter_map(|row| Some((row, row.columns[column].as_ref()?)));
            all.min_by(|one, other| one.1.p50.total_cmp(&other.1.p50))
        };
        let text = |found: Option<(&Row, &Percentiles)>, has_name: bool| match found {
            Some((row, one)) => {
                let rare = one.p999.map_or(String::new(), |rare| format!(" ({})", figure(rare)));
                let name = if has_name { format!(" {}", row.name) } else { String::new() };
                format!("{}{rare}{name}", figure(one.p50))
            }
            None => "–".to_owned(),
        };
        let is_plain = |row: &Row| row.name.starts_with("plain");
        let is_rival = |row: &Row| !row.is_ours && !is_plain(row);
        for (column, threads) in ["one thread", "default"].into_iter().enumerate() {
            let (ours, rival) = (best(&|row| row.is_ours, column), best(&is_rival, column));
            let ratio = ours.zip(rival).map(|(ours, rival)| rival.1.p50 / ours.1.p50);
            let Some(ratio) = ratio else { continue };
            let loops = text(best(&is_plain, column), false);
            let line = format!(
                "| {title}, {threads} | {loops} | {} | {} | {ratio:.2} |\n",
                text(ours, false),
                text(rival, true)
            );
            lines.push((ratio, line));
        }
    }
    lines.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut text = "\n| p50 (p99.9), µs | plain loop | ours | best rival | rival / ours |\n".to_owned();
    text += "|---|---:|---:|---:|---:|\n";
    lines.into_iter().for_each(|(_, line)| text += &line);
    text
}
