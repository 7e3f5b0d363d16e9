//! Profiling: what each named operation did and when, as a trace, as a table, or as data.
//!
//! The engine records events in [`recorder`], from any thread. `api/control.rs` copies them into a
//! [`Profile`] for the user; everything else here works on this copy.

mod append_list;
mod critical;
pub mod device_span;
mod flows;
mod overlap;
pub mod recorder;
#[cfg(feature = "serde")]
mod serial;
mod table;
mod thread;
mod trace;

pub use critical::CriticalPath;
pub use device_span::{DeviceSpan, StreamName};
pub use overlap::Overlap;
pub use recorder::{Event, Use};
pub use table::{Summary, Times};
#[cfg(all(unix, not(any(loom, shuttle))))]
pub use thread::forked;

use crate::device::{Context, Device};
use crate::profile::recorder::VariablesNamed;
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
///
/// With the feature `serde` a profile can be written and read by any format of serde. What is
/// worked out from the events (statistics, overlaps, the critical path) is not written, and is
/// there again when it is read. Statistics, and [`Stats`](crate::Stats), can be written.
///
/// ```
/// # #[cfg(feature = "serde")] {
/// # let engine = seriatim::Engine::new()?;
/// let text = serde_json::to_string(&engine.profile())?;
/// let again: seriatim::Profile = serde_json::from_str(&text)?;
/// assert_eq!(again.events().len(), engine.profile().events().len());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Profile {
    events: Vec<Event>,
    threads: BTreeMap<u32, &'static str>,
    /// The names of variables, as [`Use::variable`] tells them apart.
    names: VariablesNamed,
    summaries: Vec<Summary>,
    overlaps: BTreeMap<u32, Overlap>,
    critical: CriticalPath,
    /// The slack of each event.
    slack: Vec<u64>,
    lost: u64,
}

impl Profile {
    pub(crate) fn new(
        events: Vec<Event>,
        threads: BTreeMap<u32, &'static str>,
        names: VariablesNamed,
        lost: u64,
    ) -> Profile {
        let (critical, slack) = critical::path_and_slack(&events);
        let summaries = table::summarise(&events, &critical, &slack);
        let overlaps = overlap::of_devices(&events);
        Profile { summaries, overlaps, critical, slack, events, threads, names, lost }
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

    /// The name of a variable that an operation used, if it had one
    /// ([`Engine::name_variable`](crate::Engine::name_variable)) when the profile was made.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.name_variable(x, "total")?;
    /// engine.start_profiling();
    /// engine.op("add").writes([x]).push(|_| ())?;
    /// engine.wait_for_all()?;
    /// let profile = engine.profile();
    /// assert_eq!(profile.variable_name(&profile.events()[0].uses()[0]), Some("total"));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn variable_name(&self, used: &Use) -> Option<&'static str> {
        self.names.get(&used.variable()).copied()
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

    /// The chain of operations that took the longest to run, each of which had to follow the one
    /// before it: see [`CriticalPath`]. To make an operation faster that is not on it helps only
    /// if there are too few workers.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let profile = engine.profile();
    /// for at in &profile.critical_path().operations {
    ///     println!("{}", profile.events()[*at].name);
    /// }
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn critical_path(&self) -> &CriticalPath {
        &self.critical
    }

    /// By how many nanoseconds an operation, by its place in [`events`](Profile::events), could
    /// have taken longer without making the [critical path](Profile::critical_path) longer; 0 on
    /// the path. For an operation of a captured graph: the longest path of its replay. `None` if
    /// there is no such event.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.start_profiling();
    /// engine.op("alone").push(|_| ())?;
    /// engine.wait_for_all()?;
    /// let profile = engine.profile();
    /// assert_eq!((profile.slack(0), profile.slack(1)), (Some(0), None));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn slack(&self, event: usize) -> Option<u64> {
        self.slack.get(event).copied()
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
        Profile::new(events, self.threads.clone(), self.names.clone(), self.lost)
    }

    /// The statistics as a table for people, in microseconds. Below it is the critical path: its
    /// length, and which names it is made of. If there are operations of devices, the table also
    /// has the time that they took there and the overlap of each device.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// println!("{}", engine.profile().table());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn table(&self) -> String {
        table::render(&self.summaries, &self.critical, &self.overlaps, self.lost)
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
        trace::write(&self.events, &self.threads, &self.names, writer)
    }
}
