//! Graphs: operations that are recorded once and pushed as one, again and again.
//!
//! `engine.rs` begins a capture; programs record with `run` and replay. Each replay runs every
//! recorded operation anew, with the same function and arguments. A hidden variable, which every
//! operation of the graph reads, tells when a replay has ended: the result of a replay changes it.

use crate::engine::{function, Options};
use crate::errors::of_engine;
use crate::operation::{Ready, Work};
use crate::pending::Pending;
use crate::resource::Resource;
use crate::shared::Shared;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use seriatim::Variable;
use std::sync::{Arc, Mutex, PoisonError};

/// Records operations.
#[pyclass(frozen, module = "seriatim")]
pub struct Capture {
    shared: Arc<Shared>,
    end: Variable,
    recording: Mutex<Option<seriatim::Capture>>,
}

/// Operations that are pushed as one.
#[pyclass(frozen, module = "seriatim")]
pub struct Graph {
    shared: Arc<Shared>,
    end: Variable,
    graph: seriatim::Graph,
}

impl Capture {
    pub fn new(shared: &Arc<Shared>) -> Capture {
        let recording = Mutex::new(Some(shared.engine.begin_capture()));
        Capture { shared: Arc::clone(shared), end: shared.engine.new_variable(), recording }
    }
}

#[pymethods]
impl Capture {
    /// Records an operation, as Engine.run pushes it.
    #[pyo3(signature = (fn_, /, reads=None, writes=None, *, args=None, into=None, name=None, priority=0))]
    #[allow(clippy::too_many_arguments)] // They are named in Python.
    fn run<'py>(
        &self,
        py: Python<'py>,
        fn_: Bound<'py, PyAny>,
        reads: Option<&Bound<'py, PyAny>>,
        writes: Option<&Bound<'py, PyAny>>,
        args: Option<&Bound<'py, PyTuple>>,
        into: Option<&Bound<'py, Resource>>,
        name: Option<Bound<'py, PyString>>,
        priority: i32,
    ) -> PyResult<()> {
        let options = Options { into, name, priority, limits: None };
        let function = function(&self.shared, fn_, reads, writes, args, options)?;
        let (reads, writes) = function.variables();
        let shared = Arc::downgrade(&self.shared);
        let mut recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(capture) = recording.as_mut() else {
            return Err(PyRuntimeError::new_err("the graph is made: record before that"));
        };
        let builder = capture.op("python").reads(reads.iter().copied()).read(self.end).writes(writes.iter().copied());
        let recorded = builder.push_async(move |_, completion| {
            // The replay keeps the engine: its own operation has it.
            let Some(shared) = shared.upgrade() else { return };
            Python::attach(|py| {
                shared.one_more();
                let order = shared.next_order();
                Ready { shared, work: Work::Function(function.clone_ref(py)), order, pending: None }.start(completion);
            });
        });
        drop(recording);
        recorded.map_err(|error| of_engine(py, &error))
    }

    /// Makes the graph of what was recorded.
    fn finish(&self, py: Python<'_>) -> PyResult<Graph> {
        let recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(capture) = recording else { return Err(PyRuntimeError::new_err("the graph is made already")) };
        let graph = capture.finish().map_err(|error| of_engine(py, &error))?;
        Ok(Graph { shared: Arc::clone(&self.shared), end: self.end, graph })
    }
}

#[pymethods]
impl Graph {
    /// Pushes all operations of the graph as one. The result is there when they have ended.
    fn replay(&self, py: Python<'_>) -> PyResult<Py<Pending>> {
        self.shared.push_replay(py, &self.graph, self.end)
    }

    fn __len__(&self) -> usize {
        self.graph.len()
    }
}
