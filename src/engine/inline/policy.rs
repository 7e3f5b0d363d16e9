//! The inline policy: learns which closures are so short that it does not pay to ship them to a
//! worker.
//!
//! Used by `push/mod.rs`, `inline/asynchronous.rs` and `api/operator.rs`: there pushers ask. They
//! and `engine/execute.rs` measure calls, on the threads that call the closures. The closure of an
//! asynchronous operation is measured until it returns, without the end of the operation.
//! `api/prepare.rs` brings costs that a program gives. Also used by `engine/limited.rs` and
//! `engine/future/limited.rs`, for calls that call nothing. All threads share the [`InlinePolicy`]
//! of an engine, which `engine/core.rs` and operators have: only its opinions change.
//!
//! Shipping an operation takes some 150 ns of all threads together ([`SHIPPED`]). A closure that
//! takes less on average is better run by its pusher. A longer one is better shipped if its thread
//! pushes without a pause: then the thread and the workers run closures at the same time. Else it
//! runs inside its push, up to the limit that the program sets. Closures of one type mostly take
//! alike, so what is learned is kept for each type, or for each key if the program gives one
//! (`inline/cost_key.rs`, `inline/opinion.rs`). Which calls are measured is in
//! `inline/attention.rs`.

use crate::engine::inline::attention::{self, CALLS_A_LOOK};
use crate::engine::inline::cost_key::{CostKey, KEYS};
use crate::engine::inline::opinion::{Length, Limits, Opinion};
use crate::platform::tsc::Tsc;
use crate::sync::thread_local;
use std::cell::Cell;
use std::time::Duration;

/// The cost of shipping an operation, roughly, in the time of all threads together.
const SHIPPED: Duration = Duration::from_nanos(150);
/// The longest limit: opinions have room for means up to 536 ms.
const LONGEST: Duration = Duration::from_millis(500);
/// The limit for closures that are declared to be short.
pub const DECLARED: Duration = Duration::from_micros(1);
/// How long a thread runs closures that take longer than [`SHIPPED`], without a pause, before it
/// ships them: as long as it takes to wake a worker or two.
const LONGEST_SPELL: Duration = Duration::from_micros(5);
/// Where a measurement itself takes long, the limit is so many measurements: code that is emulated
/// or not optimised takes longer throughout.
const MEASUREMENTS: u32 = 8;

thread_local! {
    /// What has been left out so far of the call that this thread measures, if it measures one that
    /// something may be left out of.
    static LEFT_OUT: Cell<Option<Duration>> = const { Cell::new(None) };
    /// Whether the call that this thread has just made was no call of the program's closure.
    static FORGOTTEN: Cell<bool> = const { Cell::new(false) };
}

/// What is learned of an engine's closures.
pub struct InlinePolicy {
    /// The opinions, by key; empty if nothing is to be learned.
    keys: Box<[Opinion]>,
    limits: Limits,
    tsc: Tsc,
}

impl InlinePolicy {
    /// Closures that take less than `below` on average may run inside their push.
    pub fn new(below: Duration) -> InlinePolicy {
        let mut policy = InlinePolicy::with_limit(below);
        let shipped = SHIPPED.max(MEASUREMENTS * policy.tsc.own_time());
        policy.limits.short = policy.limits.middling.min(shipped.as_nanos() as u64);
        policy
    }

    /// For an engine that need not know: nothing is learned.
    pub fn none() -> InlinePolicy {
        InlinePolicy::with_limit(Duration::ZERO)
    }

    fn with_limit(limit: Duration) -> InlinePolicy {
        let keys = if limit.is_zero() { 0 } else { KEYS };
        let limit = limit.min(LONGEST).as_nanos() as u64;
        let limits = Limits { short: limit, middling: limit };
        InlinePolicy { keys: (0..keys).map(|_| Opinion::new()).collect(), limits, tsc: Tsc::new() }
    }

    /// The clock of the engine. Also used by `replay/`.
    pub fn clock(&self) -> &Tsc {
        &self.tsc
    }

    /// The opinion on a key, if anything is learned of it.
    #[inline]
    fn of(&self, key: impl FnOnce() -> Option<CostKey>) -> Option<&Opinion> {
        self.keys.get(key()?.0)
    }

