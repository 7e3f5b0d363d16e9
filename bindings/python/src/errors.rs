//! Errors of Python for what goes wrong: the classes are those of `python/seriatim/_errors.py`.
//!
//! Used by all files that return errors. Cold.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use seriatim::ErrorKind;

static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// An error of the class that `_errors.py` has under this name.
pub fn error(py: Python<'_>, class: &str, message: impl Into<String>) -> PyErr {
    let make = || -> PyResult<Bound<'_, PyAny>> {
        let classes = CLASSES.get_or_try_init(py, || py.import("seriatim._errors").map(Bound::unbind))?;
        classes.bind(py).getattr(class)?.call1((message.into(),))
    };
    make().map_or_else(|error| error, PyErr::from_value)
}

/// The error of Python for one of the library.
pub fn of_engine(py: Python<'_>, error_of_engine: &seriatim::Error) -> PyErr {
    let class = match error_of_engine.kind() {
        ErrorKind::EngineFull => "EngineFull",
        ErrorKind::ForeignVariable => "ForeignVariable",
        ErrorKind::BadSetting => "BadSetting",
        ErrorKind::Stopped => "Stopped",
        _ => "Error",
    };
    error(py, class, error_of_engine.to_string())
}
