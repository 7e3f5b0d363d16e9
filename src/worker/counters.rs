//! What a worker has done: how long it was busy and idle, and how often it stole, parked and was
//! woken. `run_loop.rs` and `idle.rs` count, on the worker's own thread, and only on rare ways: a
//! start, a look for work, a theft, a park. `group.rs` has one line of counters for each worker;
//! `engine/stats.rs` and `src/lib.rs` pass on what it reads there, on any thread.
//!
//! Each word has one writer, so a load and a store count, and relaxed ones do: the words order
//! nothing else, and each is right by itself. No clock is read for an operation. A spell without
//! work has a reading of the clock at every [`LOOKS_A_READING`]th look and around a park. It counts
//! from the first reading to the last. Of the rest, which is short, one spell in [`SAMPLED`] is
//! measured and stands for all. Models and the simulation count nothing: the words are no part of
//! any protocol.

#![forbid(unsafe_code)]

use crate::device::Context;
use crate::sync::MODELLED;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The looks of a spell between two readings of the clock: a reading takes as long as one look.
const LOOKS_A_READING: u32 = 32;
/// Of so many spells one is measured from its beginning to its end.
const SAMPLED: u64 = 64;
/// The most nanoseconds of a spell that count though the clock was not read there: what looks take.
/// A thread that was without its core meanwhile may have been away for longer.
const MOST_UNREAD: u64 = 50_000;
/// The lowest bit of [`Counts::time`].
const IDLE: u64 = 1;

/// What one worker has done since its engine was made.
///
/// ```
/// use std::time::Duration;
/// let engine = seriatim::Engine::builder().cpu_workers(2).build()?;
/// engine.op("work").push(|_| std::thread::sleep(Duration::from_millis(2)))?;
/// engine.wait_for_all()?;
/// for worker in &engine.stats().workers {
///     println!("{}-{}: {:.0} % busy", worker.group, worker.index, 100.0 * worker.busy_share());
/// }
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WorkerStats {
    /// The name of its group: `seriatim-cpu`, for example.
    pub group: &'static str,
    /// Its number in the group.
    pub index: usize,
    /// The GPU whose operations it queues or copies, if it is one's.
    pub device: Option<Context>,
    /// How long it was busy: it had operations to run.
    pub busy: Duration,
    /// How long it was idle: it looked for work, slept, or had no thread. Pauses of some
    /// microseconds are measured one in 64 times, so the sum is right and a single one may not be.
    pub idle: Duration,
    /// How often it took operations from elsewhere since it had none: those that others had lent,
    /// those of other inboxes, the common one included, and those of other logs. One theft may
    /// bring several.
    pub steals: u64,
    /// How often it has parked, which gives its core to the system.
    pub parks: u64,
    /// How many of the parks were ended for work or for a stop. The others were ended by a timer
    /// (see [`IdlePolicy::SpinThenPark`](crate::IdlePolicy::SpinThenPark)), or go on.
    pub wake_ups: u64,
}

impl WorkerStats {
    /// The usual name of its thread, and its device.
    pub(crate) fn name(&self) -> String {
        let WorkerStats { group, index, device, .. } = self;
        device.map_or_else(|| format!("{group}-{index}"), |device| format!("{group}-{index} {device}"))
    }

    /// The part of the time in which it was busy, from 0 to 1; 0 for no time.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let share = engine.stats().workers[0].busy_share();
    /// assert!((0.0..=1.0).contains(&share));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn busy_share(&self) -> f64 {
        let all = self.busy + self.idle;
        if all.is_zero() {
            return 0.0;
        }
        self.busy.as_secs_f64() / all.as_secs_f64()
    }

    /// Whether both are of one worker.
    pub(crate) fn is_of(&self, other: &WorkerStats) -> bool {
        (self.group, self.index, self.device) == (other.group, other.index, other.device)
    }

    /// What it has done since an earlier look at it.
    pub(crate) fn since(&self, earlier: &WorkerStats) -> WorkerStats {
        WorkerStats {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            steals: self.steals.saturating_sub(earlier.steals),
            parks: self.parks.saturating_sub(earlier.parks),
            wake_ups: self.wake_ups.saturating_sub(earlier.wake_ups),
            ..*self
        }
    }
}

