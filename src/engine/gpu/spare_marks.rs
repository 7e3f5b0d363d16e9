//! Marks for streams that are not the engine's, and the asynchronous operations that end when the
//! device has come to one.
//!
//! A mark is *lent* to the call that puts it on a stream, and *kept* again when the engine has had
//! another stream wait for it. One that an operation is *due* at belongs to the watcher
//! (`watch.rs`), which ends the operation. Used by `foreign.rs`, on any thread: a place is taken by
//! one exchange. Only the watcher calls [`SpareMarks::take_due`] and [`SpareMarks::is_any_due`].
//! `admit.rs` makes them, and `devices.rs` has them and gives the marks back with the device.

use crate::device::raw::{DriverError, RawMark};
use crate::sync::{AtomicU8, AtomicUsize, Ordering::*};
use crate::util::bucket_array::{BucketArray, Vacant};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// A place without a mark.
const EMPTY: u8 = 0;
const KEPT: u8 = 1;
const LENT: u8 = 2;
const DUE: u8 = 3;

/// The spare marks of a device. There are as many as were ever lent at once. `D` is an operation
/// that ends.
pub struct SpareMarks<D: Send + 'static> {
    places: BucketArray<MarkPlace<D>>,
    /// How many operations are due at marks.
    due: AtomicUsize,
}

struct MarkPlace<D> {
    state: AtomicU8,
    mark: AtomicUsize,
    /// Written by the thread that has the mark lent; there while the state is [`DUE`].
    operation: UnsafeCell<MaybeUninit<D>>,
}

// SAFETY: the operation is passed on by the state, from the thread that writes it to the watcher.
unsafe impl<D: Send> Sync for MarkPlace<D> {}

// SAFETY: zeros are a place without a mark and without an operation, and marks are given back by
// their device.
unsafe impl<D: Send + 'static> Vacant for MarkPlace<D> {
    const NAME: &'static str = "spare mark";

    fn vacant() -> MarkPlace<D> {
        let operation = UnsafeCell::new(MaybeUninit::uninit());
        MarkPlace { state: AtomicU8::new(EMPTY), mark: AtomicUsize::new(0), operation }
    }
}

impl<D> MarkPlace<D> {
    fn raw(&self) -> RawMark {
        // Relaxed: written once, by the thread that took the place first.
        RawMark::new(std::ptr::with_exposed_provenance_mut(self.mark.load(Relaxed)))
    }

    fn take(&self, from: u8) -> bool {
        // Acquire: pairs with the release that gave it back, after the last call with the mark.
        self.state.load(Relaxed) == from && self.state.compare_exchange(from, LENT, Acquire, Relaxed).is_ok()
    }
}

/// A mark that is lent, by its place.
#[derive(Clone, Copy)]
pub struct LentMark {
    pub mark: RawMark,
    place: u32,
}

impl<D: Send + 'static> SpareMarks<D> {
    pub fn new() -> SpareMarks<D> {
        SpareMarks { places: BucketArray::new(), due: AtomicUsize::new(0) }
    }

    /// Lends a mark; `make` makes one if all are in use.
    pub fn lend(&self, make: impl FnOnce() -> Result<RawMark, DriverError>) -> Result<LentMark, DriverError> {
        for index in 0.. {
            let Some(place) = self.places.get_or_add(index) else { break };
            if place.take(KEPT) {
                return Ok(LentMark { mark: place.raw(), place: index });
            }
            if place.take(EMPTY) {
                let made = make().inspect_err(|_| place.state.store(EMPTY, Release))?;
                place.mark.store(made.raw().expose_provenance(), Relaxed);
                return Ok(LentMark { mark: made, place: index });
            }
        }
        Err(DriverError::refused("all marks are in use"))
    }

    fn place(&self, lent: LentMark) -> &MarkPlace<D> {
        self.places.get(lent.place).expect("it was lent")
    }

    /// Keeps a mark for the next call that needs one.
    pub fn give_back(&self, lent: LentMark) {
        // Release: pairs with the acquire in `take`.
        self.place(lent).state.store(KEPT, Release);
    }

    /// Has an operation end when the device has come to a mark. The watcher is woken afterwards.
    pub fn owe(&self, lent: LentMark, operation: D) {
        let place = self.place(lent);
        // SAFETY: the mark is lent to the caller, and so is its place.
        unsafe { (*place.operation.get()).write(operation) };
        // Before the watcher can find the place, and count it out. A watcher that sees the number
        // first looks again.
        self.due.fetch_add(1, Relaxed);
        // Release: pairs with the acquire in `take_due`: the operation is there, and the mark
        // recorded.
        place.state.store(DUE, Release);
    }

    /// Whether an operation is due. For the watcher, which is woken after each one.
    pub fn is_any_due(&self) -> bool {
        self.due.load(Relaxed) > 0
    }

    /// Takes the operations that are due at a mark which `is_over` accepts; stops at an error,
    /// which it returns. For the watcher.
    pub fn take_due(
        &self,
        mut is_over: impl FnMut(RawMark) -> Result<bool, DriverError>,
        mut take: impl FnMut(D),
    ) -> Result<(), DriverError> {
        if !self.is_any_due() {
            return Ok(());
        }
        for place in self.places.iter() {
            // Acquire: pairs with the release in `owe`.
            if place.state.load(Acquire) == DUE && is_over(place.raw())? {
                // SAFETY: it is due, and only the watcher takes it.
                let operation = unsafe { (*place.operation.get()).assume_init_read() };
                self.due.fetch_sub(1, Relaxed);
                // Release: as in `give_back`.
                place.state.store(KEPT, Release);
                take(operation);
            }
        }
        Ok(())
    }

    /// All marks, to be given back. Nobody uses them any more.
    pub fn all(&self) -> impl Iterator<Item = RawMark> + '_ {
        self.places.iter().filter(|place| place.state.load(Acquire) != EMPTY).map(MarkPlace::raw)
    }
}
