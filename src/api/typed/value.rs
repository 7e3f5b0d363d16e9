//! `Value`: a value that only operations reach, and the threads that hold a guard of it.
//!
//! `Engine::value` makes one here, `Engine::tiles` (`tiles.rs`) several of one array. Programs use
//! the handles on any thread. `resources.rs` lends the value to operations, `guard.rs` to a thread
//! outside of them.
//!
//! **Why this is sound.** A reference to the value is made in two places only: in the closure of an
//! operation that has claimed the variable, while it is called; and by a guard, which is such an
//! operation until it is dropped. Of these, one that changes runs alone, and what it did is seen by
//! the next: that is the engine's promise for the variable (`src/tickets/README.md`). It rests on
//! these rules.
//!
//! 1. A reference does not outlive the call: closures take references of any lifetime, so none of
//!    them can be kept or returned. A guard borrows its handle, and has its references by itself.
//! 2. One operation is not lent a value twice, once to change it (`TypedClaims` in
//!    `src/engine/claims.rs`).
//! 3. The variable has one value, and the value one variable. Tiles do not overlap.
//! 4. A read is shared by threads, so it needs `T: Sync`. A change, and the drop, may be on any
//!    thread, so every value is `T: Send`.
//! 5. The value outlives its uses. Pushes borrow a handle; graphs and operators keep one
//!    (`ValueOwner`). The last handle pushes the deletion of the variable, which comes after every
//!    operation that was pushed before, and drops the value. An operation that is skipped, or whose
//!    push was refused, drops an address and follows it not.
//! 6. If the deletion is refused, the engine keeps the value until the program has stopped it and
//!    nothing is in flight (`Gpus::hold` in `src/engine/gpu/devices.rs`). So it is if the program
//!    has deleted the variable itself, or made it private to a graph: raw handles of it
//!    (`Value::variable`, `Variable::from_raw`) order operations and reach no value. No operation
//!    can claim a variable whose generation is over, also if its slot is another variable's by
//!    then.
//! 7. In the child of a fork whose engine is abandoned nothing is lent any more, and what drops a
//!    handle or a guard leaves the value where it is: a thread that is not there may have been in
//!    the middle of a change. If the program ends an operation there that it still owes, the
//!    deletion of a value may come to its turn: only when all that used the value has ended.

use crate::api::engine::{Engine, WeakEngine};
use crate::engine::core::Core;
use crate::engine::push::admission::cut_off;
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::wait::for_var::for_variable;
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::block::{FLAG_BEYOND, FLAG_DELETE};
use crate::operation::closure::sync_vtable;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::variable::handle::Variable;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{forget, ManuallyDrop};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// A value that operations are lent, from [`Engine::value`] or [`Engine::tiles`]: `&T` where an
/// operation reads it, `&mut T` where it changes it.
///
/// [`OperationBuilder::run`](crate::OperationBuilder::run) says in one place what an operation uses
/// and how its closure gets it. The closure is given plain references: it clones no handle, checks
/// no borrow, and has nothing to return. A handle reaches nothing inside an operation, so what an
/// operation has not declared it cannot touch. Outside, [`read`](Value::read) and
/// [`write`](Value::write) wait for the operations before, and give a guard.
///
/// A handle is cheap to clone, and clones are the same value. Operations keep the value: when the
/// last handle is dropped it lives until the last of them has ended, and is dropped by an operation
/// of its own, on any thread. If the engine is stopped or has ended, it is dropped with the handle.
/// Graphs and operators that use it have a handle.
///
/// Operations that do not use the value can be ordered with those that do, by its
/// [`variable`](Value::variable).
///
/// ```
/// use seriatim::{Engine, Write};
/// let engine = Engine::new()?;
/// let x = engine.value(vec![1.0; 1000]);
/// let y = engine.value(vec![2.0; 1000]);
/// engine.op("axpy").run((&x, Write(&y)), |(x, y)| {
///     y.iter_mut().zip(x).for_each(|(y, x)| *y += 3.0 * x);
/// })?;
/// assert_eq!(y.read()?[0], 5.0);
/// # Ok::<(), seriatim::Error>(())
/// ```
///
/// Each of these is an error of the compiler: to keep a reference,
///
/// ```compile_fail
/// # let engine = seriatim::Engine::new().unwrap();
/// let (x, mut kept) = (engine.value(7), None);
/// engine.op("keep").run(&x, |x| kept = Some(x)).unwrap();
/// ```
///
/// and to change what was declared to be read.
///
/// ```compile_fail
/// # let engine = seriatim::Engine::new().unwrap();
/// let x = engine.value(7);
/// engine.op("change").run(&x, |x| *x += 1).unwrap();
/// ```
pub struct Value<T: ?Sized> {
    variable: Variable,
    place: NonNull<T>,
    owner: Arc<ValueOwner>,
    /// The value can be replaced, so a handle of one type is none of a subtype.
    of: PhantomData<*mut T>,
}

