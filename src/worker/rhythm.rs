//! Work that comes at a regular pace: a worker that sleeps gets up shortly before the next is due.
//!
//! A thread that is woken answers after some 30 µs, and its waker pays for a system call. A control
//! loop or a frame clock pushes once a period, and the worker sleeps between. So it notes when work
//! has ended its sleeps. If the last few periods were alike, it sets a timer, looks for work around
//! the moment at which the next is due, and sleeps again if none comes. The idle governors of
//! kernels predict the length of a pause in the same way.
//!
//! Used by `run_loop.rs` and `idle.rs`, on the worker's own thread. Nothing else depends on a
//! prediction: a worker that sleeps is woken for work, whether it has a timer or not. A pause that
//! is not as long as those before it costs one look in vain, in four periods: of [`LONGEST_LEAD`]
//! and [`LATE`] at most.

#![forbid(unsafe_code)]

use crate::sync::{Instant, MODELLED};
use crate::util::spin::Spin;
use std::time::Duration;

/// So many periods in a row must be alike before the worker gets up by itself.
const ALIKE: u32 = 3;
/// A period is like those before it if it differs from them by at most this part.
const TOLERANCE: u32 = 16;
/// How long before the moment the timer is set for: at first, and at most. A timer is late by some
/// ten microseconds, each time by others, and so is the work.
const LEAD: Duration = Duration::from_micros(80);
const LONGEST_LEAD: Duration = Duration::from_micros(250);
/// By how much the lead grows if the worker was late, and shrinks if it was not: so it is late once
/// in some twenty periods, and looks for little longer than that takes.
const LATER: Duration = Duration::from_micros(20);
const SOONER: Duration = Duration::from_micros(1);
/// How long the worker looks after the moment if nothing comes.
const LATE: Duration = Duration::from_micros(60);

/// What a worker knows of the moments at which work has ended its sleeps. Moments are counted from
/// when the worker was started.
pub struct Rhythm {
    is_on: bool,
    start: Instant,
    last: Option<Duration>,
    period: Duration,
    /// How many periods in a row were alike.
    alike: u32,
    lead: Duration,
    /// Whether the worker got up by itself, until work comes or it gives up.
    is_up: bool,
}

impl Rhythm {
    /// `is_on`: whether the worker is ever to get up by itself.
    pub fn new(is_on: bool) -> Rhythm {
        let (start, period) = (Instant::now(), Duration::ZERO);
        Rhythm { is_on, start, last: None, period, alike: 0, lead: LEAD, is_up: false }
    }

    /// How long the worker sleeps at most. `None`: until it is woken.
    pub fn alarm(&self) -> Option<Duration> {
        self.timer().map(|timer| timer.saturating_sub(self.start.elapsed()))
    }

    /// Notes that the worker gets up by itself; returns how long it looks for work now. It yields
    /// its core between looks: the thread that is to push may have been put on the same core, and
    /// would come late because of the look.
    pub fn get_up(&mut self) -> Spin {
        self.is_up = true;
        self.is_on &= !MODELLED;
        let now = self.start.elapsed();
        let all = self.due().map_or(LATE, |due| (due + LATE).saturating_sub(now));
        Spin::new(Duration::ZERO, all)
    }

    /// Notes that the worker was woken for work.
    pub fn woken(&mut self) {
        if self.is_on {
            self.was_late(self.start.elapsed());
        }
    }

    /// Notes that the worker has found that work has come.
    #[inline]
    pub fn found(&mut self) {
        if self.is_up {
            self.was_in_time(self.start.elapsed());
        }
    }

    /// Notes that the worker sleeps. Says whether it has looked in vain, after it got up by itself.
    pub fn sleeps(&mut self) -> bool {
        if self.is_up {
            (self.is_up, self.alike) = (false, 0);
            return true;
        }
        false
    }

    /// When the next work is due, if its moment is known.
    fn due(&self) -> Option<Duration> {
        if MODELLED {
            // A worker that was woken gets up by itself once, at any moment of its next sleep.
            return (self.is_on && self.last.is_some()).then_some(Duration::ZERO);
        }
        self.last.filter(|_| self.alike >= ALIKE).map(|last| last + self.period)
    }

    /// When the worker is to get up.
    fn timer(&self) -> Option<Duration> {
        self.due().map(|due| due.saturating_sub(self.lead.min(self.period / 2)))
    }

    fn was_late(&mut self, now: Duration) {
        match self.due() {
            // When the work came is not known, but that it was about when it was due.
            Some(due) if self.is_like(now.abs_diff(due)) => {
                self.last = Some(due);
                self.lead = (self.lead + LATER).min(LONGEST_LEAD);
            }
            _ => self.came(now),
        }
    }

    fn was_in_time(&mut self, now: Duration) {
        self.is_up = false;
        self.lead = self.lead.saturating_sub(SOONER);
        self.came(now);
    }

