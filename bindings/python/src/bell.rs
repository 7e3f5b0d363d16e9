//! What threads of the program sleep on until something has happened.
//!
//! Used by `pending.rs` and `shared.rs`. Threads that wait are detached. Who rings has changed the
//! state first that the sleepers look at, so no ring is lost. A bell belongs to an engine: there is
//! no table for the whole process, whose locks a child of `fork` might find taken.

use pyo3::prelude::PyResult;
use pyo3::Python;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread sleeps before it looks for signals of the process, such as Ctrl-C.
const NAP: Duration = Duration::from_millis(50);
/// How long a thread looks before it sleeps.
const LOOKS: Duration = Duration::from_micros(15);

#[derive(Default)]
pub struct Bell {
    lock: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    /// Wakes the threads that sleep on the bell.
    pub fn ring(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.rung.notify_all();
    }

    /// Sleeps until `is_over`, or until the bell is rung, or for a nap.
    fn sleep(&self, nap: Duration, is_over: impl Fn() -> bool) {
        let began = Instant::now();
        while began.elapsed() < LOOKS.min(nap) {
            if is_over() {
                return;
            }
            std::hint::spin_loop();
        }
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_over() {
            drop(self.rung.wait_timeout(guard, nap).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Waits until `is_over`, detached; `false` at the deadline. Handlers of signals run meanwhile,
    /// and the wait ends with what they raise.
    pub fn wait(&self, py: Python<'_>, deadline: Option<Instant>, is_over: impl Fn() -> bool + Sync) -> PyResult<bool> {
        loop {
            if is_over() {
                return Ok(true);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            py.detach(|| self.sleep(left.map_or(NAP, |left| left.min(NAP)), &is_over));
            py.check_signals()?;
        }
    }
}
