//! A value that operations use: what a variable of the engine stands for.

use cell::Cell;
use std::sync::Arc;

/// A number that detects races: the model fails if a thread uses it while another one changes it.
/// Under loom it also fails if a thread reads a change that is not ordered before the read.
///
/// The failure is a panic. An engine catches it as its operation's, so models must look at what the
/// waits return.
#[derive(Clone)]
pub struct Guarded(Arc<Cell>);

impl Guarded {
    /// A value of 0.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Guarded {
        Guarded(Arc::new(Cell::new()))
    }

    /// The value.
    pub fn get(&self) -> usize {
        self.0.with(|value| *value)
    }

    /// Replaces the value.
    pub fn set(&self, new: usize) {
        self.0.with_mut(|value| *value = new);
    }

    /// Adds one.
    pub fn step(&self) {
        self.0.with_mut(|value| *value += 1);
    }
}

#[cfg(loom)]
mod cell {
    use loom::cell::UnsafeCell;

    pub struct Cell(UnsafeCell<usize>);

    // SAFETY: the engine guards the value, which is what the models check.
    unsafe impl Sync for Cell {}
    // SAFETY: a number.
    unsafe impl Send for Cell {}

    impl Cell {
        pub fn new() -> Cell {
            Cell(UnsafeCell::new(0))
        }

        pub fn with<T>(&self, look: impl FnOnce(&usize) -> T) -> T {
            // SAFETY: loom checks it.
            self.0.with(|value| look(unsafe { &*value }))
        }

        pub fn with_mut<T>(&self, change: impl FnOnce(&mut usize) -> T) -> T {
            // SAFETY: loom checks it.
            self.0.with_mut(|value| change(unsafe { &mut *value }))
        }
    }
}

#[cfg(shuttle)]
mod cell {
    use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};

    /// How many read it now, or -1 for one that changes it; and the value. Plain atomics: shuttle
    /// runs one thread at a time.
    pub struct Cell(AtomicIsize, AtomicUsize);

    impl Cell {
        pub fn new() -> Cell {
            Cell(AtomicIsize::new(0), AtomicUsize::new(0))
        }

        pub fn with<T>(&self, look: impl FnOnce(&usize) -> T) -> T {
            assert!(self.0.fetch_add(1, SeqCst) >= 0, "a look beside a change");
            let value = self.1.load(SeqCst);
            // Time for others to come.
            shuttle::thread::yield_now();
            assert_eq!(self.1.load(SeqCst), value, "changed during a look");
            self.0.fetch_sub(1, SeqCst);
            look(&value)
        }

        pub fn with_mut<T>(&self, change: impl FnOnce(&mut usize) -> T) -> T {
            assert_eq!(self.0.fetch_sub(1, SeqCst), 0, "a change beside another use");
            let mut value = self.1.load(SeqCst);
            shuttle::thread::yield_now();
            let outcome = change(&mut value);
            self.1.store(value, SeqCst);
            self.0.fetch_add(1, SeqCst);
            outcome
        }
    }
}
