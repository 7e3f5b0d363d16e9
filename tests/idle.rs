//! What idle workers do, counted by the system: how often a worker's thread has blocked, and which
//! part of the time it had a core.
#![cfg(target_os = "linux")]

use seriatim::{Builder, Engine, IdlePolicy, Kind};
use std::fs::read_to_string;
use std::thread::sleep;
use std::time::Duration;

/// Long beside the default of `spin_for`.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES: u64 = 200;
const LONG_PAUSE: Duration = Duration::from_millis(60);
/// What the system may add to a count, or take from it, on a busy machine.
const SLACK: u64 = PAUSES / 4;

/// A thread of this process.
struct Task(String);

impl Task {
    /// The only worker of an engine.
    fn worker() -> Task {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        let is_worker = |path: &std::path::PathBuf| {
            read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "seriatim-pool-0")
        };
        let found: Vec<_> = tasks.filter(is_worker).collect();
        assert_eq!(found.len(), 1, "one engine at a time");
        Task(found[0].to_str().unwrap().to_owned())
    }

    /// How often the thread has blocked. A yield does not count.
    fn parks(&self) -> u64 {
        let status = read_to_string(format!("{}/status", self.0)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse().unwrap()
    }

    /// How many nanoseconds it had a core.
    fn ran(&self) -> u64 {
        let status = read_to_string(format!("{}/schedstat", self.0)).unwrap();
        status.split_whitespace().next().unwrap().parse().unwrap()
    }
}

/// How often the worker of an engine parks, and how long it has a core, while operations come in
/// bursts with pauses.
fn idles(builder: Builder, burst: usize) -> (u64, u64) {
    let engine = builder.kind(Kind::Pooled).cpu_workers(1).waiters_help(false).build().unwrap();
    engine.prepare().unwrap();
    let variables: Vec<_> = (0..burst).map(|_| engine.new_variable()).collect();
    let round = || {
        sleep(PAUSE);
        for variable in &variables {
            engine.op("round").write(*variable).push(|_| ()).unwrap();
        }
    };
    // The first pauses are those from which the worker learns.
    round();
    sleep(LONG_PAUSE);
    (0..3).for_each(|_| round());
    sleep(PAUSE);
    let worker = Task::worker();
    let (parks, ran) = (worker.parks(), worker.ran());
    (0..PAUSES).for_each(|_| round());
    sleep(PAUSE);
    let counts = (worker.parks() - parks, worker.ran() - ran);
    engine.wait_for_all().unwrap();
    counts
}

/// One test, because an engine of another one would have threads of the same names.
#[test]
fn workers_park_once_a_pause_and_look_for_a_part_of_it() {
    let (builder, long) = (Engine::builder, Duration::from_secs(60));
    // A worker that looks for longer than the pauses does not park. It may have parked before.
    for spin_for in [long, LONG_PAUSE / 2] {
        let (parks, _) = idles(builder().spin_for(spin_for), 1);
        assert!(parks <= SLACK, "{spin_for:?}: {parks} parks in {PAUSES} pauses that were short");
    }
    for (what, burst, builder) in [
        ("by default", 1, builder()),
        ("by default", 100, builder()),
        ("with a short time to look", 1, builder().spin_for(Duration::from_micros(20))),
        ("at once", 1, builder().idle(IdlePolicy::Park).spin_for(long)),
    ] {
        let (parks, ran) = idles(builder, burst);
        // Fewer on a busy machine, where the worker comes late and finds several bursts.
        let expected = PAUSES / 8..=PAUSES + SLACK;
        assert!(expected.contains(&parks), "{what}: {parks} parks in {PAUSES} pauses, bursts of {burst}");
        // A worker that did not learn would have a core for two fifths of the time.
        let all = PAUSES * PAUSE.as_nanos() as u64;
        assert!(ran < all / 6, "{what}: it had a core for {ran} of {all} ns");
    }
}
