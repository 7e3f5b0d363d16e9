//! All homes of an engine, by their numbers: a table that only grows, and never moves what it holds.

use super::home::Home;
use crate::chunks::{Chunks, Vacant};
use crate::operation::block::MOST_HOMES;
use crate::sync::{AtomicPtr, AtomicU32, Ordering::*, MODELLED};
use std::ptr::null_mut;

/// Places in the first chunk; each further chunk has twice as many.
const FIRST: u32 = if MODELLED { 2 } else { 16 };
const CHUNKS: usize = if MODELLED { 5 } else { 23 };

const _: () = assert!((FIRST as u64) << CHUNKS <= MOST_HOMES as u64);

/// Homes, numbered from 0 in the order in which they came.
pub struct Homes {
    places: Chunks<Place, FIRST, CHUNKS>,
    /// Numbers given out.
    count: AtomicU32,
}

/// Where a home is found; null until it is there.
struct Place(AtomicPtr<Home>);

// SAFETY: zeros are a null pointer; the table frees homes itself.
unsafe impl Vacant for Place {
    const NAME: &'static str = "home";

    fn vacant() -> Place {
        Place(AtomicPtr::new(null_mut()))
    }
}

impl Homes {
    pub fn new() -> Homes {
        Homes { places: Chunks::new(), count: AtomicU32::new(0) }
    }

    /// Adds a home, which is told its number.
    pub fn add(&self, home: impl FnOnce(u32) -> Home) -> &Home {
        let number = self.count.fetch_add(1, Relaxed);
        let place = self.places.get_or_add(number).expect("there are fewer threads than places");
        let home = Box::into_raw(Box::new(home(number)));
        // Release: the home is written before it can be found.
        place.0.store(home, Release);
        // SAFETY: homes stay where they are for as long as the table.
        unsafe { &*home }
    }

    /// The home of a number, if it is there already.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Home> {
        // SAFETY: homes live as long as the table. Acquire: the home as it was written.
        unsafe { self.places.get(number)?.0.load(Acquire).as_ref() }
    }

    /// All homes. One that is just being added may be missing.
    pub fn iter(&self) -> impl Iterator<Item = &Home> {
        // Relaxed: whoever has heard of something that the owner of a home did comes after the count of that home.
        (0..self.count.load(Relaxed)).filter_map(|number| self.get(number))
    }
}

impl Drop for Homes {
    fn drop(&mut self) {
        for number in 0..self.count.load(Acquire) {
            let home = self.places.get(number).map_or(null_mut(), |place| place.0.load(Acquire));
            if !home.is_null() {
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
