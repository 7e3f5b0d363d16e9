//! A clock for times that are not much longer than a reading of the system's clock takes. Used
//! by `engine/inline/policy.rs` and `engine/dispatch/naive.rs`, each of which has one for all
//! threads of an engine; `engine/replay/spread_policy.rs` reads the first. Any thread may read it,
//! and the thread that ends a measurement ([`Tsc::since`]) also finds out `rate` and `due` anew
//! when it is time. Nothing else changes.
//!
//! On x86-64 it reads the time-stamp counter, which takes 8 ns instead of 25. The processor has to
//! say that the counter runs evenly, and it must be no slower to read than the clock: some virtual
//! machines have their host read it, which takes microseconds. How fast it runs is found out on the
//! way, against the system's clock: once a millisecond has passed, and again whenever twice as much
//! has. Until then, and elsewhere, it reads the system's clock. Where this clock ticks
//! slowly (every 100 ns on Windows), a shorter time comes out as nothing or as a tick.

use crate::sync::{AtomicU64, Instant, Ordering::*, MODELLED};
use std::time::Duration;

/// The processor's time stamp counter, as a clock that several threads use.
pub struct Tsc {
    began: Instant,
    /// Where the counter stood at `began`; `None` if it is not used.
    origin: Option<u64>,
    /// The ticks of the counter in [`SPAN`] nanoseconds; 0 while this is not known.
    rate: AtomicU64,
    /// Where the counter will stand when the rate is to be found out again.
    due: AtomicU64,
    /// The least by which the clock, and the counter, moves on between two readings of nothing.
    own: Own,
}

/// What two readings one after the other come to, in nanoseconds of the clock and in ticks of the
/// counter.
struct Own {
    clock: Duration,
    ticks: u64,
}

impl Own {
    /// The least of some tries, so that an interrupt changes nothing.
    fn find(with_counter: bool) -> Own {
        const PAIRS_OF_READINGS: usize = 16;
        if MODELLED {
            return Own { clock: Duration::ZERO, ticks: 0 };
        }
        let clock = (0..PAIRS_OF_READINGS).map(|_| Instant::now().elapsed()).min().unwrap_or_default();
        let tick = || {
            let start = counter::read();
            counter::read_after().saturating_sub(start)
        };
        let ticks = (0..PAIRS_OF_READINGS).filter(|_| with_counter).map(|_| tick()).min();
        Own { clock, ticks: ticks.unwrap_or_default() }
    }
}

/// A reading of a [`Tsc`].
#[derive(Clone, Copy)]
pub enum Reading {
    Counter(u64),
    Clock(Instant),
}

const SPAN: u64 = 1024;
/// The rate is found out after this time. An interrupt between two readings then makes it wrong by
/// a few hundredths.
const SOON: Duration = Duration::from_millis(1);

impl Tsc {
    pub fn new() -> Tsc {
        let origin = (counter::is_even() && is_quick(counter::read_after)).then(counter::read);
        let own = Own::find(origin.is_some());
        Tsc { began: Instant::now(), origin, own, rate: AtomicU64::new(0), due: AtomicU64::new(0) }
    }

    /// The least that a measurement of nothing comes to.
    pub fn own_time(&self) -> Duration {
        match self.rate.load(Relaxed) {
            0 => self.own.clock,
            rate => Duration::from_nanos(self.own.ticks * SPAN / rate),
        }
    }

    /// Returns a reading, for [`Tsc::since`].
    #[cold]
    pub fn start(&self) -> Reading {
        match self.rate.load(Relaxed) {
            0 => Reading::Clock(Instant::now()),
            _ => Reading::Counter(counter::read()),
        }
    }

    /// Returns the time that has passed since a reading of this clock.
    #[cold]
    pub fn since(&self, start: Reading) -> Duration {
        match start {
            Reading::Counter(start) => {
                let end = counter::read_after();
                if end >= self.due.load(Relaxed) {
                    self.calibrate();
                }
                // A counter that has gone back, on a virtual machine that was moved, has counted
                // nothing. The rate is known here, as `start` has seen it.
                Duration::from_nanos(end.saturating_sub(start).saturating_mul(SPAN) / self.rate.load(Relaxed).max(1))
            }
            Reading::Clock(start) => {
                let passed = start.elapsed();
                self.calibrate();
                passed
            }
        }
    }

