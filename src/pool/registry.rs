//! An append-only registry: the thread caches of an engine, or the records of its pushers, by
//! numbers. Any thread may add and read. Used by `pool/memory.rs` and `pool/thread_cache.rs`. It
//! never moves its members, and frees them when it is dropped, with the
//! [memory](crate::pool::memory).

use crate::operation::header::MOST_CACHES;
use crate::sync::{AtomicPtr, AtomicU32, Ordering::*};
use crate::util::bucket_array::{BucketArray, Vacant};
use std::ptr::null_mut;

/// A registry of members, numbered from 0 in the order in which they were added.
pub struct Registry<T> {
    places: BucketArray<RegistryPlace<T>>,
    /// How many numbers were given out.
    count: AtomicU32,
}

/// The address of a member; null until it is there.
struct RegistryPlace<T>(AtomicPtr<T>);

// SAFETY: zeros are a null pointer; the registry frees its members itself.
unsafe impl<T> Vacant for RegistryPlace<T> {
    const NAME: &'static str = "cache";

    fn vacant() -> RegistryPlace<T> {
        RegistryPlace(AtomicPtr::new(null_mut()))
    }
}

impl<T> Registry<T> {
    pub fn new() -> Registry<T> {
        Registry { places: BucketArray::new(), count: AtomicU32::new(0) }
    }

    /// Adds a member; the function makes it from its number.
    pub fn add(&self, member: impl FnOnce(u32) -> T) -> &T {
        let number = self.count.fetch_add(1, Relaxed);
        let place = self.places.get_or_add(number).filter(|_| number < MOST_CACHES);
        let place = place.expect("there are fewer threads than places");
        let member = Box::into_raw(Box::new(member(number)));
        // Release: pairs with the acquire in `get`, so that the member is written before it can be
        // found.
        place.0.store(member, Release);
        // SAFETY: members stay where they are as long as the registry.
        unsafe { &*member }
    }

    /// The member of this number, if it is there already.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        // SAFETY: members live as long as the registry. Acquire: pairs with the release in `add`.
        unsafe { self.places.get(number)?.0.load(Acquire).as_ref() }
    }

    /// How many members there are, including the ones that are just being added.
    pub fn count(&self) -> u32 {
        // Relaxed: a thread that has learnt of something that a member's owner did comes after that
        // member's count.
        self.count.load(Relaxed)
    }

    /// All members. One that is just being added may be missing.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.count()).filter_map(|number| self.get(number))
    }
}

impl<T> Drop for Registry<T> {
    fn drop(&mut self) {
        for number in 0..self.count.load(Acquire) {
            let member = self.places.get(number).map_or(null_mut(), |place| place.0.load(Acquire));
            if !member.is_null() {
                // SAFETY: `add` has made the member from a box.
                drop(unsafe { Box::from_raw(member) });
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pool::thread_cache::ThreadCache;
    use std::collections::HashSet;

    #[test]
    fn caches_that_many_threads_add_are_found_by_their_numbers() {
        let caches = Registry::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let cache = caches.add(ThreadCache::new);
                        assert!(std::ptr::eq(caches.get(cache.number).expect("added just now"), cache));
                    }
                });
            }
        });
        let numbers: HashSet<u32> = caches.iter().map(|cache| cache.number).collect();
        assert_eq!(numbers, (0..400).collect());
        assert!(caches.get(400).is_none() && caches.get(u32::MAX / 64).is_none());
    }
}
