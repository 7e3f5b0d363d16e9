//! What `with x.reading()` and `with x.writing()` have: an operation that the program ends itself.
//!
//! Made by `operation.rs` when the engine lets it begin; ended by `python/seriatim/_access.py`.

use crate::shared::Shared;
use pyo3::prelude::*;
use seriatim::Completion;
use std::sync::{Arc, Mutex, PoisonError};

#[pyclass(frozen, module = "seriatim")]
pub struct Held {
    completion: Mutex<Option<Completion>>,
    shared: Arc<Shared>,
}

impl Held {
    pub fn hold(py: Python<'_>, completion: Completion, shared: Arc<Shared>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Held { completion: Mutex::new(Some(completion)), shared })?.into_any())
    }
}

#[pymethods]
impl Held {
    /// Lets go. A second call changes nothing.
    fn release(&self, py: Python<'_>) {
        let completion = self.completion.lock().unwrap_or_else(PoisonError::into_inner).take();
        match completion {
            Some(completion) if self.shared.is_usable() => {
                completion.complete();
                self.shared.one_less(py);
            }
            // In the child of a fork the engine is the parent's, and so is the operation.
            lost => std::mem::forget(lost),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        Python::attach(|py| self.release(py));
    }
}