    /// Returns where the counter stands, or how many nanoseconds have passed since `began`. It is
    /// to be compared with other such readings, of the same thread and of about the same time.
    pub fn reading(&self) -> u64 {
        match self.rate.load(Relaxed) {
            0 => self.began.elapsed().as_nanos() as u64,
            _ => counter::read(),
        }
    }

    /// Returns what [`Tsc::reading`] comes to when this time has passed since a reading of this
    /// clock; 0 if that cannot be said, as the rate of the counter was not known then.
    pub fn reading_at(&self, start: Reading, time: Duration) -> u64 {
        match start {
            Reading::Counter(start) => start.saturating_add(self.readings(time)),
            Reading::Clock(_) => 0,
        }
    }

    /// Returns by how much a [`Tsc::reading`] grows in this time.
    pub fn readings(&self, time: Duration) -> u64 {
        let nanoseconds = time.as_nanos() as u64;
        match self.rate.load(Relaxed) {
            0 => nanoseconds,
            rate => nanoseconds.saturating_mul(rate) / SPAN,
        }
    }

    /// Finds out how fast the counter runs, if enough time has passed. Threads that do so at the
    /// same time find the same rate.
    #[cold]
    fn calibrate(&self) {
        let Some(first) = self.origin else { return };
        let (now, passed) = (counter::read(), self.began.elapsed());
        if passed < SOON {
            return;
        }
        let ticks = u128::from(now.saturating_sub(first));
        let rate = (ticks * u128::from(SPAN) / passed.as_nanos()) as u64;
        self.due.store(now.saturating_add(ticks as u64), Relaxed);
        self.rate.store(rate, Relaxed);
    }
}

/// Returns whether `read` takes no longer than a reading of the clock, but for differences too
/// small to matter.
fn is_quick(read: fn() -> u64) -> bool {
    const LITTLE: Duration = Duration::from_nanos(50);
    let best = |read: &dyn Fn()| {
        // The best of some readings, so that an interrupt changes nothing.
        let times = (0..4).map(|_| {
            let start = Instant::now();
            read();
            start.elapsed()
        });
        times.min().unwrap_or_default()
    };
    best(&|| _ = read()) <= 2 * best(&|| ()) + LITTLE
}

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri, seriatim_simulation))))]
mod counter {
    use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

    /// The leaf of `cpuid` and the bit of its `edx` that say whether the counter runs evenly.
    const LEAF: u32 = 0x8000_0007;
    const EVEN: u32 = 1 << 8;

    /// Returns whether the counter runs at one speed, on all cores, also while they sleep.
    pub fn is_even() -> bool {
        #[allow(unused_unsafe)] // It is a safe function since Rust 1.94.
        // SAFETY: every processor of this architecture has the instruction.
        let leaf = |number| unsafe { __cpuid(number) };
        // The first of the extended leaves says which of them there are.
        leaf(0x8000_0000).eax >= LEAF && leaf(LEAF).edx & EVEN != 0
    }

    #[inline(always)]
    pub fn read() -> u64 {
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { _rdtsc() }
    }

    /// Returns where the counter stands when everything before is done, loads included.
    #[inline(always)]
    pub fn read_after() -> u64 {
        // SAFETY: as above.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri, seriatim_simulation)))))]
mod counter {
    pub fn is_even() -> bool {
        false
    }

    pub fn read() -> u64 {
        0
    }

    pub fn read_after() -> u64 {
        0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Sleeps end late, so the counter is compared with the system's clock.
    #[test]
    fn it_agrees_with_the_clock_before_and_after_it_knows_the_counter() {
        let tsc = Tsc::new();
        for round in 0..20 {
            let known = tsc.rate.load(Relaxed) != 0;
            let start = Instant::now();
            let began = tsc.start();
            std::thread::sleep(Duration::from_millis(2));
            let inner = tsc.since(began);
            let outer = start.elapsed();
            // Others may get the core between two readings, rarely twice in a row.
            let close = inner <= outer + outer / 10 && outer <= inner + inner / 10 + Duration::from_millis(50);
            assert!(close, "round {round}, known {known}: {inner:?} inside {outer:?}");
        }
        assert_eq!(tsc.rate.load(Relaxed) != 0, tsc.origin.is_some());
    }

    #[test]
    fn a_counter_that_somebody_else_has_to_read_is_not_used() {
        assert!(!is_quick(|| {
            std::thread::sleep(Duration::from_micros(50));
            0
        }));
        // More than once: a busy machine, or one that is emulated, takes the core away at any time.
        assert!((0..100).any(|_| is_quick(|| 0)), "nothing is quicker than that");
    }
}
