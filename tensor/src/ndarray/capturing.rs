//! What a thread captures: while it does, calls are kept here instead of being pushed, and so are
//! the arrays that are made.
//!
//! `src/step/` begins and ends a capture, and makes a graph of the engine of what was kept.
//! `create.rs` and `operator/kernel_call.rs` give their operations here, `array.rs` new arrays.
//! Waits ask [`refuse`]. Other threads are not concerned: each captures by itself.
//!
//! **Memory.** An array that is made inside and is not returned becomes private to the graph. The
//! graph keeps an owner of it in one of its closures, so its memory stays as long as the graph can
//! be replayed, and is freed with the last owner.
//!
//! **Freshness.** A pushed call makes new arrays each time, so nothing is in them. In a graph they
//! are the same in each replay. Where the first use of an array is not to write all of it, an
//! operation at the beginning of the graph takes its memory away.

use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::runtime::Runtime;
use crate::resource::manager::Granted;
use crate::resource::ResourceRequest;
use seriatim::{Context, Graph, Name, Property, RunContext, Variable};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

thread_local! {
    /// Whether calls are kept now.
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// What an operation of a graph does in each replay.
type Run = Box<dyn FnMut(&RunContext<'_>) -> Result<(), Error> + Send>;

/// Where calls of operators run.
const PROCESSOR: (Context, Property) = (Context::cpu(0), Property::Normal);

/// A call that was kept.
struct Recorded {
    name: Name,
    place: (Context, Property),
    reads: SmallVec<[Variable; 4]>,
    writes: SmallVec<[Variable; 4]>,
    run: Run,
}

/// What a capture has kept so far.
pub(crate) struct Recorder {
    runtime: Runtime,
    calls: Vec<Recorded>,
    /// The arrays that were made.
    made: Vec<NDArray>,
    /// The variables of temporary spaces.
    spaces: Vec<Variable>,
    /// The chunks that calls have named.
    begun: HashSet<u32>,
    /// How many elements its calls read and write.
    elements: usize,
    /// What takes the memory away of arrays that would not be fresh.
    fresh: Vec<Recorded>,
}

/// How a call uses an array.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    /// The number of the chunk.
    pub number: u32,
    pub variable: Variable,
    /// Whether it writes each element and reads none.
    pub covers: bool,
}

/// What a copy reads or writes: an array, or other memory of a variable.
pub(crate) struct Side {
    pub variable: Variable,
    pub elements: usize,
    pub used: Option<Use>,
}

/// Whether the thread captures.
#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.get()
}

/// Refuses a call that a captured step cannot have.
#[inline]
pub(crate) fn refuse(what: &str) -> Result<(), Error> {
    match is_active() {
        false => Ok(()),
        true => Err(refused(what)),
    }
}

#[cold]
fn refused(what: &str) -> Error {
    let message = format!("{what} while a step is captured: its operations have not run. Do it before or after");
    Error::new(ErrorKind::Capturing, message)
}

/// Sets back whether the thread captures, also if a closure panics.
struct Before(bool);

impl Drop for Before {
    fn drop(&mut self) {
        ACTIVE.set(self.0);
    }
}

/// Calls a closure whose calls are pushed, whether the thread captures or not: for arrays that live
/// from step to step.
pub(crate) fn outside<R>(closure: impl FnOnce() -> R) -> R {
    let _before = Before(ACTIVE.replace(false));
    closure()
}

/// Lends what the thread captures to a call on a runtime.
fn with<R>(runtime: &Runtime, use_it: impl FnOnce(&mut Recorder) -> R) -> Result<R, Error> {
    RECORDER.with_borrow_mut(|recorder| match recorder {
        Some(recorder) if recorder.runtime.is(runtime) => Ok(use_it(recorder)),
        _ => {
            let message = "a step is captured on one runtime, and this call is on another: capture one on that";
            Err(Error::new(ErrorKind::ForeignArray, message))
        }
    })
}

