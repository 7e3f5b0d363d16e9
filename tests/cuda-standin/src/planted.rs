//! Faults of the driver itself, and pauses after its calls. A test plants them to show that a check
//! would notice, or to give other threads time at a place where they seldom have it.

#![forbid(unsafe_code)]

use crate::random::Random;
use std::cell::Cell;
use std::time::Duration;

/// What the stand-in can do wrong.
#[derive(Clone, Copy)]
pub enum Fault {
    /// A wait for an event is not queued.
    WaitSwallowed = 0,
    /// An event is recorded before the last command of its stream, not behind it.
    RecordedEarly = 1,
    /// A query says that an event is done which is not.
    DoneTooEarly = 2,
    /// A wait of the host for a stream ends before the stream is idle.
    FinishedTooEarly = 3,
}

/// Which faults are planted: one at each so many-th occasion, none at 0.
#[derive(Default)]
pub struct Planted {
    every: [u64; 4],
    occasions: [u64; 4],
    /// How many there were.
    pub made: u64,
}

impl Planted {
    pub fn plant(&mut self, fault: usize, every: u64) {
        (self.every[fault], self.occasions[fault]) = (every, 0);
    }

    /// Whether this occasion for a fault is taken.
    pub fn is_due(&mut self, fault: Fault) -> bool {
        let (every, occasions) = (self.every[fault as usize], &mut self.occasions[fault as usize]);
        *occasions += 1;
        let is_due = every > 0 && *occasions % every == 0;
        self.made += u64::from(is_due);
        is_due
    }
}

/// Pauses after calls of one function, or of all: one call in so many, for so long at most.
#[derive(Default)]
pub struct Pauses {
    pub function: String,
    pub one_in: u64,
    pub micros: u64,
    pub random: Random,
}

thread_local! {
    /// For how many microseconds the call that this thread makes pauses at its end.
    static AFTER: Cell<u64> = const { Cell::new(0) };
}

impl Pauses {
    /// Decides on a pause after this call.
    pub fn draw(&mut self, function: &str) {
        let may = self.one_in > 0 && (self.function == "*" || self.function == function);
        if may && self.random.below(self.one_in) == 0 {
            AFTER.set(1 + self.random.below(self.micros));
        }
    }
}

/// The pause at the end of a call. Nothing is locked.
pub fn pause() {
    let micros = AFTER.take();
    if micros > 0 {
        std::thread::sleep(Duration::from_micros(micros));
    }
}
