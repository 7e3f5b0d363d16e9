//! A cell for a value that one thread at a time uses; `graph/lanes.rs` keeps the state of a lane in
//! it, for the lane's runner. The caller makes sure of that; the cell does not.

/// A cell whose user makes sure that only one thread at a time uses the value, and that each use
/// happens before the next. Under loom both are checked.
pub struct Exclusive<T>(cell::UnsafeCell<T>);

// SAFETY: `with` demands that only one thread uses the value at a time.
unsafe impl<T: Send> Sync for Exclusive<T> {}
// SAFETY: the cell owns the value, which is `Send`.
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

    /// Calls `change` with the value.
    ///
    /// # Safety
    /// No other call runs at the same time, on any thread, and every earlier call happened before
    /// this one.
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
