//! The only mutex of the crate. In steady state nothing takes it from push to completion. It is for
//! starting and ending threads, parking for a condition of the whole engine, the list of engines,
//! an empty stock of blocks, and the buffers of a device. The file that has a lock says what it
//! guards. Any thread that takes one counts that in `TAKEN`, for tests (`tests/locks.rs`).

#![forbid(unsafe_code)]

use crate::sync::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::PoisonError;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Returns how many locks this process's engines have taken so far.
pub fn taken() -> usize {
    TAKEN.load(Relaxed)
}

/// Counts a lock that is taken inside a dependency. Called by `pool/depot.rs`.
pub fn count() {
    TAKEN.fetch_add(1, Relaxed);
}

/// A mutex that no panic poisons: what it guards is changed in single steps.
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

    /// Takes the lock if no thread has it. `None` only if one has: std's mutexes do not fail for no
    /// reason, and `engine/wait/wait_list.rs` rests on that.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        count();
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

/// Takes the lock of a static, of which the models know nothing: it is never held across a step
/// that a model could see. Called by `engine/fork.rs`, `operation/name.rs` and
/// `variable/names.rs`.
pub fn of_static<T>(mutex: &'static std::sync::Mutex<T>) -> std::sync::MutexGuard<'static, T> {
    count();
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
