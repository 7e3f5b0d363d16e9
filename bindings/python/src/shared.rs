//! What an engine, its runners, its resources and its operations share: pushes, counts, the end.
//!
//! Used by all files beside it.
//!
//! The end: `close` calls the runners off, when the program has waited until nothing is in flight.
//! An engine that is only let go of ends when it has nothing in flight. `ends.rs` has the end of
//! the process.

use crate::bell::Bell;
use crate::ends;
use crate::errors::{error, of_engine};
use crate::failure::Failure;
use crate::operation::{Ready, Work};
use crate::pending::{Outcome, Pending};
use crate::queue::Queue;
use crate::resource::Resource;
use crate::runner;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};

static ARRAYS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// Failures that are kept until a wait takes them; later ones are only counted.
const KEPT: usize = 10_000;
const BELLS: usize = 16;

const OPEN: u8 = 0;
/// Nobody has the engine any more: it ends when nothing is in flight.
const LEFT: u8 = 1;
const CLOSED: u8 = 2;

pub struct Shared {
    pub engine: seriatim::Engine,
    pub queue: Queue,
    pub bound: usize,
    pub waits_when_full: bool,
    pub is_checked: bool,
    process: u32,
    state: AtomicU8,
    in_flight: AtomicUsize,
    order: AtomicU64,
    has_failed: AtomicBool,
    failures: Mutex<Vec<Arc<Failure>>>,
    beyond: AtomicUsize,
    wants_all: AtomicBool,
    all: Mutex<Vec<Py<Pending>>>,
    bells: [Bell; BELLS],
    /// Rung when something has ended, for pushes that wait for room.
    room: Bell,
    wants_room: AtomicUsize,
    waiting: AtomicUsize,
    serving: AtomicUsize,
    pub runners: AtomicUsize,
    pub busy: AtomicUsize,
    pub ended: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    pub turns: AtomicU64,
}

impl Shared {
    pub fn new(
        runners: usize,
        bound: usize,
        waits_when_full: bool,
        is_checked: bool,
    ) -> Result<Arc<Shared>, seriatim::Error> {
        // A fork need not wait for operations: the child does not have the engine.
        let engine =
            seriatim::Engine::builder().kind(seriatim::Kind::Naive).fork_patience(std::time::Duration::ZERO).build()?;
        let shared = Arc::new(Shared {
            engine,
            queue: Queue::new(runners),
            bound,
            waits_when_full,
            is_checked,
            process: ends::process(),
            state: AtomicU8::new(OPEN),
            in_flight: AtomicUsize::new(0),
            order: AtomicU64::new(1),
            has_failed: AtomicBool::new(false),
            failures: Mutex::default(),
            beyond: AtomicUsize::new(0),
            wants_all: AtomicBool::new(false),
            all: Mutex::default(),
            bells: Default::default(),
            room: Bell::default(),
            wants_room: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            serving: AtomicUsize::new(runners),
            runners: AtomicUsize::new(runners),
            busy: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            turns: AtomicU64::new(0),
        });
        ends::enter(&shared);
        Ok(shared)
    }

    // ---- What is in flight ----

    /// Pushes an operation, which has been counted neither as pushed nor as in flight.
    pub fn push(self: &Arc<Self>, py: Python<'_>, work: Work) -> PyResult<Py<Pending>> {
        if self.state.load(Acquire) != OPEN || !self.is_usable() {
            return Err(self.refusal(py));
        }
        if self.bound > 0 && self.in_flight.load(Acquire) >= self.bound && matches!(work, Work::Function(_)) {
            self.wait_for_room(py)?;
        }
        let pending = Py::new(py, Pending::new(self))?;
        let (reads, writes) = match &work {
            Work::Function(function) => function.variables(),
            Work::Look(Some(resource)) => {
                let mut reads = crate::operation::Variables::new();
                resource.get().for_variables(|variable| reads.push(variable));
                (reads, Default::default())
            }
            Work::Hold(_) | Work::Look(None) => Default::default(),
        };
        self.push_on(py, work, pending, &reads, &writes)
    }

    /// Pushes an operation on these variables.
    pub fn push_on(
        self: &Arc<Self>,
        py: Python<'_>,
        work: Work,
        pending: Py<Pending>,
        reads: &[seriatim::Variable],
        writes: &[seriatim::Variable],
    ) -> PyResult<Py<Pending>> {
        let ready =
            Ready { shared: Arc::clone(self), work, order: self.next_order(), pending: Some(pending.clone_ref(py)) };
        self.one_more();
        let builder = self.engine.op("python").reads(reads.iter().copied()).writes(writes.iter().copied());
        // If the push is refused, the drop of `ready` counts it off.
        builder.push_async(move |_, completion| ready.start(completion)).map_err(|error| of_engine(py, &error))?;
        Ok(pending)
    }

