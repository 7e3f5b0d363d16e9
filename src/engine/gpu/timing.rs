//! When the operations of a device run there: for those that are profiled, and for nothing else.
//!
//! The worker that queues an operation puts a timed mark before its work and one behind it, and
//! notes under its number which event of the profiler it is. When the device has come to that
//! number, the watcher reads the marks and adds the span to the event. An operation without marks,
//! since all pairs are taken, or the back end has no clock or refuses, has the processor's times. A
//! [`Reader`] is the watcher's own. What the worker and the watcher share is in `under_way.rs` (the
//! notes) and in `src/device/timed_marks.rs` (the marks).
//!
//! The device's clock is mapped to the engine's by a mark of reference, on a stream where nothing
//! else is: the watcher records it and asks until the device has come there. So it was there at
//! some time between two readings of the engine's clock.

use crate::device::backend::Class;
use crate::device::raw::{DriverError, RawMark, RawStream};
use crate::engine::core::Core;
use crate::engine::gpu::devices::Gpu;
use crate::engine::gpu::under_way::{Note, Timing};
use crate::operation::block::Block;
use crate::operation::layout::RECORDED;
use crate::profile::device_span::{DeviceSpan, StreamName};
use std::ops::RangeInclusive;

/// After so many nanoseconds a new mark of reference is made.
const RENEWED: u64 = 1_000_000_000;
/// How far the clocks of a device and of the processor drift apart: a ten-thousandth at most.
const DRIFT: u64 = 10_000;
/// How often the watcher tries to get a reference that is as good as this, in nanoseconds.
const TRIES: usize = 4;
const GOOD: u64 = 20_000;
/// How often the watcher asks at least whether a reference was reached, and for how long.
const LOOKS: usize = 64;
const LOOKING_TIME: u64 = 1_000_000;
/// So much later, at the earliest, the watcher tries again.
const RETRY_AFTER: u64 = 10_000_000;

/// The place of an event that was recorded, if there was room, and when the closure was called.
pub type Recorded = (Option<usize>, u64);

/// Records the event of an operation that has been called.
pub type RecordFn<'a> = &'a dyn Fn() -> Recorded;

impl Gpu {
    /// Puts a timed mark before the work of an operation; returns the pair. For the owner of the
    /// timeline.
    #[cold]
    pub(super) fn begin_timing(&self, line: usize) -> Option<usize> {
        let timing = self.timing.get_or_init(|| Timing::new(self.lines.len(), self.ahead));
        timing.marks.begin(&*self.backend, self.number, self.lines[line].timeline.stream())
    }

    /// Puts a timed mark behind the work of an operation, records its event, and notes both for the
    /// watcher. Called after the closure, and before the number is told. For the owner of the
    /// timeline.
    #[cold]
    pub(super) fn end_timing(&self, line: usize, pair: Option<usize>, record: RecordFn<'_>) {
        let (timing, timeline) = (self.timing.get().expect("timing has begun"), &self.lines[line].timeline);
        let pair = pair.filter(|pair| timing.marks.end(&*self.backend, *pair, timeline.stream()).is_ok());
        let (event, called) = record();
        let Some(event) = event else {
            return pair.into_iter().for_each(|pair| timing.marks.free(pair));
        };
        timing.note(line, timeline.queued() + 1, Note { event, called, pair });
    }

    /// The name of a timeline's stream.
    fn stream_name(&self, line: usize) -> StreamName {
        let classes = || Gpu::classes(self.workers());
        let class = classes().nth(line).expect("the line is the device's");
        let number = classes().take(line + 1).filter(|other| *other == class).count();
        StreamName::new(self.context(), class, number as u32)
    }
}

impl Core {
    /// Records the event of an operation that was pushed.
    ///
    /// # Safety
    /// The operation is profiled and has run, and is the caller's.
    #[cold]
    pub(super) unsafe fn record_timed(&self, block: *mut Block, worker: Option<usize>) -> Recorded {
        // SAFETY: by the contract.
        unsafe {
            let event = self.record_event(block, worker);
            let times = Block::times(block);
            (*times).push = RECORDED;
            (event, (*times).start)
        }
    }
}

/// The watcher's side.
#[derive(Default)]
pub struct Reader {
    /// The stream for marks of reference, and two of these: one in use, and one for the next.
    made: Option<(RawStream, [RawMark; 2])>,
    reference: Option<Reference>,
    /// Before this time no further reference is tried.
    not_before: u64,
}

/// Where the device's clock and the engine's meet.
#[derive(Clone, Copy)]
struct Reference {
    /// Which of the two marks it is.
    index: usize,
    /// When the device came there, by the engine's clock, and by how much that may be wrong.
    at: u64,
    within: u64,
}

impl Reference {
    /// How accurate a time is that is so far from the reference.
    fn accuracy(&self, distance: u64) -> u64 {
        self.within + distance / DRIFT
    }
}

