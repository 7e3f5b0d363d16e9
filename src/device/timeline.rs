//! Timelines and tickets: how the order of operations on a device is kept without a thread that
//! waits.
//!
//! A [`Timeline`] is a stream and two counters. `queued` is the number of the last operation that
//! was queued on the stream, and `done` the number up to which the device is known to have come.
//! Both only grow. A [`DeviceTicket`] is a timeline and a number: 'when that timeline is done with
//! that number'.
//!
//! The methods that are given a back end are given the one that has made the timeline's handles, on
//! a thread that has entered its device. `src/engine/gpu/devices.rs` has the timelines.
//!
//! A timeline has one *owner* at a time, the worker that queues on it (`src/engine/gpu/queue.rs`),
//! and one *watcher*, the thread that finds out how far the device has come
//! (`src/engine/gpu/watch.rs`). The owner changes `queued` and `knows`, and the watcher `done`. Any
//! worker of the device may put a mark on it, to have another stream wait for that, and so may the
//! watcher. Any thread may ask for `queued` and `done`.
//!
//! The marks are a ring, and a mark may be put on the stream again at any time. It then covers more
//! than before, so what was known of it stays true. That rests on two rules. What a mark covers is
//! read *before* it is recorded, and told after. And a stream that waits for it learns what was
//! told *before* it waits.

use crate::device::backend::Backend;
use crate::device::raw::{DriverError, RawMark, RawStream};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, MODELLED};
use crossbeam_utils::CachePadded;

/// The bits of a ticket's number. Numbers are never used again: at one in 10 ns they last a month.
const NUMBER_BITS: u32 = 48;
/// The most timelines of one device, and of an engine.
pub const MOST_LINES: usize = 64;
pub const MOST_TIMELINES: usize = 1 << (64 - NUMBER_BITS);
/// The marks of a timeline.
pub const MARKS: usize = if MODELLED { 2 } else { 64 };
/// The owner puts a mark behind every so many operations.
const STEP: u64 = 16;

/// 'When that timeline is done with that number.'
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceTicket(u64);

impl DeviceTicket {
    /// A ticket from its word, in which 0 is none.
    pub fn of(word: u64) -> Option<DeviceTicket> {
        (word != 0).then_some(DeviceTicket(word))
    }

    pub fn new(timeline: usize, number: u64) -> DeviceTicket {
        debug_assert!(number > 0 && number < 1 << NUMBER_BITS);
        DeviceTicket((timeline as u64) << NUMBER_BITS | number)
    }

    pub fn word(self) -> u64 {
        self.0
    }

    /// The timeline's index in its engine.
    pub fn timeline(self) -> usize {
        (self.0 >> NUMBER_BITS) as usize
    }

    pub fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

/// A stream, and how far it has come.
pub struct Timeline {
    /// Its index among the timelines of its device.
    local: usize,
    stream: RawStream,
    /// Whether it has an owner.
    is_owned: AtomicBool,
    queued: CachePadded<AtomicU64>,
    done: CachePadded<AtomicU64>,
    marks: [Mark; MARKS],
    /// How many marks were recorded.
    recorded: AtomicUsize,
    /// Up to which number of each timeline of the device this one has waited. Changed by the owner.
    knows: Box<[AtomicU64]>,
}

/// A place on a stream, as far as it is known.
struct Mark {
    raw: RawMark,
    /// The mark is behind the operation of this number, or further on.
    covers: AtomicU64,
    /// What `knows` was when it was recorded.
    knew: Box<[AtomicU64]>,
}

/// Raises a number that any thread may raise.
fn raise(number: &AtomicU64, to: u64) {
    // Release: a thread that reads the number comes after what it tells.
    number.fetch_max(to, Release);
}

/// A copy of numbers that are read one by one.
struct Knowledge([u64; MOST_LINES]);

impl Knowledge {
    fn of(numbers: &[AtomicU64]) -> Knowledge {
        let mut known = Knowledge([0; MOST_LINES]);
        // Acquire: pairs with the release of `raise`: the waits that they tell of were queued.
        known.0.iter_mut().zip(numbers).for_each(|(known, number)| *known = number.load(Acquire));
        known
    }

