//! A table that only grows and never moves what it holds: chunks, each twice as long as the one
//! before, so that what is at a place is found by two shifts and a load.

use crate::platform::low_memory::Low;
use crate::sync::Ordering::*;
use crate::sync::{lay_out, AtomicPtr, MODELLED};
use std::alloc::Layout;
use std::ptr::null_mut;

/// What lies in a chunk.
///
/// # Safety
/// But in models, a place whose bytes are all zero is a [`Vacant::vacant`] one, and it needs no
/// destructor.
pub unsafe trait Vacant {
    /// The name of a place, for a simulated machine.
    const NAME: &'static str;

    /// A place that nobody has used yet.
    fn vacant() -> Self;
}

/// The alignment of chunks, as far as the allocator knows: that of `malloc`.
const ALIGN: usize = 16;

const _: () = assert!(size_of::<Low>() <= ALIGN && align_of::<Low>() <= ALIGN);

/// Places, numbered from 0: `FIRST` in the first chunk, and at most `COUNT` chunks.
pub struct BucketArray<T: Vacant, const FIRST: u32, const COUNT: usize> {
    chunks: [AtomicPtr<T>; COUNT],
}

impl<T: Vacant, const FIRST: u32, const COUNT: usize> BucketArray<T, FIRST, COUNT> {
    pub fn new() -> BucketArray<T, FIRST, COUNT> {
        BucketArray { chunks: std::array::from_fn(|_| AtomicPtr::new(null_mut())) }
    }

    /// The chunk of an index, and the place in it.
    #[inline(always)]
    fn place(index: u32) -> (usize, usize) {
        let number = u64::from(index) + u64::from(FIRST);
        let chunk = number.ilog2() - FIRST.ilog2();
        (chunk as usize, (number - (u64::from(FIRST) << chunk)) as usize)
    }

    const fn length(chunk: usize) -> usize {
        (FIRST as usize) << chunk
    }

    /// The place of an index, if its chunk is there.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (chunk, offset) = Self::place(index);
        // Acquire: pairs with the release that published the chunk, after its places were written.
        let places = self.chunks.get(chunk)?.load(Acquire);
        if places.is_null() {
            return None;
        }
        // SAFETY: `place` keeps the offset inside the chunk, and chunks live as long as the table.
        Some(unsafe { &*places.add(offset) })
    }

    /// The place of an index that was given out.
    ///
    /// # Safety
    /// [`BucketArray::get_or_add`] was called with this index, and the caller has heard of that.
    #[inline]
    pub unsafe fn at(&self, index: u32) -> &T {
        let (chunk, offset) = Self::place(index);
        // SAFETY: the chunk was published; see `get`.
        unsafe { &*self.chunks.get_unchecked(chunk).load(Acquire).add(offset) }
    }

    /// The place of an index, whose chunk is made if need be; none, if there are no more chunks.
    pub fn get_or_add(&self, index: u32) -> Option<&T> {
        self.get(index).or_else(|| {
            let (chunk, offset) = Self::place(index);
            let places = self.add_chunk(self.chunks.get(chunk)?, chunk);
            // SAFETY: as in `get`.
            Some(unsafe { &*places.add(offset) })
        })
    }

    #[cold]
    fn add_chunk(&self, known: &AtomicPtr<T>, chunk: usize) -> *mut T {
        let places = Self::allocate(chunk);
        lay_out(places, Self::length(chunk) * size_of::<T>(), size_of::<T>(), T::NAME);
        // Release: the places are written before they can be found.
        match known.compare_exchange(null_mut(), places, AcqRel, Acquire) {
            Ok(_) => places,
            Err(other) => {
                // SAFETY: another thread was quicker; this one is ours, and nobody has seen it.
                unsafe { Self::free(places, chunk) };
                other
            }
        }
    }

    /// A chunk with room before it for where its allocation starts: an alignment that the allocator
    /// has at hand lets it give out pages that are zero already, however many, and the places are
    /// touched when they are first used.
    fn layout(chunk: usize) -> Layout {
        let places = Layout::array::<T>(Self::length(chunk)).expect("a chunk fits the address space");
        let gap = align_of::<T>().max(ALIGN);
        Layout::from_size_align(places.size() + gap, ALIGN).expect("it still does with a gap before it")
    }

    fn allocate(chunk: usize) -> *mut T {
        let layout = Self::layout(chunk);
        let low = Low::allocate(layout, true);
        // Past the start by `ALIGN` at least, to the alignment of a place, so that there is room
        // for where it came from.
        let align = align_of::<T>().max(ALIGN);
        let gap = align - low.start.addr() % align;
        // SAFETY: the layout has room for the gap, which is a multiple of `ALIGN`, more than 0, and
        // the chunk behind it.
        unsafe {
            let places = low.start.add(gap).cast::<T>();
            places.cast::<Low>().sub(1).write(low);
            if MODELLED {
                (0..Self::length(chunk)).for_each(|offset| places.add(offset).write(T::vacant()));
            }
            places
        }
    }

    /// # Safety
    /// It comes from [`BucketArray::allocate`], and nobody uses it again.
    unsafe fn free(places: *mut T, chunk: usize) {
        // SAFETY: it was left there, and is of an allocation with this layout.
        unsafe { places.cast::<Low>().sub(1).read().free(Self::layout(chunk)) }
    }
}

impl<T: Vacant, const FIRST: u32, const COUNT: usize> Drop for BucketArray<T, FIRST, COUNT> {
    fn drop(&mut self) {
        for (chunk, places) in self.chunks.iter().enumerate() {
            let places = places.load(Acquire);
            if !places.is_null() {
                // SAFETY: made by `add_chunk`, and nobody is left.
                unsafe { Self::free(places, chunk) };
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
        let chunks: BucketArray<Number, 4, 5> = BucketArray::new();
        assert!(chunks.get(0).is_none());
        // 4 + 8 + 16 + 32 + 64
        let places: HashSet<usize> = (0..124)
            .map(|index| {
                let place = chunks.get_or_add(index).expect("there is a chunk for it");
                assert_eq!(place.0.swap(index + 1, Relaxed), 0);
                let address = std::ptr::from_ref(place).addr();
                assert_eq!(address % 64, 0);
                address
            })
            .collect();
        assert_eq!(places.len(), 124);
        assert!((0..124).all(|index| chunks.get(index).is_some_and(|place| place.0.load(Relaxed) == index + 1)));
        assert!(chunks.get(124).is_none() && chunks.get_or_add(124).is_none() && chunks.get_or_add(u32::MAX).is_none());
    }

    #[test]
    fn threads_that_need_a_chunk_at_once_get_the_same() {
        for _ in 0..100 {
            let chunks: BucketArray<Number, 1, 8> = BucketArray::new();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        (0..255).for_each(|index| {
                            chunks.get_or_add(index).expect("a chunk").0.fetch_add(1, Relaxed);
                        });
                    });
                }
            });
            assert!((0..255).all(|index| chunks.get(index).is_some_and(|place| place.0.load(Relaxed) == 4)));
        }
    }
}