/// Keeps a new array.
pub(crate) fn keep(array: &NDArray) -> Result<(), Error> {
    with(array.runtime(), |recorder| recorder.made.push(array.clone()))
}

/// The resources of an operation, of a device if it runs there. In a capture temporary space is its
/// own: it stays in the graph, and keeps no other operation waiting.
pub(crate) fn grant(
    runtime: &Runtime,
    context: Option<Context>,
    requests: &[ResourceRequest],
) -> Result<SmallVec<[Granted; 1]>, Error> {
    if requests.is_empty() {
        return Ok(SmallVec::new());
    }
    let (engine, device) = (runtime.engine(), context.map(|context| runtime.device(context)).transpose()?);
    let device = device.as_ref();
    if !is_active() {
        return runtime.resources().grant(engine, device, requests);
    }
    let is_space = |request: &&ResourceRequest| **request == ResourceRequest::TempSpace;
    let others: SmallVec<[ResourceRequest; 2]> = requests.iter().filter(|one| !is_space(one)).copied().collect();
    let mut others = runtime.resources().grant(engine, device, &others)?.into_iter();
    let each = requests.iter().filter_map(|request| match is_space(&request) {
        false => others.next().map(Ok),
        true => Some(Granted::own_space(engine, device).and_then(|granted| {
            with(runtime, |recorder| recorder.spaces.push(granted.variable()))?;
            Ok(granted)
        })),
    });
    each.collect()
}

/// Keeps a call of the processor on so many elements. `uses` are the arrays that it names, what it
/// reads first; `also` are variables that it changes beside them.
pub(crate) fn record(
    runtime: &Runtime,
    name: Name,
    uses: (impl Iterator<Item = Use>, impl Iterator<Item = Use>),
    (also, elements): (impl Iterator<Item = Variable>, usize),
    run: impl FnMut(&RunContext<'_>) -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    with(runtime, |recorder| recorder.elements += elements)?;
    record_on(runtime, (name, PROCESSOR), uses, (None, also), run)
}

/// Keeps a call somewhere, which also reads and changes these variables.
pub(crate) fn record_on(
    runtime: &Runtime,
    (name, place): (Name, (Context, Property)),
    uses: (impl Iterator<Item = Use>, impl Iterator<Item = Use>),
    also: (impl IntoIterator<Item = Variable>, impl IntoIterator<Item = Variable>),
    run: impl FnMut(&RunContext<'_>) -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    with(runtime, |recorder| {
        let (reads, writes) = (also.0.into_iter().collect(), also.1.into_iter().collect());
        let mut recorded = Recorded { name, place, reads, writes, run: Box::new(run) };
        for used in uses.0 {
            recorded.reads.push(used.variable);
            recorder.begin(&used);
        }
        for used in uses.1 {
            recorded.writes.push(used.variable);
            recorder.begin(&used);
        }
        recorder.calls.push(recorded);
    })
}

/// Keeps a copy, or what belongs to one: it reads one side and writes the other.
pub(crate) fn record_between(
    runtime: &Runtime,
    (name, place): (Name, (Context, Property)),
    (from, to): (Option<Side>, Side),
    run: impl FnMut(&RunContext<'_>) -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    with(runtime, |recorder| {
        recorder.elements = recorder.elements.saturating_add(to.elements);
        let (reads, writes) = (from.iter().map(|side| side.variable).collect(), [to.variable].into_iter().collect());
        from.iter().chain([&to]).filter_map(|side| side.used.as_ref()).for_each(|used| recorder.begin(used));
        recorder.calls.push(Recorded { name, place, reads, writes, run: Box::new(run) });
    })
}

/// A capture of this thread, which ends with it.
pub(crate) struct Session(());