    fn tell(&self, numbers: &[AtomicU64]) {
        numbers.iter().zip(self.0).filter(|(_, known)| *known > 0).for_each(|(number, known)| raise(number, known));
    }
}

impl Timeline {
    /// A timeline of a device with `lines` timelines, of which this is number `local`. Its numbers
    /// follow `start`.
    pub fn new(
        backend: &dyn Backend,
        device: usize,
        (local, lines): (usize, usize),
        stream: RawStream,
        start: u64,
    ) -> Result<Timeline, DriverError> {
        let numbers = || (0..lines).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
        let mut made = Vec::with_capacity(MARKS);
        for _ in 0..MARKS {
            match backend.mark(device) {
                Ok(raw) => made.push(Mark { raw, covers: AtomicU64::new(0), knew: numbers() }),
                Err(fault) => {
                    // SAFETY: they were made just now, and nobody else knows them.
                    made.iter().for_each(|mark| unsafe { backend.drop_mark(mark.raw) });
                    return Err(fault);
                }
            }
        }
        let Ok(marks) = made.try_into() else { unreachable!("there are as many as there are places") };
        Ok(Timeline {
            local,
            stream,
            is_owned: AtomicBool::new(false),
            queued: CachePadded::new(AtomicU64::new(start)),
            done: CachePadded::new(AtomicU64::new(start)),
            marks,
            recorded: AtomicUsize::new(0),
            knows: numbers(),
        })
    }

    pub fn stream(&self) -> RawStream {
        self.stream
    }

    /// Makes the calling thread the owner, if there is none. An owner queues one operation, and
    /// calls [`disown`](Timeline::disown).
    pub fn own(&self) -> bool {
        // Acquire: pairs with the release of `disown`: an owner goes on where the last one ended.
        !self.is_owned.load(Relaxed) && !self.is_owned.swap(true, Acquire)
    }

    /// Whether it has an owner at this moment. For a guess.
    pub fn is_owned(&self) -> bool {
        self.is_owned.load(Relaxed)
    }

    /// Ends what `own` has begun. For the owner.
    pub fn disown(&self) {
        self.is_owned.store(false, Release);
    }

    /// The number of the last operation that was queued.
    pub fn queued(&self) -> u64 {
        // Acquire: pairs with the release of `tell`.
        self.queued.load(Acquire)
    }

    /// Up to which number the device is known to have come.
    pub fn done(&self) -> u64 {
        // Acquire: pairs with the release of `poll`: what the device has done is there.
        self.done.load(Acquire)
    }

    /// How many operations are queued, as far as is known.
    pub fn under_way(&self) -> u64 {
        // In this order, so that the difference is not negative.
        let done = self.done();
        self.queued() - done
    }

    /// Says that one more operation was queued; returns its number. For the owner.
    pub fn tell(&self) -> u64 {
        let number = self.queued.load(Relaxed) + 1;
        // Release: pairs with the acquire of `queued`: a thread that has read it records its mark
        // behind the operation.
        self.queued.store(number, Release);
        number
    }

    /// Puts the next mark of the ring behind all that was queued. Any thread of the device may.
    fn record(&self, backend: &dyn Backend) -> Result<&Mark, DriverError> {
        // Relaxed: the ring only spreads the marks; two threads may use the same one.
        let mark = &self.marks[self.recorded.fetch_add(1, Relaxed) % MARKS];
        // Before the recording: what is queued after this is perhaps not covered.
        let (covers, knew) = (self.queued(), Knowledge::of(&self.knows));
        // SAFETY: both are the back end's and live as long as the timeline.
        unsafe { backend.record(mark.raw, self.stream) }?;
        knew.tell(&mark.knew);
        raise(&mark.covers, covers);
        Ok(mark)
    }

