//! Guards: `Value::read` and `Value::write`, by which a thread outside of operations reaches a
//! value.
//!
//! A guard holds an access in the chain of the variable (`src/engine/wait/hold.rs`): that is what
//! keeps operations away. It belongs to the thread that made it. It has a handle of the engine, so
//! that no thread ends the engine, which would wait for the guard, by dropping the last one.

use crate::api::engine::Engine;
use crate::api::typed::value::Value;
use crate::engine::request::Claim;
use crate::engine::wait::hold::{hold, HeldAccess};
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::time::Duration;

/// A value that the calling thread reads, from [`Value::read`].
///
/// Operations that change the value and were pushed after it wait until it is dropped. It stays on
/// its thread, and cannot be held across an `.await` by a future that changes threads.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.value([1, 2, 3]);
/// let values: seriatim::ReadGuard<'_, [i32; 3]> = x.read()?;
/// assert_eq!(values.iter().sum::<i32>(), 6);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "the access ends when this is dropped"]
pub struct ReadGuard<'v, T: ?Sized>(Guard<'v, T>);

/// A value that the calling thread changes, from [`Value::write`].
///
/// Operations that use the value and were pushed after it wait until it is dropped. It stays on its
/// thread, as a [`ReadGuard`] does.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.value(1);
/// let mut value: seriatim::WriteGuard<'_, i32> = x.write()?;
/// *value += 1;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "the access ends when this is dropped"]
pub struct WriteGuard<'v, T: ?Sized>(Guard<'v, T>, PhantomData<&'v mut T>);

/// The fields are dropped in this order: the engine may end when the access has.
pub(super) struct Guard<'v, T: ?Sized> {
    place: NonNull<T>,
    _held: HeldAccess,
    _engine: Engine,
    /// The handle keeps the value.
    of: PhantomData<&'v Value<T>>,
}

impl<'v, T: ?Sized> Guard<'v, T> {
    /// The same access, by which the calling thread reads a part of the value, or what belongs to
    /// it.
    pub(super) fn read_at<U>(self, place: NonNull<U>) -> ReadGuard<'v, U> {
        ReadGuard(Guard { place, _held: self._held, _engine: self._engine, of: PhantomData })
    }
}

// SAFETY: threads that share a guard only read the value by it, which asks for `T: Sync`. The drop
// is for the thread that owns the guard, and guards are not `Send`.
unsafe impl<T: ?Sized + Sync> Sync for Guard<'_, T> {}

impl<T: ?Sized> Value<T> {
    /// Waits until the operations that change the value and were pushed before have ended, and
    /// reads it. Readers do not wait for each other.
    ///
    /// In push order the guard stands where an operation that reads the value would stand, and it
    /// ends when it is dropped. **What is behind it waits as long**: operations that change the
    /// value, [`wait_for_all`](Engine::wait_for_all), a stop, a `fork`. A thread that waits for an
    /// operation which waits for the thread's own guard waits for ever. The cases that the engine
    /// can see are errors: a second guard of one value on one thread, a wait for the own guard, a
    /// wait for everything, a stop; and threads that each hold a guard and want the value of the
    /// next, of which the last one is refused. Where an operation stands between them they are not
    /// seen: [`read_timeout`](Value::read_timeout) is for that.
    ///
    /// As in [`wait_for_var`](Engine::wait_for_var), the calling thread may run other operations
    /// meanwhile, so it should hold no lock that they take.
    ///
    /// Worst case: the push of an asynchronous operation, and as long as what is before it takes.
    ///
    /// # Errors
    /// The failure that the value is marked with, which the call thereby clears, as
    /// [`wait_for_var`](Engine::wait_for_var) does: a second call succeeds, and finds what the
    /// failed operation has left. [`BorrowConflict`](ErrorKind::BorrowConflict) if the thread has a
    /// guard of the value already.
    /// [`WaitInsideOperation`](ErrorKind::WaitInsideOperation),
    /// [`VariableDeleted`](ErrorKind::VariableDeleted),
    /// [`PrivateVariable`](ErrorKind::PrivateVariable).
    /// [`Stopped`](ErrorKind::Stopped) when the engine's last handle is gone, and in the child of a
    /// `fork` that could not stop the engine; a stopped engine lets guards in.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.value(20);
    /// engine.op("double").run(seriatim::Write(&x), |x| *x *= 2)?;
    /// assert_eq!(*x.read()?, 40);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn read(&self) -> Result<ReadGuard<'_, T>, Error>
    where
        T: Sync,
    {
        self.guard(Mode::Read, None).map(ReadGuard)
    }

