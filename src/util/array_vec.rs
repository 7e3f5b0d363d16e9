//! A vector of fixed capacity that lies in place: an array that is filled from its start, and not
//! written before. Used by `engine/inline/fast_path.rs`, `engine/declared.rs` and `tickets/`, each
//! time on one thread, which has it to itself.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// A vector of up to `N` values.
pub struct ArrayVec<T: Copy, const N: usize> {
    /// The first `count` places are written.
    places: [MaybeUninit<T>; N],
    count: usize,
}

impl<T: Copy, const N: usize> ArrayVec<T, N> {
    #[inline(always)]
    pub const fn new() -> ArrayVec<T, N> {
        ArrayVec { places: [const { MaybeUninit::uninit() }; N], count: 0 }
    }

    /// Adds a value. `false` if the array is full.
    #[inline(always)]
    pub fn add(&mut self, value: T) -> bool {
        match self.places.get_mut(self.count) {
            Some(place) => {
                place.write(value);
                self.count += 1;
                true
            }
            None => false,
        }
    }

    /// Takes the value that was added last.
    pub fn pop(&mut self) -> Option<T> {
        let last = *self.last()?;
        self.count -= 1;
        Some(last)
    }

    /// Empties the vector, and fills it anew through a [`Fill`], whose count stays in a register
    /// meanwhile.
    #[inline(always)]
    pub fn fill(&mut self) -> Fill<'_, T, N> {
        self.count = 0;
        Fill { vec: self, count: 0 }
    }
}

/// A vector that is being filled. No value is in it before [`Fill::end`].
pub struct Fill<'a, T: Copy, const N: usize> {
    vec: &'a mut ArrayVec<T, N>,
    /// The first `count` places are written.
    count: usize,
}

impl<T: Copy, const N: usize> Fill<'_, T, N> {
    /// Returns the next free place. `None` if the array is full.
    #[inline(always)]
    pub fn room(&mut self) -> Option<Room<'_, T>> {
        let place = self.vec.places.get_mut(self.count)?;
        Some(Room { place, count: &mut self.count })
    }

    #[inline(always)]
    pub fn end(self) {
        self.vec.count = self.count;
    }
}

/// A free place, which becomes part of the vector when a value is added to it.
pub struct Room<'a, T> {
    place: &'a mut MaybeUninit<T>,
    count: &'a mut usize,
}

impl<T: Copy> Room<'_, T> {
    #[inline(always)]
    pub fn add(self, value: T) {
        self.place.write(value);
        *self.count += 1;
    }
}

impl<T: Copy, const N: usize> Deref for ArrayVec<T, N> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `count` places are written: `count` grows only when one more place is
        // written. `pop` and `fill` reduce it, and leave the places to be written again.
        unsafe { std::slice::from_raw_parts(self.places.as_ptr().cast(), self.count) }
    }
}

impl<T: Copy, const N: usize> DerefMut for ArrayVec<T, N> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.places.as_mut_ptr().cast(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_as_many_as_there_are_places() {
        let mut vec = ArrayVec::<u32, 2>::new();
        assert!(vec.is_empty());
        assert!(vec.add(1) && vec.add(2) && !vec.add(3));
        vec[0] = 7;
        assert_eq!(vec[..], [7, 2]);
        assert_eq!((vec.pop(), vec.pop(), vec.pop()), (Some(2), Some(7), None));
        assert!(vec.add(8));
        let mut fill = vec.fill();
        fill.room().expect("it begins anew").add(4);
        fill.end();
        assert_eq!(vec[..], [4]);
        let mut fill = vec.fill();
        [5, 6].into_iter().for_each(|value| fill.room().expect("two places").add(value));
        assert!(fill.room().is_none());
        fill.end();
        assert_eq!(vec[..], [5, 6]);
        let _ = vec.fill();
        assert!(vec.is_empty());
    }
}
