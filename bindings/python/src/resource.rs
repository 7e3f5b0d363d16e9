//! What operations declare: a variable of the engine, and the object that it stands for, if any.
//!
//! Programs have the classes `Variable`, `Value` and `Array` of `python/seriatim/`, which derive
//! from `Resource`. Used by `engine.rs`, `operation.rs` and `graph.rs`.
//!
//! The object is replaced only by an operation that changes the variable (`into`), and read only by
//! operations that read it. So the engine's order guards it, and no lock does. The mark of a
//! failure is written under that order too, but any thread that reads it may clear it, so it has
//! a lock.

use crate::failure::Failure;
use crate::pending::Pending;
use crate::shared::Shared;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use seriatim::{Context, Variable};
use std::cell::UnsafeCell;
use std::sync::{Arc, Mutex, PoisonError};

/// What an operation is given: one object for reads, another for writes.
#[derive(Default)]
pub struct Objects {
    read: Option<Py<PyAny>>,
    write: Option<Py<PyAny>>,
}

/// The base of what operations declare. Programs use Variable, Value and Array.
#[pyclass(frozen, subclass, weakref, module = "seriatim")]
pub struct Resource {
    shared: Arc<Shared>,
    variable: Variable,
    /// The tiles of an array: then it stands for all of them, and its own variable is not used.
    parts: Vec<Py<Resource>>,
    objects: UnsafeCell<Objects>,
    mark: Mutex<Option<Arc<Failure>>>,
    #[pyo3(get)]
    name: String,
}

// SAFETY: `objects` is changed only by an operation that the engine lets change the variable, and
// read only by those that it lets read it; by the collector, when nobody else has the resource.
unsafe impl Sync for Resource {}

impl Resource {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Calls `each` for the variables that it stands for.
    pub fn for_variables(&self, mut each: impl FnMut(Variable)) {
        match self.parts.as_slice() {
            [] => each(self.variable),
            parts => parts.iter().for_each(|part| each(part.get().variable)),
        }
    }

    /// The object for an operation that reads it, or that changes it. `None` for a mere variable.
    ///
    /// # Safety
    /// The caller is an operation that has declared this.
    pub unsafe fn object(&self, is_write: bool) -> Option<&Py<PyAny>> {
        // SAFETY: by the contract nobody replaces it meanwhile.
        let objects = unsafe { &*self.objects.get() };
        if is_write {
            objects.write.as_ref()
        } else {
            objects.read.as_ref()
        }
    }

    /// Replaces the object, and returns the one before, for the caller to drop.
    ///
    /// # Safety
    /// The caller is an operation that has declared to change the resource.
    pub unsafe fn replace(&self, py: Python<'_>, object: &Py<PyAny>) -> Objects {
        // SAFETY: by the contract nobody else has access.
        let objects = unsafe { &mut *self.objects.get() };
        let new = Objects { read: Some(object.clone_ref(py)), write: Some(object.clone_ref(py)) };
        std::mem::replace(objects, new)
    }

    fn own_mark(&self, order: u64) -> Option<Arc<Failure>> {
        let mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        mark.as_ref().filter(|failure| failure.concerns(order)).cloned()
    }

    /// The failure for which an operation with this number must not run.
    pub fn mark(&self, order: u64) -> Option<Arc<Failure>> {
        self.own_mark(order).or_else(|| self.parts.iter().find_map(|part| part.get().own_mark(order)))
    }

    /// Marks what the operation would have changed.
    pub fn set_mark(&self, failure: &Arc<Failure>) {
        let set = |resource: &Resource| {
            let mut mark = resource.mark.lock().unwrap_or_else(PoisonError::into_inner);
            let before = mark.replace(Arc::clone(failure));
            drop(mark);
            drop(before); // Its exception may be the last reference to something of the program's.
        };
        set(self);
        self.parts.iter().for_each(|part| set(part.get()));
    }
}

#[pymethods]
impl Resource {
    #[new]
    #[pyo3(signature = (engine, name, read, write, parts))]
    fn new(
        engine: &crate::engine::Engine,
        name: String,
        read: Option<Py<PyAny>>,
        write: Option<Py<PyAny>>,
        parts: Vec<Py<Resource>>,
    ) -> Resource {
        let shared = Arc::clone(engine.shared());
        let variable = shared.engine.new_variable();
        let objects = UnsafeCell::new(Objects { read, write });
        Resource { shared, variable, parts, objects, mark: Mutex::default(), name }
    }

    /// The result is there when every change that was pushed before is done. It is what the
    /// resource stands for, as an operation that reads it would have it.
    fn ready(slf: Bound<'_, Self>) -> PyResult<Py<Pending>> {
        let shared = Arc::clone(&slf.get().shared);
        shared.push_look(slf.py(), slf.unbind())
    }

    /// Takes the resource, as an operation would: the result is what ends the hold.
    fn _hold(slf: Bound<'_, Self>, is_write: bool) -> PyResult<Py<Pending>> {
        let shared = Arc::clone(&slf.get().shared);
        shared.push_hold(slf.py(), slf.unbind(), is_write)
    }

    /// How often it was changed.
    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<u64> {
        let mut version = 0;
        let mut failed = None;
        self.for_variables(|variable| match self.shared.engine.version(variable) {
            Ok(of_one) => version += of_one,
            Err(error) => failed = Some(error),
        });
        failed.map_or(Ok(version), |error| Err(crate::errors::of_engine(py, &error)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: the collector runs while no other thread does, or has the GIL; objects are
        // replaced under it in one step.
        let objects = unsafe { &*self.objects.get() };
        visit.call(&objects.read)?;
        visit.call(&objects.write)?;
        self.parts.iter().try_for_each(|part| visit.call(part))
    }

    fn __clear__(&self) {
        // SAFETY: nobody has the resource but the collector.
        let objects = unsafe { &mut *self.objects.get() };
        let before = std::mem::take(objects);
        drop(before);
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        if self.shared.is_usable() {
            // Refused only if the engine ends, and the variable with it.
            let _ = self.shared.engine.delete_variable(|_| (), Context::default(), self.variable);
        }
    }
}