    pub fn push_look(self: &Arc<Self>, py: Python<'_>, resource: Py<Resource>) -> PyResult<Py<Pending>> {
        self.push(py, Work::Look(Some(resource)))
    }

    pub fn push_hold(
        self: &Arc<Self>,
        py: Python<'_>,
        resource: Py<Resource>,
        is_write: bool,
    ) -> PyResult<Py<Pending>> {
        if self.state.load(Acquire) != OPEN || !self.is_usable() {
            return Err(self.refusal(py));
        }
        let mut variables = crate::operation::Variables::new();
        resource.get().for_variables(|variable| variables.push(variable));
        let pending = Py::new(py, Pending::new(self))?;
        let (reads, writes) = if is_write { (&[][..], &variables[..]) } else { (&variables[..], &[][..]) };
        self.push_on(py, Work::Hold(resource), pending, reads, writes)
    }

    /// Pushes a replay of a graph. All operations of the graph read `end`.
    pub fn push_replay(
        self: &Arc<Self>,
        py: Python<'_>,
        graph: &seriatim::Graph,
        end: seriatim::Variable,
    ) -> PyResult<Py<Pending>> {
        if self.state.load(Acquire) != OPEN || !self.is_usable() {
            return Err(self.refusal(py));
        }
        graph.replay().map_err(|error| of_engine(py, &error))?;
        let pending = Py::new(py, Pending::new(self))?;
        self.push_on(py, Work::Look(None), pending, &[], &[end])
    }

    /// A result that is there when nothing is in flight.
    pub fn when_all_ended(self: &Arc<Self>, py: Python<'_>) -> PyResult<Py<Pending>> {
        if !self.is_usable() {
            return Err(self.refusal(py));
        }
        let pending = Py::new(py, Pending::new(self))?;
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(pending.clone_ref(py));
        // SeqCst: said first, then looked at what is in flight. `one_less` does it the other way.
        self.wants_all.store(true, SeqCst);
        if self.in_flight.load(SeqCst) == 0 {
            self.all_ended(py);
        }
        Ok(pending)
    }

    fn all_ended(&self, py: Python<'_>) {
        self.wants_all.store(false, SeqCst);
        let all = std::mem::take(&mut *self.all.lock().unwrap_or_else(PoisonError::into_inner));
        all.iter().for_each(|pending| Pending::settle(pending, py, Outcome::All));
    }

    pub fn one_more(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// An operation has ended.
    pub fn one_less(&self, py: Python<'_>) {
        self.ended.fetch_add(1, Relaxed);
        let left = self.in_flight.fetch_sub(1, SeqCst) - 1;
        if self.wants_room.load(SeqCst) != 0 && left < self.bound {
            self.room.ring();
        }
        if left == 0 {
            if self.wants_all.load(SeqCst) {
                self.all_ended(py);
            }
            if self.state.load(Acquire) != OPEN {
                self.queue.call_all();
            }
        }
    }

    fn wait_for_room(&self, py: Python<'_>) -> PyResult<()> {
        let has_room = || self.in_flight.load(SeqCst) < self.bound;
        if runner::is_inside(self) {
            return Ok(()); // An operation that waited for room might be what has to end.
        }
        if !self.waits_when_full {
            return Err(error(py, "EngineFull", format!("{} operations are in flight, the bound", self.bound)));
        }
        self.wants_room.fetch_add(1, SeqCst);
        let waited = self.waiting(|| self.room.wait(py, None, || has_room() || self.is_gone()));
        self.wants_room.fetch_sub(1, SeqCst);
        waited?;
        if self.is_gone() {
            Err(self.refusal(py))
        } else {
            Ok(())
        }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    pub fn next_order(&self) -> u64 {
        self.order.fetch_add(1, Relaxed)
    }

    /// The bell for the waits for a result.
    pub fn bell_of(&self, pending: &Pending) -> &Bell {
        &self.bells[(std::ptr::from_ref(pending) as usize >> 6) % BELLS]
    }

    /// Counts a wait of the program.
    pub fn waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, SeqCst);
        let result = wait();
        self.waiting.fetch_sub(1, SeqCst);
        result
    }

    // ---- What has failed ----

