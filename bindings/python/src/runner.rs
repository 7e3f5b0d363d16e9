//! Runners: the threads that call functions.
//!
//! `python/seriatim/_engine.py` starts them, as threads of Python: debuggers and profilers see
//! them. A runner that has the GIL calls all that is ready, and gives it up after a slice, and to
//! sleep.

use crate::errors::error;
use crate::shared::Shared;
use pyo3::prelude::*;
use std::cell::Cell;
use std::ptr::null;
use std::sync::atomic::Ordering::*;
use std::sync::Arc;

/// How many functions a runner calls before it lets other threads have the GIL. The interpreter
/// itself does so every 5 ms, but only in functions that are written in Python.
const SLICE: u32 = 64;

thread_local! {
    /// The engine inside of whose operation the thread is.
    static INSIDE: Cell<*const Shared> = const { Cell::new(null()) };
}

/// Calls what is a part of an operation.
pub fn inside<T>(shared: &Arc<Shared>, call: impl FnOnce() -> T) -> T {
    let before = INSIDE.replace(Arc::as_ptr(shared));
    let result = call();
    INSIDE.set(before);
    result
}

/// Whether the thread is inside of an operation of the engine.
pub fn is_inside(shared: &Shared) -> bool {
    std::ptr::eq(INSIDE.get(), shared)
}

/// An operation must not wait for its own engine: it holds a runner, perhaps the one that would run
/// what it waits for.
pub fn refuse_wait_inside(py: Python<'_>, shared: &Shared) -> PyResult<()> {
    if !is_inside(shared) {
        return Ok(());
    }
    let message = "an operation must not wait for its own engine: push what comes next as an operation \
                   that reads what it needs";
    Err(error(py, "WaitInsideOperation", message))
}

/// What a thread of an engine runs.
#[pyclass(frozen, module = "seriatim")]
pub struct Runner {
    pub shared: Arc<Shared>,
    pub seat: usize,
}

#[pymethods]
impl Runner {
    /// Calls what is ready, until the engine ends.
    fn serve(&self, py: Python<'_>) {
        let shared = &self.shared;
        loop {
            shared.busy.fetch_add(1, SeqCst);
            shared.queue.arrive();
            let mut called = 0;
            while let Some(entry) = shared.queue.pop() {
                if !shared.queue.is_empty() {
                    shared.queue.call_one();
                }
                entry.execute(py);
                called += 1;
                if called % SLICE == 0 {
                    py.detach(|| ());
                }
            }
            shared.busy.fetch_sub(1, SeqCst);
            if called > 0 {
                shared.turns.fetch_add(1, Relaxed);
            }
            if shared.is_over() && shared.queue.is_empty() {
                break;
            }
            py.detach(|| shared.queue.sleep(self.seat, || shared.is_over()));
        }
        shared.runner_goes(py);
    }

    /// The system has refused the thread: there is one runner less.
    fn give_up(&self, py: Python<'_>) {
        self.shared.runner_goes(py);
    }
}
