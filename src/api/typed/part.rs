//! Parts: what the operations of a scope are lent of the stack, or of what the operation around the
//! scope holds.
//!
//! `Scope::part` makes one here, on the thread that has opened the scope. `src/api/scope.rs` enters
//! it into operations.
//!
//! **Why this is sound.** What `value.rs` says of values holds of parts, but for rule 5: a part is
//! a mutable borrow for all of `'scope`, and the scope is joined before that ends. So nothing else
//! leads to the memory until no operation can be lent it any more. Parts of one array do not
//! overlap since the borrows do not: `split_at_mut` and `chunks_mut` make them. An operation of
//! another kind than of a scope cannot name a part: that is [`Resources<InScope>`] only. Nor can
//! one of a scope further out, which may run when the part's own is joined: `'part: 'scope`.

use crate::api::scope::Scope;
use crate::api::typed::resources::{Entering, InScope, Keepers, Lendable, ReadPlace, Resources, Write, WritePlace};
use crate::api::typed::slices::{Each, EachMut};
use crate::operation::access::Mode;
use crate::variable::handle::Variable;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Memory that a [`Scope`] has borrowed, from [`Scope::part`], and that its operations are lent:
/// `&T` where an operation names `&part`, `&mut T` where it names
/// [`Write(&part)`](crate::Write).
///
/// Operations of the scope that name it run in the order in which they were pushed, unless they
/// only read it. Inside an operation it is what a scope may be lent of what that operation holds.
///
/// ```
/// use seriatim::{Engine, Write};
/// let engine = Engine::new()?;
/// let (mut halves, mut sum) = ([1, 2, 3, 4], 0);
/// engine.scope(|s| {
///     let (left, right) = halves.split_at_mut(2);
///     let (left, right, sum) = (s.part(left), s.part(right), s.part(&mut sum));
///     for half in [&left, &right] {
///         s.op("double").run(Write(half), |half| half.iter_mut().for_each(|x| *x *= 2))?;
///     }
///     s.op("sum").run((&left, &right, Write(&sum)), |(left, right, sum)| {
///         *sum = left.iter().chain(right).sum();
///     })
/// })?;
/// assert_eq!(sum, 20);
/// # Ok::<(), seriatim::Error>(())
/// ```
///
/// No other operation can be lent it:
///
/// ```compile_fail,E0277
/// # let engine = seriatim::Engine::new()?;
/// let mut sum = 0;
/// engine.scope(|s| {
///     let sum = s.part(&mut sum);
///     engine.op("later").run(seriatim::Write(&sum), |sum| *sum += 1)
/// })?;
/// # Ok::<(), seriatim::Error>(())
/// ```
///
/// nor can one of a scope further out, which goes on when this one is over.
///
/// ```compile_fail
/// # let engine = seriatim::Engine::new()?;
/// engine.scope(|outer| {
///     let mut sum = 0;
///     engine.scope(|s| {
///         let sum = s.part(&mut sum);
///         outer.op("later").run(seriatim::Write(&sum), |sum| *sum += 1)
///     })
/// })?;
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct ScopePart<'scope, T: ?Sized> {
    variable: Variable,
    place: NonNull<T>,
    /// The identity of the scope.
    scope: *const (),
    /// The borrow, of exactly this lifetime.
    of: PhantomData<Cell<&'scope mut T>>,
}

impl<'scope> Scope<'scope, '_> {
    /// Lends the scope's operations what `value` borrows. Nothing else can reach it until the scope
    /// is joined.
    ///
    /// Worst case: that of [`new_variable`](crate::Engine::new_variable); and as the scope ends,
    /// that of [`delete_variable`](crate::Engine::delete_variable). A child that uses no part is
    /// cheaper: let its closure borrow what it needs by itself where nothing has to be put in
    /// order.
    ///
    /// ```
    /// use seriatim::{Engine, Write};
    /// let (engine, mut text) = (Engine::new()?, String::new());
    /// engine.scope(|s| {
    ///     let text = s.part(&mut text);
    ///     for word in ["in", " order"] {
    ///         s.op("append").run(Write(&text), move |text| text.push_str(word))?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(text, "in order");
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn part<T: ?Sized + Send + 'static>(&'scope self, value: &'scope mut T) -> ScopePart<'scope, T> {
        let variable = self.add_variable();
        ScopePart { variable, place: NonNull::from(value), scope: self.open().identity(), of: PhantomData }
    }
}

