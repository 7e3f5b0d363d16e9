//! A list to which any thread adds and that any thread reads: lock-free, in chunks, without a
//! removal. Used by `profile/recorder.rs`. A place is written once, by the thread that drew its
//! number, and then only read; any thread that adds may make a chunk.

use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*, MODELLED};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// The entries of a chunk, and the most chunks: room for a million entries.
const CHUNK: usize = 4096;
const CHUNKS: usize = if MODELLED { 1 } else { 256 };

struct EntryPlace<T> {
    written: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// A place that a thread has drawn, and is to fill.
pub struct Drawn<'a, T> {
    place: &'a EntryPlace<T>,
    index: usize,
}

impl<T> Drawn<'_, T> {
    /// Fills it; returns its number.
    #[inline(always)]
    pub fn fill(self, value: T) -> usize {
        // SAFETY: its number is ours alone.
        unsafe { (*self.place.value.get()).write(value) };
        // Release: pairs with the acquire in `iter`, so a reader that finds the mark finds the
        // entry.
        self.place.written.store(true, Release);
        self.index
    }
}

/// Entries in the order in which their places were drawn.
pub struct AppendList<T> {
    chunks: Box<[AtomicPtr<EntryPlace<T>>]>,
    /// The number of places that were handed out, including those past the last chunk.
    next: AtomicUsize,
}

// SAFETY: a place is written only by the thread that drew its number, and read only once it is
// marked as written.
unsafe impl<T: Send + Sync> Sync for AppendList<T> {}
// SAFETY: the list owns its chunks.
unsafe impl<T: Send> Send for AppendList<T> {}

impl<T> AppendList<T> {
    pub fn new() -> AppendList<T> {
        AppendList { chunks: (0..CHUNKS).map(|_| AtomicPtr::new(null_mut())).collect(), next: AtomicUsize::new(0) }
    }

    /// Adds an entry; returns its place, or `None` if the list is full.
    pub fn push(&self, value: T) -> Option<usize> {
        self.draw().map(|drawn| drawn.fill(value))
    }

    /// Draws a place for an entry; `None` if the list is full.
    #[inline(always)]
    pub fn draw(&self) -> Option<Drawn<'_, T>> {
        let index = self.next.fetch_add(1, Relaxed);
        let Some(chunk) = self.chunks.get(index / CHUNK) else {
            self.next.store(CHUNK * CHUNKS, Relaxed);
            return None;
        };
        let mut places = chunk.load(Acquire);
        if places.is_null() {
            places = add_chunk(chunk);
        }
        // SAFETY: the place is inside the chunk, which lives as long as the list.
        Some(Drawn { place: unsafe { &*places.add(index % CHUNK) }, index })
    }

    /// The entries with their places, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let chunks = self.chunks.iter().map(|chunk| chunk.load(Acquire)).take_while(|places| !places.is_null());
        chunks.enumerate().flat_map(|(chunk, places)| {
            (0..CHUNK).filter_map(move |index| {
                // SAFETY: the place is inside the chunk. The entry is read only if it is written,
                // after which it does not change.
                unsafe {
                    let place = places.add(index);
                    let is_written = (*place).written.load(Acquire);
                    is_written.then(|| (chunk * CHUNK + index, (*(*place).value.get()).assume_init_ref()))
                }
            })
        })
    }
}

#[cold]
fn add_chunk<T>(chunk: &AtomicPtr<EntryPlace<T>>) -> *mut EntryPlace<T> {
    let places: Box<[EntryPlace<T>]> = (0..CHUNK)
        .map(|_| EntryPlace { written: AtomicBool::new(false), value: UnsafeCell::new(MaybeUninit::uninit()) })
        .collect();
    let places = Box::into_raw(places);
    match chunk.compare_exchange(null_mut(), places.cast(), AcqRel, Acquire) {
        Ok(_) => places.cast(),
        Err(other) => {
            // SAFETY: another thread has installed its chunk first, and no thread has seen ours.
            drop(unsafe { Box::from_raw(places) });
            other
        }
    }
}

impl<T> Drop for AppendList<T> {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            let places = chunk.load(Acquire);
            if !places.is_null() {
                // SAFETY: `add_chunk` made the chunk from a box of this length.
                let mut places = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(places, CHUNK)) };
                for place in places.iter_mut().filter(|place| place.written.load(Acquire)) {
                    // SAFETY: the mark says that the entry was written, and no other thread uses
                    // the list any more.
                    unsafe { place.value.get_mut().assume_init_drop() };
                }
            }
        }
    }
}
