//! A table that only grows and never moves what it holds: buckets, each twice as long as the one
//! before. Two shifts and a load find the place of an index.
//!
//! Data by the number of a variable lie in such tables, and so do thread records. Any thread may
//! call it, and the first that needs a bucket makes it, by one exchange. The file that keeps
//! something in a place says which threads may touch it.

use crate::platform::low_memory::Low;
use crate::sync::{lay_out, AtomicPtr, Ordering::*, MODELLED};
use std::alloc::Layout;
use std::ptr::null_mut;

/// The places of the first bucket, and the most buckets: enough for all variables of an engine.
pub const FIRST: u32 = if MODELLED { 2 } else { 64 };
const COUNT: usize = if MODELLED { 8 } else { 26 };

/// Where the place of an index lies, in any table: its bucket, and its offset in the bucket.
#[derive(Clone, Copy)]
pub struct Location {
    bucket: u32,
    offset: u32,
}

impl Location {
    #[inline(always)]
    pub fn of(index: u32) -> Location {
        let number = u64::from(index) + u64::from(FIRST);
        let bucket = number.ilog2() - FIRST.ilog2();
        Location { bucket, offset: (number - (u64::from(FIRST) << bucket)) as u32 }
    }
}

/// What lies in a bucket.
///
/// # Safety
/// Except in models, where places are written: a place whose bytes are all zero is the same as
/// [`Vacant::vacant`], and places need no destructor.
pub unsafe trait Vacant {
    /// The name of a place, for a simulated machine.
    const NAME: &'static str;

    /// Returns a place that was never used.
    fn vacant() -> Self;
}

/// The alignment that buckets ask the allocator for: that of `malloc`.
const ALIGN: usize = 16;

const _: () = assert!(size_of::<Low>() <= ALIGN && align_of::<Low>() <= ALIGN);

/// Places, numbered from 0: `FIRST` in the first bucket, and at most `COUNT` buckets.
pub struct BucketArray<T: Vacant> {
    buckets: [AtomicPtr<T>; COUNT],
}

impl<T: Vacant> BucketArray<T> {
    pub fn new() -> BucketArray<T> {
        BucketArray { buckets: std::array::from_fn(|_| AtomicPtr::new(null_mut())) }
    }

    const fn length(bucket: usize) -> usize {
        (FIRST as usize) << bucket
    }