impl<T: ?Sized> ScopePart<'_, T> {
    #[inline]
    fn enter(&self, mode: Mode, entry: &mut Entering<'_>) -> NonNull<T> {
        entry.draft.add(self.variable, mode);
        entry.own += usize::from(self.scope == entry.scope);
        self.place
    }
}

impl<T: ?Sized> fmt::Debug for ScopePart<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopePart({:?})", self.variable)
    }
}

impl<T: ?Sized> Lendable for &ScopePart<'_, T> {}

impl<'part: 'scope, 'scope, T: ?Sized + Sync + 'static> Resources<InScope<'scope>> for &ScopePart<'part, T> {
    type Item<'a> = &'a T;
    type Held = ReadPlace<T>;

    fn enter(&self, entry: &mut Entering<'_>) -> ReadPlace<T> {
        ReadPlace::of(ScopePart::enter(self, Mode::Read, entry))
    }

    // Only operations that run more than once keep anything, and those of a scope run once.
    fn keep(&self, _: &mut Keepers) {}

    unsafe fn lend(held: &ReadPlace<T>) -> &T {
        // SAFETY: by the contract.
        unsafe { held.lend() }
    }
}

impl<T: ?Sized> Lendable for Write<&ScopePart<'_, T>> {}

impl<'part: 'scope, 'scope, T: ?Sized + Send + 'static> Resources<InScope<'scope>> for Write<&ScopePart<'part, T>> {
    type Item<'a> = &'a mut T;
    type Held = WritePlace<T>;

    fn enter(&self, entry: &mut Entering<'_>) -> WritePlace<T> {
        WritePlace::of(ScopePart::enter(self.0, Mode::Write, entry))
    }

    fn keep(&self, _: &mut Keepers) {}

    #[allow(clippy::mut_from_ref)]
    unsafe fn lend(held: &WritePlace<T>) -> &mut T {
        // SAFETY: by the contract. A second claim of the part was refused.
        unsafe { held.lend_mut() }
    }
}

impl<T: ?Sized> Lendable for &[ScopePart<'_, T>] {}

impl<'part: 'scope, 'scope, T: ?Sized + Sync + 'static> Resources<InScope<'scope>> for &[ScopePart<'part, T>] {
    type Item<'a> = Each<'a, T>;
    type Held = Box<[ReadPlace<T>]>;

    fn enter(&self, entry: &mut Entering<'_>) -> Box<[ReadPlace<T>]> {
        self.iter().map(|part| ReadPlace::of(part.enter(Mode::Read, entry))).collect()
    }

    fn keep(&self, _: &mut Keepers) {}

    unsafe fn lend<'a>(held: &'a Box<[ReadPlace<T>]>) -> Each<'a, T> {
        Each(held)
    }
}

impl<T: ?Sized> Lendable for Write<&[ScopePart<'_, T>]> {}

impl<'part: 'scope, 'scope, T: ?Sized + Send + 'static> Resources<InScope<'scope>> for Write<&[ScopePart<'part, T>]> {
    type Item<'a> = EachMut<'a, T>;
    type Held = Box<[WritePlace<T>]>;

    fn enter(&self, entry: &mut Entering<'_>) -> Box<[WritePlace<T>]> {
        self.0.iter().map(|part| WritePlace::of(part.enter(Mode::Write, entry))).collect()
    }

    fn keep(&self, _: &mut Keepers) {}

    unsafe fn lend<'a>(held: &'a Box<[WritePlace<T>]>) -> EachMut<'a, T> {
        EachMut(held, PhantomData)
    }
}
