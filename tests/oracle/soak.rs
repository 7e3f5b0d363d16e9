//! How long the oracle runs, and what it says meanwhile: the part of `scripts/soak.sh` that is
//! inside the process.

use crate::common::by_length;
use crate::Totals;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often a long run says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);
/// A program takes milliseconds. One that takes as many seconds as this hangs, however busy the
/// machine is.
const PATIENCE: u64 = 100;
/// Memory of the second half of a run may exceed that of the first by a quarter and this many
/// bytes, and no more. A process runs some five million operations a minute: in a soak of ten
/// minutes, half a byte lost for each would show.
const GROWTH: usize = 8 << 20;

/// The seeds that a run takes, and for how long.
pub struct Range {
    /// One seed, again and again.
    pub only: Option<u64>,
    pub first: u64,
    pub operations: usize,
    /// Instead of a number of operations.
    pub time: Option<Duration>,
}

impl Range {
    pub fn from_env() -> Range {
        let only = number("SERIATIM_ORACLE_SEED");
        Range {
            only,
            first: only.or_else(|| number("SERIATIM_ORACLE_FIRST_SEED")).unwrap_or(0),
            operations: number("SERIATIM_ORACLE_OPS").unwrap_or_else(|| by_length(200_000, 1_000_000)) as usize,
            time: number("SERIATIM_ORACLE_SECONDS").map(Duration::from_secs),
        }
    }

    /// The seeds of a run that goes as far as `progress` says, which learns of each.
    pub fn seeds<'a>(&'a self, progress: &'a Progress) -> impl Iterator<Item = u64> + 'a {
        let step = u64::from(self.only.is_none());
        (0..).map(move |number| self.first + number * step).take_while(move |seed| {
            let mut state = progress.0.lock().unwrap();
            let goes_on = match self.time {
                Some(time) => state.begin.elapsed() < time,
                None => state.totals.operations < self.operations,
            };
            if goes_on {
                state.seed = *seed;
            }
            goes_on
        })
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is '{text}', not a number")))
}

/// How far a run is: written by the test, read by the thread that watches it.
#[derive(Clone)]
pub struct Progress(Arc<Mutex<State>>);

struct State {
    first: u64,
    seed: u64,
    totals: Totals,
    begin: Instant,
    /// The most memory seen in the first half of the time, and in the second.
    most: [usize; 2],
    is_over: bool,
}

impl Progress {
    /// Starts the thread that ends the process if a program hangs, and says which; and that says
    /// how far a timed run is.
    pub fn watched(range: &Range) -> Progress {
        let (totals, begin) = (Totals::default(), Instant::now());
        let state = State { first: range.first, seed: 0, totals, begin, most: [0; 2], is_over: false };
        let progress = Progress(Arc::new(Mutex::new(state)));
        let (own, timed) = (progress.clone(), range.time.is_some());
        let patience = Duration::from_secs(number("SERIATIM_ORACLE_PATIENCE").unwrap_or(PATIENCE));
        std::thread::spawn(move || {
            let (mut before, mut since) = ((0, usize::MAX), Instant::now());
            loop {
                std::thread::sleep(PROGRESS);
                let (now, line) = {
                    let state = own.0.lock().unwrap();
                    if state.is_over {
                        return; // Other tests of the binary may go on for long.
                    }
                    ((state.seed, state.totals.programs), state.line())
                };
                if now != before {
                    (before, since) = (now, Instant::now());
                }
                if since.elapsed() > patience {
                    eprintln!("the program of seed {} hangs", now.0);
                    std::process::abort();
                }
                if timed {
                    eprintln!("{line}");
                }
            }
        });
        progress
    }

    /// Adds what one more program did.
    pub fn add(&self, range: &Range, totals: &Totals) {
        let mut state = self.0.lock().unwrap();
        state.totals = totals.clone();
        let Some(time) = range.time else { return };
        // A look at every eighth program: it costs a system call.
        if totals.programs % 8 == 0 {
            let half = usize::from(state.begin.elapsed() > time / 2);
            state.most[half] = state.most[half].max(crate::common::resident_memory());
        }
    }

    /// Says what came of it all, and checks that memory did not grow with time.
    pub fn finish(&self, range: &Range) {
        let mut state = self.0.lock().unwrap();
        state.is_over = true;
        println!("{}", state.line());
        if let Some(time) = range.time.filter(|time| *time >= Duration::from_secs(30)) {
            let [first, second] = state.most;
            // A short run is still warming up for half of its time.
            let growth = if time < Duration::from_secs(120) { 4 * GROWTH } else { GROWTH };
            assert!(
                second <= first + first / 4 + growth,
                "memory grows without bound: at most {first} bytes in the first half of the time, {second} in the second"
            );
        }
    }
}

impl State {
    /// One line for people and for `scripts/soak.sh`, which reads it word by word.
    fn line(&self) -> String {
        let Totals { programs, operations, skipped, refused, failed, serial, replays, replayed } = self.totals;
        let (first, seed, seconds, peak) = (self.first, self.seed, self.begin.elapsed().as_secs(), peak_memory() >> 20);
        format!(
            "oracle: seconds {seconds} programs {programs} serial {serial} operations {operations} skipped {skipped} \
             refused {refused} failed {failed} replays {replays} replayed {replayed} first {first} seed {seed} peak-MiB {peak}"
        )
    }
}

/// The most memory that this process has used at once, in bytes; 0 where the system does not say.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.unwrap_or(0) << 10
}
