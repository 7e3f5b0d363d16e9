//! The timed marks of a device: a pair for each operation that is profiled and under way.
//! `src/engine/gpu/timing.rs` calls it, and `src/engine/gpu/under_way.rs` has one for each device.
//!
//! The worker that queues an operation takes a pair, and puts one mark before the closure's work
//! and one behind it. The watcher reads both when the device has done that, and gives the pair
//! back; so does the worker if a mark is refused, or the profiler is full. Workers take pairs at
//! the same time, by one exchange of a bit. A pair is made by the thread that first takes it. If
//! all are taken, the operation has none.

use crate::device::backend::Backend;
use crate::device::raw::{DriverError, RawMark, RawStream};
use crate::sync::{AtomicU64, Ordering::*, MODELLED};
use std::sync::OnceLock;

/// The most pairs of a device.
pub const PAIRS: usize = if MODELLED { 1 } else { 256 };
/// The pairs of one word.
const WORD: usize = 64;

/// The pairs of timed marks of one device.
pub struct TimedMarks {
    /// A bit for each pair that nobody has taken.
    free: [AtomicU64; PAIRS.div_ceil(WORD)],
    pairs: Box<[OnceLock<[RawMark; 2]>]>,
}

impl TimedMarks {
    pub fn new() -> TimedMarks {
        let of_word = |word: usize| match PAIRS - word * WORD {
            few if few < WORD => (1 << few) - 1,
            _ => u64::MAX,
        };
        TimedMarks {
            free: std::array::from_fn(|word| AtomicU64::new(of_word(word))),
            pairs: (0..PAIRS).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Takes a pair and puts its first mark on a stream. Returns the pair's number, or `None` if
    /// all are taken, if the back end has no clock, or if it refuses. On a thread that has entered
    /// the device.
    pub fn begin(&self, backend: &dyn Backend, device: usize, stream: RawStream) -> Option<usize> {
        let clock = backend.clock()?;
        let pair = self.take()?;
        let made = || -> Result<[RawMark; 2], DriverError> {
            let first = clock.timed_mark(device)?;
            // SAFETY: it was made just now, and nobody else knows it.
            let second = clock.timed_mark(device).inspect_err(|_| unsafe { backend.drop_mark(first) })?;
            Ok([first, second])
        };
        let marks = match self.pairs[pair].get() {
            Some(marks) => *marks,
            // Nobody else makes it: the pair is taken.
            None => made().map(|made| *self.pairs[pair].get_or_init(|| made)).inspect_err(|_| self.free(pair)).ok()?,
        };
        // SAFETY: the back end has made both for the device, and gives them back at its end.
        let put = unsafe { backend.record(marks[0], stream) };
        put.inspect_err(|_| self.free(pair)).ok().map(|()| pair)
    }

    /// Puts the second mark of a pair on the stream of the first. If that is refused, the pair is
    /// free again. For the thread that has taken it.
    pub fn end(&self, backend: &dyn Backend, pair: usize, stream: RawStream) -> Result<(), DriverError> {
        // SAFETY: as in `begin`.
        unsafe { backend.record(self.marks(pair)[1], stream) }.inspect_err(|_| self.free(pair))
    }

    /// Reads a pair of marks, and gives it back. Returns two times in nanoseconds: from the timed
    /// mark `since` to the first mark, and from there to the second. The device has come to all
    /// three.
    ///
    /// # Safety
    /// The back end has made `since` for the device of the pairs.
    pub unsafe fn read(&self, backend: &dyn Backend, pair: usize, since: RawMark) -> Option<(i64, u64)> {
        let [first, second] = self.marks(pair);
        // SAFETY: by the contract, and as in `begin`.
        let elapsed = backend.clock().map(|clock| unsafe {
            Ok::<_, DriverError>((clock.elapsed(since, first)?, clock.elapsed(first, second)?))
        });
        // Last: the next owner of the pair puts its marks elsewhere.
        self.free(pair);
        let (start, length) = elapsed?.ok()?;
        Some((start, length.max(0) as u64))
    }

    fn marks(&self, pair: usize) -> [RawMark; 2] {
        *self.pairs[pair].get().expect("it was taken")
    }

    fn take(&self) -> Option<usize> {
        for (index, word) in self.free.iter().enumerate() {
            let mut free = word.load(Relaxed);
            while free != 0 {
                // Acquire: pairs with the release of `free`: the marks were read.
                match word.compare_exchange(free, free & (free - 1), Acquire, Relaxed) {
                    Ok(_) => return Some(index * WORD + free.trailing_zeros() as usize),
                    Err(other) => free = other,
                }
            }
        }
        None
    }

    /// Gives a pair back unread. For the thread that has it.
    pub fn free(&self, pair: usize) {
        // Release: pairs with the acquire of `take`.
        self.free[pair / WORD].fetch_or(1 << (pair % WORD), Release);
    }

    /// Gives all marks back.
    ///
    /// # Safety
    /// Nothing is queued, and the marks are not used any more. The thread has entered the device.
    pub unsafe fn release(&self, backend: &dyn Backend) {
        for mark in self.pairs.iter().filter_map(OnceLock::get).flatten() {
            // SAFETY: by the contract.
            unsafe { backend.drop_mark(*mark) };
        }
    }
}
