//! The class `Engine` of the module: pushes, and what `python/seriatim/_engine.py` builds on.

use crate::errors::{error, of_engine};
use crate::graph::Capture;
use crate::operation::{Arg, Function, Work};
use crate::pending::Pending;
use crate::resource::Resource;
use crate::runner::Runner;
use crate::shared::Shared;
use crate::token::{CancelToken, Limits};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The part of seriatim.Engine that is written in Rust.
#[pyclass(frozen, subclass, weakref, module = "seriatim._seriatim", name = "Engine")]
pub struct Engine {
    shared: Arc<Shared>,
}

type Args = SmallVec<[Arg; 4]>;

impl Engine {
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

/// Adds a resource to the arguments: each of them once, unless all its uses are reads.
fn add(shared: &Arc<Shared>, args: &mut Args, object: &Bound<'_, PyAny>, is_write: bool) -> PyResult<()> {
    let resource = of(shared, object)?;
    for arg in args.iter() {
        let (before, was_write) = match arg {
            Arg::Plain(_) => continue,
            Arg::Read(before) => (before, false),
            Arg::Write(before) => (before, true),
        };
        if (is_write || was_write) && overlaps(before.get(), resource.get()) {
            let name = resource.get().name();
            let message = format!("{name} is named twice, and changed: an operation names it once, as a write");
            return Err(error(object.py(), "AliasError", message));
        }
    }
    let resource = resource.clone().unbind();
    args.push(if is_write { Arg::Write(resource) } else { Arg::Read(resource) });
    Ok(())
}

/// Whether two resources have a variable in common.
fn overlaps(one: &Resource, other: &Resource) -> bool {
    let mut found = false;
    one.for_variables(|mine| other.for_variables(|its| found |= mine == its));
    found
}

fn of<'a, 'py>(shared: &Arc<Shared>, object: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, Resource>> {
    let Ok(resource) = object.cast::<Resource>() else {
        let class = object.get_type().name()?;
        let message = format!("reads and writes are variables, values and arrays of an engine, not {class}");
        return Err(PyTypeError::new_err(message));
    };
    if !resource.get().is_of(shared) {
        return Err(error(object.py(), "ForeignVariable", "it belongs to another engine"));
    }
    Ok(resource)
}

/// Adds one resource, or all of a sequence.
fn add_all(shared: &Arc<Shared>, args: &mut Args, objects: &Bound<'_, PyAny>, is_write: bool) -> PyResult<()> {
    if let Ok(list) = objects.cast::<PyList>() {
        return list.iter().try_for_each(|object| add(shared, args, &object, is_write));
    }
    if let Ok(tuple) = objects.cast::<PyTuple>() {
        return tuple.iter().try_for_each(|object| add(shared, args, &object, is_write));
    }
    if objects.is_instance_of::<Resource>() {
        return add(shared, args, objects, is_write);
    }
    objects.try_iter()?.try_for_each(|object| add(shared, args, &object?, is_write))
}

/// How an operation is pushed, beside what it uses.
pub struct Options<'a, 'py> {
    pub into: Option<&'a Bound<'py, Resource>>,
    pub name: Option<Bound<'py, PyString>>,
    pub priority: i32,
    pub limits: Option<Box<Limits>>,
}

/// The function of an operation, with its arguments in the order: reads, writes, others.
pub fn function<'py>(
    shared: &Arc<Shared>,
    function: Bound<'py, PyAny>,
    reads: Option<&Bound<'py, PyAny>>,
    writes: Option<&Bound<'py, PyAny>>,
    others: Option<&Bound<'py, PyTuple>>,
    options: Options<'_, 'py>,
) -> PyResult<Function> {
    let mut args = Args::new();
    if let Some(reads) = reads {
        add_all(shared, &mut args, reads, false)?;
    }
    if let Some(writes) = writes {
        add_all(shared, &mut args, writes, true)?;
    }
    if let Some(others) = others {
        args.extend(others.iter().map(|object| Arg::Plain(object.unbind())));
    }
    finish(shared, function, args, options)
}

fn finish<'py>(
    shared: &Arc<Shared>,
    function: Bound<'py, PyAny>,
    args: Args,
    options: Options<'_, 'py>,
) -> PyResult<Function> {
    let Options { into, name, priority, limits } = options;
    let into = into.map(|into| of(shared, into.as_any())).transpose()?;
    Ok(Function {
        function: function.unbind(),
        args,
        into: into.map(|into| into.clone().unbind()),
        name: name.map(Bound::unbind),
        priority,
        limits,
    })
}