    /// Returns the place of an index, if its bucket was made.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.get_at(Location::of(index))
    }

    /// Like [`BucketArray::get`], for an index whose location is known.
    #[inline(always)]
    pub fn get_at(&self, Location { bucket, offset }: Location) -> Option<&T> {
        // Acquire: pairs with the release in `add_bucket`, which published the bucket after its
        // places were written.
        let places = self.buckets.get(bucket as usize)?.load(Acquire);
        if places.is_null() {
            return None;
        }
        // SAFETY: `Location::of` keeps the offset inside the bucket, and buckets live as long as
        // the table.
        Some(unsafe { &*places.add(offset as usize) })
    }

    /// The places of all buckets that were made.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        // Acquire: as in `get_at`.
        let made = self.buckets.iter().map(|bucket| bucket.load(Acquire)).enumerate();
        // SAFETY: a bucket has so many places, and lives as long as the table.
        let places = |(bucket, at): (usize, *mut T)| unsafe { std::slice::from_raw_parts(at, Self::length(bucket)) };
        made.filter(|(_, at)| !at.is_null()).flat_map(places)
    }

    /// Returns the place of an index that was handed out.
    ///
    /// # Safety
    /// [`BucketArray::get_or_add`] was called with this index, and that call happened before this
    /// one.
    #[inline]
    pub unsafe fn at(&self, index: u32) -> &T {
        let Location { bucket, offset } = Location::of(index);
        // SAFETY: the bucket was published; see `get_at`.
        unsafe { &*self.buckets.get_unchecked(bucket as usize).load(Acquire).add(offset as usize) }
    }

    /// Returns the place of an index, and makes its bucket if it is missing. `None` if there are no
    /// more buckets.
    pub fn get_or_add(&self, index: u32) -> Option<&T> {
        self.get(index).or_else(|| {
            let Location { bucket, offset } = Location::of(index);
            let places = self.add_bucket(self.buckets.get(bucket as usize)?, bucket as usize);
            // SAFETY: as in `get_at`.
            Some(unsafe { &*places.add(offset as usize) })
        })
    }

    #[cold]
    fn add_bucket(&self, known: &AtomicPtr<T>, bucket: usize) -> *mut T {
        let places = Self::allocate(bucket);
        lay_out(places, Self::length(bucket) * size_of::<T>(), size_of::<T>(), T::NAME);
        // Release: pairs with the acquire in `get` and in `at`, so the places are written before
        // they can be found.
        match known.compare_exchange(null_mut(), places, AcqRel, Acquire) {
            Ok(_) => places,
            Err(other) => {
                // SAFETY: another thread has published its bucket first. Ours was never seen by
                // another thread.
                unsafe { Self::free(places, bucket) };
                other
            }
        }
    }

    /// Returns the layout of a bucket, with a gap before it for the [`Low`] that its memory came
    /// with. The alignment is one that the allocator has at hand, so it gives out pages that are
    /// zero already, however many, and a page is touched only when its places are first used.
    fn layout(bucket: usize) -> Layout {
        let places = Layout::array::<T>(Self::length(bucket)).expect("a bucket fits the address space");
        let gap = align_of::<T>().max(ALIGN);
        Layout::from_size_align(places.size() + gap, ALIGN).expect("it still does with a gap before it")
    }

    fn allocate(bucket: usize) -> *mut T {
        let layout = Self::layout(bucket);
        let low = Low::allocate(layout, true);
        // The places begin at the alignment of a place, past the start by `ALIGN` at least: the gap
        // holds the [`Low`].
        let align = align_of::<T>().max(ALIGN);
        let gap = align - low.start.addr() % align;
        // SAFETY: the layout has room for the gap, which is a multiple of `ALIGN`, more than 0, and
        // the bucket behind it.
        unsafe {
            let places = low.start.add(gap).cast::<T>();
            places.cast::<Low>().sub(1).write(low);
            if MODELLED {
                (0..Self::length(bucket)).for_each(|offset| places.add(offset).write(T::vacant()));
            }
            places
        }
    }

    /// # Safety
    /// The bucket comes from [`BucketArray::allocate`], and no thread uses it again.
    unsafe fn free(places: *mut T, bucket: usize) {
        // SAFETY: `allocate` has written the `Low` there, and it is of an allocation with this
        // layout.
        unsafe { places.cast::<Low>().sub(1).read().free(Self::layout(bucket)) }
    }
}

impl<T: Vacant> Drop for BucketArray<T> {
    fn drop(&mut self) {
        for (bucket, places) in self.buckets.iter().enumerate() {
            let places = places.load(Acquire);
            if !places.is_null() {
                // SAFETY: `add_bucket` made the bucket, and no thread uses the table any more.
                unsafe { Self::free(places, bucket) };
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::AtomicU32;
    use std::collections::HashSet;

    #[repr(align(64))]
    struct Number(AtomicU32);

    // SAFETY: zeros are a number of 0.
    unsafe impl Vacant for Number {
        const NAME: &'static str = "number";

        fn vacant() -> Number {
            Number(AtomicU32::new(0))
        }
    }

    #[test]
    fn every_index_has_a_place_of_its_own_that_is_vacant_and_stays() {
        let buckets: BucketArray<Number> = BucketArray::new();
        assert!(buckets.get(0).is_none());
        // 64 + 128 + 256
        let places: HashSet<usize> = (0..448)
            .map(|index| {
                let place = buckets.get_or_add(index).expect("there is a bucket for it");
                assert_eq!(place.0.swap(index + 1, Relaxed), 0);
                let address = std::ptr::from_ref(place).addr();
                assert_eq!(address % 64, 0);
                address
            })
            .collect();
        assert_eq!(places.len(), 448);
        assert!((0..448).all(|index| buckets.get(index).is_some_and(|place| place.0.load(Relaxed) == index + 1)));
        // The next bucket is not there yet; and behind the last one is none.
        assert!(buckets.get(448).is_none() && buckets.get_or_add(u32::MAX).is_none());
    }

    #[test]
    fn threads_that_need_a_bucket_at_once_get_the_same() {
        for _ in 0..100 {
            let buckets: BucketArray<Number> = BucketArray::new();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        (0..255).for_each(|index| {
                            buckets.get_or_add(index).expect("a bucket").0.fetch_add(1, Relaxed);
                        });
                    });
                }
            });
            assert!((0..255).all(|index| buckets.get(index).is_some_and(|place| place.0.load(Relaxed) == 4)));
        }
    }
}