impl Session {
    /// Begins to keep calls on arrays of a runtime.
    pub fn begin(runtime: &Runtime) -> Result<Session, Error> {
        refuse("a step is captured")?;
        let runtime = runtime.clone();
        let (calls, made, spaces, fresh) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        RECORDER.set(Some(Recorder { runtime, calls, made, spaces, begun: HashSet::new(), elements: 0, fresh }));
        ACTIVE.set(true);
        Ok(Session(()))
    }

    /// Ends it, and returns what was kept.
    pub fn end(self) -> Option<Recorder> {
        ACTIVE.set(false);
        RECORDER.take()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        ACTIVE.set(false);
        // Dropped after it is taken: the arrays in it push their deletions.
        drop(RECORDER.take());
    }
}

impl Recorder {
    /// Notes the use of an array. If it is the first, and the array would not be fresh in each
    /// replay, has its memory taken away.
    fn begin(&mut self, used: &Use) {
        let Use { number, variable, covers } = *used;
        let is_first = self.begun.insert(number);
        // The graph may name the variable after the array's end, and is refused then.
        self.runtime.chunks().get(number).make_known();
        if !is_first || covers || !self.made.iter().rev().any(|made| made.number() == number) {
            return;
        }
        let runtime = self.runtime.clone();
        let block = runtime.chunks().get(number).device_block().cloned();
        self.fresh.push(Recorded {
            name: Name::from("fresh"),
            place: block.as_ref().map_or(PROCESSOR, |block| (block.context(), Property::Normal)),
            reads: SmallVec::new(),
            writes: [variable].into_iter().collect(),
            run: Box::new(move |_| {
                match &block {
                    Some(block) => block.forget(),
                    // SAFETY: this operation declares to change the variable, just above.
                    None => drop(unsafe { runtime.chunks().get(number).memory_mut() }.take()),
                }
                Ok(())
            }),
        });
    }

    /// How many elements the calls read and write in all.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Makes a graph, for which arrays stay usable outside that have one of these variables.
    pub fn into_graph(mut self, name: &'static str, returned: &HashSet<Variable>) -> Result<Graph, Error> {
        let mut capture = self.runtime.engine().begin_capture();
        capture.name(name);
        let (returned, private) =
            std::mem::take(&mut self.made).into_iter().partition(|array| returned.contains(&array.variable()));
        drop::<Vec<NDArray>>(returned);
        let is_made = Arc::new(AtomicBool::new(false));
        let kept = Kept { arrays: private, is_made: Arc::clone(&is_made) };
        for array in &kept.arrays {
            capture.make_private(array.variable())?;
            array.chunk().make_private();
        }
        for space in std::mem::take(&mut self.spaces) {
            capture.make_private(space)?;
        }
        let mut kept = Some(kept);
        let calls = std::mem::take(&mut self.calls);
        let calls = std::mem::take(&mut self.fresh).into_iter().chain(calls);
        for Recorded { name, place, reads, writes, mut run } in calls {
            let kept = kept.take();
            capture.op(name).context(place.0).property(place.1).reads(reads).writes(writes).push(move |ctx| {
                let _ = &kept;
                run(ctx)
            })?;
        }
        let graph = capture.finish()?;
        // Relaxed: the graph is dropped after this thread has given it away.
        is_made.store(true, Relaxed);
        Ok(graph)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for space in self.spaces.drain(..) {
            // A refusal means that the engine is stopped, and its variables end with it.
            let _ = self.runtime.engine().delete_variable(|_| (), Context::cpu(0), space);
        }
    }
}

/// The private arrays of a graph, in one of its closures: they end with it.
struct Kept {
    arrays: Vec<NDArray>,
    /// Whether the graph was made. Its end comes after all uses of the arrays, also after those by
    /// operations that another thread has pushed before. Without it nothing says when they end.
    is_made: Arc<AtomicBool>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.is_made.load(Relaxed) {
            for array in self.arrays.drain(..).filter(|array| array.chunk().is_private()) {
                array.runtime().lose();
                std::mem::forget(array);
            }
        }
    }
}
