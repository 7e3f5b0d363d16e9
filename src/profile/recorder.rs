//! The recorder of events, to which any thread adds.
//!
//! `engine/complete.rs` and `engine/replay/node_call.rs` record operations, on the thread that ends
//! them; those that a worker has queued on a device are recorded by that worker.
//! `engine/push/enlist.rs`, `engine/execute.rs` and `engine/complete.rs` take their times.
//! `engine/gpu/timing.rs` adds those of devices, on the watcher of each. `api/control.rs` copies
//! all of it, on any thread, while others add. Nothing is removed: the lists are those of
//! `profile/append_list.rs` and `profile/thread.rs`.

use crate::device::Context;
use crate::error::Stamp;
use crate::operation::block::Block;
use crate::operation::layout::Timestamps;
use crate::operation::property::Property;
use crate::profile::append_list::AppendList;
use crate::profile::device_span::{put_in_order, DeviceSpan};
use crate::profile::thread::Threads;
use crate::sync::{AtomicU64, Ordering::*};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::time::Instant;

/// One operation, as it was recorded. Times are in nanoseconds since the engine was made.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// engine.start_profiling();
/// engine.op("work").push(|_| ())?;
/// engine.wait_for_all()?;
/// let profile = engine.profile();
/// let event = &profile.events()[0];
/// assert!(event.push <= event.ready && event.ready <= event.start && event.start <= event.end);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The operation's name.
    pub name: &'static str,
    /// The kind of work that it is.
    pub property: Property,
    /// Whether it ended by its completion, and not when its closure returned.
    pub asynchronous: bool,
    /// The device that it was to run on.
    pub context: Context,
    /// Its priority; 0 for an operation of a graph.
    pub priority: i32,
    /// The number of the worker that started it, or `None` for a thread that is not the engine's.
    pub worker: Option<usize>,
    /// The thread that pushed it. All threads are named by the operating system's number on Linux
    /// (`gettid`), by a number of their own elsewhere.
    pub pushed_on: u32,
    /// The thread that started it.
    pub started_on: u32,
    /// The thread that ended it. This may be another one if the operation is asynchronous.
    pub ended_on: u32,
    /// When it was pushed.
    pub push: u64,
    /// When no other operation held it up any more.
    pub ready: u64,
    /// When it started to run.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// The replay that it was a part of, if any.
    pub(crate) replay: Option<Stamp>,
    uses: UseList,
    /// Joined to it when the events are read.
    device: Option<Box<DeviceSpan>>,
}

impl Event {
    /// Makes the event of an operation of a graph, which was ready when it started.
    /// [`Profiler::record`] sets where and when it ends.
    pub(crate) fn of_replay(
        replay: (Stamp, u64),
        (name, property, context): (&'static str, Property, Context),
        asynchronous: bool,
        (start, started_on, worker): (u64, u32, Option<usize>),
    ) -> Event {
        let (stamp, push) = replay;
        Event {
            name,
            property,
            asynchronous,
            context,
            priority: 0,
            worker,
            pushed_on: 0,
            started_on,
            ended_on: 0,
            push,
            ready: start,
            start,
            end: start,
            replay: Some(stamp),
            uses: UseList::NONE,
            device: None,
        }
    }

    /// Makes the event of an operation that was pushed. [`Profiler::record`] sets where and when it
    /// ends.
    ///
    /// # Safety
    /// The operation is ours, was profiled and has started.
    #[inline(always)]
    pub(crate) unsafe fn of(block: *mut Block, asynchronous: bool, worker: Option<usize>) -> Event {
        // SAFETY: by the contract.
        unsafe {
            let times = *Block::times(block);
            Event {
                name: Block::name(block),
                property: Block::property(block),
                asynchronous,
                context: Block::context(block),
                priority: (*block).priority,
                worker,
                pushed_on: times.pushed_on,
                started_on: times.started_on,
                ended_on: 0,
                push: times.push,
                ready: times.ready,
                start: times.start,
                end: times.start,
                replay: None,
                uses: UseList::NONE,
                device: None,
            }
        }
    }

    /// The event with these uses, and this time on its device. For `serial.rs`.
    #[cfg(feature = "serde")]
    pub(super) fn completed(self, uses: impl ExactSizeIterator<Item = Use>, device: Option<DeviceSpan>) -> Event {
        Event { uses: UseList::new(uses), device: device.map(Box::new), ..self }
    }

    /// When it ran on its device, and on which stream. Operations of a captured graph that are
    /// launched as a whole are one event.
    ///
    /// `None` for operations of the processor, for asynchronous ones, and for those that were
    /// skipped or lost with their device. On the naive engine it is always `None`: there an
    /// operation ends when the device is done with it.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// for span in engine.profile().events().iter().filter_map(|event| event.device()) {
    ///     println!("{} was busy from {} to {} ns", span.stream, span.start, span.end);
    /// }
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn device(&self) -> Option<&DeviceSpan> {
        self.device.as_deref()
    }

    /// Returns the variables that it used, each once.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.start_profiling();
    /// engine.op("step").writes([x]).push(|_| ())?;
    /// engine.wait_for_all()?;
    /// let profile = engine.profile();
    /// let used = &profile.events()[0].uses()[0];
    /// assert!(used.writes());
    /// assert_eq!(format!("variable {used}"), format!("{x:?}"));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn uses(&self) -> &[Use] {
        match &self.uses {
            UseList::Few(count, uses) => &uses[..usize::from(*count)],
            UseList::Many(uses) => uses,
        }
    }
}

