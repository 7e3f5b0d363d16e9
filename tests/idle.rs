//! What idle workers do: how often a worker's thread has blocked, and which part of the time it had
//! a core, both counted by the system; how often it has yielded its core while it looked for work,
//! and how often a push has woken it, counted where the C library is called.
#![cfg(target_os = "linux")]

#[path = "common/cores.rs"]
mod cores;
#[path = "common/syscalls.rs"]
mod syscalls;

use seriatim::{Builder, Engine, IdlePolicy, Kind};
use std::fs::read_to_string;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Long beside the default of `spin_for`.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES: u64 = 200;
const LONG_PAUSE: Duration = Duration::from_millis(60);
const SHORT_PAUSE: Duration = Duration::from_micros(100);
/// What the system may add to a count, or take from it, on a busy machine.
const SLACK: u64 = PAUSES / 4;

/// Rounds of a case: in one of them the counts must be right. On a busy machine a pause in the
/// middle of a burst is a short one, from which the worker learns.
const ROUNDS: usize = 12;

static YIELDS: AtomicU64 = AtomicU64::new(0);
static WAKES: AtomicU64 = AtomicU64::new(0);

/// Stands in for the C library's function, which std calls. The linker binds the calls to this one.
#[unsafe(no_mangle)]
extern "C" fn sched_yield() -> libc::c_int {
    YIELDS.fetch_add(1, Relaxed);
    syscalls::syscall(libc::SYS_sched_yield, 0, 0, 0, 0, 0, 0) as libc::c_int
}

/// Called for each system call that the C library is asked for by number: std wakes threads so.
fn called(number: libc::c_long, operation: usize) {
    if number == libc::SYS_futex && operation as libc::c_int & !libc::FUTEX_PRIVATE_FLAG == libc::FUTEX_WAKE {
        WAKES.fetch_add(1, Relaxed);
    }
}

/// What has happened in [`PAUSES`] pauses.
#[derive(Debug)]
struct Idled {
    parks: u64,
    /// Nanoseconds for which the worker had a core.
    ran: u64,
    yields: u64,
    wakes: u64,
    /// How long the pauses took, in nanoseconds.
    took: u64,
    /// Nanoseconds, at least, for which the worker and the pusher waited for a core that neither of
    /// them had.
    waited: u64,
}

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

    /// The calling thread.
    fn this() -> Task {
        // SAFETY: the call has no preconditions.
        Task(format!("/proc/self/task/{}", unsafe { libc::gettid() }))
    }

    /// How many nanoseconds it had a core, and how many it waited for one.
    fn ran_and_waited(&self) -> [u64; 2] {
        let status = read_to_string(format!("{}/schedstat", self.0)).unwrap();
        let mut numbers = status.split_whitespace().map(|number| number.parse().unwrap());
        std::array::from_fn(|_| numbers.next().unwrap())
    }
}

/// What the worker of an engine does while operations come in bursts with pauses.
fn idles(builder: Builder, burst: usize) -> Idled {
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
    let (worker, pusher) = (Task::worker(), Task::this());
    let counts = || {
        let ([ran, waited], [pusher_ran, pusher_waited]) = (worker.ran_and_waited(), pusher.ran_and_waited());
        let calls = [&YIELDS, &WAKES].map(|calls| calls.load(Relaxed));
        [worker.parks(), ran, waited, pusher_ran, pusher_waited, calls[0], calls[1]]
    };
    let (began, before) = (Instant::now(), counts());
    (0..PAUSES).for_each(|_| round());
    sleep(PAUSE);
    let (after, took) = (counts(), began.elapsed().as_nanos() as u64);
    engine.wait_for_all().unwrap();
    let [parks, ran, waited, pusher_ran, pusher_waited, yields, wakes] =
        std::array::from_fn(|number| after[number] - before[number]);
    // On one core each may have waited for the other.
    let waited = waited.saturating_sub(pusher_ran) + pusher_waited.saturating_sub(ran);
    Idled { parks, ran, yields, wakes, took, waited }
}

