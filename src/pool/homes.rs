//! All homes of an engine, by their numbers: a table that only grows, and never moves what it holds.

use super::home::Home;
use crate::operation::block::MOST_HOMES;
use crate::sync::{AtomicPtr, AtomicU32, Ordering::*, MODELLED};
use std::ptr::null_mut;

/// Places in the first chunk; each further chunk has twice as many.
const FIRST: u32 = if MODELLED { 2 } else { 16 };
const CHUNKS: usize = if MODELLED { 5 } else { 23 };

const _: () = assert!((FIRST as u64) << CHUNKS <= MOST_HOMES as u64);

/// Homes, numbered from 0 in the order in which they came.
pub struct Homes {
    chunks: [AtomicPtr<AtomicPtr<Home>>; CHUNKS],
    /// Numbers given out.
    count: AtomicU32,
}

/// The chunk and the place in it. As in the table of variables.
fn place(number: u32) -> (usize, usize) {
    let number = u64::from(number) + u64::from(FIRST);
    let chunk = number.ilog2() - FIRST.ilog2();
    (chunk as usize, (number - (u64::from(FIRST) << chunk)) as usize)
}

fn length(chunk: usize) -> usize {
    (FIRST as usize) << chunk
}

impl Homes {
    pub fn new() -> Homes {
        Homes { chunks: std::array::from_fn(|_| AtomicPtr::new(null_mut())), count: AtomicU32::new(0) }
    }

    /// Adds a home, which is told its number.
    pub fn add(&self, home: impl FnOnce(u32) -> Home) -> &Home {
        let number = self.count.fetch_add(1, Relaxed);
        let (chunk, offset) = place(number);
        let home = Box::into_raw(Box::new(home(number)));
        // Release: the home is written before it can be found. SAFETY: the chunk is there, and `place` keeps the offset inside it.
        unsafe { (*self.chunk(chunk).add(offset)).store(home, Release) };
        // SAFETY: homes stay where they are for as long as the table.
        unsafe { &*home }
    }

    /// The home of a number, if it is there already.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Home> {
        let (chunk, offset) = place(number);
        // Acquire (both): the chunk and the home as they were written.
        let places = self.chunks.get(chunk)?.load(Acquire);
        if places.is_null() {
            return None;
        }
        // SAFETY: `place` keeps the offset inside the chunk; chunks and homes live as long as the table.
        unsafe { (*places.add(offset)).load(Acquire).as_ref() }
    }

    /// All homes. One that is just being added may be missing.
    pub fn iter(&self) -> impl Iterator<Item = &Home> {
        // Relaxed: whoever has heard of something that the owner of a home did comes after the count of that home.
        (0..self.count.load(Relaxed)).filter_map(|number| self.get(number))
    }

    /// A chunk, made if need be.
    fn chunk(&self, chunk: usize) -> *mut AtomicPtr<Home> {
        let known = self.chunks[chunk].load(Acquire);
        if !known.is_null() {
            return known;
        }
        let places: Box<[AtomicPtr<Home>]> = (0..length(chunk)).map(|_| AtomicPtr::new(null_mut())).collect();
        let places = Box::into_raw(places);
        // Release: the places are empty for whoever finds them.
        match self.chunks[chunk].compare_exchange(null_mut(), places.cast(), AcqRel, Acquire) {
            Ok(_) => places.cast(),
            Err(other) => {
                // SAFETY: another thread was quicker; this one is ours, and nobody has seen it.
                drop(unsafe { Box::from_raw(places) });
                other
            }
        }
    }
}

impl Drop for Homes {
    fn drop(&mut self) {
        for (index, chunk) in self.chunks.iter().enumerate() {
            let places = chunk.load(Acquire);
            if places.is_null() {
                continue;
            }
            // SAFETY: made by `chunk` with this length, and nobody is left.
            let places = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(places, length(index))) };
            for home in places.iter().map(|place| place.load(Acquire)).filter(|home| !home.is_null()) {
                // SAFETY: from a box, by `add`.
                drop(unsafe { Box::from_raw(home) });
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn homes_that_many_threads_add_are_found_by_their_numbers() {
        let homes = Homes::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let home = homes.add(Home::new);
                        assert!(std::ptr::eq(homes.get(home.number).expect("added just now"), home));
                    }
                });
            }
        });
        let numbers: HashSet<u32> = homes.iter().map(|home| home.number).collect();
        assert_eq!(numbers, (0..400).collect());
        assert!(homes.get(400).is_none() && homes.get(u32::MAX / 64).is_none());
    }
}