    /// Whether a closure of this key, which the calling thread pushes, is to run inside the push.
    #[inline]
    pub fn runs_inside(&self, key: impl FnOnce() -> Option<CostKey>) -> bool {
        let Some(opinion) = self.of(key) else { return false };
        match opinion.length() {
            Length::Short => true,
            Length::Middling => self.has_time(opinion),
            Length::Unknown | Length::Long => false,
        }
    }

    #[cold]
    #[inline(never)]
    fn has_time(&self, opinion: &Opinion) -> bool {
        let readings = |time: Duration| self.tsc.readings(time);
        let body = readings(Duration::from_nanos(opinion.mean()));
        attention::has_time(self.tsc.reading(), body, readings(LONGEST_SPELL))
    }

    /// Calls a closure of this key, and measures the call if it is due.
    #[inline]
    pub fn measure<T>(&self, key: impl FnOnce() -> Option<CostKey>, call: impl FnOnce() -> T) -> T {
        let measured = match self.of(key) {
            Some(opinion) if self.is_due(opinion) => Some((opinion, self.tsc.start())),
            _ => None,
        };
        // There is only one call, so that it is inlined here.
        let outcome = call();
        if let Some((opinion, start)) = measured {
            self.learn(opinion, self.tsc.since(start));
        }
        outcome
    }

    /// Like [`InlinePolicy::measure`], but what [`InlinePolicy::leave_out`] calls meanwhile on this
    /// thread does not count.
    #[inline]
    pub fn measure_without_ends<T>(&self, key: Option<CostKey>, call: impl FnOnce() -> T) -> T {
        let measured = match self.of(|| key) {
            Some(opinion) if self.is_due(opinion) => {
                let outer = LEFT_OUT.with(|left_out| left_out.replace(Some(Duration::ZERO)));
                Some((opinion, outer, self.tsc.start()))
            }
            _ => None,
        };
        let outcome = call();
        if let Some((opinion, outer, start)) = measured {
            let took = self.tsc.since(start);
            let left_out = LEFT_OUT.with(|left_out| left_out.replace(outer));
            self.learn(opinion, took.saturating_sub(left_out.unwrap_or_default()));
        }
        outcome
    }

    /// Whether the calling thread is inside a call that [`InlinePolicy::measure_without_ends`]
    /// measures.
    #[inline]
    pub fn is_measuring() -> bool {
        LEFT_OUT.with(|left_out| left_out.get().is_some())
    }

    /// Calls what does not count for the closure that is measured on this thread.
    #[cold]
    pub fn leave_out(&self, call: impl FnOnce()) {
        let start = self.tsc.start();
        call();
        let took = self.tsc.since(start);
        LEFT_OUT.with(|left_out| left_out.set(left_out.get().map(|before| before + took)));
    }

    /// Says that the call under way on this thread calls no closure of the program: nothing is
    /// learned of it. If nobody measures it, the next measurement of the thread is left out in its
    /// place, which does no harm.
    #[cold]
    pub fn forget_call() {
        FORGOTTEN.with(|forgotten| forgotten.set(true));
    }

    /// Takes the program's word for how long closures of this key take. What is measured later
    /// changes the opinion as it does any other.
    #[cold]
    pub fn expect(&self, key: CostKey, takes: Duration) {
        if let Some(opinion) = self.of(|| Some(key)) {
            opinion.expect(takes.as_nanos().try_into().unwrap_or(u64::MAX), self.limits);
        }
    }

    /// Whether the next call, of a closure that this opinion is of, is to be measured.
    #[inline]
    fn is_due(&self, opinion: &Opinion) -> bool {
        let short = match opinion.length() {
            Length::Unknown => return true,
            length => length == Length::Short,
        };
        attention::is_due(
            short,
            || self.tsc.reading(),
            || {
                let limit = Duration::from_nanos(self.limits.short);
                self.tsc.readings(limit).saturating_mul(u64::from(CALLS_A_LOOK))
            },
        )
    }

    #[cold]
    #[inline(never)]
    fn learn(&self, opinion: &Opinion, measured: Duration) {
        if FORGOTTEN.with(Cell::take) {
            return;
        }
        self.take_in(opinion, measured, self.tsc.own_time());
    }

    /// Takes in a measurement by a stopwatch that takes `own` itself.
    fn take_in(&self, opinion: &Opinion, measured: Duration, own: Duration) {
        let took = measured.saturating_sub(own).as_nanos() as u64;
        let was_short = opinion.length() == Length::Short;
        if opinion.learn(took, self.limits) {
            attention::changed();
        } else if was_short != (took < self.limits.short) {
            attention::suspect();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