/// When an operation must have started.
fn start_by(py: Python<'_>, start_within: Option<f64>) -> PyResult<Option<Instant>> {
    let Some(seconds) = start_within else { return Ok(None) };
    match Duration::try_from_secs_f64(seconds) {
        Ok(left) => Ok(Instant::now().checked_add(left)),
        Err(_) if seconds > 0.0 => Ok(None),
        Err(_) => Err(error(py, "BadSetting", format!("start_within={seconds}: give seconds, at least 0"))),
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (workers, bound, when_full, checked))]
    fn new(py: Python<'_>, workers: usize, bound: usize, when_full: &str, checked: bool) -> PyResult<Engine> {
        if !(1..=1024).contains(&workers) {
            return Err(error(py, "BadSetting", format!("workers={workers}: give 1 to 1024")));
        }
        let waits_when_full = match when_full {
            "wait" => true,
            "error" => false,
            _ => return Err(error(py, "BadSetting", format!("when_full={when_full:?}: give 'wait' or 'error'"))),
        };
        let shared = Shared::new(workers, bound, waits_when_full, checked).map_err(|error| of_engine(py, &error))?;
        Ok(Engine { shared })
    }

    /// What the threads of the engine run.
    fn _runners(&self) -> Vec<Runner> {
        let runners = self.shared.runners.load(std::sync::atomic::Ordering::Relaxed);
        (0..runners).map(|seat| Runner { shared: Arc::clone(&self.shared), seat }).collect()
    }

    /// Pushes an operation.
    #[pyo3(signature = (fn_, /, reads=None, writes=None, *, args=None, into=None, name=None, priority=0, token=None, start_within=None))]
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
        token: Option<&Bound<'py, CancelToken>>,
        start_within: Option<f64>,
    ) -> PyResult<Py<Pending>> {
        let limits = Limits::new(token, start_by(py, start_within)?);
        let options = Options { into, name, priority, limits };
        let function = function(&self.shared, fn_, reads, writes, args, options)?;
        self.shared.push(py, Work::Function(function))
    }

    /// Pushes a call with these arguments: resources among them are read, or changed if the bit of
    /// their place is set in `writes`.
    #[pyo3(signature = (fn_, args, writes, into, name, priority, token, start_within))]
    #[allow(clippy::too_many_arguments)]
    fn _call<'py>(
        &self,
        py: Python<'py>,
        fn_: Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        writes: u64,
        into: Option<&Bound<'py, Resource>>,
        name: Option<Bound<'py, PyString>>,
        priority: i32,
        token: Option<&Bound<'py, CancelToken>>,
        start_within: Option<f64>,
    ) -> PyResult<Py<Pending>> {
        let mut list = Args::new();
        for (place, object) in args.iter().enumerate() {
            let is_write = place < 64 && writes >> place & 1 != 0;
            if is_write || object.is_instance_of::<Resource>() {
                add(&self.shared, &mut list, &object, is_write)?;
            } else {
                list.push(Arg::Plain(object.unbind()));
            }
        }
        let options = Options { into, name, priority, limits: Limits::new(token, start_by(py, start_within)?) };
        let function = finish(&self.shared, fn_, list, options)?;
        self.shared.push(py, Work::Function(function))
    }

    /// The result is there when nothing is in flight.
    fn all(&self, py: Python<'_>) -> PyResult<Py<Pending>> {
        self.shared.when_all_ended(py)
    }

    /// Begins to record a graph.
    fn _capture(&self) -> Capture {
        Capture::new(&self.shared)
    }

    /// Calls the threads off: nothing is in flight.
    fn _close(&self) {
        self.shared.close();
    }

    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_gone()
    }

    /// What the engine does: counts, by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = PyDict::new(py);
        self.shared.stats().into_iter().try_for_each(|(name, count)| stats.set_item(name, count))?;
        Ok(stats)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.leave();
    }
}
