//! How fast does an engine with `inline_below` change its mind, and what does it cost while it does
//! not know?
//!
//! One closure whose body takes 50 ns, then 50 µs, then 50 ns again; 64 variables in turn, a worker
//! beside the pusher. For each change: how many bodies still ran where they no longer should, and
//! the time from the change until the last of them. After each phase everything is waited for, so
//! that no phase pays for the backlog of the one before. Then the time of an operation in each
//! phase, beside an engine that ships everything and one that ships nothing.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use seriatim::{Engine, Kind, RunContext, Variable};
use seriatim_perf::arguments::Arguments;
use seriatim_perf::machine::Mode;

const SHORT: Duration = Duration::from_nanos(50);
const LONG: Duration = Duration::from_micros(50);
const BELOW: Duration = Duration::from_nanos(300);
const VARIABLES: usize = 64;
/// How many rounds of a loop take a microsecond.
static ROUNDS_A_MICROSECOND: AtomicU64 = AtomicU64::new(0);
/// What the body takes now, in such rounds.
static ROUNDS: AtomicU64 = AtomicU64::new(0);
/// Bodies that ran on the pusher in this phase, bodies that ran on a worker, and when each was last
/// seen, in nanoseconds of the phase.
static INLINE: AtomicU32 = AtomicU32::new(0);
static SHIPPED: AtomicU32 = AtomicU32::new(0);
static LAST_INLINE: AtomicU64 = AtomicU64::new(0);

fn spin(rounds: u64) {
    (0..rounds).for_each(|round| {
        black_box(round);
    });
}

fn calibrate() {
    const ROUNDS: u64 = 1_000_000;
    let fastest = (0..9).map(|_| {
        let start = Instant::now();
        spin(ROUNDS);
        start.elapsed()
    });
    let fastest = fastest.min().expect("nine of them");
    ROUNDS_A_MICROSECOND.store((ROUNDS as f64 / fastest.as_secs_f64() / 1e6) as u64, Relaxed);
}

/// What was seen of one phase.
struct Phase {
    inline: u32,
    shipped: u32,
    /// When the last body on the pusher began.
    last_inline: Duration,
    elapsed: Duration,
}

fn phase(engine: &Engine, variables: &[Variable], body: Duration, operations: usize) -> Phase {
    ROUNDS.store((body.as_nanos() as u64 * ROUNDS_A_MICROSECOND.load(Relaxed)) / 1000, Relaxed);
    INLINE.store(0, Relaxed);
    SHIPPED.store(0, Relaxed);
    LAST_INLINE.store(0, Relaxed);
    let start = Instant::now();
    // A clock is read by the long bodies only: it takes as long as a short one.
    let timed = body > BELOW;
    for operation in 0..operations {
        let work = move |run: &RunContext<'_>| {
            if run.worker().is_some() {
                SHIPPED.store(SHIPPED.load(Relaxed) + 1, Relaxed);
            } else {
                INLINE.store(INLINE.load(Relaxed) + 1, Relaxed);
                if timed {
                    LAST_INLINE.store(start.elapsed().as_nanos() as u64, Relaxed);
                }
            }
            spin(ROUNDS.load(Relaxed));
        };
        engine.op("").writes([variables[operation % VARIABLES]]).push(work).expect("the engine runs");
    }
    let elapsed_pushing = start.elapsed();
    engine.wait_for_all().expect("no failure");
    let elapsed = start.elapsed();
    let (inline, shipped) = (INLINE.load(Relaxed), SHIPPED.load(Relaxed));
    assert_eq!((inline + shipped) as usize, operations, "one worker and one pusher count without a race");
    let last_inline = Duration::from_nanos(LAST_INLINE.load(Relaxed)).min(elapsed_pushing);
    Phase { inline, shipped, last_inline, elapsed }
}

fn median<T: Copy + PartialOrd>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    values[values.len() / 2]
}

fn main() {
    // A phase of a smoke run may be over before the worker has had its core, if others use it as
    // well: that tries again, each time for twice as long. What is measured is not chosen.
    let (short, long, repetitions, attempts) = match Arguments::mode("placement") {
        Mode::List => return,
        Mode::Test => (2_000, 50, 1, 10),
        Mode::Quick => (20_000, 200, 3, 1),
        Mode::Full => (100_000, 1_000, 9, 1),
    };
    calibrate();
    // Waiters do not help, so that what runs on the pushing thread ran inside a push.
    let with = |kind, below| {
        let builder = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).inline_below(below);
        builder.build().expect("an engine")
    };
    let engines = [
        ("inline_below 300 ns", with(Kind::PerDevice, BELOW)),
        ("everything shipped", with(Kind::PerDevice, Duration::ZERO)),
        ("nothing shipped (naive)", with(Kind::Naive, Duration::ZERO)),
    ];
    let mut times = vec![[const { Vec::new() }; 3]; engines.len()];
    let (mut after, mut late, mut learning) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repetitions {
        for (times, (_, engine)) in times.iter_mut().zip(&engines) {
            let variables: Vec<Variable> = (0..VARIABLES).map(|_| engine.new_variable()).collect();
            let adapts = engine.kind() == Kind::PerDevice && !engine.settings().inline_below.is_zero();
            let measure = |times: usize| {
                let phases = [(SHORT, short * times), (LONG, long * times), (SHORT, short * times)];
                phases.map(|(body, operations)| (phase(engine, &variables, body, operations), operations))
            };
            let mut attempts = (0..attempts).map(|attempt| measure(1 << attempt));
            let changes = |phases: &[(Phase, usize); 3]| phases[1].0.shipped > 0 && phases[2].0.inline > 0;
            let phases = attempts.find(|phases| !adapts || changes(phases)).expect("it changes its mind");
            for (times, (phase, operations)) in times.iter_mut().zip(&phases) {
                times.push(phase.elapsed.as_secs_f64() * 1e9 / *operations as f64);
            }
            if adapts {
                late.push(phases[1].0.inline);
                after.push(phases[1].0.last_inline.as_secs_f64() * 1e6);
                learning.push((phases[2].0.shipped, phases[2].1));
            }
        }
    }
    println!(
        "From 50 ns to 50 µs: {} bodies ran inside their pushes, the last began after {:.0} µs.",
        median(late),
        median(after)
    );
    let (shipped, of) = median(learning);
    println!("From 50 µs to 50 ns: {shipped} of {of} bodies were shipped.\n");
    println!("Nanoseconds an operation, the wait included, medians of {repetitions}:\n");
    println!("| engine | 50 ns | 50 µs | 50 ns again |\n|---|---:|---:|---:|");
    for ((name, _), times) in engines.iter().zip(times) {
        let [first, second, third] = times.map(median);
        println!("| {name} | {first:.0} | {second:.0} | {third:.0} |");
    }
}