    /// The earliest mark that covers a number.
    fn mark_behind(&self, number: u64) -> Option<&Mark> {
        let covering = self.marks.iter().map(|mark| (mark.covers.load(Relaxed), mark));
        covering.filter(|(covers, _)| *covers >= number).min_by_key(|(covers, _)| *covers).map(|(_, mark)| mark)
    }

    /// Puts a mark behind the last operation, unless there is one, or the operation is done. Called
    /// before an operation is queued that need not follow it, so that a wait for the one is no
    /// wait for the other.
    pub fn mark_last(&self, backend: &dyn Backend) -> Result<(), DriverError> {
        self.mark(backend, self.queued())
    }

    /// Puts a mark behind the operation of a number, or further on, unless there is one, or the
    /// operation is done.
    pub fn mark(&self, backend: &dyn Backend, number: u64) -> Result<(), DriverError> {
        if self.done() < number && self.mark_behind(number).is_none() {
            self.record(backend)?;
        }
        Ok(())
    }

    /// Puts a mark behind the last operation if it is time for one, so that the device is known to
    /// have come somewhere while more is queued. For the owner.
    pub fn mark_step(&self, backend: &dyn Backend) -> Result<(), DriverError> {
        // Relaxed: the owner's own stores.
        let last = self.queued.load(Relaxed);
        if last % STEP == 0 {
            self.mark(backend, last)?;
        }
        Ok(())
    }

    /// Has all that is queued here from now on wait for number `number` of another timeline of the
    /// device. For the owner.
    pub fn follow(&self, backend: &dyn Backend, other: &Timeline, number: u64) -> Result<(), DriverError> {
        let known = &self.knows[other.local];
        // Relaxed: the owner's own stores.
        if self.local == other.local || other.done() >= number || known.load(Relaxed) >= number {
            return Ok(());
        }
        let mark = match other.mark_behind(number) {
            Some(mark) => mark,
            None => other.record(backend)?,
        };
        // Before the wait: another thread may record the mark again, and tell more, after it.
        let (covers, knew) = (mark.covers.load(Acquire), Knowledge::of(&mark.knew));
        // SAFETY: as in `record`.
        unsafe { backend.wait(self.stream, mark.raw) }?;
        knew.tell(&self.knows);
        raise(known, covers);
        Ok(())
    }

    /// Finds out how far the device has come; returns how many more operations are done. Puts a
    /// mark where one is needed for that. For the watcher.
    pub fn poll(&self, backend: &dyn Backend) -> Result<u64, DriverError> {
        // Relaxed: the watcher's own stores.
        let before = self.done.load(Relaxed);
        let (queued, mut done) = (self.queued(), before);
        if queued == done {
            return Ok(0);
        }
        while let Some(mark) = self.mark_behind(done + 1) {
            // Before the question, like in `follow`. Acquire: pairs with the release of `raise`.
            let covers = mark.covers.load(Acquire);
            // SAFETY: as in `record`.
            if !unsafe { backend.reached(mark.raw) }? {
                break;
            }
            done = covers;
        }
        // Release: pairs with the acquire of `done`.
        self.done.store(done, Release);
        let newest = self.marks.iter().map(|mark| mark.covers.load(Relaxed)).max().unwrap_or(0).max(done);
        if queued > newest && newest == done {
            self.record(backend)?;
        }
        Ok(done - before)
    }

    /// Gives stream and marks back.
    ///
    /// # Safety
    /// Nothing is queued, and the timeline is not used any more.
    pub unsafe fn release(&self, backend: &dyn Backend) {
        // SAFETY: nobody uses the timeline after this, by the contract.
        unsafe {
            self.marks.iter().for_each(|mark| backend.drop_mark(mark.raw));
            backend.drop_stream(self.stream);
        }
    }
}