/// The counters of a worker, on a cache line of their own. Only the worker stores.
pub struct Counters {
    counts: CachePadded<Counts>,
    /// From when on times are counted, in nanoseconds.
    clock: Instant,
}

struct Counts {
    /// While the worker is busy, twice the time that it was idle until then. While it is idle,
    /// twice the time that it was busy until then, and [`IDLE`]. So one load says how long it was
    /// idle until now.
    time: AtomicU64,
    spells: AtomicU64,
    steals: AtomicU64,
    parks: AtomicU64,
    wake_ups: AtomicU64,
}

impl Counters {
    /// The counters of a worker without a thread.
    pub fn new(clock: Instant) -> Counters {
        let [spells, steals, parks, wake_ups] = [0; 4].map(AtomicU64::new);
        let counts = Counts { time: AtomicU64::new(IDLE), spells, steals, parks, wake_ups };
        Counters { counts: CachePadded::new(counts), clock }
    }

    /// What they say now. Any thread may ask.
    pub fn read(&self, group: &'static str, index: usize) -> WorkerStats {
        let Counts { time, steals, parks, wake_ups, .. } = &*self.counts;
        let time = time.load(Relaxed);
        let now = self.now();
        let idle = idle_until(time, now).min(now);
        WorkerStats {
            group,
            index,
            device: None,
            busy: Duration::from_nanos(now - idle),
            idle: Duration::from_nanos(idle),
            steals: steals.load(Relaxed),
            parks: parks.load(Relaxed),
            wake_ups: wake_ups.load(Relaxed),
        }
    }

    /// Notes that the worker's thread begins to work.
    pub fn starts(&self) {
        if counts() {
            self.becomes_busy(self.now(), 0);
        }
    }

    /// Notes that the worker's thread ends.
    pub fn ends(&self) {
        if counts() {
            self.becomes_idle(self.now());
        }
    }

    /// Counts a theft.
    pub fn count_steal(&self) {
        step(&self.counts.steals);
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn becomes_idle(&self, since: u64) {
        let time = self.counts.time.load(Relaxed);
        if time & IDLE == 0 {
            self.counts.time.store(since.saturating_sub(time >> 1) << 1 | IDLE, Relaxed);
        }
    }

    /// The worker was idle until then, and for so many nanoseconds more.
    fn becomes_busy(&self, until: u64, more: u64) {
        let idle = idle_until(self.counts.time.load(Relaxed), until) + more;
        self.counts.time.store(idle << 1, Relaxed);
    }
}

/// How long a worker was idle until `now`, by its word.
fn idle_until(time: u64, now: u64) -> u64 {
    if time & IDLE == 0 {
        time >> 1
    } else {
        now.saturating_sub(time >> 1)
    }
}

/// Whether anything is counted.
const fn counts() -> bool {
    !MODELLED && cfg!(not(seriatim_simulation))
}

/// Adds one to a word that only this thread stores.
fn step(word: &AtomicU64) {
    if counts() {
        word.store(word.load(Relaxed) + 1, Relaxed);
    }
}

/// A spell in which a worker has no work, on its stack.
pub struct Spell<'a> {
    counters: &'a Counters,
    /// When it began, if it is measured.
    began: Option<u64>,
    /// The first reading of the clock and the last.
    read: Option<(u64, u64)>,
    looks: u32,
}

