//! A value that operations use: what a variable of the engine stands for.

use loom::cell::UnsafeCell;
use std::sync::Arc;

/// A number in loom's cell: two threads in it at once, one of them changing it, fail the model, and so does a look that is not ordered
/// after the change that it sees.
///
/// Such a failure is a panic, which an engine would catch as its operation's: models must look at what the waits return.
#[derive(Clone)]
pub struct Guarded(Arc<Cell>);

struct Cell(UnsafeCell<usize>);

// SAFETY: the engine guards the value, which is what the models check.
unsafe impl Sync for Cell {}
// SAFETY: a number.
unsafe impl Send for Cell {}

impl Guarded {
    /// A value of 0.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Guarded {
        Guarded(Arc::new(Cell(UnsafeCell::new(0))))
    }

    /// The value.
    pub fn get(&self) -> usize {
        // SAFETY: loom checks it.
        self.0 .0.with(|value| unsafe { *value })
    }

    /// Replaces the value.
    pub fn set(&self, new: usize) {
        // SAFETY: loom checks it.
        self.0 .0.with_mut(|value| unsafe { *value = new });
    }

    /// Adds one.
    pub fn step(&self) {
        // SAFETY: loom checks it.
        self.0 .0.with_mut(|value| unsafe { *value += 1 });
    }
}
