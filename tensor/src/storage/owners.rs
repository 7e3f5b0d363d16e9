//! `Owners`: how many there are of a record of `slots.rs`.
//!
//! Used by `ndarray/chunk.rs` and `ndarray/view.rs`, whose owners are arrays.

#![forbid(unsafe_code)]

use crate::storage::sync::{AtomicUsize, Ordering::*};

#[derive(Debug, Default)]
pub struct Owners(AtomicUsize);

impl Owners {
    /// Counts one owner of a record that has none.
    pub fn begin(&self) {
        self.0.store(1, Relaxed);
    }

    /// Counts one more owner. The caller is one.
    pub fn share(&self) {
        // Relaxed: a new owner comes from one that stays meanwhile.
        self.0.fetch_add(1, Relaxed);
    }

    /// Counts one owner less; says whether it was the last.
    pub fn leave(&self) -> bool {
        // Release: what this owner has done comes before the end that the last one begins.
        // Acquire: the last one sees it.
        self.0.fetch_sub(1, AcqRel) == 1
    }
}