impl<'a> Spell<'a> {
    /// The worker has found nothing to run.
    pub fn begin(counters: &'a Counters) -> Spell<'a> {
        step(&counters.counts.spells);
        let is_sampled = counts() && counters.counts.spells.load(Relaxed) % SAMPLED == 0;
        Spell { counters, began: is_sampled.then(|| counters.now()), read: None, looks: 0 }
    }

    /// The worker has looked for work, and found none.
    #[inline]
    pub fn look(&mut self) {
        self.looks += 1;
        if self.looks == LOOKS_A_READING {
            self.looks = 0;
            self.read_the_clock();
        }
    }

    /// The worker parks.
    pub fn park(&mut self) {
        step(&self.counters.counts.parks);
        self.read_the_clock();
    }

    /// The worker is up again: because of work, or because its timer has said so.
    pub fn unpark(&mut self, by_timer: bool) {
        if !by_timer {
            step(&self.counters.counts.wake_ups);
        }
        self.read_the_clock();
    }

    fn read_the_clock(&mut self) {
        if !counts() {
            return;
        }
        let now = self.counters.now();
        match &mut self.read {
            Some((_, last)) => *last = now,
            None => {
                self.counters.becomes_idle(now);
                self.read = Some((now, now));
            }
        }
    }

    /// The worker has found something to run, or ends.
    pub fn end(self) {
        let (first, last) = self.read.unwrap_or_default();
        let unread = self.began.map_or(0, |began| {
            let all = self.counters.now().saturating_sub(began);
            SAMPLED * all.saturating_sub(last - first).min(MOST_UNREAD)
        });
        if self.read.is_some() || unread > 0 {
            self.counters.becomes_busy(last, unread);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle, seriatim_simulation))))]
mod tests {
    use super::*;
    use std::thread::sleep;

    const LONG: Duration = Duration::from_millis(20);

    fn read(counters: &Counters) -> WorkerStats {
        counters.read("group", 0)
    }

    #[test]
    fn a_worker_is_idle_until_it_starts_and_after_it_has_ended() {
        let counters = Counters::new(Instant::now());
        sleep(LONG);
        let before = read(&counters);
        assert!(before.idle >= LONG && before.busy.is_zero(), "{before:?}");
        counters.starts();
        sleep(LONG);
        let at_work = read(&counters);
        assert!(at_work.busy >= LONG && at_work.idle >= before.idle, "{at_work:?}");
        counters.ends();
        let at_end = read(&counters).busy;
        sleep(LONG);
        assert_eq!(read(&counters).busy, at_end);
    }

    #[test]
    fn a_spell_counts_while_it_goes_on_and_once_it_is_over() {
        let counters = Counters::new(Instant::now());
        counters.starts();
        let mut spell = Spell::begin(&counters);
        (0..LOOKS_A_READING).for_each(|_| spell.look());
        let before = read(&counters).idle;
        sleep(LONG);
        let meanwhile = read(&counters).idle;
        assert!(meanwhile >= before + LONG, "{before:?} {meanwhile:?}");
        spell.park();
        sleep(LONG);
        spell.unpark(false);
        spell.end();
        let after = read(&counters);
        assert!(after.idle >= meanwhile + LONG, "{after:?}");
        assert_eq!((after.parks, after.wake_ups), (1, 1));
        sleep(LONG);
        assert_eq!(read(&counters).idle, after.idle, "the worker is busy");
    }

    /// None has a reading of the clock. One in 64 is measured, and stands for all.
    #[test]
    fn short_spells_count_as_well() {
        let counters = Counters::new(Instant::now());
        counters.starts();
        let start = read(&counters);
        let began = Instant::now();
        let mut in_spells = Duration::ZERO;
        for _ in 0..20 * SAMPLED {
            let now = Instant::now();
            let spell = Spell::begin(&counters);
            while now.elapsed() < Duration::from_micros(10) {}
            spell.end();
            in_spells += now.elapsed();
            while now.elapsed() < Duration::from_micros(20) {}
        }
        let (all, idle) = (began.elapsed(), read(&counters).since(&start).idle);
        // The machine may take the core away, in a spell that is measured or in another.
        assert!(idle >= in_spells / 4 && idle <= all + LONG, "{idle:?} of {in_spells:?} of {all:?}");
        assert!(idle >= all / 8, "{idle:?} of {all:?}");
    }

    #[test]
    fn a_spell_that_was_without_its_core_does_not_stand_for_all() {
        let counters = Counters::new(Instant::now());
        counters.starts();
        for _ in 0..SAMPLED {
            let spell = Spell::begin(&counters);
            if spell.began.is_some() {
                sleep(LONG);
            }
            spell.end();
        }
        let seen = read(&counters);
        assert!(seen.idle < LONG, "{seen:?}");
    }

    #[test]
    fn a_worker_that_steals_counts_it() {
        let counters = Counters::new(Instant::now());
        (0..3).for_each(|_| counters.count_steal());
        assert_eq!(read(&counters).steals, 3);
    }
}