// SAFETY: a handle gives out no reference but by rule 4 above. Values are `Send`, so any thread may
// be the one that changes or drops them.
unsafe impl<T: ?Sized + Send> Send for Value<T> {}
// SAFETY: as above; a shared handle does what an owned one does, as handles can be cloned.
unsafe impl<T: ?Sized + Send> Sync for Value<T> {}

// As for a mutex: a panic in an operation is told where the value is used next.
impl<T: ?Sized> UnwindSafe for Value<T> {}
impl<T: ?Sized> RefUnwindSafe for Value<T> {}

/// What the handles of one value share. Dropped with the last of them.
pub struct ValueOwner {
    core: Arc<Core>,
    engine: WeakEngine,
    variable: Variable,
    /// The memory. That of a tile is shared with the other tiles.
    storage: Arc<dyn Kept>,
}

/// The memory of a value without its type.
trait Kept: Send + Sync {
    /// The value was moved out: only its memory is left.
    fn forget(&self);
}

/// The memory of a value or of an array, which this drops.
pub(super) struct Storage<T: ?Sized> {
    place: NonNull<T>,
    is_empty: AtomicBool,
}

// SAFETY: the place is the only way to the value, and is followed by operations, guards, and the
// drop, on whatever thread that is. Values are `Send`; reads of several threads ask for `Sync`.
unsafe impl<T: ?Sized + Send> Send for Storage<T> {}
// SAFETY: as above; a shared `Storage` gives out nothing but the address.
unsafe impl<T: ?Sized + Send> Sync for Storage<T> {}

impl<T: ?Sized> Storage<T> {
    pub fn new(value: Box<T>) -> Storage<T> {
        Storage { place: NonNull::from(Box::leak(value)), is_empty: AtomicBool::new(false) }
    }

    pub fn place(&self) -> NonNull<T> {
        self.place
    }
}

impl<T: ?Sized + Send> Kept for Storage<T> {
    fn forget(&self) {
        // Relaxed: said by a thread that drops its `Arc` of this afterwards.
        self.is_empty.store(true, Relaxed);
    }
}

impl<T: ?Sized> Drop for Storage<T> {
    fn drop(&mut self) {
        // SAFETY: the address is that of a leaked box, and nobody follows it any more: the last
        // `Arc` is gone, so every deletion of a variable of it has run, or the engine has stopped
        // with nothing in flight (rules 5 and 6 of `Value`). `ManuallyDrop` has the layout of what
        // is in it.
        unsafe {
            if *self.is_empty.get_mut() {
                drop(Box::from_raw(self.place.as_ptr() as *mut ManuallyDrop<T>));
            } else {
                drop(Box::from_raw(self.place.as_ptr()));
            }
        }
    }
}

impl Engine {
    /// Makes a value that operations are lent, with a new variable.
    ///
    /// Worst case: that of [`new_variable`](Engine::new_variable), and two allocations.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let count = engine.value(0);
    /// for _ in 0..10 {
    ///     engine.op("count").run(seriatim::Write(&count), |count| *count += 1)?;
    /// }
    /// assert_eq!(*count.read()?, 10);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn value<T: Send + 'static>(&self, value: T) -> Value<T> {
        let storage = Arc::new(Storage::new(Box::new(value)));
        let place = storage.place();
        // SAFETY: nothing else has the place.
        unsafe { Value::new(self, place, storage) }
    }
}

impl Engine {
    /// Makes a value on which operations may commute, by [`Commute(&value)`](crate::Commute), with
    /// a new [commutative variable](Engine::new_commutative_variable).
    ///
    /// Worst case: that of [`value`](Engine::value).
    ///
    /// ```
    /// use seriatim::{Commute, Engine};
    /// let engine = Engine::new()?;
    /// let (words, seen) = (engine.value(vec!["a", "b"]), engine.commutative(Vec::new()));
    /// for at in 0..2 {
    ///     engine.op("collect").run((&words, Commute(&seen)), move |(words, seen)| seen.push(words[at]))?;
    /// }
    /// seen.write()?.sort();
    /// assert_eq!(*seen.read()?, ["a", "b"]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn commutative<T: Send + 'static>(&self, value: T) -> Value<T> {
        let storage = Arc::new(Storage::new(Box::new(value)));
        let place = storage.place();
        // SAFETY: nothing else has the place.
        unsafe { Value::of(self, self.new_commutative_variable(), place, storage) }
    }
}