    /// Like [`read`](Value::read), but gives up after `timeout`. Then nothing is held, and the
    /// value goes to what was pushed behind as if there had been no call. An operation is left in
    /// its place in push order, which ends when its turn comes.
    ///
    /// The calling thread runs no other operations meanwhile, as in
    /// [`wait_for_var_timeout`](Engine::wait_for_var_timeout). A timeout of zero looks, and does not
    /// wait.
    ///
    /// # Errors
    /// [`TimedOut`](ErrorKind::TimedOut), which names the operations that are in the way; those of
    /// [`read`](Value::read).
    ///
    /// ```
    /// use seriatim::{Engine, ErrorKind};
    /// use std::time::Duration;
    /// let engine = Engine::new()?;
    /// let x = engine.value(1);
    /// let writer = x.write()?;
    /// std::thread::scope(|threads| {
    ///     let late = || x.read_timeout(Duration::from_millis(1)).map(|x| *x).unwrap_err();
    ///     assert_eq!(threads.spawn(late).join().unwrap().kind(), ErrorKind::TimedOut);
    /// });
    /// drop(writer);
    /// assert_eq!(*x.read_timeout(Duration::from_secs(60))?, 1);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn read_timeout(&self, timeout: Duration) -> Result<ReadGuard<'_, T>, Error>
    where
        T: Sync,
    {
        self.guard(Mode::Read, Some(timeout)).map(ReadGuard)
    }

    /// Waits until the operations that use the value and were pushed before have ended, and changes
    /// it. The variable's version steps when the guard is dropped.
    ///
    /// All that [`read`](Value::read) says holds here; operations that read the value wait for this
    /// guard too.
    ///
    /// # Errors
    /// Those of [`read`](Value::read).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.value(vec![1]);
    /// x.write()?.push(2);
    /// engine.op("look").run(&x, |x| assert_eq!(*x, [1, 2]))?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn write(&self) -> Result<WriteGuard<'_, T>, Error> {
        self.guard(Mode::Write, None).map(|guard| WriteGuard(guard, PhantomData))
    }

    /// Like [`write`](Value::write), but gives up after `timeout`, as
    /// [`read_timeout`](Value::read_timeout) does. The version steps only if a guard is returned.
    ///
    /// # Errors
    /// Those of [`read_timeout`](Value::read_timeout).
    ///
    /// ```
    /// use std::time::Duration;
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.value(1);
    /// *x.write_timeout(Duration::from_secs(60))? += 1;
    /// assert_eq!(x.into_inner()?, 2);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn write_timeout(&self, timeout: Duration) -> Result<WriteGuard<'_, T>, Error> {
        self.guard(Mode::Write, Some(timeout)).map(|guard| WriteGuard(guard, PhantomData))
    }

    fn guard(&self, mode: Mode, timeout: Option<Duration>) -> Result<Guard<'_, T>, Error> {
        self.guard_with(mode, &[Claim { variable: self.variable(), mode }], timeout)
    }

    /// A guard that has all of `claims`, among them that of the value, in this mode. For
    /// `reduction.rs`.
    pub(super) fn guard_with(
        &self,
        mode: Mode,
        claims: &[Claim],
        timeout: Option<Duration>,
    ) -> Result<Guard<'_, T>, Error> {
        let Some(engine) = self.owner().engine() else {
            let text = format!("the engine of {:?} has ended: keep a handle of it", self.variable());
            return Err(Error::new(ErrorKind::Stopped, text));
        };
        let held = hold(engine.core(), self.variable(), mode, claims, timeout)?;
        Ok(Guard { place: self.place(), _held: held, _engine: engine, of: PhantomData })
    }
}

impl<T: ?Sized> Deref for ReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard holds a read of the variable, so nobody changes the value; it borrows a
        // handle, so the value is there.
        unsafe { self.0.place.as_ref() }
    }
}

impl<T: ?Sized> Deref for WriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: as in `deref_mut`.
        unsafe { self.0.place.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds a change of the variable, so it has the value to itself; it
        // borrows a handle, so the value is there.
        unsafe { self.0.place.as_mut() }
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for ReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for WriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for WriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
