//! What the machine is doing: the processor time of this process and of all the others, and how far
//! apart the cores are.

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
    /// From the command line, as criterion reads it: cargo passes `--bench` for `cargo bench`, so a
    /// run without it comes from `cargo test` and is a test.
    pub fn from_arguments() -> Mode {
        Mode::of(&std::env::args().skip(1).collect::<Vec<_>>())
    }

    /// From these arguments.
    pub(crate) fn of(arguments: &[String]) -> Mode {
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

/// Processor time that this process has used, on all its threads, and that the processes it started
/// and waited for have used. Zero where the system does not say.
pub fn processor_time() -> Duration {
    #[cfg(unix)]
    {
        used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN)
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

/// Processor time that this process has used on all its threads but the calling one. `None` where
/// the system does not say.
pub fn others_time() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    {
        let own = clock(libc::CLOCK_THREAD_CPUTIME_ID);
        Some(clock(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(own))
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
fn clock(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time into the structure that is given.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
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

    /// How much of a core other processes used since. None where the system does not say, and for
    /// spans that are too short for its clock of 10 ms.
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

/// Processor time that all processes together have used, as Linux counts it, and what the host took
/// from this machine.
fn busy_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let mut fields = text.lines().next()?.strip_prefix("cpu")?.split_whitespace().map(str::parse::<u64>);
    let mut next = || fields.next()?.ok();
    let (user, nice, system, _idle, _io) = (next()?, next()?, next()?, next()?, next()?);
    let (interrupt, soft_interrupt, stolen) = (next()?, next()?, next()?);
    // The kernel reports ticks of a hundredth of a second, whatever its own are.
    Some(Duration::from_millis(10 * (user + nice + system + interrupt + soft_interrupt + stolen)))
}

/// How long a cache line takes from one core to another: half of a round trip between two threads
/// that spin.
///
/// Under a hypervisor this changes by a factor of ten from one minute to the next, with where the
/// virtual cores are put, and the throughput of everything that uses two cores changes with it. A
/// figure means little without it.
pub fn cache_line_hop() -> Duration {
    const BATCHES: u32 = 21;
    const TRIPS: u32 = 100;
    let ball = AtomicU32::new(0);
    // Even is for the one, odd for the other. A spin that takes long lets the other run, in case
    // there is one core only.
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
        // The first batch includes the other thread's start, and any may include a pause of either
        // thread.
        let mut batches: Vec<Duration> = (0..BATCHES).map(batch).collect();
        batches.sort();
        batches[batches.len() / 2]
    })
}

/// Cores whose hop is below this are near each other: two hyperthreads of one core, or cores that
/// share a cache.
pub const NEAR_BELOW: Duration = Duration::from_nanos(60);
/// The most cores that are looked at to find a near and a far one.
const MOST_LOOKED_AT: usize = 64;

/// Two cores to run on, so that near and far ones can be told apart. None where the machine has no
/// choice.
pub type Pair = Option<[usize; 2]>;

/// A pair of near cores and a pair of far ones, where this process may use more than two and both
/// kinds are there; otherwise the pair of the shortest hop. One `None` where there are not more
/// than two cores.
pub fn pairs() -> Vec<Pair> {
    let all = usable();
    if all.len() <= 2 {
        return vec![None];
    }
    let measured = all[1..].iter().take(MOST_LOOKED_AT).filter_map(|other| {
        let pair = [all[0], *other];
        use_only(&pair).ok()?;
        Some((cache_line_hop(), pair))
    });
    let measured = measured.collect();
    // Whatever was taken last: if that fails, the process stays on two cores, and the pair is taken
    // again anyway.
    let _ = use_only(&all);
    nearest_and_farthest(measured)
}

/// The pair of the shortest hop, and that of the longest if one is near and the other far.
fn nearest_and_farthest(mut hops: Vec<(Duration, [usize; 2])>) -> Vec<Pair> {
    hops.sort();
    match (hops.first(), hops.last()) {
        (Some((near, first)), Some((far, last))) if *near < NEAR_BELOW && *far >= NEAR_BELOW => {
            vec![Some(*first), Some(*last)]
        }
        (Some((_, first)), _) => vec![Some(*first)],
        _ => vec![None],
    }
}

/// So many cores that the calling thread may use; `None` where there are fewer.
pub fn several(count: usize) -> Option<Vec<usize>> {
    usable().get(..count).map(Vec::from)
}

/// The numbers of the cores that the calling thread may use; none where the system does not say.
fn usable() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: an all-zero set is a valid value of that plain structure.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live set of that size.
        if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
            return Vec::new();
        }
        // SAFETY: the numbers are within the set.
        (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
    }
    #[cfg(not(target_os = "linux"))]
    Vec::new()
}

/// A core that the calling thread may use and is not on; none where the system does not say.
pub fn away_from_here() -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: takes nothing and changes nothing.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        usable().into_iter().find(|core| *core != here)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Restricts the calling thread, and what it starts from now on, to these cores.
///
/// # Errors
/// If the system refuses, or cannot do that.
pub fn use_only(cores: &[usize]) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: an all-zero set is a valid value of that plain structure.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for core in cores {
            // SAFETY: the set is a live one; a number beyond it is ignored.
            unsafe { libc::CPU_SET(*core, &mut set) };
        }
        // SAFETY: the pointer is to a live set of that size.
        if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } == 0 {
            return Ok(());
        }
        Err(std::io::Error::last_os_error().to_string())
    }
    #[cfg(not(target_os = "linux"))]
    Err(format!("threads cannot be kept on cores {cores:?} here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_and_a_far_pair_are_taken_where_both_are_there() {
        let hops =
            |all: &[(u64, usize)]| all.iter().map(|(ns, core)| (Duration::from_nanos(*ns), [0, *core])).collect();
        assert_eq!(nearest_and_farthest(hops(&[(90, 1), (25, 2), (200, 3)])), [Some([0, 2]), Some([0, 3])]);
        assert_eq!(nearest_and_farthest(hops(&[(59, 1), (25, 2)])), [Some([0, 2])]);
        assert_eq!(nearest_and_farthest(hops(&[(90, 1), (60, 2)])), [Some([0, 2])]);
        assert_eq!(nearest_and_farthest(Vec::new()), [None]);
    }

    #[test]
    fn a_thread_runs_on_the_cores_that_it_is_given() {
        // On a thread of its own: the others of this process keep theirs.
        std::thread::spawn(|| {
            let all = usable();
            if all.is_empty() {
                return; // The system does not say.
            }
            use_only(&all[..1]).expect("a core that this thread may use");
            assert_eq!(usable(), all[..1]);
            assert_eq!(cores(), 1);
        })
        .join()
        .expect("no panic");
    }
}
