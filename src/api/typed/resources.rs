//! `Resources`: what an operation is lent, and how it says so. `&value`, `Write(&value)` and
//! `Commute(&value)` are here. Options, lists and tuples of resources are in `several.rs`, slices
//! in `slices.rs`, arrays of devices in `device_slice.rs`, and reductions in `reduce.rs`.
//!
//! `run.rs` calls all of it: `enter` and `keep` on the thread that pushes or captures, `lend` on
//! the thread that calls the closure. In between there are addresses (`ReadPlace`, `WritePlace`) in
//! the operation's block, with nothing counted.

use crate::api::typed::value::{Value, ValueOwner};
use crate::engine::draft::Draft;
use crate::error::Error;
use crate::operation::access::Mode;
use crate::operation::closure::drop_quietly;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::ptr::{null, NonNull};
use std::sync::Arc;

/// What an operation is lent, as [`OperationBuilder::run`](crate::OperationBuilder::run) is told,
/// and what its closure is given for it.
///
/// | the operation names | the closure is given |
/// |---|---|
/// | `&value`, a [`&Value<T>`](Value) | `&T` |
/// | [`Write(&value)`](Write) | `&mut T` |
/// | [`Commute(&value)`](Commute) | `&mut T` |
/// | [`Reduce(&sum)`](crate::Reduce), a [`Reduction<T>`](crate::Reduction) | `&mut T` |
/// | `&array`, a [`&DeviceData<T>`](crate::gpu::DeviceData) | a [`DeviceSlice<T>`](crate::gpu::DeviceSlice) |
/// | `Write(&array)` | a [`DeviceSliceMut<T>`](crate::gpu::DeviceSliceMut) |
/// | `&values[..]`, a slice of values | [`Each<T>`](crate::Each), of which each is a `&T` |
/// | `Write(&values[..])` | [`EachMut<T>`](crate::EachMut), of which each is a `&mut T` |
/// | an `Option` of one of these | an `Option` |
/// | an array of them, or a `Vec` | an array, or a `Vec` |
/// | a tuple of up to 12 of these, also of tuples | a tuple |
///
/// A value may be named several times to be read. If it is named several times, once to be changed,
/// the push is refused.
///
/// ```
/// use seriatim::{Engine, Write};
/// let engine = Engine::new()?;
/// let [a, b, c] = [1, 2, 0].map(|number| engine.value(number));
/// let scale = None::<&seriatim::Value<i32>>;
/// engine.op("sum").run(([&a, &b], Write(&c), scale), |([a, b], c, scale)| {
///     *c = (a + b) * scale.unwrap_or(&10);
/// })?;
/// assert_eq!(*c.read()?, 30);
/// # Ok::<(), seriatim::Error>(())
/// ```
///
/// `Where` says what the operation is: [`Anywhere`] for most, [`InScope`] for one of a
/// [`Scope`](crate::Scope), which may also be lent a [`ScopePart`](crate::ScopePart).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what an operation uses",
    label = "not a value, nor values",
    note = "name `&value` to read it and `Write(&value)` to change it, where `value` is a `Value`; \
            options, arrays, slices of values, and tuples of up to 12 go too"
)]
pub trait Resources<Where = Anywhere>: Lendable {
    /// What the closure is given, for as long as it is called.
    type Item<'a>;

    /// What the operation keeps until it runs.
    #[doc(hidden)]
    type Held: Send + Sync + 'static;

    /// Refuses what this operation cannot be lent, before it is entered. Most can be lent to any,
    /// and their pushes are no longer for the question.
    #[doc(hidden)]
    #[inline(always)]
    fn check(&self, entry: &Entering<'_>) -> Result<(), Error> {
        let _ = entry;
        Ok(())
    }

    /// Adds the claims to the operation.
    #[doc(hidden)]
    fn enter(&self, entry: &mut Entering<'_>) -> Self::Held;

    /// Adds what keeps the values, for an operation that runs more than once.
    #[doc(hidden)]
    fn keep(&self, kept: &mut Keepers);

    /// Makes the references.
    ///
    /// # Safety
    /// `held` comes from `enter`. The operation that was entered there is being called, and was not
    /// given what is refused as an alias (`TypedClaims`). What is made is used in that call only.
    #[doc(hidden)]
    unsafe fn lend<'a>(held: &'a Self::Held) -> Self::Item<'a>;
}

