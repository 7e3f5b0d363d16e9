//! Operations of a graph that a device does as one. The first replay captures them: it calls their
//! closures on a stream that records. Each replay launches what was captured. After a parameter was
//! replaced, the next replay captures anew.
//!
//! What was captured knows arrays by the addresses that the closures were given. So each launch
//! borrows these arrays, as the closures did: the program may have borrowed one meanwhile. It may
//! also hold memory that a library ties to a handle. So the closures have handles of their own, by
//! `DeviceGraph::mark` (`device/handles.rs`), and the graph is captured anew after some thread of
//! the device has dropped handles: it may have been the one that has captured.
//!
//! Launches are done in the order of the replays, also those of two graphs of which one replaces
//! the other: both use the handles, and what the closures have of their own. The back end keeps the
//! order for launches of one graph ([`DeviceGraphs`]). The first launch of the next one waits for
//! the stream that the last of the one before is on.
//!
//! [`DeviceGraph::run`] is the closure of the one operation that stands for them. So the rest of
//! the engine knows nothing of this: to it there is one operation, with one ticket and a stream
//! like any other. Used by `replay/merged.rs`. One replay at a time calls it, on a thread that has
//! entered the device. On the naive engine that is the calling thread, else a worker of the device.
//! The thread that drops the graph last drops what was captured. The operation that replaces a
//! parameter counts in `changes` (`api/parameter.rs`), and never during a replay.

use crate::device::backend::Class;
use crate::device::borrows::Borrows;
use crate::device::current::{self, Here, InCapture};
use crate::device::graphs::DeviceGraphs;
use crate::device::raw::{DriverError, RawGraph, RawStream};
use crate::engine::core::Core;
use crate::engine::gpu::devices::Gpu;
use crate::engine::gpu::loss::{insist, AGAIN};
use crate::engine::replay::program::ReplayedCall;
use crate::error::{Error, ErrorKind, Source};
use crate::operation::closure::{catch, DropGuarded};
use crate::operation::context::RunContext;
use crate::operation::current::{within, Current, May};
use crate::operation::name::Name;
use crate::util::spans;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// An operation that is a part of a [`DeviceGraph`].
pub struct Captive {
    pub call: DropGuarded<Box<ReplayedCall>>,
    pub name: Name,
    /// The variables that it uses, by index, and whether it changes them.
    pub uses: Box<[(u32, bool)]>,
}

/// The one whose closure is being called, for checks of what it may use.
struct CurrentCaptive<'a> {
    core: &'a Core,
    name: Name,
    uses: &'a [(u32, bool)],
}

/// Operations of a device, and what was captured of them.
pub struct DeviceGraph {
    core: Arc<Core>,
    gpu: Arc<Gpu>,
    /// What the operations are to the device.
    class: Class,
    /// Says that the graph is there: handles of libraries are kept for it.
    mark: Arc<()>,
    captives: Vec<Captive>,
    /// How often parameters of the graph were replaced.
    changes: Arc<AtomicU64>,
    captured: Option<Launchable>,
    /// The stream of the last launch of a graph that was given back, if none has come behind it.
    before: Option<RawStream>,
}

/// What was captured.
struct Launchable {
    graph: RawGraph,
    /// The stream of its last launch, if it was launched.
    on: Option<RawStream>,
    /// What [`DeviceGraph::changes`] was then.
    changes: u64,
    /// The arrays that it uses.
    borrows: Borrows,
    /// If it uses handles of libraries: how often some had been dropped on the device then.
    handles: Option<u64>,
}

impl Current for CurrentCaptive<'_> {
    fn name(&self) -> &'static str {
        self.name.as_str()
    }

    fn may(&self, engine: u32, index: u32) -> Option<May> {
        let declared = self.uses.iter().find(|(of, _)| *of == index).map(|(_, writes)| *writes);
        (self.core.memory.id == engine).then(|| May::of(declared))
    }

    fn generation(&self, index: u32) -> u32 {
        // SAFETY: the operation has declared a variable of this index.
        unsafe { self.core.memory.table.generation(index) }
    }
}

impl DeviceGraph {
    /// Of operations of a device whose back end has graphs.
    pub fn new(
        core: &Arc<Core>,
        gpu: &Arc<Gpu>,
        class: Class,
        captives: Vec<Captive>,
        changes: Arc<AtomicU64>,
    ) -> DeviceGraph {
        let (core, gpu, mark) = (Arc::clone(core), Arc::clone(gpu), Arc::default());
        DeviceGraph { core, gpu, class, mark, captives, changes, captured: None, before: None }
    }

    /// Launches the graph on the operation's stream. Captures it first, if that is the first time,
    /// or a parameter was replaced since, or its handles may be gone.
    pub fn run(&mut self, run: &RunContext<'_>) -> Result<(), Source> {
        let gpu = Arc::clone(&self.gpu);
        let (Some(graphs), Some(stream)) = (gpu.backend.graphs(), run.stream()) else {
            unreachable!("the graph was assembled for a back end with graphs, and its operation has a stream");
        };
        // Relaxed: `Parameter::set` and replays follow each other by the graph's own variable.
        let changes = self.changes.load(Relaxed);
        let mut captured = match self.captured.take() {
            Some(captured) if captured.changes == changes && self.has_handles_of(&captured) => captured,
            None => self.capture(graphs, run, changes, None)?,
            Some(Launchable { graph: old, on, .. }) => {
                let made = self.capture(graphs, run, changes, Some(old));
                match made {
                    // The driver has changed the graph in its place.
                    Ok(made) if made.graph == old => Launchable { on, ..made },
                    made => {
                        self.before = on.or(self.before);
                        self.forget(old);
                        made?
                    }
                }
            }
        };
        let launched = self.launch(graphs, &mut captured, stream);
        self.captured = Some(captured);
        launched
    }

