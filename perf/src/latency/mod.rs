//! How long single operations take: round trips, pushes, operations offered at a fixed rate, a
//! periodic job.

pub mod jitter;
pub mod open_loop;
mod pauses;
pub mod round_trip;
mod sleeper;
pub mod wakes;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Nanoseconds since some moment of this process. Reading the clock takes about 25 ns.
pub(crate) fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    nanoseconds(START.get_or_init(Instant::now).elapsed())
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// From a nanosecond to a minute, to three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds that make sense")
}

/// Waits until the moment, without giving up the core.
pub(crate) fn spin_until(moment: u64) {
    while now() < moment {
        std::hint::spin_loop();
    }
}