impl<T: ?Sized> Value<T> {
    /// A value at `place`, with a new variable.
    ///
    /// # Safety
    /// The place lies in the storage, and is no part of another value.
    pub(super) unsafe fn new<S: ?Sized + Send + 'static>(
        engine: &Engine,
        place: NonNull<T>,
        storage: Arc<Storage<S>>,
    ) -> Value<T> {
        // SAFETY: by the contract.
        unsafe { Value::of(engine, engine.new_variable(), place, storage) }
    }

    /// A value at `place`, with this variable.
    ///
    /// # Safety
    /// As [`Value::new`]; the variable is new.
    unsafe fn of<S: ?Sized + Send + 'static>(
        engine: &Engine,
        variable: Variable,
        place: NonNull<T>,
        storage: Arc<Storage<S>>,
    ) -> Value<T> {
        let (core, engine) = (Arc::clone(engine.core()), engine.downgrade());
        Value { variable, place, owner: Arc::new(ValueOwner { core, engine, variable, storage }), of: PhantomData }
    }

    /// The variable that stands for the value: to order operations that do not use it with those
    /// that do, to wait for it, or to look at its version. `&value` is accepted as well where
    /// variables are declared. It reaches no value.
    ///
    /// A variable that is [deleted](Engine::delete_variable) or made
    /// [private](crate::Capture::make_private) by it leaves its value with the engine, until that
    /// is stopped.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.value(1);
    /// engine.op("before").write(&x).push(|_| println!("comes before the operation below"))?;
    /// engine.op("double").run(seriatim::Write(&x), |x| *x *= 2)?;
    /// engine.wait_for_var(x.variable())?;
    /// assert_eq!(engine.version(x.variable())?, 2);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn variable(&self) -> Variable {
        self.variable
    }

    /// Where the value is, for `resources.rs` and `guard.rs`.
    #[inline]
    pub(super) fn place(&self) -> NonNull<T> {
        self.place
    }

    /// What keeps the value.
    pub(super) fn owner(&self) -> &Arc<ValueOwner> {
        &self.owner
    }
}

impl<T> Value<T> {
    /// Waits until no operation uses the value, and takes it. For the last handle: graphs,
    /// operators and other handles keep the value.
    ///
    /// To take a value that others have handles of, leave another in its place:
    /// `std::mem::take(&mut *x.write()?)`.
    ///
    /// # Errors
    /// [`BorrowConflict`](ErrorKind::BorrowConflict) if it is not the last handle. Those of
    /// [`wait_until_unused`](Engine::wait_until_unused): the value is then dropped with this
    /// handle. If it was left by an operation that has failed, call [`read`](Value::read) first,
    /// which takes the error.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.value(vec![1, 2]);
    /// engine.op("push").run(seriatim::Write(&x), |x| x.push(3))?;
    /// assert_eq!(x.into_inner()?, [1, 2, 3]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn into_inner(self) -> Result<T, Error> {
        let Value { variable, place, owner, .. } = self;
        let Some(owner) = Arc::into_inner(owner) else {
            let text = format!("the value of {variable:?} has other handles: drop them first, also graphs that use it");
            return Err(Error::new(ErrorKind::BorrowConflict, text));
        };
        match owner.core.is_closed() {
            _ if owner.core.is_cut_off() => return Err(cut_off()),
            // The engine has ended, so nothing is in flight.
            true => {}
            false => for_variable(&owner.core, variable, Mode::Write, None)?,
        }
        // SAFETY: this was the last handle, so nothing more is pushed that uses the value, and what
        // was pushed before has ended. It is read once: its storage is told.
        let value = unsafe { place.read() };
        owner.storage.forget();
        Ok(value)
    }
}

impl ValueOwner {
    /// A handle of the engine, unless the last one is gone.
    pub(super) fn engine(&self) -> Option<Engine> {
        self.engine.upgrade()
    }
}

impl fmt::Debug for ValueOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValueOwner({:?})", self.variable)
    }
}

impl Drop for ValueOwner {
    fn drop(&mut self) {
        let (core, storage) = (&self.core, Arc::clone(&self.storage));
        if core.is_cut_off() {
            forget(storage);
            return;
        }
        let end = move |_: &RunContext<'_>| drop(storage);
        let flags = FLAG_DELETE | FLAG_BEYOND;
        let request = Request { property: Property::DeleteVar, flags, ..Request::named(Name::from("drop value")) };
        let claim = Claim { variable: self.variable, mode: Mode::Delete };
        let push = || push(core, &request, &[claim][..], sync_vtable(&end), end);
        if core.is_closed() || push().is_err() {
            core.gpus.hold(Box::new(Arc::clone(&self.storage)));
        }
    }
}

impl<T: ?Sized> Clone for Value<T> {
    fn clone(&self) -> Value<T> {
        Value { owner: Arc::clone(&self.owner), ..*self }
    }
}

impl<T: ?Sized> fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({:?})", self.variable)
    }
}

impl<T: ?Sized> From<&Value<T>> for Variable {
    #[inline]
    fn from(value: &Value<T>) -> Variable {
        value.variable
    }
}