/// Says of [`Resources`] that any operation may be lent them.
///
/// ```
/// use seriatim::{Anywhere, Engine, Error, Resources};
/// fn look(engine: &Engine, uses: impl Resources<Anywhere>) -> Result<(), Error> {
///     engine.op("look").run(uses, |_| ())
/// }
/// let engine = Engine::new()?;
/// look(&engine, &engine.value(1))?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub enum Anywhere {}

/// Says of [`Resources`] that an operation of a [`Scope`](crate::Scope) of this lifetime may be
/// lent them: also of one that is opened inside of the scope that has made them, and of none
/// outside.
///
/// ```
/// use seriatim::{Engine, Error, InScope, Resources, Scope};
/// fn look<'s>(s: &'s Scope<'s, '_>, uses: impl Resources<InScope<'s>>) -> Result<(), Error> {
///     s.op("look").run(uses, |_| ())
/// }
/// let (engine, mut x) = (Engine::new()?, 1);
/// engine.scope(|s| look(s, &s.part(&mut x)))?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct InScope<'scope>(PhantomData<fn(&'scope ()) -> &'scope ()>, Infallible);

/// The operation that resources are entered into.
#[derive(Debug)]
pub struct Entering<'a> {
    pub(in crate::api) draft: &'a mut Draft,
    /// The scope that pushes it; null if none does.
    pub(in crate::api) scope: *const (),
    /// How many claims are of variables that were made in that scope.
    pub(in crate::api) own: usize,
}

impl<'a> Entering<'a> {
    /// An operation of no scope.
    #[inline(always)]
    pub(super) fn new(draft: &'a mut Draft) -> Entering<'a> {
        Entering { draft, scope: null(), own: 0 }
    }
}

/// The end of a push whose resources were refused. A panic of the closure's destructor is nobody's.
#[cold]
pub(in crate::api) fn refused<T>(closure: impl Sized, error: Error) -> Result<T, Error> {
    drop_quietly(closure);
    Err(error)
}

/// What keeps the values of an operation that runs more than once.
#[derive(Debug, Default)]
pub struct Keepers(Vec<Arc<ValueOwner>>);

impl Keepers {
    pub(super) fn add<T: ?Sized>(&mut self, value: &Value<T>) {
        self.0.push(Arc::clone(value.owner()));
    }
}

/// Keeps [`Resources`] to the types of this folder.
pub trait Lendable {}

/// Says that an operation changes a value: its closure is given a `&mut`. See [`Resources`].
///
/// ```
/// use seriatim::{Engine, Write};
/// let engine = Engine::new()?;
/// let text = engine.value(String::from("a"));
/// engine.op("append").run(Write(&text), |text| text.push('b'))?;
/// assert_eq!(*text.read()?, "ab");
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Write<V>(pub V);

/// Says that an operation commutes on a value: its closure is given a `&mut`, and it runs in any
/// order with others that commute there, one at a time. See [`Resources`], and
/// [`commutes`](crate::OperationBuilder::commutes) for what holds of the order.
///
/// The value is one of [`Engine::commutative`](crate::Engine::commutative); else the push is
/// refused with [`CannotCommute`](crate::ErrorKind::CannotCommute).
///
/// ```
/// use seriatim::{Commute, Engine};
/// let engine = Engine::new()?;
/// let sum = engine.commutative(0);
/// for part in 1..=100 {
///     engine.op("add").run(Commute(&sum), move |sum| *sum += part)?;
/// }
/// assert_eq!(*sum.read()?, 5050);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Commute<V>(pub V);

/// The address of a value that an operation reads.
#[derive(Debug)]
pub struct ReadPlace<T: ?Sized>(NonNull<T>);

/// The address of a value that an operation changes.
#[derive(Debug)]
pub struct WritePlace<T: ?Sized>(NonNull<T>);

// SAFETY: all that is done with it is to read the value, on whichever thread.
unsafe impl<T: ?Sized + Sync> Send for ReadPlace<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for ReadPlace<T> {}
// SAFETY: all that is done with it is to change the value, on one thread at a time.
unsafe impl<T: ?Sized + Send> Send for WritePlace<T> {}
// SAFETY: the place alone is followed by `lend_mut`, whose caller has the value to itself.
unsafe impl<T: ?Sized + Send> Sync for WritePlace<T> {}

impl<T: ?Sized> ReadPlace<T> {
    #[inline(always)]
    pub(super) fn enter(value: &Value<T>, entry: &mut Entering<'_>) -> ReadPlace<T> {
        entry.draft.add(value.variable(), Mode::Read);
        ReadPlace(value.place())
    }

