//! `Data`: a value guarded by a variable, for operations to share without unsafe code and without a
//! lock.
//!
//! Programs call it on any thread. Two checks keep borrows apart: `check` compares a borrow with
//! what the operation of this thread has declared (`src/operation/current.rs`), and the word
//! `borrows` refuses what does not go together. Memory safety rests on the second check only.
//!
//! Any thread with a clone may count a borrow, and only threads that have a borrow touch the value.
//! The thread that drops the last clone drops the value. It may be a worker that drops a closure.

use crate::api::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::operation::current::{self, May};
use crate::sync::{AtomicUsize, Ordering::*};
use crate::variable::handle::Variable;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::forget;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// A value and the variable that stands for it.
///
/// The engine keeps operations apart that declare the variable; `Data` checks that they did. Inside
/// an operation of its engine, each borrow is compared with what the operation has declared. A
/// borrow of a value that it has not declared, or a change of a value that it has declared to read,
/// is an error of kind [`UndeclaredAccess`](ErrorKind::UndeclaredAccess) that names both. With one
/// declared variable a borrow takes some 140 instructions, the comparison and its end included;
/// with many it takes more. An asynchronous operation is compared while its closure is called; what
/// it does later, and what other threads do for an operation, counts as outside.
///
/// Besides, one atomic word counts the borrows, as a `RefCell` does without threads. Two borrows
/// that do not go together are an error of kind [`BorrowConflict`](ErrorKind::BorrowConflict),
/// never a race and never a wait.
///
/// ```
/// use seriatim::{Data, Engine};
/// let engine = Engine::new()?;
/// let total = Data::new(&engine, 0u64);
/// for n in 1..=10 {
///     let total = total.clone();
///     engine.op("add").write(&total).push(move |_| {
///         *total.write()? += n;
///         Ok::<(), seriatim::Error>(())
///     })?;
/// }
/// engine.wait_for_var(total.variable())?;
/// assert_eq!(*total.read()?, 55);
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct Data<T>(Arc<DataCell<T>>);

struct DataCell<T> {
    variable: Variable,
    /// How many shared borrows there are; or `WRITER`, if there is an exclusive one.
    borrows: AtomicUsize,
    value: UnsafeCell<T>,
}

const WRITER: usize = usize::MAX;

// SAFETY: `borrows` gives out many shared borrows or one exclusive one. `T: Send` because an
// exclusive borrow may move the value, and the last clone drops it, on any thread. Shared borrows
// on several threads ask for `T: Sync` where they are made, in `read`. Guards are shared between
// threads only if `T: Sync`: they say so.
unsafe impl<T: Send> Sync for DataCell<T> {}
// SAFETY: the value moves to the other thread with the cell, and `T: Send`.
unsafe impl<T: Send> Send for DataCell<T> {}

