//! Tokens and deadlines: until when an operation may start.
//!
//! Used by `engine.rs`, which gives them to operations, and by `operation.rs`, which asks them just
//! before it calls a function. Any thread may cancel.

use crate::errors::error;
use pyo3::prelude::*;
use std::time::Instant;

/// Cancels a group of operations: those that are pushed with this token.
#[pyclass(frozen, module = "seriatim")]
pub struct CancelToken(seriatim::CancelToken);

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> CancelToken {
        CancelToken(seriatim::CancelToken::new())
    }

    /// Skips what has not started, for good.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether `cancel` was called.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn __repr__(&self) -> &'static str {
        if self.0.is_cancelled() {
            "CancelToken(cancelled)"
        } else {
            "CancelToken()"
        }
    }
}

#[derive(Clone)]
pub struct Limits {
    token: Option<seriatim::CancelToken>,
    deadline: Option<Instant>,
}

impl Limits {
    /// The limits, if there are any.
    pub fn new(token: Option<&Bound<'_, CancelToken>>, deadline: Option<Instant>) -> Option<Box<Limits>> {
        let token = token.map(|token| token.get().0.clone());
        (token.is_some() || deadline.is_some()).then(|| Box::new(Limits { token, deadline }))
    }

    /// Why an operation may not start now.
    pub fn refusal(&self, py: Python<'_>, name: &str) -> Option<PyErr> {
        if self.token.as_ref().is_some_and(seriatim::CancelToken::is_cancelled) {
            return Some(error(py, "Cancelled", format!("'{name}' was cancelled before it started")));
        }
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        late.then(|| error(py, "DeadlineExceeded", format!("'{name}' had not started within its time")))
    }
}
