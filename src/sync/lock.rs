//! The one mutex of the crate, for what is off every path from push to completion: starting and
//! ending threads, parking for a condition of the whole engine, the list of engines, a dry stock of
//! blocks. It counts how often it is taken, so that a test can say how often that is.

#![forbid(unsafe_code)]

use crate::sync::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::PoisonError;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// How many locks this process's engines have taken so far.
pub fn taken() -> usize {
    TAKEN.load(Relaxed)
}

/// Counts a lock that is taken inside a dependency.
pub fn count() {
    TAKEN.fetch_add(1, Relaxed);
}

/// A mutex that nobody's panic poisons: what it guards is changed in single steps.
#[derive(Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        count();
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        count();
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

/// Takes the lock of a static, which no model knows of: it is never held across a step that one
/// could see.
pub fn of_static<T>(mutex: &'static std::sync::Mutex<T>) -> std::sync::MutexGuard<'static, T> {
    count();
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
