//! Operations: what they call and with what, how the engine hands them over, and how they end.
//!
//! `shared.rs` and `graph.rs` push them. The engine calls [`Ready::start`] when an operation may
//! run, on the thread that pushes it or that ends what it waited for. A function goes into the
//! queue, and a runner calls it ([`Entry::execute`]). A wait ends at once.
//!
//! Of each operation the engine is told that it is done, also when it has failed: see `failure.rs`.
//! Marks are written before that, so whatever comes after the operation sees them.

use crate::failure::Failure;
use crate::held::Held;
use crate::pending::{Outcome, Pending};
use crate::resource::Resource;
use crate::runner;
use crate::shared::Shared;
use crate::token::Limits;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use seriatim::{Completion, Variable};
use smallvec::{smallvec, SmallVec};
use std::cmp::Ordering;
use std::sync::Arc;

/// An argument of a function.
pub enum Arg {
    Plain(Py<PyAny>),
    Read(Py<Resource>),
    Write(Py<Resource>),
}

/// A function of the program, with what it is called with.
pub struct Function {
    pub function: Py<PyAny>,
    pub args: SmallVec<[Arg; 4]>,
    /// What becomes of the result: the object of this resource.
    pub into: Option<Py<Resource>>,
    pub name: Option<Py<PyString>>,
    pub priority: i32,
    pub limits: Option<Box<Limits>>,
}

pub enum Work {
    Function(Function),
    /// A wait for the writes of a resource. Without one: of what the engine was told to wait for.
    Look(Option<Py<Resource>>),
    /// The program itself is the operation, until it lets go.
    Hold(Py<Resource>),
}

/// An operation that the engine has.
pub struct Ready {
    pub shared: Arc<Shared>,
    pub work: Work,
    /// Its number in the order of pushes.
    pub order: u64,
    /// Of the operations of a graph none has a result.
    pub pending: Option<Py<Pending>>,
}

/// An operation in the queue.
pub struct Entry {
    ready: Ready,
    completion: Completion,
}

impl Arg {
    fn clone_ref(&self, py: Python<'_>) -> Arg {
        match self {
            Arg::Plain(object) => Arg::Plain(object.clone_ref(py)),
            Arg::Read(resource) => Arg::Read(resource.clone_ref(py)),
            Arg::Write(resource) => Arg::Write(resource.clone_ref(py)),
        }
    }

    fn resource(&self) -> Option<&Resource> {
        match self {
            Arg::Plain(_) => None,
            Arg::Read(resource) | Arg::Write(resource) => Some(resource.get()),
        }
    }
}

/// What the engine is told of an operation.
pub type Variables = SmallVec<[Variable; 8]>;

impl Function {
    pub fn clone_ref(&self, py: Python<'_>) -> Function {
        Function {
            function: self.function.clone_ref(py),
            args: self.args.iter().map(|arg| arg.clone_ref(py)).collect(),
            into: self.into.as_ref().map(|into| into.clone_ref(py)),
            name: self.name.as_ref().map(|name| name.clone_ref(py)),
            priority: self.priority,
            limits: self.limits.clone(),
        }
    }

    /// The variables that it reads, and those that it changes.
    pub fn variables(&self) -> (Variables, Variables) {
        let (mut reads, mut writes) = (Variables::new(), Variables::new());
        for arg in &self.args {
            match arg {
                Arg::Plain(_) => {}
                Arg::Read(resource) => resource.get().for_variables(|variable| reads.push(variable)),
                Arg::Write(resource) => resource.get().for_variables(|variable| writes.push(variable)),
            }
        }
        if let Some(into) = &self.into {
            into.get().for_variables(|variable| writes.push(variable));
        }
        (reads, writes)
    }

    /// What people call it.
    pub fn name(&self, py: Python<'_>) -> String {
        let given = self.name.as_ref().map(|name| name.bind(py).to_string());
        given.unwrap_or_else(|| match self.function.bind(py).getattr("__qualname__") {
            Ok(name) => name.to_string(),
            Err(_) => self.function.bind(py).repr().map_or_else(|_| "?".to_owned(), |name| name.to_string()),
        })
    }

    fn changed(&self) -> impl Iterator<Item = &Resource> {
        let writes = self.args.iter().filter_map(|arg| match arg {
            Arg::Write(resource) => Some(resource.get()),
            _ => None,
        });
        writes.chain(self.into.as_ref().map(Py::get))
    }

    fn inherited(&self, order: u64) -> Option<Arc<Failure>> {
        let mut used = self.args.iter().filter_map(Arg::resource).chain(self.into.as_ref().map(Py::get));
        used.find_map(|resource| resource.mark(order))
    }

