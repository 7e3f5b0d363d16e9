//! Slices of values as resources of one operation: `&values[..]` and `Write(&values[..])`, which
//! the closure is given as an [`Each`] or an [`EachMut`].
//!
//! How many there are is known when the program runs, so the push allocates a list of their
//! addresses, which the operation keeps. The views are on the thread that calls the closure.

use crate::api::typed::each_iter::{EachIter, EachIterMut};
use crate::api::typed::resources::{Entering, Keepers, Lendable, ReadPlace, Resources, Write, WritePlace};
use crate::api::typed::value::Value;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// Values that an operation reads, of which it was given a slice. See
/// [`Resources`](crate::Resources).
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let values = [1, 2, 3].map(|number| engine.value(number));
/// engine.op("look").run(&values[1..], |values| {
///     assert_eq!((values.len(), values[0]), (2, 2));
///     assert_eq!(values.iter().sum::<i32>(), 5);
/// })?;
/// engine.wait_for_all()?;
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct Each<'a, T: ?Sized>(pub(super) &'a [ReadPlace<T>]);

/// Values that an operation changes, of which it was given a slice. See
/// [`Resources`](crate::Resources).
///
/// ```
/// use seriatim::{Engine, Write};
/// let engine = Engine::new()?;
/// let values = [1, 2, 3].map(|number| engine.value(number));
/// engine.op("sum up").run(Write(&values[..]), |mut values| {
///     values[1] += 10;
///     values.iter_mut().for_each(|value| *value *= 2);
/// })?;
/// assert_eq!(*values[1].read()?, 24);
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct EachMut<'a, T: ?Sized>(pub(super) &'a [WritePlace<T>], pub(super) PhantomData<&'a mut T>);

impl<'a, T: ?Sized> Each<'a, T> {
    /// How many there are.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let values = [engine.value(1), engine.value(2)];
    /// engine.op("count").run(&values[..], |values| assert_eq!(values.len(), 2))?;
    /// # engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let values = [engine.value(1)];
    /// engine.op("count").run(&values[1..], |values| assert!(values.is_empty()))?;
    /// # engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values, in the order of the slice.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let values = [engine.value(1), engine.value(2)];
    /// engine.op("look").run(&values[..], |values| assert!(values.iter().eq(&[1, 2])))?;
    /// # engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn iter(&self) -> EachIter<'a, T> {
        EachIter::new(self.0)
    }
}

impl<T: ?Sized> Index<usize> for Each<'_, T> {
    type Output = T;

    /// The value of this number.
    ///
    /// # Panics
    /// As a slice does, which fails the operation.
    fn index(&self, at: usize) -> &T {
        // SAFETY: the values were all lent to what made this, for as long as it lives.
        unsafe { self.0[at].lend() }
    }
}

impl<T: ?Sized> Clone for Each<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Each<'_, T> {}

impl<T: ?Sized> EachMut<'_, T> {
    /// How many there are.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let values = [engine.value(1), engine.value(2)];
    /// engine.op("count").run(seriatim::Write(&values[..]), |values| assert_eq!(values.len(), 2))?;
    /// # engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let values = [engine.value(1)];
    /// engine.op("count").run(seriatim::Write(&values[1..]), |values| assert!(values.is_empty()))?;
    /// # engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values to read, in the order of the slice.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let values = [engine.value(1), engine.value(2)];
    /// engine.op("look").run(seriatim::Write(&values[..]), |values| assert!(values.iter().eq(&[1, 2])))?;
    /// # engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    ///
    /// Only where the values may be read by several threads may the iterator go to another one:
    ///
    /// ```compile_fail,E0277
    /// # let engine = seriatim::Engine::new()?;
    /// let cells = [engine.value(std::cell::Cell::new(1))];
    /// engine.op("race").run(seriatim::Write(&cells[..]), |cells| {
    ///     let theirs = cells.iter();
    ///     std::thread::scope(|scope| _ = scope.spawn(move || theirs.for_each(|cell| cell.set(2))));
    /// })?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> + DoubleEndedIterator {
        // The closure has this, so that the iterator is `Send` only if references to values are.
        // What it goes through asks less, since it can also lend the values to be changed.
        let lent: PhantomData<&T> = PhantomData;
        self.0.iter().map(move |place| {
            let _ = &lent;
            // SAFETY: as in `index_mut`; what is made is shared, as this is.
            unsafe { place.lend() }
        })
    }

    /// The values to change, in the order of the slice. All references may be kept at once.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let values = [engine.value(1), engine.value(2)];
    /// engine.op("swap").run(seriatim::Write(&values[..]), |mut values| {
    ///     let [first, second] = values.iter_mut().collect::<Vec<_>>().try_into().unwrap();
    ///     std::mem::swap::<i32>(first, second);
    /// })?;
    /// assert_eq!(*values[0].read()?, 2);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn iter_mut(&mut self) -> EachIterMut<'_, T> {
        // SAFETY: as in `index_mut`, and each place is of another value: the push was refused
        // otherwise. The iterator borrows this.
        unsafe { EachIterMut::new(self.0) }
    }
}

