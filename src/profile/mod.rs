//! Profiling: what each named operation did and when, as a trace, as a table, or as data.

pub mod recorder;
mod table;
mod trace;

pub use recorder::Event;
pub use table::{Summary, Times};

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
    summaries: Vec<Summary>,
    lost: u64,
}

impl Profile {
    pub(crate) fn new(events: Vec<Event>, lost: u64) -> Profile {
        Profile { summaries: table::summarise(&events), events, lost }
    }

    /// The operations, in the order in which they ended. Times are nanoseconds since the engine was made.
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

    /// The statistics as a table for people, in microseconds.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// println!("{}", engine.profile().table());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn table(&self) -> String {
        table::render(&self.summaries, self.lost)
    }

    /// Writes a trace in Chrome's JSON format, which Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing` open: a row for each
    /// thread, a slice for each operation, its queueing and waiting times among its arguments.
    ///
    /// # Errors
    /// Those of the writer.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let mut trace = Vec::new();
    /// engine.profile().write_chrome_trace(&mut trace)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_chrome_trace(&self, writer: impl io::Write) -> io::Result<()> {
        trace::write(&self.events, writer)
    }
}
