//! Iterators over the values of a slice that an operation was lent: those of `Each` and `EachMut`
//! (`slices.rs`), by the methods `iter` and `iter_mut`, and in `for` loops. They are on the thread
//! that calls the closure.

use crate::api::typed::resources::{ReadPlace, WritePlace};
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::slice;

/// The values of an [`Each`](crate::Each), from [`Each::iter`](crate::Each::iter) or a `for` loop.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let values = [1, 2, 3].map(|number| engine.value(number));
/// engine.op("look").run(&values[..], |values| {
///     let mut rest: seriatim::EachIter<'_, i32> = values.iter();
///     assert_eq!((rest.next(), rest.next_back(), rest.len()), (Some(&1), Some(&3), 1));
///     for value in values {
///         assert!(*value > 0);
///     }
/// })?;
/// engine.wait_for_all()?;
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct EachIter<'a, T: ?Sized>(slice::Iter<'a, ReadPlace<T>>);

/// The values of an [`EachMut`](crate::EachMut), to change, from
/// [`EachMut::iter_mut`](crate::EachMut::iter_mut) or a `for` loop.
///
/// ```
/// use seriatim::{Engine, Write};
/// let engine = Engine::new()?;
/// let values = [1, 2, 3].map(|number| engine.value(number));
/// engine.op("double").run(Write(&values[..]), |values| {
///     for value in values {
///         *value *= 2;
///     }
/// })?;
/// assert_eq!(*values[2].read()?, 6);
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct EachIterMut<'a, T: ?Sized> {
    places: slice::Iter<'a, WritePlace<T>>,
    lent: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> EachIter<'a, T> {
    pub(super) fn new(places: &'a [ReadPlace<T>]) -> EachIter<'a, T> {
        EachIter(places.iter())
    }
}

impl<'a, T: ?Sized> EachIterMut<'a, T> {
    /// # Safety
    /// The values were all lent to what made this, to be changed, for `'a`, each is another one,
    /// and nothing else leads to them meanwhile.
    pub(super) unsafe fn new(places: &'a [WritePlace<T>]) -> EachIterMut<'a, T> {
        EachIterMut { places: places.iter(), lent: PhantomData }
    }
}

impl<'a, T: ?Sized> Iterator for EachIter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        // SAFETY: as in `Each::index`, for as long as the call of the closure.
        self.0.next().map(|place| unsafe { place.lend() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T: ?Sized> DoubleEndedIterator for EachIter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        // SAFETY: as in `next`.
        self.0.next_back().map(|place| unsafe { place.lend() })
    }
}

impl<'a, T: ?Sized> Iterator for EachIterMut<'a, T> {
    type Item = &'a mut T;

    fn next(&mut self) -> Option<&'a mut T> {
        // SAFETY: by the contract of `new`; the iterator comes to each place once.
        self.places.next().map(|place| unsafe { place.lend_mut() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl<T: ?Sized> DoubleEndedIterator for EachIterMut<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        // SAFETY: as in `next`.
        self.places.next_back().map(|place| unsafe { place.lend_mut() })
    }
}

impl<T: ?Sized> ExactSizeIterator for EachIter<'_, T> {}
impl<T: ?Sized> ExactSizeIterator for EachIterMut<'_, T> {}
impl<T: ?Sized> FusedIterator for EachIter<'_, T> {}
impl<T: ?Sized> FusedIterator for EachIterMut<'_, T> {}

impl<T: ?Sized> Clone for EachIter<'_, T> {
    fn clone(&self) -> Self {
        EachIter(self.0.clone())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for EachIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<T: ?Sized> fmt::Debug for EachIterMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EachIterMut({} left)", self.len())
    }
}
