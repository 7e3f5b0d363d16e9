//! What the tests of errors share.

use crate::common::*;
use seriatim::{Engine, Variable};
use std::panic::resume_unwind;

pub fn variables<const N: usize>(engine: &Engine) -> [Variable; N] {
    std::array::from_fn(|_| engine.new_variable())
}

pub fn versions<const N: usize>(engine: &Engine, variables: [Variable; N]) -> [u64; N] {
    variables.map(|variable| engine.version(variable).unwrap())
}

/// Panics without the hook that prints: for tests in which many operations do.
pub fn panic_quietly(message: &'static str) {
    resume_unwind(Box::new(message))
}

/// Waits until everything is complete, without taking errors as a wait would.
pub fn settle(engine: &Engine) {
    eventually("nothing is in flight", || !engine.dump_dot().contains("label"));
}

/// A value whose destructor panics, with another such value while its number lasts.
pub struct Bomb(pub u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 && !std::thread::panicking() {
            resume_unwind(Box::new(Bomb(self.0 - 1)));
        }
    }
}

/// Makes a closure own something.
pub fn use_up<T>(_: T) {}
