//! What `instructions.rs` holds the only worker of an engine up with, asleep: a gate that is closed
//! behind it, until the caller opens it.

use std::sync::{Arc, Barrier};

use seriatim::{Engine, RunContext};

/// The worker stands at it, inside an operation. It meets the caller here when it comes, and before
/// it goes.
pub struct Gate(Arc<Barrier>);

impl Gate {
    /// Sends the worker to sleep.
    pub fn close(engine: &Engine) -> Gate {
        let gate = Arc::new(Barrier::new(2));
        let worker = Arc::clone(&gate);
        let hold = move |_: &RunContext<'_>| {
            worker.wait();
            worker.wait();
        };
        engine.op("gate").push(hold).expect("an engine that runs");
        gate.wait();
        Gate(gate)
    }

    /// Lets the worker go.
    pub fn open(self) {
        self.0.wait();
    }
}
