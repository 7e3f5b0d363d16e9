//! Profiling: what each named operation did and when, as a trace, as a table, or as data.
//!
//! The engine records events in [`recorder`], from any thread. `api/control.rs` copies them into a
//! [`Profile`] for the user; everything else here works on this copy.

mod append_list;
pub mod device_span;
mod flows;
mod overlap;
pub mod recorder;
mod table;
mod thread;
mod trace;

pub use device_span::{DeviceSpan, StreamName};
pub use overlap::Overlap;
pub use recorder::{Event, Use};
pub use table::{Summary, Times};
#[cfg(all(unix, not(any(loom, shuttle))))]
pub use thread::forked;

use crate::device::{Context, Device};
use std::collections::BTreeMap;
use std::io;

/// What an engine recorded: every named operation that was pushed while it was profiling.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// engine.start_profiling();
/// engine.op("work").push(|_| ())?;
/// engine.wait_for_all()?;
/// let profile = engine.profile();
/// assert_eq!(profile.summaries()[0].count, 1);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Profile {
    events: Vec<Event>,
    threads: BTreeMap<u32, &'static str>,
    summaries: Vec<Summary>,
    overlaps: BTreeMap<u32, Overlap>,
    lost: u64,
}

impl Profile {
    pub(crate) fn new(events: Vec<Event>, threads: BTreeMap<u32, &'static str>, lost: u64) -> Profile {
        let (summaries, overlaps) = (table::summarise(&events), overlap::of_devices(&events));
        Profile { summaries, overlaps, events, threads, lost }
    }

    /// The operations, in the order in which they ended. Times are nanoseconds since the engine was
    /// made.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// for event in engine.profile().events() {
    ///     println!("{} ran for {} ns", event.name, event.end - event.start);
    /// }
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The name of a thread that pushed, started or ended some of the operations, by the number
    /// that their events give; "thread" if it has no name of its own.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.start_profiling();
    /// engine.op("work").push(|_| ())?;
    /// engine.wait_for_all()?;
    /// let profile = engine.profile();
    /// assert!(profile.thread_name(profile.events()[0].pushed_on).is_some());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn thread_name(&self, thread: u32) -> Option<&'static str> {
        self.threads.get(&thread).copied()
    }

    /// How many operations were not recorded because the recorder was full (a million operations).
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// assert_eq!(engine.profile().lost(), 0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How much of the time in which a device copied it also computed: see [`Overlap`]. `None` if
    /// no operation of the device has a [span](Event::device).
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine};
    ///
    /// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// engine.start_profiling();
    /// engine.op("kernel").context(Context::gpu(0)).push(|_| ())?;
    /// engine.wait_for_all()?;
    /// let overlap = engine.profile().overlap(Context::gpu(0)).expect("the device was used");
    /// println!("{:.0} % of copying lies under computation", 100.0 * overlap.share());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn overlap(&self, device: Context) -> Option<Overlap> {
        let found = self.overlaps.get(&device.id()).copied();
        found.filter(|_| device.device() == Device::Gpu)
    }

    /// The statistics of each name, by total time running.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// for summary in engine.profile().summaries() {
    ///     println!("{}: {} ns at the median", summary.name, summary.running.p50);
    /// }
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn summaries(&self) -> &[Summary] {
        &self.summaries
    }

    /// Returns the same operations under the names that `rename` makes of their names: for the
    /// statistics of groups, where each operation has a name of its own.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.start_profiling();
    /// engine.op("gemm 3,1").push(|_| ())?;
    /// engine.op("gemm 3,2").push(|_| ())?;
    /// engine.wait_for_all()?;
    /// let kinds = engine.profile().renamed(|name| name.split(' ').next().unwrap_or(name));
    /// assert_eq!((kinds.summaries()[0].name, kinds.summaries()[0].count), ("gemm", 2));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn renamed(&self, rename: impl Fn(&'static str) -> &'static str) -> Profile {
        let mut events = self.events.clone();
        events.iter_mut().for_each(|event| event.name = rename(event.name));
        Profile::new(events, self.threads.clone(), self.lost)
    }

    /// The statistics as a table for people, in microseconds. If there are operations of devices,
    /// it also has the time that they took there and, below, the overlap of each device.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// println!("{}", engine.profile().table());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn table(&self) -> String {
        table::render(&self.summaries, &self.overlaps, self.lost)
    }

    /// Writes a trace in Chrome's JSON format, which Perfetto (<https://ui.perfetto.dev>) and
    /// `chrome://tracing` open.
    ///
    /// The clock starts at the first push. There is a row for each thread, by the operating
    /// system's number. It has a slice for each operation that ran on the thread and a tick for
    /// each push. An asynchronous operation has a row of its own, from its start to its completion,
    /// and a tick on each thread on which it was started or completed. Arrows lead from the push of
    /// an operation to where it ran, and from there to each operation that waited for it last. The
    /// arguments of an operation are its device, priority and variables, the time that it waited
    /// for other operations, and the time that it waited for a worker. Two counters show the
    /// operations in flight and the operations that are ready. A replayed graph has arrows among
    /// its own operations, and as one operation among the others. Each stream of a device has a row
    /// too, with what ran there and when; an arrow leads there from the row of the worker.
    ///
    /// Takes time and memory in proportion to the number of events: about a kilobyte of text for
    /// each.
    ///
    /// # Errors
    /// The errors of the writer.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let mut trace = Vec::new();
    /// engine.profile().write_chrome_trace(&mut trace)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_chrome_trace(&self, writer: impl io::Write) -> io::Result<()> {
        trace::write(&self.events, &self.threads, writer)
    }
}