impl<T> Data<T> {
    /// Makes a value with a new variable of `engine`. The variable lives as long as the engine,
    /// also after the last clone of this handle is gone. A program that makes values without end
    /// gives each variable back with [`Engine::delete_variable`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let tile = seriatim::Data::new(&engine, vec![0.0; 64]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new(engine: &Engine, value: T) -> Data<T> {
        Data::of(engine.new_variable(), value)
    }

    /// A value with a variable that no other value has.
    pub(crate) fn of(variable: Variable, value: T) -> Data<T> {
        Data(Arc::new(DataCell { variable, borrows: AtomicUsize::new(0), value: UnsafeCell::new(value) }))
    }

    /// The variable to declare. `&data` itself is accepted as well.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let x = seriatim::Data::new(&engine, 1);
    /// engine.op("look").reads([x.variable()]).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn variable(&self) -> Variable {
        self.0.variable
    }

    /// Borrows the value to read it. Several threads may do so at once, so the value has to be
    /// `Sync`. A value that is only ever [written](Data::write), such as a `Cell`, need not be.
    ///
    /// # Errors
    /// [`BorrowConflict`](ErrorKind::BorrowConflict) while it is borrowed to be changed;
    /// [`UndeclaredAccess`](ErrorKind::UndeclaredAccess) inside an operation that has not declared
    /// it.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let x = seriatim::Data::new(&engine, 1);
    /// assert_eq!(*x.read()?, 1);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn read(&self) -> Result<Ref<'_, T>, Error>
    where
        T: Sync,
    {
        self.check(false)?;
        let borrows = &self.0.borrows;
        let mut now = borrows.load(Relaxed);
        while now < WRITER - 1 {
            // Acquire: pairs with the release in the drop of the last `RefMut`, so its changes are
            // seen.
            match borrows.compare_exchange_weak(now, now + 1, Acquire, Relaxed) {
                Ok(_) => return Ok(Ref(&self.0, PhantomData)),
                Err(other) => now = other,
            }
        }
        Err(self.conflict("read", "being changed"))
    }

    /// Borrows the value to change it.
    ///
    /// # Errors
    /// [`BorrowConflict`](ErrorKind::BorrowConflict) while it is borrowed otherwise;
    /// [`UndeclaredAccess`](ErrorKind::UndeclaredAccess) inside an operation that has not declared
    /// that it changes it.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let x = seriatim::Data::new(&engine, 1);
    /// let reader = x.read()?;
    /// assert_eq!(x.write().unwrap_err().kind(), seriatim::ErrorKind::BorrowConflict);
    /// # drop(reader);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn write(&self) -> Result<RefMut<'_, T>, Error> {
        self.check(true)?;
        // Acquire: pairs with the releases in the drops of the last `Ref`s and of the last
        // `RefMut`.
        match self.0.borrows.compare_exchange(0, WRITER, Acquire, Relaxed) {
            Ok(_) => Ok(RefMut(&self.0, PhantomData)),
            Err(_) => Err(self.conflict("change", "in use")),
        }
    }

    /// Checks that the operation that is being called on this thread, if there is one, has declared
    /// the variable, and to change it if `writes`. Called by `read` and `write`.
    #[inline]
    fn check(&self, writes: bool) -> Result<(), Error> {
        let Variable { engine, index, generation } = self.0.variable;
        match current::may(engine, index, generation) {
            May::Change => Ok(()),
            May::Read if !writes => Ok(()),
            may => Err(self.undeclared(may)),
        }
    }

    #[cold]
    fn undeclared(&self, may: May) -> Error {
        let variable = self.0.variable;
        let name = current::name(variable.engine, variable.index);
        let text = if may == May::Read {
            format!("operation '{name}' changes {variable:?}, which it has declared to read: declare it with writes()")
        } else {
            format!(
                "operation '{name}' uses {variable:?}, which it has not declared: declare it with reads() or writes()"
            )
        };
        Error::new(ErrorKind::UndeclaredAccess, text)
    }

    #[cold]
    fn conflict(&self, what: &str, why: &str) -> Error {
        Error::new(
            ErrorKind::BorrowConflict,
            format!(
                "cannot {what} the value of {:?}, which is {why}: declare it with reads() or writes() on every operation that uses it, and wait before using it outside",
                self.0.variable
            ),
        )
    }
}

/// A borrow that is taken and ended any number of times. It keeps the value.
pub(crate) struct Again<T> {
    data: Data<T>,
    changes: bool,
    is_taken: bool,
}

impl<T: Sync> Again<T> {
    /// One that is not taken yet.
    pub fn new(data: &Data<T>, changes: bool) -> Again<T> {
        Again { data: data.clone(), changes, is_taken: false }
    }

    /// Which value it is, and whether it is borrowed to be changed.
    pub fn what(&self) -> (usize, bool) {
        (Arc::as_ptr(&self.data.0).addr(), self.changes)
    }

    /// Takes the borrow, if it is not taken: as [`Data::write`] or [`Data::read`].
    pub fn take(&mut self) -> Result<(), Error> {
        match self.changes {
            _ if self.is_taken => return Ok(()),
            true => forget(self.data.write()?),
            false => forget(self.data.read()?),
        }
        self.is_taken = true;
        Ok(())
    }
}

impl<T> Again<T> {
    /// Ends the borrow, if it is taken.
    pub fn end(&mut self) {
        match (std::mem::take(&mut self.is_taken), self.changes) {
            (false, _) => {}
            // In place of the one that `take` has forgotten.
            (true, true) => drop(RefMut(&self.data.0, PhantomData)),
            (true, false) => drop(Ref(&self.data.0, PhantomData)),
        }
    }
}