    fn came(&mut self, now: Duration) {
        let Some(last) = self.last.replace(now) else { return };
        let period = now.saturating_sub(last);
        if self.is_like(period.abs_diff(self.period)) {
            // The moment is taken to be half way between when the work was due and when it came.
            self.last = Some((last + self.period + now) / 2);
            self.period = (3 * self.period + period) / 4;
            self.alike = (self.alike + 1).min(ALIKE);
        } else {
            (self.period, self.alike) = (period, 1);
        }
    }

    /// Whether a period is like those before it, if it differs by so much.
    fn is_like(&self, difference: Duration) -> bool {
        difference <= self.period / TOLERANCE
    }
}

#[cfg(all(test, not(any(loom, shuttle, seriatim_simulation))))]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(1);
    /// How late timers are.
    const DELAY: Duration = Duration::from_micros(30);

    /// A worker to which work has come at the moments of a schedule; the timer of each, if it had
    /// one.
    fn after(moments: impl Iterator<Item = Duration>) -> (Rhythm, Vec<Option<Duration>>) {
        let mut rhythm = Rhythm::new(true);
        let timers = moments.map(|now| {
            let timer = rhythm.timer();
            rhythm.is_up = timer.is_some_and(|timer| timer + DELAY <= now);
            if rhythm.is_up {
                rhythm.was_in_time(now);
            } else {
                rhythm.was_late(now);
            }
            timer
        });
        let timers = timers.collect();
        (rhythm, timers)
    }

    fn jitter(number: u32) -> Duration {
        Duration::from_micros(u64::from(number * 7919 % 41))
    }

    #[test]
    fn a_worker_gets_up_before_the_next_work_of_a_regular_pace() {
        for period in [PERIOD / 2, PERIOD, 10 * PERIOD, 1000 * PERIOD] {
            let (_, timers) = after((1..100).map(|number| number * period + jitter(number) / 2));
            // The first work begins the first period, and the second ends it.
            let first = timers.iter().position(Option::is_some);
            assert_eq!(first, Some(ALIKE as usize + 1), "{period:?}");
            let later = (1..).zip(&timers).skip(ALIKE as usize + 1);
            let leads: Vec<_> = later
                .map(|(number, timer)| (number * period).saturating_sub(timer.expect("the pace is regular")))
                .collect();
            assert!(leads.iter().all(|lead| *lead < LEAD + LATER), "{period:?}: {leads:?}");
            let in_time = leads.iter().filter(|lead| **lead >= DELAY).count();
            assert!(in_time * 10 >= leads.len() * 8, "{period:?}: {leads:?}");
        }
    }

    #[test]
    fn a_worker_that_is_late_gets_up_sooner_and_one_that_waits_later() {
        let regular = || (1..100).map(|number| number * PERIOD);
        let (mut rhythm, _) = after(regular());
        assert_eq!(rhythm.alike, ALIKE, "it does not count for ever");
        assert!(rhythm.lead < LEAD, "{:?}", rhythm.lead);
        let lead = rhythm.lead;
        rhythm.was_late(100 * PERIOD + DELAY);
        assert_eq!(rhythm.lead, lead + LATER);
        // The delay is the worker's own, and moves nothing.
        assert_eq!(rhythm.due(), Some(101 * PERIOD));
        for _ in 0..100 {
            let now = rhythm.due().unwrap();
            rhythm.was_late(now);
        }
        assert_eq!(rhythm.lead, LONGEST_LEAD);
    }

    #[test]
    fn work_at_no_regular_pace_sets_no_timer() {
        // Powers of two lie at no regular pace, nor do pauses that change by an eighth.
        let (_, timers) = after((0..20).map(|number| PERIOD * 2u32.pow(number)));
        assert!(timers.iter().all(Option::is_none), "{timers:?}");
        let (_, timers) = after((1..50).map(|number| number * PERIOD + number % 2 * PERIOD / 8));
        assert!(timers.iter().all(Option::is_none), "{timers:?}");
        let mut off = Rhythm::new(false);
        for _ in 0..10 {
            off.woken();
            off.found();
        }
        assert_eq!((off.alarm(), off.last), (None, None));
    }

    #[test]
    fn a_look_in_vain_is_the_last_until_the_pace_is_regular_again() {
        let (mut rhythm, _) = after((1..10).map(|number| number * PERIOD));
        assert!(rhythm.timer().is_some());
        let _ = rhythm.get_up();
        assert!(rhythm.sleeps());
        assert_eq!(rhythm.timer(), None);
        let again = (20..).position(|number| {
            rhythm.was_late(number * PERIOD);
            rhythm.timer().is_some()
        });
        // One ends the long pause, one ends a period of the usual length, and two are like that.
        assert_eq!(again, Some(ALIKE as usize));
    }
}
