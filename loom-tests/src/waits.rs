//! A wait for a variable to which another thread pushes.

use crate::{explore, spawn, Guarded};
use loom::sync::atomic::{AtomicBool, Ordering::*};
use seriatim::{Engine, RunContext};
use std::sync::Arc;

/// A thread that knows that an operation runs waits for its end, and sees what it has done.
pub fn explore_wait_for_another_thread_s_write(name: &str, engine: fn() -> Engine) {
    explore(name, 2, 200, move || {
        let engine = engine();
        let x = engine.new_variable();
        let value = Guarded::new();
        let runs = Arc::new(AtomicBool::new(false));
        let (theirs, cell, says) = (engine.clone(), value.clone(), Arc::clone(&runs));
        let other = spawn(move || {
            let body = move |_: &RunContext<'_>| {
                says.store(true, Release);
                cell.step();
            };
            theirs.op("").writes([x]).push(body).unwrap();
        });
        if runs.load(Acquire) {
            engine.wait_for_var(x).unwrap();
            assert_eq!(value.get(), 1);
        }
        other.join().unwrap();
    });
}
