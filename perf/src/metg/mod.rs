//! Minimum effective task granularity: how long tasks must be for a runtime to use half of the
//! machine.
//!
//! After E. Slaughter et al., *Task Bench: A Parameterized Benchmark for Evaluating Parallel
//! Runtime Performance*, SC'20, written anew and natively: the same graphs, kernels, checks and
//! metric. Efficiency is the work done a second over what all cores do when they run nothing but
//! the kernel; granularity is the time of all cores over the number of tasks, overhead included;
//! METG(50 %) is the granularity at which the efficiency is a half, by linear interpolation between
//! the neighbouring points of a sweep over powers of two. All cores count, the pushing thread's
//! too.

pub mod kernel;
pub mod pattern;
mod tasks;

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::entrants::{measure, Entrant, Runner};
use crate::machine::{cores, processor_time};
use crate::record::{self, Who};
use kernel::Kernel;
use pattern::{Graph, Pattern};
pub use tasks::Granular;

/// One point of a sweep.
#[derive(Serialize, Clone, Copy, Debug)]
pub struct Point {
    /// Iterations of the kernel in a task.
    pub iterations: u32,
    /// Time of all cores over the number of tasks, in nanoseconds.
    pub granularity_ns: f64,
    /// The share of the machine's peak that was reached.
    pub efficiency: f64,
    /// From the first push to the end of the wait, in nanoseconds.
    pub elapsed_ns: f64,
    /// Processor time of the whole process meanwhile, in nanoseconds.
    pub cpu_ns: f64,
}

/// A sweep and what follows from it.
#[derive(Serialize, Debug)]
pub struct Sweep {
    /// The graph's pattern.
    pub pattern: &'static str,
    /// What its tasks compute.
    pub kernel: &'static str,
    /// Its points in a row.
    pub width: i64,
    /// Its rows: fewer where a run would take too long.
    pub steps: i64,
    /// The cores that the efficiency is about: those that the entrant occupies, the pushing
    /// thread's too.
    pub cores: usize,
    /// What one core does in a second when all run nothing but the kernel.
    pub peak: f64,
    /// The points, by iterations.
    pub curve: Vec<Point>,
    /// METG(50 %), in nanoseconds; none if the sweep ended before half of the peak was reached.
    pub metg_ns: Option<f64>,
    /// The granularity of tasks that compute next to nothing.
    pub floor_ns: f64,
}

/// What to sweep.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The kernel.
    pub kernel: Kernel,
    /// Points in a row.
    pub width: i64,
    /// Rows, if that does not take too long.
    pub steps: i64,
}

/// A graph whose emptiest run takes longer than this gets a quarter of its rows, until it takes
/// less.
const LONGEST_FLOOR: Duration = Duration::from_millis(200);
const FEWEST_STEPS: i64 = 30;
/// The sweep ends above this efficiency, or when a run takes longer than that and than several of
/// the emptiest.
const EFFICIENT: f64 = 0.8;
const LONGEST_RUN: Duration = Duration::from_millis(400);
const LONGEST_IN_FLOORS: f64 = 10.0;
/// How long the first graph is run before anything is measured: a process that has just begun gets
/// its second core only now and then, whatever runs in it.
const WARM_UP: Duration = Duration::from_millis(200);
/// What its tasks then do: about two microseconds.
const WARM_UP_ITERATIONS: u32 = 1024;
/// How long the peak is measured, before and after.
const PEAK_TIME: Duration = Duration::from_millis(20);

/// Sweeps the given patterns, and prints a record of each.
///
/// # Errors
/// If the entrant cannot be started, or a task read something wrong.
pub fn run(entrant: &Entrant, patterns: &[Pattern], plan: Plan) -> Result<(), String> {
    let cores = entrant.occupies(cores());
    // Before the engine starts and after it has ended: its threads may spin, or pin the thread that
    // starts them.
    let before = plan.kernel.peak(cores, PEAK_TIME);
    let mut runner = entrant.start()?;
    let who = Who::new(entrant, runner.version());
    let mut sweeps = Vec::new();
    for pattern in patterns {
        let graph = Graph { pattern: *pattern, width: plan.width, steps: plan.steps };
        match prepare(&mut *runner, graph, plan.kernel)? {
            Ok((graph, granular)) => {
                if sweeps.is_empty() {
                    granular.set_iterations(WARM_UP_ITERATIONS);
                    let start = Instant::now();
                    while start.elapsed() < WARM_UP {
                        measure(&mut *runner, granular.program)?;
                    }
                }
                let work_a_second = before * cores as f64;
                sweeps.push((graph, sweep(&mut *runner, cores, work_a_second, plan.kernel, &granular)?));
            }
            Err(why) => eprintln!("{}: {} left out: {why}", entrant.name, pattern.name()),
        }
    }
    drop(runner);
    // The higher of the two: a moment of disturbance must not make anybody look better. (A thread
    // that stays pinned only makes the second the lower.)
    let peak = before.max(plan.kernel.peak(cores, PEAK_TIME));
    for (Graph { pattern, width, steps }, raw) in sweeps {
        let efficiency = |rate: f64| if peak > 0.0 { rate / peak / cores as f64 } else { 0.0 };
        let curve: Vec<Point> =
            raw.iter().map(|(point, rate)| Point { efficiency: efficiency(*rate), ..*point }).collect();
        let (pattern, kernel, metg_ns, floor_ns) =
            (pattern.name(), plan.kernel.name(), metg(&curve), curve[0].granularity_ns);
        record::print("metg", &who, Sweep { pattern, kernel, width, steps, cores, peak, curve, metg_ns, floor_ns });
    }
    Ok(())
}