    /// The place of a value that has been entered by the caller.
    pub(super) fn of(place: NonNull<T>) -> ReadPlace<T> {
        ReadPlace(place)
    }

    /// # Safety
    /// An operation that has claimed to read the value is being called, until after `'a`.
    #[inline(always)]
    pub(super) unsafe fn lend<'a>(&self) -> &'a T {
        // SAFETY: the engine runs no operation meanwhile that changes the value, and the value is
        // there (rules 1 to 5 of `Value`).
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> WritePlace<T> {
    #[inline(always)]
    pub(super) fn enter(value: &Value<T>, entry: &mut Entering<'_>) -> WritePlace<T> {
        entry.draft.add(value.variable(), Mode::Write);
        WritePlace(value.place())
    }

    /// The place of a value that has been entered by the caller.
    pub(super) fn of(place: NonNull<T>) -> WritePlace<T> {
        WritePlace(place)
    }

    /// # Safety
    /// An operation that has claimed to change the value is being called, until after `'a`, and
    /// changes it by no other reference.
    #[inline(always)]
    pub(super) unsafe fn lend<'a>(&self) -> &'a T {
        // SAFETY: as in `lend_mut`; what is made is shared.
        unsafe { self.0.as_ref() }
    }

    /// # Safety
    /// An operation that has claimed to change the value is being called, until after `'a`, and has
    /// no other reference to it.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn lend_mut<'a>(&self) -> &'a mut T {
        // SAFETY: the engine runs no other operation meanwhile that uses the value, this one was
        // lent it once, and the value is there (rules 1 to 5 of `Value`).
        unsafe { &mut *self.0.as_ptr() }
    }
}

impl<T: ?Sized> Lendable for &Value<T> {}

impl<T: ?Sized + Sync + 'static, W> Resources<W> for &Value<T> {
    type Item<'a> = &'a T;
    type Held = ReadPlace<T>;

    #[inline(always)]
    fn enter(&self, entry: &mut Entering<'_>) -> ReadPlace<T> {
        ReadPlace::enter(self, entry)
    }

    fn keep(&self, kept: &mut Keepers) {
        kept.add(self);
    }

    #[inline(always)]
    unsafe fn lend(held: &ReadPlace<T>) -> &T {
        // SAFETY: by the contract.
        unsafe { held.lend() }
    }
}

impl<T: ?Sized> Lendable for Write<&Value<T>> {}

impl<T: ?Sized + Send + 'static, W> Resources<W> for Write<&Value<T>> {
    type Item<'a> = &'a mut T;
    type Held = WritePlace<T>;

    #[inline(always)]
    fn enter(&self, entry: &mut Entering<'_>) -> WritePlace<T> {
        WritePlace::enter(self.0, entry)
    }

    fn keep(&self, kept: &mut Keepers) {
        kept.add(self.0);
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn lend(held: &WritePlace<T>) -> &mut T {
        // SAFETY: by the contract. The operation was lent the value once: a second claim of it was
        // refused.
        unsafe { held.lend_mut() }
    }
}

impl<T: ?Sized> Lendable for Commute<&Value<T>> {}

impl<T: ?Sized + Send + 'static, W> Resources<W> for Commute<&Value<T>> {
    type Item<'a> = &'a mut T;
    type Held = WritePlace<T>;

    fn enter(&self, entry: &mut Entering<'_>) -> WritePlace<T> {
        entry.draft.commute(self.0.variable());
        WritePlace(self.0.place())
    }

    fn keep(&self, kept: &mut Keepers) {
        kept.add(self.0);
    }

    #[allow(clippy::mut_from_ref)]
    unsafe fn lend(held: &WritePlace<T>) -> &mut T {
        // SAFETY: by the contract. The operation holds the variable for its call, so no other that
        // commutes runs meanwhile; a second claim of it was refused.
        unsafe { held.lend_mut() }
    }
}
