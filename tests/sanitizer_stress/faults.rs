//! Operations that fail in every way there is, and what their failures leave behind.

use crate::world::{Guarded, Shape};
use seriatim::{Engine, ErrorKind, Property};
use std::thread;

/// What planned panics say.
pub const PLANNED: &str = "planned";

/// Several threads fail on variables of their own, on one engine.
pub fn run(shape: Shape) {
    let engine = shape.engine();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let engine = engine.clone();
            thread::spawn(move || {
                for _ in 0..8 {
                    fail(&engine, ErrorKind::OperationFailed);
                    fail(&engine, ErrorKind::OperationPanicked);
                    fail(&engine, ErrorKind::CompletionDropped);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("failures are not panics"));
    engine.wait_for_all().expect("every failure was taken");
}

/// Pushes until there is room: under `WouldBlock` a full engine says so.
fn insist(mut push: impl FnMut() -> Result<(), seriatim::Error>) {
    while let Err(error) = push() {
        assert_eq!(error.kind(), ErrorKind::EngineFull, "{error}");
        thread::yield_now();
    }
}

fn fail(engine: &Engine, kind: ErrorKind) {
    let slot = Guarded::new(engine);
    let x = slot.variable;
    insist(|| match kind {
        ErrorKind::OperationFailed => engine.op("fails").writes([x]).push(|_| Err("planned")),
        ErrorKind::OperationPanicked => engine.op("panics").writes([x]).push(|_| {
            if true {
                std::panic::panic_any(PLANNED)
            }
        }),
        _ => engine.op("drops").writes([x]).push_async(|_, completion| drop(completion)),
    });
    let change = move |_: &seriatim::RunContext<'_>| {
        // SAFETY: the operations below have declared to change the value.
        unsafe { slot.change() }
    };
    insist(|| engine.op("skipped").writes([x]).push(change));
    insist(|| engine.op("runs").writes([x]).property(Property::NoSkip).push(change));
    let error = engine.wait_for_var(x).expect_err("its first operation failed");
    assert_eq!(error.kind(), kind, "{error}");
    insist(|| {
        let deleter = move |_: &seriatim::RunContext<'_>| {
            // SAFETY: the deletion runs after everything that uses the variable.
            unsafe {
                assert_eq!(slot.read(), 1, "what follows a failure is skipped, unless it says otherwise");
                slot.free();
            }
        };
        engine.delete_variable(deleter, seriatim::Context::cpu(0), x)
    });
}
