//! A few values in place: an array that is filled from its start, and not written before.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Up to `N` values.
pub struct Few<T: Copy, const N: usize> {
    /// The first `count` are written.
    places: [MaybeUninit<T>; N],
    count: usize,
}

impl<T: Copy, const N: usize> Few<T, N> {
    #[inline(always)]
    pub const fn new() -> Few<T, N> {
        Few { places: [const { MaybeUninit::uninit() }; N], count: 0 }
    }

    /// Adds a value, if there is room for it; says whether there was.
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

    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.count == N
    }
}

impl<T: Copy, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `count` places are written; `add` is the only one that moves it, behind a
        // place that exists.
        unsafe { std::slice::from_raw_parts(self.places.as_ptr().cast(), self.count) }
    }
}

impl<T: Copy, const N: usize> DerefMut for Few<T, N> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.places.as_mut_ptr().cast(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_as_many_as_there_are_places() {
        let mut few = Few::<u32, 2>::new();
        assert!(few.is_empty() && !few.is_full());
        assert!(few.add(1) && few.add(2) && !few.add(3));
        few[0] = 7;
        assert_eq!((&few[..], few.is_full()), (&[7, 2][..], true));
    }
}