impl Reader {
    /// Adds the spans of the operations of these numbers that are profiled. The device has come
    /// there.
    #[cold]
    pub fn read(&mut self, core: &Core, gpu: &Gpu, timing: &Timing, line: usize, numbers: RangeInclusive<u64>) {
        for number in numbers {
            let Some(Note { event, called, pair }) = timing.noted(line, number) else { continue };
            let seen = core.profiler.now();
            let measured = pair.and_then(|pair| {
                let Some((reference, mark)) = self.reference(core, gpu, seen) else {
                    timing.marks.free(pair);
                    return None;
                };
                // SAFETY: the mark is the device's, and the watcher has entered that.
                let (since, length) = unsafe { timing.marks.read(&*gpu.backend, pair, mark) }?;
                // It was not begun before the closure was called, and was over when that was seen.
                let start = reference.at.saturating_add_signed(since);
                let start = start.clamp(called, called.max(seen.saturating_sub(length)));
                Some((start, start + length, reference.accuracy(since.unsigned_abs())))
            });
            let (start, end, accuracy) = match measured {
                Some((start, end, accuracy)) => (start, end, Some(accuracy)),
                None => (called, seen, None),
            };
            let span = DeviceSpan::new(gpu.stream_name(line), (start, end), accuracy);
            core.profiler.add_device_span(event, span);
        }
    }

    /// The reference and its mark; a new one if there is none or it has become old.
    fn reference(&mut self, core: &Core, gpu: &Gpu, now: u64) -> Option<(Reference, RawMark)> {
        let is_old = |reference: &Reference| now.saturating_sub(reference.at) > RENEWED;
        if self.reference.as_ref().is_none_or(is_old) && now >= self.not_before {
            for _ in 0..TRIES {
                let is_good = |reference: Reference| reference.within <= GOOD;
                if !matches!(self.refer(core, gpu), Ok(true)) || self.reference.is_some_and(is_good) {
                    break;
                }
            }
            self.not_before = core.profiler.now() + RETRY_AFTER;
        }
        let (reference, (_, marks)) = (self.reference?, self.made?);
        Some((reference, marks[reference.index]))
    }

    /// Makes a mark of reference, and keeps it if it is better than what there is. Says whether the
    /// device came there in time.
    fn refer(&mut self, core: &Core, gpu: &Gpu) -> Result<bool, DriverError> {
        let (backend, clock) = (&*gpu.backend, &core.profiler);
        let (stream, marks) = self.made(gpu)?;
        let index = self.reference.map_or(0, |reference| 1 - reference.index);
        let before = clock.now();
        // SAFETY: the handles are the device's, which the watcher has entered.
        unsafe { backend.record(marks[index], stream) }?;
        let mut looks = 0;
        // SAFETY: as above.
        while !unsafe { backend.reached(marks[index]) }? {
            looks += 1;
            if looks >= LOOKS && clock.now() - before > LOOKING_TIME {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
        let within = (clock.now() - before) / 2 + 1;
        let found = Reference { index, at: before + within, within };
        let is_better = |old: &Reference| found.within < old.accuracy(before.saturating_sub(old.at));
        if self.reference.as_ref().is_none_or(is_better) {
            self.reference = Some(found);
        }
        Ok(true)
    }

    /// The stream and the marks for references, made when they are first needed.
    fn made(&mut self, gpu: &Gpu) -> Result<(RawStream, [RawMark; 2]), DriverError> {
        if let Some(made) = self.made {
            return Ok(made);
        }
        let (backend, number) = (&*gpu.backend, gpu.number);
        let clock = backend.clock().ok_or_else(|| DriverError::refused("it has no clock"))?;
        let (first, second) = (clock.timed_mark(number), clock.timed_mark(number));
        let stream = backend.stream(number, Class::Urgent);
        if let (Ok(stream), Ok(first), Ok(second)) = (&stream, &first, &second) {
            return Ok(*self.made.insert((*stream, [*first, *second])));
        }
        // SAFETY: they were made just now, and nobody else knows them.
        unsafe {
            [&first, &second].into_iter().flatten().for_each(|mark| backend.drop_mark(*mark));
            stream.iter().for_each(|stream| backend.drop_stream(*stream));
        }
        Err(first.err().or(second.err()).or(stream.err()).expect("one was refused"))
    }

    /// Gives back what was made. For the watcher, at its end.
    pub fn release(&mut self, gpu: &Gpu) {
        let Some((stream, marks)) = self.made.take().filter(|_| gpu.lost.get().is_none()) else { return };
        // SAFETY: only this reader has used them, and the watcher has entered the device.
        unsafe {
            marks.into_iter().for_each(|mark| gpu.backend.drop_mark(mark));
            gpu.backend.drop_stream(stream);
        }
    }
}