impl<T: ?Sized> Index<usize> for EachMut<'_, T> {
    type Output = T;

    /// The value of this number.
    ///
    /// # Panics
    /// As a slice does, which fails the operation.
    fn index(&self, at: usize) -> &T {
        // SAFETY: as in `index_mut`; what is made is shared, as this is.
        unsafe { self.0[at].lend() }
    }
}

impl<T: ?Sized> IndexMut<usize> for EachMut<'_, T> {
    /// The value of this number.
    ///
    /// # Panics
    /// As a slice does, which fails the operation.
    fn index_mut(&mut self, at: usize) -> &mut T {
        // SAFETY: the values were all lent to what made this, to be changed, for as long as it
        // lives, and it alone leads to them.
        unsafe { self.0[at].lend_mut() }
    }
}

impl<'a, T: ?Sized> IntoIterator for Each<'a, T> {
    type Item = &'a T;
    type IntoIter = EachIter<'a, T>;

    fn into_iter(self) -> EachIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: ?Sized> IntoIterator for &Each<'a, T> {
    type Item = &'a T;
    type IntoIter = EachIter<'a, T>;

    fn into_iter(self) -> EachIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: ?Sized> IntoIterator for EachMut<'a, T> {
    type Item = &'a mut T;
    type IntoIter = EachIterMut<'a, T>;

    fn into_iter(self) -> EachIterMut<'a, T> {
        // SAFETY: this was lent the values, and is gone.
        unsafe { EachIterMut::new(self.0) }
    }
}

impl<'a, T: ?Sized> IntoIterator for &'a mut EachMut<'_, T> {
    type Item = &'a mut T;
    type IntoIter = EachIterMut<'a, T>;

    fn into_iter(self) -> EachIterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Each<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for EachMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: ?Sized> Lendable for &[Value<T>] {}

impl<T: ?Sized + Sync + 'static, W> Resources<W> for &[Value<T>] {
    type Item<'a> = Each<'a, T>;
    type Held = Box<[ReadPlace<T>]>;

    fn enter(&self, entry: &mut Entering<'_>) -> Box<[ReadPlace<T>]> {
        self.iter().map(|value| ReadPlace::enter(value, entry)).collect()
    }

    fn keep(&self, kept: &mut Keepers) {
        self.iter().for_each(|value| kept.add(value));
    }

    unsafe fn lend<'a>(held: &'a Box<[ReadPlace<T>]>) -> Each<'a, T> {
        Each(held)
    }
}

impl<T: ?Sized> Lendable for &[&Value<T>] {}

impl<T: ?Sized + Sync + 'static, W> Resources<W> for &[&Value<T>] {
    type Item<'a> = Each<'a, T>;
    type Held = Box<[ReadPlace<T>]>;

    fn enter(&self, entry: &mut Entering<'_>) -> Box<[ReadPlace<T>]> {
        self.iter().map(|value| ReadPlace::enter(value, entry)).collect()
    }

    fn keep(&self, kept: &mut Keepers) {
        self.iter().for_each(|value| kept.add(value));
    }

    unsafe fn lend<'a>(held: &'a Box<[ReadPlace<T>]>) -> Each<'a, T> {
        Each(held)
    }
}

impl<T: ?Sized> Lendable for Write<&[&Value<T>]> {}

impl<T: ?Sized + Send + 'static, W> Resources<W> for Write<&[&Value<T>]> {
    type Item<'a> = EachMut<'a, T>;
    type Held = Box<[WritePlace<T>]>;

    fn enter(&self, entry: &mut Entering<'_>) -> Box<[WritePlace<T>]> {
        self.0.iter().map(|value| WritePlace::enter(value, entry)).collect()
    }

    fn keep(&self, kept: &mut Keepers) {
        self.0.iter().for_each(|value| kept.add(value));
    }

    unsafe fn lend<'a>(held: &'a Box<[WritePlace<T>]>) -> EachMut<'a, T> {
        EachMut(held, PhantomData)
    }
}

impl<T: ?Sized> Lendable for Write<&[Value<T>]> {}

impl<T: ?Sized + Send + 'static, W> Resources<W> for Write<&[Value<T>]> {
    type Item<'a> = EachMut<'a, T>;
    type Held = Box<[WritePlace<T>]>;

    fn enter(&self, entry: &mut Entering<'_>) -> Box<[WritePlace<T>]> {
        self.0.iter().map(|value| WritePlace::enter(value, entry)).collect()
    }

    fn keep(&self, kept: &mut Keepers) {
        self.0.iter().for_each(|value| kept.add(value));
    }

    unsafe fn lend<'a>(held: &'a Box<[WritePlace<T>]>) -> EachMut<'a, T> {
        EachMut(held, PhantomData)
    }
}
