//! Which entrants each measurement has.

use crate::entrants::{default_workers, Entrant, Style};
use crate::latency::wakes;

/// Threads in all, on two cores, where there are more threads than cores.
const OVERSUBSCRIBED: usize = 8;
/// Threads in all, and cores, of what wants more than two: the pushing thread and three workers.
pub(super) const FOUR: usize = 4;

/// One worker, as many as `Engine::new()` has, and as many as more threads or cores need.
pub(super) fn worker_counts() -> Vec<usize> {
    let mut counts = vec![1, default_workers(), wakes::THREADS - 1, FOUR - 1, OVERSUBSCRIBED - 1];
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Whether it has as many threads as a measurement compares: one, or as many as `Engine::new()` has
/// with the one that pushes; or more than there are cores.
pub(super) fn counts(entrant: &Entrant, measurement: &str) -> bool {
    match measurement {
        "oversubscribed" => entrant.threads == OVERSUBSCRIBED || entrant.system == "serial",
        "wakes" => entrant.threads == wakes::THREADS,
        "replays" => entrant.system == "seriatim" && entrant.style == Style::Graph,
        _ => [1, 1 + default_workers()].contains(&entrant.threads),
    }
}

/// The entrants that are measured on four cores. On them `Engine::new()` has three workers.
pub(super) fn on_four(entrants: &[Entrant]) -> impl Iterator<Item = &Entrant> {
    entrants.iter().filter(|entrant| {
        let rival = matches!(
            (entrant.system, entrant.mode),
            ("libgomp" | "libomp" | "mxnet", _) | ("onetbb" | "taskflow", "dynamic")
        );
        entrant.style == Style::Dynamic
            && match entrant.system {
                "serial" => true,
                "seriatim" => matches!(entrant.mode, "default" | "declared"),
                _ => rival && entrant.threads == FOUR,
            }
    })
}

/// The entrants of the tables, which compare as many threads on either side.
pub(super) fn takes_part(entrant: &Entrant, measurement: &str) -> bool {
    let dynamic = entrant.style == Style::Dynamic;
    let together = entrant.threads == 1 + default_workers();
    let ours = entrant.system == "seriatim";
    let shown = match (entrant.system, entrant.mode) {
        // Threads that never sleep are for single operations.
        ("seriatim", "spinning") => matches!(measurement, "round-trip" | "open-loop"),
        ("seriatim", mode) => {
            matches!(mode, "naive" | "default" | "declared" | "shipped") || mode == "inline" && dynamic
        }
        ("baseline", _) => dynamic,
        // They order nothing, take no single pushes, or are no engine.
        ("rayon" | "tokio" | "shred" | "by-hand", _) => false,
        // Operators, and all of C, are for one table, of throughput.
        ("mxnet", _) => dynamic || measurement == "throughput",
        ("seriatim-c", _) => measurement == "throughput",
        _ => true,
    };
    if !counts(entrant, measurement) {
        return false;
    }
    match measurement {
        "throughput" => shown,
        "lengths" => {
            let serial = entrant.system == "serial";
            dynamic
                && (serial || matches!(entrant.mode, "default" | "declared") || !ours && together)
                && shown
                && !matches!((entrant.system, entrant.mode), ("starpu" | "baseline", _) | (_, "shipped"))
        }
        // StarPU, asked for seven workers on two cores, starts fewer.
        "oversubscribed" => {
            dynamic
                && matches!(
                    (entrant.system, entrant.mode),
                    ("seriatim", "per-device")
                        | ("serial" | "libgomp" | "libomp", _)
                        | ("onetbb" | "taskflow", "dynamic")
                )
        }
        "beside-busy" => {
            dynamic
                && match (entrant.system, entrant.mode) {
                    ("seriatim", "default") | ("serial", _) => true,
                    ("libgomp" | "libomp" | "mxnet", _) | ("onetbb" | "taskflow", "dynamic") => together,
                    _ => false,
                }
        }
        "wakes" => {
            dynamic
                && matches!(
                    (entrant.system, entrant.mode),
                    ("seriatim", "per-device")
                        | ("libgomp" | "libomp" | "mxnet" | "starpu", _)
                        | ("onetbb" | "taskflow", "dynamic")
                )
        }
        // A goal of ours: others have no variables that a graph could claim.
        "replays" => matches!(entrant.mode, "naive" | "default"),
        "metg" => match (entrant.system, entrant.mode) {
            ("by-hand", _) => together,
            ("seriatim", "default") => entrant.style != Style::Operators,
            ("seriatim", "shipped") | ("libomp" | "mxnet", _) => dynamic && together,
            ("taskflow", _) | ("onetbb", "dynamic" | "flow") => together,
            _ => false,
        },
        "round-trip" => shown && dynamic && (together || entrant.mode == "naive"),
        "open-loop" => {
            let ours_or_floor = ours
                && matches!(entrant.mode, "naive" | "default" | "declared" | "shipped" | "spinning")
                || entrant.system == "serial";
            let rival =
                !ours && together && !matches!((entrant.system, entrant.mode), ("onetbb", "shipped") | ("baseline", _));
            shown && dynamic && (ours_or_floor || rival)
        }
        "pushers" => match (entrant.system, entrant.mode) {
            ("seriatim", "naive" | "default" | "shipped") | ("baseline", _) => dynamic,
            ("mxnet", _) => dynamic && together,
            _ => false,
        },
        // A count is the same with any number of threads.
        "counts" => {
            shown && (ours && !matches!(entrant.mode, "inline" | "declared") || together) && entrant.system != "serial"
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::MEASUREMENTS;
    use super::*;
    use crate::entrants::all;

    /// A table compares as many threads on either side, so nobody else is measured.
    #[test]
    fn nobody_has_more_threads_than_ours() {
        let entrants = all(&[1, 2, 3, 7]);
        for measurement in MEASUREMENTS {
            let most = match measurement {
                "oversubscribed" => OVERSUBSCRIBED,
                "four-cores" => FOUR,
                "wakes" => wakes::THREADS,
                _ => 1 + default_workers(),
            };
            let taking_part: Vec<_> = match measurement {
                "four-cores" => on_four(&entrants).collect(),
                _ => entrants.iter().filter(|entrant| takes_part(entrant, measurement)).collect(),
            };
            for entrant in &taking_part {
                // `Engine::new()` has its number of threads from the cores that it is on.
                let threads = [1, most].contains(&entrant.threads) || most == FOUR && entrant.system == "seriatim";
                assert!(threads, "{measurement}: {}", entrant.name);
            }
            // Ours is in each of them (the periodic job has names of its own), and so is somebody
            // else, but for replays.
            let ours = taking_part.iter().filter(|entrant| entrant.system == "seriatim").count();
            let expected = match measurement {
                "jitter" => true,
                "replays" => ours == 2 && taking_part.len() == 2,
                _ => ours > 0 && taking_part.len() > ours,
            };
            assert!(expected, "{measurement}: {ours} of {} are ours", taking_part.len());
        }
    }
}
