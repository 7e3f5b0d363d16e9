//! Which seeds a test of random programs takes, and for how long; the part of `scripts/soak.sh
//! --devices` that is inside the process. From the environment:
//!
//! | variable | what |
//! |---|---|
//! | `CUDA_ENGINE_SEED=7` | the program of one seed, again and again |
//! | `CUDA_ENGINE_FIRST_SEED=7` | begins there |
//! | `CUDA_ENGINE_OPERATIONS=1000000` | so many operations |
//! | `CUDA_ENGINE_TURN=7` | where not every call of a function fails, others fail in each turn |
//! | `CUDA_ENGINE_CALLS=1000000` | in `sweep.rs` so many calls of each function fail, in turn |
//! | `CUDA_ENGINE_SECONDS=60` | for so long instead, saying every ten seconds how far it is |
//! | `CUDA_ENGINE_TEETH=waits` | the driver leaves out one wait in 50; also `marks`, `answers` |
//! | `CUDA_ENGINE_PATIENCE=100` | how many seconds one program may take |

use crate::array_programs;
use crate::client::{Fault, Standin};
use crate::common::{by_length, Random};
use crate::plan::Plan;
use crate::programs;
use crate::pushers;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a long run says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);
const PATIENCE: u64 = 100;

/// What runs the program of a seed on a plan.
pub type Run = fn(&Standin, &Plan, u64, Random) -> Result<(), String>;

/// The sorts of programs.
pub const SORTS: [(&str, Run); 4] = [
    ("cells", programs::run),
    ("cells of several pushers", |standin, plan, _, random| pushers::run(standin, plan, random)),
    ("arrays", |standin, plan, _, random| array_programs::run(standin, plan, random, 1)),
    ("arrays of three pushers", |standin, plan, _, random| array_programs::run(standin, plan, random, 3)),
];

/// A number of the environment, which is not called SERIATIM_…: engines refuse names of theirs
/// that they do not know.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Which calls of a function fail, where not all do: the next turn takes the next ones.
pub fn turn() -> u64 {
    number("CUDA_ENGINE_TURN").or_else(|| number("CUDA_ENGINE_FIRST_SEED")).unwrap_or(1)
}

/// Plants what `CUDA_ENGINE_TEETH` says.
fn plant(standin: &Standin) {
    let Ok(fault) = std::env::var("CUDA_ENGINE_TEETH") else { return };
    let fault = match &fault[..] {
        "waits" => Fault::WaitSwallowed,
        "marks" => Fault::RecordedEarly,
        "answers" => Fault::DoneTooEarly,
        other => panic!("CUDA_ENGINE_TEETH is {other}: say waits, marks or answers"),
    };
    standin.plant(fault, 50);
}

/// How far a run is.
#[derive(Default)]
struct Progress {
    first: u64,
    seed: AtomicU64,
    programs: AtomicU64,
    operations: AtomicU64,
}

impl Progress {
    /// One line for people and for `scripts/soak.sh`, which reads it word by word.
    fn line(&self, began: Instant) -> String {
        let Progress { first, seed, programs, operations } = self;
        let [seed, programs, operations] = [seed, programs, operations].map(|number| number.load(SeqCst));
        let (seconds, peak) = (began.elapsed().as_secs(), crate::common::resident_memory() >> 20);
        format!(
            "devices: seconds {seconds} programs {programs} operations {operations} first {first} seed {seed} \
             peak-MiB {peak}"
        )
    }

    /// Starts the thread that ends the process if a program hangs, and says which.
    fn watch(self: &Arc<Self>, is_timed: bool, began: Instant) {
        let (own, patience) =
            (Arc::downgrade(self), Duration::from_secs(number("CUDA_ENGINE_PATIENCE").unwrap_or(PATIENCE)));
        std::thread::spawn(move || {
            let (mut before, mut since) = (u64::MAX, Instant::now());
            loop {
                std::thread::sleep(PROGRESS);
                let Some(progress) = own.upgrade() else { return };
                let now = progress.programs.load(SeqCst);
                if now != before {
                    (before, since) = (now, Instant::now());
                }
                if since.elapsed() > patience {
                    eprintln!("the program of seed {} hangs", progress.seed.load(SeqCst));
                    std::process::abort();
                }
                if is_timed {
                    eprintln!("{}", progress.line(began));
                }
            }
        });
    }
}

/// Runs the programs of seeds, until there were enough operations. `sort` chooses for each seed
/// what runs it; `plan` may change what was drawn for it, and `ended` is called after each.
pub fn run_seeds(
    (usual, long): (u64, u64),
    sort: impl Fn(u64) -> Run,
    plan: impl Fn(Plan, u64) -> Plan,
    mut ended: impl FnMut(&Standin, &Plan),
) {
    let standin = Standin::begin(1, 128);
    let only = number("CUDA_ENGINE_SEED");
    let first = only.or_else(|| number("CUDA_ENGINE_FIRST_SEED")).unwrap_or(1);
    let wanted = number("CUDA_ENGINE_OPERATIONS").unwrap_or_else(|| by_length(usual, long));
    let (time, began) = (number("CUDA_ENGINE_SECONDS").map(Duration::from_secs), Instant::now());
    let progress = Arc::new(Progress { first, ..Progress::default() });
    progress.watch(time.is_some(), began);
    let (mut operations, mut programs) = (0, 0);
    while time.map_or(operations < wanted, |time| began.elapsed() < time) {
        let seed = only.unwrap_or(first + programs);
        progress.seed.store(seed, SeqCst);
        let (drawn, random) = programs::drawn(seed);
        let plan = plan(drawn, seed);
        plan.set_up(&standin, seed);
        plant(&standin);
        if let Err(said) = sort(seed)(&standin, &plan, seed, random) {
            panic!("CUDA_ENGINE_SEED={seed} CUDA_ENGINE_OPERATIONS=1: {said}; {plan:?}");
        }
        ended(&standin, &plan);
        (operations, programs) = (operations + plan.operations as u64, programs + 1);
        progress.operations.store(operations, SeqCst);
        progress.programs.store(programs, SeqCst);
    }
    println!("{}", progress.line(began));
}

/// What `scripts/soak.sh --devices` runs.
#[test]
fn random_programs_of_every_sort() {
    run_seeds((4_000, 40_000), |seed| SORTS[(seed % 4) as usize].1, |plan, _| plan, |_, _| ());
}