/// Names of variables, by index and by which of those of this index it is.
pub type VariablesNamed = BTreeMap<(u32, u32), &'static str>;

/// A variable that an operation used. Shown as the numbers that `{:?}` gives the
/// [`Variable`](crate::Variable).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Use {
    index: u32,
    /// From bit 1 on: how many variables had this index before. Bit 0: whether the operation
    /// changed it.
    bits: u32,
}

impl Use {
    /// `generation` is that of the variable's slot: odd while the variable is alive, or one more if
    /// this use deletes it.
    pub(crate) fn new(index: u32, generation: u32, writes: bool) -> Use {
        Use { index, bits: generation.wrapping_sub(1) & !1 | u32::from(writes) }
    }

    /// Whether the operation changed the variable, or only read it.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// for event in engine.profile().events() {
    ///     println!("{} changed {} variables", event.name, event.uses().iter().filter(|used| used.writes()).count());
    /// }
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn writes(&self) -> bool {
        self.bits & 1 != 0
    }

    /// A key that tells variables apart, whether they are read or changed.
    pub(super) fn variable(&self) -> (u32, u32) {
        (self.index, self.bits >> 1)
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.bits >> 1)
    }
}

/// A list of uses: a few lie in the event itself, more in a box.
#[derive(Clone, Debug)]
enum UseList {
    Few(u8, [Use; UseList::FEW]),
    Many(Box<[Use]>),
}

impl UseList {
    const FEW: usize = 6;
    const NONE: UseList = UseList::Few(0, [Use { index: 0, bits: 0 }; UseList::FEW]);

    fn new(uses: impl ExactSizeIterator<Item = Use>) -> UseList {
        if uses.len() > UseList::FEW {
            return UseList::Many(uses.collect());
        }
        let (mut few, mut count) = ([Use { index: 0, bits: 0 }; UseList::FEW], 0);
        for (place, used) in few.iter_mut().zip(uses) {
            *place = used;
            count += 1;
        }
        UseList::Few(count, few)
    }
}

/// The recorder of one engine.
pub struct Profiler {
    epoch: Instant,
    threads: Threads,
    events: AppendList<Event>,
    /// The times of devices, each with the place of its event. Those of one stream are in order.
    spans: OnceLock<AppendList<(usize, DeviceSpan)>>,
    /// The number of events that found no place.
    lost: AtomicU64,
}

impl Profiler {
    pub fn new() -> Profiler {
        Profiler {
            epoch: Instant::now(),
            threads: Threads::new(),
            events: AppendList::new(),
            spans: OnceLock::new(),
            lost: AtomicU64::new(0),
        }
    }

    /// Nanoseconds since the engine was made.
    pub fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Returns the times of an operation that this thread is pushing, as far as they are known.
    #[cold]
    pub fn pushing(&self) -> Timestamps {
        Timestamps { push: self.now(), ready: 0, start: 0, pushed_on: self.threads.this(), started_on: 0 }
    }

    /// Returns the time, and this thread's number, for an operation that this thread starts.
    #[cold]
    pub fn starting(&self) -> (u64, u32) {
        let thread = self.threads.this();
        (self.now(), thread)
    }

    /// Records an operation that ends now, on this thread. Returns its place, if there was one.
    #[cold]
    pub fn record(&self, mut event: Event, uses: impl ExactSizeIterator<Item = Use>) -> Option<usize> {
        event.end = self.now();
        event.ended_on = self.threads.this();
        event.uses = UseList::new(uses);
        let Some(drawn) = self.events.draw() else {
            self.lost.fetch_add(1, Relaxed);
            return None;
        };
        Some(drawn.fill(event))
    }

    /// Adds when the operation at a place ran on its device. For the watcher of the device, in the
    /// order of each stream.
    #[cold]
    pub fn add_device_span(&self, place: usize, span: DeviceSpan) {
        // There is room: each event has one at most.
        self.spans.get_or_init(AppendList::new).push((place, span));
    }

    /// Returns a copy of all that is recorded, in the order in which the operations ended.
    pub fn events(&self) -> Vec<Event> {
        let (places, mut events): (Vec<usize>, Vec<Event>) =
            self.events.iter().map(|(place, event)| (place, event.clone())).unzip();
        let mut spans: Vec<(usize, DeviceSpan)> = match self.spans.get() {
            Some(spans) => spans.iter().map(|(_, of_event)| *of_event).collect(),
            None => Vec::new(),
        };
        put_in_order(spans.iter_mut().map(|(_, span)| span));
        for (place, span) in spans {
            // The event was recorded before; but this thread may have looked in between.
            if let Ok(at) = places.binary_search(&place) {
                events[at].device = Some(Box::new(span));
            }
        }
        events.sort_by_key(|event| event.end);
        events
    }

    /// The names of the threads.
    pub fn threads(&self) -> BTreeMap<u32, &'static str> {
        self.threads.iter().collect()
    }

    /// Returns how many events did not fit.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// An event with these times and uses, each a variable and whether it is changed.
#[cfg(all(test, not(any(loom, shuttle))))]
pub(super) fn event_of(replay: Option<Stamp>, (start, end): (u64, u64), uses: &[(u32, bool)]) -> Event {
    let what = ("tested", Property::Normal, Context::cpu(0));
    let event = Event::of_replay((Stamp::LAST, start), what, false, (start, 0, None));
    let uses = uses.iter().map(|(index, writes)| Use::new(*index, 1, *writes));
    Event { end, replay, uses: UseList::new(uses), ..event }
}