/// Lays out the graph, with fewer rows if that is needed; says why if the runner cannot take it.
fn prepare(
    runner: &mut dyn Runner,
    mut graph: Graph,
    kernel: Kernel,
) -> Result<Result<(Graph, Granular), String>, String> {
    loop {
        let prepared =
            Granular::new(graph, kernel).and_then(|granular| runner.prepare(granular.program).map(|()| granular));
        let granular = match prepared {
            Ok(granular) => granular,
            Err(why) => return Ok(Err(why)),
        };
        granular.set_iterations(1);
        let floor = measure(runner, granular.program)?;
        if floor <= LONGEST_FLOOR || graph.steps / 4 < FEWEST_STEPS {
            return Ok(Ok((graph, granular)));
        }
        graph.steps /= 4;
    }
}

/// The points, still without their efficiency, and how much work each did in a second.
fn sweep(
    runner: &mut dyn Runner,
    cores: usize,
    peak: f64,
    kernel: Kernel,
    granular: &Granular,
) -> Result<Vec<(Point, f64)>, String> {
    let mut raw: Vec<(Point, f64)> = Vec::new();
    for power in 0..22 {
        // The first points differ little, so every second of them will do.
        if power < 4 && power % 2 == 1 {
            continue;
        }
        let point = point(runner, granular, 1 << power, cores)?;
        let rate = granular.work() as f64 / (point.elapsed_ns / 1e9);
        raw.push((point, rate));
        let longest = (LONGEST_RUN.as_nanos() as f64).max(LONGEST_IN_FLOORS * raw[0].0.elapsed_ns);
        if kernel == Kernel::Empty || rate > EFFICIENT * peak || point.elapsed_ns > longest {
            break;
        }
    }
    Ok(raw)
}

fn point(runner: &mut dyn Runner, granular: &Granular, iterations: u32, cores: usize) -> Result<Point, String> {
    granular.set_iterations(iterations);
    let before = processor_time();
    let elapsed_ns = measure(runner, granular.program)?.as_nanos() as f64;
    let cpu_ns = (processor_time() - before).as_nanos() as f64;
    let granularity_ns = elapsed_ns * cores as f64 / granular.program.sequence().len() as f64;
    Ok(Point { iterations, granularity_ns, efficiency: 0.0, elapsed_ns, cpu_ns })
}

/// Where the efficiency passes a half for the last time, by linear interpolation.
fn metg(curve: &[Point]) -> Option<f64> {
    let passes = |pair: &&[Point]| pair[0].efficiency < 0.5 && pair[1].efficiency >= 0.5;
    let pair = curve.windows(2).rfind(passes)?;
    let share = (0.5 - pair[0].efficiency) / (pair[1].efficiency - pair[0].efficiency);
    Some(pair[0].granularity_ns + share * (pair[1].granularity_ns - pair[0].granularity_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metg_is_interpolated_where_the_curve_passes_a_half() {
        let point = |granularity_ns, efficiency| Point {
            iterations: 1,
            granularity_ns,
            efficiency,
            elapsed_ns: 0.0,
            cpu_ns: 0.0,
        };
        assert_eq!(metg(&[point(100.0, 0.1), point(200.0, 0.4), point(400.0, 0.6)]), Some(300.0));
        assert_eq!(metg(&[point(100.0, 0.1), point(200.0, 0.4)]), None);
        // A curve that begins above a half says nothing about where it passed it.
        assert_eq!(metg(&[point(100.0, 0.7), point(200.0, 0.9)]), None);
    }
}