impl<T> Drop for Again<T> {
    fn drop(&mut self) {
        self.end();
    }
}

// As for a mutex: a panic in an operation is told where the value is used next.
impl<T> UnwindSafe for Data<T> {}
impl<T> RefUnwindSafe for Data<T> {}

impl<T> Clone for Data<T> {
    fn clone(&self) -> Data<T> {
        Data(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Data<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({:?})", self.0.variable)
    }
}

impl<T> From<&Data<T>> for Variable {
    fn from(data: &Data<T>) -> Variable {
        data.variable()
    }
}

/// A borrow to read, from [`Data::read`].
///
/// It stays on the thread that has taken it, but other threads may use it there. So it cannot live
/// across an `await` of a future that threads hand to each other, such as that of
/// [`push_future`](crate::OperationBuilder::push_future): such a borrow would hold the value while
/// nothing runs.
///
/// ```
/// # let engine = seriatim::Engine::new()?;
/// let x = seriatim::Data::new(&engine, 7);
/// let value: seriatim::Ref<'_, i32> = x.read()?;
/// assert_eq!(*value, 7);
/// # Ok::<(), seriatim::Error>(())
/// ```
/// ```
/// # let engine = seriatim::Engine::new()?;
/// # let x = seriatim::Data::new(&engine, 7);
/// engine.op("before and after").read(&x.clone()).push_future(async move {
///     let first = *x.read()?;
///     std::future::ready(()).await;
///     assert_eq!(first, *x.read()?);
///     Ok::<(), seriatim::Error>(())
/// })?;
/// # Ok::<(), seriatim::Error>(())
/// ```
/// ```compile_fail
/// # let engine = seriatim::Engine::new()?;
/// # let x = seriatim::Data::new(&engine, 7);
/// engine.op("across").read(&x.clone()).push_future(async move {
///     let value = x.read()?;
///     std::future::ready(()).await;
///     assert_eq!(*value, 7); // future cannot be sent between threads safely
///     Ok::<(), seriatim::Error>(())
/// })?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "the borrow ends when this is dropped"]
pub struct Ref<'a, T>(&'a DataCell<T>, PhantomData<*const T>);

// SAFETY: a shared guard gives out `&T`. The marker only keeps the guard on its thread.
unsafe impl<T: Sync> Sync for Ref<'_, T> {}

impl<T> Deref for Ref<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this borrow is counted, so there is no exclusive one.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for Ref<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `Data::write`, so our reads are over before the next
        // writer's changes.
        self.0.borrows.fetch_sub(1, Release);
    }
}

impl<T: fmt::Display> fmt::Display for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A borrow to change, from [`Data::write`]. Like a [`Ref`], it cannot live across an `await`.
///
/// ```
/// # let engine = seriatim::Engine::new()?;
/// let x = seriatim::Data::new(&engine, 7);
/// let mut value: seriatim::RefMut<'_, i32> = x.write()?;
/// *value += 1;
/// # Ok::<(), seriatim::Error>(())
/// ```
/// ```compile_fail
/// # let engine = seriatim::Engine::new()?;
/// # let x = seriatim::Data::new(&engine, 7);
/// engine.op("across").write(&x.clone()).push_future(async move {
///     let mut value = x.write()?;
///     std::future::ready(()).await;
///     *value += 1; // future cannot be sent between threads safely
///     Ok::<(), seriatim::Error>(())
/// })?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "the borrow ends when this is dropped"]
pub struct RefMut<'a, T>(&'a DataCell<T>, PhantomData<*mut T>);

// SAFETY: a shared guard gives out `&T`. The marker keeps the guard on its thread, and says that
// the guard stands for a `&mut T`.
unsafe impl<T: Sync> Sync for RefMut<'_, T> {}

impl<T> Deref for RefMut<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this is the only borrow.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for RefMut<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only borrow.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for RefMut<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the acquires in `Data::read` and `Data::write`, so the next borrow
        // sees our changes.
        self.0.borrows.store(0, Release);
    }
}

impl<T: fmt::Display> fmt::Display for RefMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for RefMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