    /// Whether the handles are there that were used for what was captured.
    fn has_handles_of(&self, captured: &Launchable) -> bool {
        // Relaxed: whichever thread has dropped them has ended, or has ended an operation that was
        // before this one.
        captured.handles.is_none_or(|dropped| dropped == self.gpu.handles_dropped.load(Relaxed))
    }

    /// Launches what was captured. Borrows what it uses, as the closures did; the tickets that the
    /// operation has left before, or its own borrow, keep other borrows away from then on.
    fn launch(
        &mut self,
        graphs: &dyn DeviceGraphs,
        captured: &mut Launchable,
        stream: RawStream,
    ) -> Result<(), Source> {
        let taken = captured.borrows.take()?;
        let before = self.before.filter(|before| *before != stream);
        // SAFETY: all are this device's, which is current on this thread, and its streams live as
        // long as it. The tickets or the borrow of the operation order what it uses.
        let launched = unsafe {
            let behind = before.map_or(Ok(()), |before| insist(AGAIN, || self.gpu.have_follow(stream, before)));
            behind.and_then(|()| graphs.launch(captured.graph, stream))
        };
        drop(taken);
        launched.map_err(|refusal| self.refused(&refusal))?;
        (captured.on, self.before) = (Some(stream), None);
        Ok(())
    }

    /// Captures what the closures put on a stream of their own: marks of other threads never come
    /// to it. The old graph becomes what was captured, if the back end can do that.
    fn capture(
        &mut self,
        graphs: &dyn DeviceGraphs,
        run: &RunContext<'_>,
        changes: u64,
        old: Option<RawGraph>,
    ) -> Result<Launchable, Source> {
        let (gpu, mark) = (Arc::clone(&self.gpu), Arc::clone(&self.mark));
        self.core.drop_left_handles(&gpu);
        let dropped = gpu.handles_dropped.load(Relaxed);
        let capture = InCapture { graph: &mark, borrows: RefCell::default(), has_handles: Cell::new(false) };
        let stream = gpu.backend.stream(gpu.number, self.class).map_err(|refusal| self.refused(&refusal))?;
        // SAFETY: the stream was made just now, for the device that is current on this thread. It
        // is given back when its capture has ended, or has not begun.
        let graph = unsafe {
            let graph = match graphs.begin(stream) {
                Err(refusal) => Err(self.refused(&refusal)),
                Ok(()) => {
                    let (backend, capture) = (&*gpu.backend, Some(&capture));
                    let here = Here { backend, device: gpu.number, stream: Some(stream), capture };
                    let called = current::within(&here, || self.call(run));
                    let ended = match old.filter(|_| called.is_ok()) {
                        Some(old) => graphs.end_as(stream, old),
                        None => graphs.end(stream),
                    };
                    match (called, ended) {
                        (Ok(()), ended) => ended.map_err(|refusal| self.refused(&refusal)),
                        (Err(fault), ended) => {
                            ended.into_iter().for_each(|graph| graphs.drop_graph(graph));
                            Err(fault)
                        }
                    }
                }
            };
            if gpu.lost.get().is_none() {
                gpu.backend.drop_stream(stream);
            }
            graph?
        };
        let handles = capture.has_handles.get().then_some(dropped);
        let mut borrows = capture.borrows.into_inner();
        borrows.settle();
        Ok(Launchable { graph, on: None, changes, borrows, handles })
    }

    /// Calls the closures in their order, up to one that fails.
    fn call(&mut self, run: &RunContext<'_>) -> Result<(), Source> {
        for captive in &mut self.captives {
            let running = CurrentCaptive { core: &self.core, name: captive.name, uses: &captive.uses };
            let context = RunContext { name: captive.name.as_str(), ..*run };
            let outcome = within(&running, || {
                catch(|| {
                    let _span = spans::call(context.name);
                    (captive.call)(&context)
                })
            });
            let outcome = outcome.and(self.core.make_current(&self.gpu));
            outcome.map_err(|fault| Error::of_operation(captive.name.as_str(), fault))?;
        }
        Ok(())
    }

    /// The error of a call that the driver has refused.
    fn refused(&self, refusal: &DriverError) -> Source {
        let kind = if refusal.is_lost() { ErrorKind::DeviceLost } else { ErrorKind::DeviceUnavailable };
        if refusal.is_lost() {
            self.core.lose(&self.gpu, refusal);
        }
        let name = self.gpu.backend.name();
        Error::with_source(kind, format!("{name} refused a graph: {refusal}"), refusal.clone()).into()
    }

    /// Gives back what was captured, which the device may still have to do.
    fn forget(&self, graph: RawGraph) {
        if self.gpu.lost.get().is_some() {
            return;
        }
        // If the device cannot be entered, nothing of it can be given back.
        let _ = self.gpu.entered(|| {
            // SAFETY: it was captured for this device, and is launched no more.
            self.gpu.backend.graphs().into_iter().for_each(|graphs| unsafe { graphs.drop_graph(graph) });
            Ok(())
        });
    }
}

impl Drop for DeviceGraph {
    fn drop(&mut self) {
        if let Some(captured) = self.captured.take() {
            self.forget(captured.graph);
        }
    }
}
