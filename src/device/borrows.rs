//! Borrows of arrays that one thing takes again and again: a graph of the driver, which knows the
//! arrays by their addresses and uses them at each launch.
//!
//! `src/api/device_array.rs` notes them, while the closures of such a graph are called on the
//! thread that captures them (`current.rs` leads it there). `src/engine/replay/device_graph.rs` has
//! them afterwards, and borrows them around each launch. They belong to that graph, and one thread
//! at a time touches them.

#![forbid(unsafe_code)]

use crate::error::Error;

/// A borrow of an array that is taken and ended any number of times.
pub trait StandingBorrow: Send {
    /// Which array it is, and whether it is borrowed to be changed.
    fn what(&self) -> (usize, bool);
    /// Takes the borrow. It does not wait: what does not go with it is an error.
    fn take(&mut self) -> Result<(), Error>;
    /// Ends the borrow, if it is taken.
    fn end(&mut self);
}

/// The arrays that operations were given the addresses of.
#[derive(Default)]
pub struct Borrows(Vec<Box<dyn StandingBorrow>>);

/// Borrows that are taken until this is dropped.
pub struct Borrowed<'a>(&'a mut Borrows);

impl Borrows {
    /// Adds one. An array may come several times until [`Borrows::settle`].
    pub fn note(&mut self, borrow: Box<dyn StandingBorrow>) {
        self.0.push(borrow);
    }

    /// Leaves one borrow of each array. It changes the array if one of them did.
    pub fn settle(&mut self) {
        self.0.sort_by_key(|borrow| {
            let (array, changes) = borrow.what();
            (array, !changes)
        });
        self.0.dedup_by_key(|borrow| borrow.what().0);
    }

    /// Takes all of them, or none.
    pub fn take(&mut self) -> Result<Borrowed<'_>, Error> {
        let taken = Borrowed(self);
        taken.0 .0.iter_mut().try_for_each(|borrow| borrow.take())?;
        Ok(taken)
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.0 .0.iter_mut().for_each(|borrow| borrow.end());
    }
}