/// One test, because an engine of another one would have threads of the same names.
#[test]
fn workers_park_once_a_pause_and_look_for_a_part_of_it() {
    let (builder, long) = (Engine::builder, Duration::from_secs(60));
    // A worker that looks for longer than the pauses does not park. It may have parked before.
    for spin_for in [long, LONG_PAUSE / 2] {
        // On a busy machine it may be late for several, and learn from that.
        let mut rounds = (0..ROUNDS).map(|_| {
            let idled = idles(builder().spin_for(spin_for), 1);
            println!("{spin_for:?}: {idled:?}");
            // Yields are counted.
            idled.parks <= SLACK && idled.yields > 0
        });
        assert!(rounds.any(|well| well), "{spin_for:?}: parks in {PAUSES} pauses that were short");
    }
    for (what, burst, builder) in [
        ("by default", 1, builder()),
        ("by default", 100, builder()),
        ("with a short time to look", 1, builder().spin_for(Duration::from_micros(20))),
        ("at once", 1, builder().idle(IdlePolicy::Park).spin_for(long)),
    ] {
        // On a busy machine the pusher may lose its core in the middle of a burst. Then the second
        // half wakes the worker again.
        let cut = if burst > 1 { PAUSES } else { 0 };
        let mut rounds = (0..ROUNDS).map(|_| {
            let idled = idles(builder.clone(), burst);
            println!("{what}, bursts of {burst}: {idled:?}");
            // Fewer on a busy machine, where the worker comes late and finds several bursts. More
            // where a worker gets up by its timer, late, and looks in vain: once in four.
            (PAUSES / 8..=PAUSES + PAUSES / 4 + cut + SLACK).contains(&idled.parks)
                // A burst wakes the worker once, however many operations it has.
                && idled.wakes <= PAUSES + cut + SLACK
                // A worker that did not learn would have a core for two fifths of the time. Without
                // optimisation a burst alone takes that long.
                && (cfg!(debug_assertions) || idled.ran < idled.took / 6)
                // If it looked for `spin_for` after a long pause, it would yield some 300 times. It
                // yields some 20 times where it has got up by its timer, and a few times in the
                // middle of a burst on a core that it shares with the pusher.
                && idled.yields <= 80 * idled.took / PAUSE.as_nanos() as u64
        });
        assert!(rounds.any(|is_right| is_right), "{what}: the worker looks or wakes too often, bursts of {burst}");
    }
    pushes_to_a_group_of_which_one_looks_wake_no_other();
    work_of_a_regular_pace_finds_the_worker_awake("on any cores");
    // A worker begins on the cores of the thread that makes it.
    cores::stay_on_this_core();
    work_of_a_regular_pace_finds_the_worker_awake("on one core");
}

/// One worker stays awake, because the pauses are short. The others sleep.
fn pushes_to_a_group_of_which_one_looks_wake_no_other() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(3).waiters_help(false).build().unwrap();
    engine.prepare().unwrap();
    let x = engine.new_variable();
    let mut rounds = (0..ROUNDS).map(|_| {
        sleep(LONG_PAUSE);
        let before = WAKES.load(Relaxed);
        for _ in 0..PAUSES {
            let began = Instant::now();
            engine.op("step").write(x).push(|_| ()).unwrap();
            while began.elapsed() < SHORT_PAUSE {
                std::hint::spin_loop();
            }
        }
        let wakes = WAKES.load(Relaxed) - before;
        println!("{wakes} wakes in {PAUSES} short pauses");
        wakes
    });
    // A worker that has lost its core does not come, so another is woken.
    assert!(rounds.any(|wakes| (1..=PAUSES / 8).contains(&wakes)), "pushes wake workers in vain");
    engine.wait_for_all().unwrap();
}

/// The worker has got up when the work comes, so no push wakes it. It sleeps in between: it has a
/// core for a small part of the time. On one core the pusher only comes if the worker makes way.
fn work_of_a_regular_pace_finds_the_worker_awake(place: &str) {
    let mut left_alone = 0;
    let mut rounds = (0..5 * ROUNDS).map(|_| {
        let idled = idles(Engine::builder(), 1);
        println!("at a regular pace, {place}: {idled:?}");
        // A machine that is given its cores late ends its sleeps late.
        let sleeps_in_time = idled.took < PAUSES * PAUSE.as_nanos() as u64 * 5 / 4;
        left_alone += usize::from(sleeps_in_time && idled.waited < idled.took / 10);
        idled.wakes <= PAUSES - PAUSES / 20
    });
    // Some 50 wakes on a quiet machine. Beside busy processes both threads come late, and most
    // pushes wake the worker; without a timer each does. If such a process has the core all along,
    // there is nothing to see.
    let is_awake = rounds.any(|in_time| in_time);
    assert!(is_awake || left_alone < ROUNDS / 2, "{place}: pushes wake a worker whose next work is due");
}
