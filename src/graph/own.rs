//! A value that one thread at a time has to itself, which others see to.

/// A value of which the holder makes sure that only one thread uses it at a time, and that each
/// sees what the one before it did. Loom checks both.
pub struct Exclusive<T>(cell::UnsafeCell<T>);

// SAFETY: `take` demands that only one thread uses the value at a time.
unsafe impl<T: Send> Sync for Exclusive<T> {}
// SAFETY: the value goes along.
unsafe impl<T: Send> Send for Exclusive<T> {}

#[cfg(not(loom))]
mod cell {
    pub use std::cell::UnsafeCell;
}
#[cfg(loom)]
mod cell {
    pub use loom::cell::UnsafeCell;
}

impl<T> Exclusive<T> {
    pub fn new(value: T) -> Exclusive<T> {
        Exclusive(cell::UnsafeCell::new(value))
    }

    /// Uses the value.
    ///
    /// # Safety
    /// No other call runs meanwhile, on whatever thread, and every earlier one happened before.
    #[inline]
    pub unsafe fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(not(loom))]
        // SAFETY: by the contract.
        return change(unsafe { &mut *self.0.get() });
        #[cfg(loom)]
        // SAFETY: by the contract, which loom checks.
        return self.0.with_mut(|value| change(unsafe { &mut *value }));
    }
}
