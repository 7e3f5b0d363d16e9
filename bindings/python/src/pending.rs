//! The result of an operation, or of a wait.
//!
//! Made by `shared.rs` for each push; settled once, by the thread that ends the operation; read by
//! any thread of the program. Waits and callbacks are stored first, then the state is looked at;
//! the state is stored, then waits and callbacks are called: nothing is lost.

use crate::errors::error;
use crate::failure::Failure;
use crate::runner;
use crate::shared::Shared;
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A thread sleeps until it is settled.
const WAITED: u8 = 1;
/// The outcome is there.
const DONE: u8 = 2;

pub enum Outcome {
    Nothing,
    Value(Py<PyAny>),
    /// The operation failed.
    Failed(Arc<Failure>),
    /// The operation was skipped, for this failure of another.
    Skipped(Arc<Failure>, String),
    /// It will not be called.
    Refused(Py<PyAny>),
    /// A wait for everything: the failures are taken when the result is asked for.
    All,
}

struct Callback {
    function: Py<PyAny>,
    next: *mut Callback,
}

/// The end of the list of a settled result.
const CLOSED: *mut Callback = std::ptr::without_provenance_mut(1);

/// The result of an operation. `result()` waits, and so does `await`.
#[pyclass(frozen, weakref, generic, module = "seriatim")]
pub struct Pending {
    state: AtomicU8,
    outcome: UnsafeCell<Outcome>,
    callbacks: AtomicPtr<Callback>,
    shared: Arc<Shared>,
}

// SAFETY: the outcome is written once, before `DONE`, and only read after it. The list is of
// atomics.
unsafe impl Sync for Pending {}
// SAFETY: all that it has may go to another thread.
unsafe impl Send for Pending {}

impl Pending {
    pub fn new(shared: &Arc<Shared>) -> Pending {
        Pending {
            state: AtomicU8::new(0),
            outcome: UnsafeCell::new(Outcome::Nothing),
            callbacks: AtomicPtr::new(null_mut()),
            shared: Arc::clone(shared),
        }
    }

    fn is_done(&self) -> bool {
        // Acquire: with the exchange in `settle`, for the outcome.
        self.state.load(Acquire) & DONE != 0
    }

    /// Gives it its outcome, once.
    pub fn settle(slf: &Py<Pending>, py: Python<'_>, outcome: Outcome) {
        let this = slf.get();
        debug_assert!(!this.is_done());
        // SAFETY: it is settled by the one thread that has the operation, and not done yet.
        unsafe { *this.outcome.get() = outcome };
        if this.state.swap(DONE, AcqRel) & WAITED != 0 {
            this.shared.bell_of(this).ring();
        }
        let mut list = this.callbacks.swap(CLOSED, AcqRel);
        if list.is_null() {
            return;
        }
        let mut functions = Vec::new();
        while !list.is_null() {
            // SAFETY: the nodes come from boxes, and the list was taken whole.
            let Callback { function, next } = *unsafe { Box::from_raw(list) };
            functions.push(function);
            list = next;
        }
        functions.iter().rev().for_each(|function| Pending::call(slf, py, function));
    }

    /// Calls a callback. It counts as a part of an operation: it must not wait.
    fn call(slf: &Py<Pending>, py: Python<'_>, function: &Py<PyAny>) {
        let outcome = runner::inside(&slf.get().shared, || function.call1(py, (slf,)));
        if let Err(error) = outcome {
            error.write_unraisable(py, Some(function.bind(py)));
        }
    }

    fn outcome(&self) -> &Outcome {
        debug_assert!(self.is_done());
        // SAFETY: it is done, so nobody writes to it.
        unsafe { &*self.outcome.get() }
    }

    /// What the program gets. Failures count as taken.
    fn get(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let now = self.shared.next_order();
        match self.outcome() {
            Outcome::Nothing => Ok(py.None()),
            Outcome::Value(value) => Ok(value.clone_ref(py)),
            Outcome::Failed(failure) => {
                failure.take(now);
                Err(PyErr::from_value(failure.exception.bind(py).clone()))
            }
            Outcome::Skipped(failure, name) => {
                failure.take(now);
                Err(skipped(py, name, failure))
            }
            Outcome::Refused(exception) => Err(PyErr::from_value(exception.bind(py).clone())),
            Outcome::All => match self.shared.take_failures(now) {
                None => Ok(py.None()),
                Some((failure, more)) => {
                    let exception = failure.exception.bind(py);
                    if more > 0 {
                        exception.call_method1("add_note", (format!("seriatim: {more} more operations failed"),))?;
                    }
                    Err(PyErr::from_value(exception.clone()))
                }
            },
        }
    }

