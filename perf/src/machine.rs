//! What the machine is doing: the processor time of this process and of all the others, and how far apart the cores are.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How a benchmark was asked to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In full.
    Full,
    /// Fewer operations and repetitions, to see the trend.
    Quick,
    /// Only to see that everything works.
    Test,
    /// Only to be named, as test runners ask.
    List,
}

impl Mode {
    /// From the command line, as criterion reads it: cargo passes `--bench` for `cargo bench`, so a run without it
    /// comes from `cargo test` and is a test.
    pub fn from_arguments() -> Mode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let given = |flag: &str| arguments.iter().any(|argument| argument == flag);
        if given("--list") {
            Mode::List
        } else if given("--test") || !(given("--bench") || given("--quick")) {
            Mode::Test
        } else if given("--quick") {
            Mode::Quick
        } else {
            Mode::Full
        }
    }
}

/// How many cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Processor time that this process has used, on all its threads, and that the processes it started and waited for have
/// used. Zero where the system does not say.
pub fn processor_time() -> Duration {
    #[cfg(unix)]
    {
        used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN)
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

#[cfg(unix)]
fn used(whose: libc::c_int) -> Duration {
    // SAFETY: an all-zero `rusage` is a valid value of that plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live `rusage`, which is all that the call needs.
    let failed = unsafe { libc::getrusage(whose, &mut usage) } != 0;
    if failed {
        return Duration::ZERO;
    }
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

#[cfg(unix)]
fn duration(time: libc::timeval) -> Duration {
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_micros(time.tv_usec.unsigned_abs())
}

/// Notices whether other processes kept the machine busy: such a measurement is worth nothing.
pub struct Quiet {
    start: Instant,
    own: Duration,
    all: Option<Duration>,
}

impl Quiet {
    /// The share of one core that others may use.
    const LIMIT: f64 = 0.1;

    /// Begins to watch.
    pub fn begin() -> Quiet {
        Quiet { start: Instant::now(), own: processor_time(), all: busy_time() }
    }

    /// How much of a core other processes used since. None where the system does not say, and for spans that are too
    /// short for its clock of 10 ms.
    pub fn others(&self) -> Option<f64> {
        let elapsed = self.start.elapsed();
        let all = busy_time()?.checked_sub(self.all?)?;
        let own = processor_time() - self.own;
        let long_enough = elapsed >= Duration::from_millis(200);
        long_enough.then(|| all.saturating_sub(own).as_secs_f64() / elapsed.as_secs_f64())
    }

    /// Whether others used more than the limit.
    pub fn disturbed(&self) -> bool {
        self.others().is_some_and(|share| share > Quiet::LIMIT)
    }
}

/// Processor time that all processes together have used, as Linux counts it, and what the host took from this machine.
fn busy_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let mut fields = text.lines().next()?.strip_prefix("cpu")?.split_whitespace().map(str::parse::<u64>);
    let mut next = || fields.next()?.ok();
    let (user, nice, system, _idle, _io) = (next()?, next()?, next()?, next()?, next()?);
    let (interrupt, soft_interrupt, stolen) = (next()?, next()?, next()?);
    // The kernel reports ticks of a hundredth of a second, whatever its own are.
    Some(Duration::from_millis(10 * (user + nice + system + interrupt + soft_interrupt + stolen)))
}

/// How long a cache line takes from one core to another: half of a round trip between two threads that spin.
///
/// Under a hypervisor this changes by a factor of ten from one minute to the next, with where the virtual cores are
/// put, and the throughput of everything that uses two cores changes with it. A figure means little without it.
pub fn cache_line_hop() -> Duration {
    const BATCHES: u32 = 21;
    const TRIPS: u32 = 100;
    let ball = AtomicU32::new(0);
    // Even is for the one, odd for the other. A spin that takes long lets the other run, in case there is one core only.
    let await_turn = |turn: u32| {
        let mut spins = 0_u32;
        while ball.load(Ordering::Acquire) != turn {
            spins += 1;
            match spins % 10_000 {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 0..BATCHES * TRIPS {
                await_turn(2 * trip + 1);
                ball.store(2 * trip + 2, Ordering::Release);
            }
        });
        let batch = |number: u32| {
            let start = Instant::now();
            for trip in number * TRIPS..(number + 1) * TRIPS {
                ball.store(2 * trip + 1, Ordering::Release);
                await_turn(2 * trip + 2);
            }
            start.elapsed() / (2 * TRIPS)
        };
        // The first batch includes the other thread's start, and any may include a pause of either thread.
        let mut batches: Vec<Duration> = (0..BATCHES).map(batch).collect();
        batches.sort();
        batches[batches.len() / 2]
    })
}