    /// Whether any operation has ever failed. Set before the operation ends, so who comes after it
    /// sees that.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    pub fn count_skipped(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    pub fn add_failure(&self, failure: &Arc<Failure>) {
        self.has_failed.store(true, Relaxed);
        self.failed.fetch_add(1, Relaxed);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that were taken go when the list would grow; their exceptions after the lock.
        let mut taken = Vec::new();
        if failures.len() == failures.capacity() {
            (taken, *failures) = std::mem::take(&mut *failures).into_iter().partition(|failure| !failure.is_live());
        }
        if failures.len() < KEPT {
            failures.push(Arc::clone(failure));
        } else {
            self.beyond.fetch_add(1, Relaxed);
        }
        drop(failures);
        drop(taken);
    }

    /// Takes all failures. Returns the first by push order, and how many more there were.
    pub fn take_failures(&self, now: u64) -> Option<(Arc<Failure>, usize)> {
        let all = std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner));
        let more = self.beyond.swap(0, Relaxed);
        let mut live: Vec<_> = all.into_iter().filter(|failure| failure.take(now)).collect();
        live.sort_by_key(|failure| failure.order);
        let count = live.len() + more;
        live.into_iter().next().map(|first| (first, count - 1))
    }

    // ---- The end ----

    /// Whether the engine is of this process.
    pub fn is_usable(&self) -> bool {
        self.process == ends::process()
    }

    /// Whether nothing is ready, and no function is being called.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.busy.load(SeqCst) == 0
    }

    /// Whether all runners and all waits of the program are gone.
    pub fn is_deserted(&self) -> bool {
        self.runners.load(SeqCst) == 0 && self.waiting.load(SeqCst) == 0
    }

    /// Whether waits are in vain.
    pub fn is_gone(&self) -> bool {
        self.state.load(Acquire) == CLOSED || !self.is_usable()
    }

    /// Why nothing can be pushed.
    pub fn refusal(&self, py: Python<'_>) -> PyErr {
        let message = match self.is_usable() {
            false => "the engine belongs to the process that was forked: make one in this process",
            true => "the engine is closed: push inside of its `with` block",
        };
        error(py, "Stopped", message)
    }

    /// Whether a runner has nothing to come back for.
    pub fn is_over(&self) -> bool {
        match self.state.load(Acquire) {
            OPEN => false,
            LEFT => self.in_flight.load(SeqCst) == 0,
            _ => true,
        }
    }

    /// Nothing is pushed any more; the runners go.
    pub fn close(&self) {
        self.state.store(CLOSED, Release);
        self.queue.call_all();
        self.bells.iter().for_each(Bell::ring);
        self.room.ring();
    }

    /// The program has let go of the engine.
    pub fn leave(&self) {
        if self.is_usable() && self.state.compare_exchange(OPEN, LEFT, AcqRel, Acquire).is_ok() {
            self.queue.call_all();
        }
    }

    /// A runner goes. The last one tells what no wait has taken. It is counted off after that: from
    /// then on the interpreter may go too.
    pub fn runner_goes(&self, py: Python<'_>) {
        if self.serving.fetch_sub(1, AcqRel) == 1 {
            if let Some((failure, _)) = self.take_failures(self.next_order()) {
                let exception = PyErr::from_value(failure.exception.bind(py).clone());
                exception.write_unraisable(py, None);
            }
        }
        self.runners.fetch_sub(1, AcqRel);
    }

    // ---- Arrays that are lent and taken back ----

    /// An object for one operation, of an engine that checks. `_arrays.py` makes a view of its own.
    pub fn lend(&self, py: Python<'_>, object: &Py<PyAny>, is_write: bool) -> PyResult<Py<PyAny>> {
        let arrays = ARRAYS.get_or_try_init(py, || py.import("seriatim._arrays").map(Bound::unbind))?;
        Ok(arrays.bind(py).getattr("lend")?.call1((object, is_write))?.unbind())
    }

    /// Takes it back: it cannot be written to any more.
    pub fn take_back(&self, py: Python<'_>, object: Py<PyAny>, is_write: bool) -> PyResult<()> {
        let arrays = ARRAYS.get_or_try_init(py, || py.import("seriatim._arrays").map(Bound::unbind))?;
        arrays.bind(py).getattr("take_back")?.call1((object, is_write)).map(drop)
    }

    pub fn stats(&self) -> [(&'static str, u64); 10] {
        let of = |count: &AtomicU64| count.load(Relaxed);
        [
            ("in_flight", self.in_flight() as u64),
            ("ready", self.queue.len() as u64),
            ("ended", of(&self.ended)),
            ("failed", of(&self.failed)),
            ("skipped", of(&self.skipped)),
            ("turns", of(&self.turns)),
            ("wakes", of(&self.queue.wakes)),
            ("runners", self.runners.load(Relaxed) as u64),
            ("busy", self.busy.load(Relaxed) as u64),
            ("waiting", self.waiting.load(Relaxed) as u64),
        ]
    }
}