    /// Waits until it is settled.
    ///
    /// # Errors
    /// TimedOut, WaitInsideOperation, Stopped, and what handlers of signals raise.
    pub fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        if self.is_done() {
            return Ok(());
        }
        runner::refuse_wait_inside(py, &self.shared)?;
        let deadline = match timeout {
            None => None,
            Some(seconds) if seconds.is_nan() => return Err(PyValueError::new_err("the timeout is not a number")),
            // What is too long for a time is no limit.
            Some(seconds) => {
                let timeout = Duration::try_from_secs_f64(seconds.max(0.0)).ok();
                timeout.and_then(|timeout| Instant::now().checked_add(timeout))
            }
        };
        self.state.fetch_or(WAITED, AcqRel);
        let shared = &self.shared;
        let is_over = || self.is_done() || shared.is_gone();
        let in_time = shared.waiting(|| shared.bell_of(self).wait(py, deadline, is_over))?;
        if self.is_done() {
            return Ok(());
        }
        if !in_time {
            let in_flight = shared.in_flight();
            let message = format!("no result after {} s; {in_flight} operations are in flight", timeout.unwrap_or(0.0));
            return Err(error(py, "TimedOut", message));
        }
        Err(shared.refusal(py))
    }
}

/// The error of an operation that was skipped.
fn skipped(py: Python<'_>, name: &str, failure: &Failure) -> PyErr {
    let error = error(py, "Skipped", format!("'{name}' was skipped, since '{}' failed before it", failure.name));
    error.set_cause(py, Some(PyErr::from_value(failure.exception.bind(py).clone())));
    error
}

static AWAIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

#[pymethods]
impl Pending {
    /// Waits for the result, and returns it or raises what the operation raised.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        self.wait(py, timeout)?;
        self.get(py)
    }

    /// Waits until there is a result, and returns the exception that it is, or None.
    #[pyo3(signature = (timeout=None))]
    fn exception(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<PyAny>>> {
        self.wait(py, timeout)?;
        Ok(self.get(py).err().map(|error| error.into_value(py).into_any()))
    }

    /// Whether there is a result.
    fn done(&self) -> bool {
        self.is_done()
    }

    /// Has a function called with this result when it is there, on the thread that ends the
    /// operation; at once if it is there already. The function must not wait.
    fn add_done_callback(slf: Bound<'_, Self>, function: Py<PyAny>) {
        let (py, slf) = (slf.py(), slf.unbind());
        let this = slf.get();
        let node = Box::into_raw(Box::new(Callback { function, next: null_mut() }));
        let mut head = this.callbacks.load(Acquire);
        while head != CLOSED {
            // SAFETY: the node is this thread's until it is in the list.
            unsafe { (*node).next = head };
            match this.callbacks.compare_exchange_weak(head, node, AcqRel, Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
        // SAFETY: it did not come into the list.
        let node = unsafe { Box::from_raw(node) };
        Pending::call(&slf, py, &node.function);
    }

    fn __await__(slf: Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let make = || py.import("seriatim._aio")?.getattr("wait").map(Bound::unbind);
        AWAIT.get_or_try_init(py, make)?.call1(py, (slf,))
    }

    fn __repr__(&self) -> &'static str {
        match self.is_done().then(|| self.outcome()) {
            None => "<Pending>",
            Some(Outcome::Failed(_)) => "<Pending: failed>",
            Some(Outcome::Skipped(..)) => "<Pending: skipped>",
            Some(Outcome::Refused(_)) => "<Pending: not called>",
            Some(_) => "<Pending: done>",
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if self.is_done() {
            match self.outcome() {
                Outcome::Value(value) | Outcome::Refused(value) => visit.call(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        if self.is_done() {
            // SAFETY: nobody has the result but the collector.
            let outcome = std::mem::replace(unsafe { &mut *self.outcome.get() }, Outcome::Nothing);
            drop(outcome);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut list = *self.callbacks.get_mut();
        while !list.is_null() && list != CLOSED {
            // SAFETY: the list is this one's alone.
            list = unsafe { Box::from_raw(list) }.next;
        }
    }
}