    /// Calls it. The arguments lie on the stack: no tuple is made.
    fn call(&self, py: Python<'_>, shared: &Shared) -> PyResult<Py<PyAny>> {
        // The first place is the callee's, for a method's `self`.
        let mut stack: SmallVec<[*mut ffi::PyObject; 10]> = smallvec![std::ptr::null_mut()];
        let mut lent: SmallVec<[(Py<PyAny>, bool); 4]> = SmallVec::new();
        for arg in &self.args {
            let (resource, is_write) = match arg {
                Arg::Plain(object) => {
                    stack.push(object.as_ptr());
                    continue;
                }
                Arg::Read(resource) => (resource.get(), false),
                Arg::Write(resource) => (resource.get(), true),
            };
            // SAFETY: the operation has declared it, and the engine lets it run.
            let Some(object) = (unsafe { resource.object(is_write) }) else { continue };
            if shared.is_checked {
                let object = shared.lend(py, object, is_write)?;
                stack.push(object.as_ptr());
                lent.push((object, is_write));
            } else {
                stack.push(object.as_ptr());
            }
        }
        let count = stack.len() - 1;
        // SAFETY: the thread is attached. The objects are alive: `self`, the resources and `lent`
        // hold them. The place before the first argument may be written to.
        let result = unsafe {
            let first = stack.as_mut_ptr().add(1);
            let flags = count | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
            let result = ffi::PyObject_Vectorcall(self.function.as_ptr(), first, flags, std::ptr::null_mut());
            Bound::from_owned_ptr_or_err(py, result)
        };
        for (object, is_write) in lent {
            shared.take_back(py, object, is_write)?;
        }
        let result = result?.unbind();
        if let Some(into) = &self.into {
            // SAFETY: as above: `into` is among what the operation changes.
            drop(unsafe { into.get().replace(py, &result) });
        }
        Ok(result)
    }

    fn run(&self, py: Python<'_>, shared: &Arc<Shared>, order: u64) -> Outcome {
        let refused = self.limits.as_ref().and_then(|limits| limits.refusal(py, &self.name(py)));
        let exception = match refused {
            Some(refused) => refused,
            None => {
                if shared.has_failed() {
                    if let Some(failure) = self.inherited(order) {
                        shared.count_skipped();
                        self.changed().for_each(|resource| resource.set_mark(&failure));
                        return Outcome::Skipped(failure, self.name(py));
                    }
                }
                match self.call(py, shared) {
                    Ok(value) => return Outcome::Value(value),
                    Err(exception) => exception,
                }
            }
        };
        let exception = exception.into_value(py).into_any();
        let failure = Arc::new(Failure::new(exception, self.name(py), order));
        shared.add_failure(&failure);
        self.changed().for_each(|resource| resource.set_mark(&failure));
        Outcome::Failed(failure)
    }
}

impl Ready {
    /// The engine lets the operation run.
    pub fn start(mut self, completion: Completion) {
        Python::attach(|py| {
            let resource = match &self.work {
                Work::Function(_) => {
                    let shared = Arc::clone(&self.shared);
                    return shared.queue.push(Entry { ready: self, completion });
                }
                Work::Look(None) => {
                    completion.complete();
                    return self.end(py, Outcome::Nothing);
                }
                Work::Look(Some(resource)) | Work::Hold(resource) => resource.get(),
            };
            if let Some(failure) = resource.mark(self.order) {
                completion.complete();
                return self.end(py, Outcome::Failed(failure));
            }
            if let Work::Look(_) = self.work {
                // SAFETY: the engine has let this read of the resource run.
                let object = unsafe { resource.object(false) }.map(|object| object.clone_ref(py));
                completion.complete();
                return self.end(py, object.map_or(Outcome::Nothing, Outcome::Value));
            }
            let Some(pending) = self.pending.take() else { return };
            let held = Held::hold(py, completion, Arc::clone(&self.shared));
            let outcome = held.map_or_else(|error| Outcome::Refused(error.into_value(py).into_any()), Outcome::Value);
            Pending::settle(&pending, py, outcome);
        });
    }

    /// Tells the program the outcome. The engine knows already that the operation has ended.
    fn end(&mut self, py: Python<'_>, outcome: Outcome) {
        if let Some(pending) = self.pending.take() {
            Pending::settle(&pending, py, outcome);
        }
        self.shared.one_less(py);
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            // It was never called: the engine ends.
            Python::attach(|py| {
                let refusal = self.shared.refusal(py).into_value(py).into_any();
                Pending::settle(&pending, py, Outcome::Refused(refusal));
                self.shared.one_less(py);
            });
        }
    }
}

impl Entry {
    pub fn priority(&self) -> i32 {
        match &self.ready.work {
            Work::Function(function) => function.priority,
            _ => 0,
        }
    }

    /// Calls the function and ends the operation. For runners, outside of calls of the engine.
    pub fn execute(self, py: Python<'_>) {
        let Entry { mut ready, completion } = self;
        let shared = Arc::clone(&ready.shared);
        let Work::Function(function) = std::mem::replace(&mut ready.work, Work::Look(None)) else { return };
        let outcome = runner::inside(&shared, || {
            let outcome = function.run(py, &shared, ready.order);
            drop(function); // Destructors of the program may run.
            outcome
        });
        completion.complete();
        ready.end(py, outcome);
    }
}

/// For the heap: by priority, and by push order among equals.
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.priority().cmp(&other.priority()).then_with(|| other.ready.order.cmp(&self.ready.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
