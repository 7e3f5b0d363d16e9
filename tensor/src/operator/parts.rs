//! How a long kernel is cut into parts that workers share.
//!
//! Used by operators whose kernels are long: `products.rs`, `map.rs`, `reduction.rs` and others.
//! How many parts there are, and where they end, follows from shapes alone, so no bit depends on
//! the number of workers. The parts are operations of a scope of the engine inside of the kernel's
//! own operation, which has the arrays: they write disjoint pieces of these, and name no variable.
//! The thread of the kernel runs them, and workers with nothing to do take some of them.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::pieces::Cut;
use crate::ndarray::runtime::Runtime;
use crate::operator::property::Scratch;
use crate::shape::Shape;

/// The most parts of a kernel.
pub(super) const MOST: usize = 16;
/// How many multiply-adds a part has at least where there are more than two: they take some 40 µs.
const PRODUCTS: usize = 1 << 21;
/// The same for halves: as a small network waits for each of its kernels, half of one that takes
/// 10 µs is worth its cost.
const HALF: usize = 1 << 18;
/// How many elements a part has at least of a kernel that goes through elements.
pub(super) const ELEMENTS: usize = 1 << 16;

/// Into how many parts work is cut, of which a part has at least so much: a power of two.
pub(super) fn count(work: usize, least: usize) -> usize {
    1 << (work / least).clamp(1, MOST).ilog2()
}

/// Into how many parts products with so many multiply-adds are cut.
pub(super) fn of_products(work: usize) -> usize {
    count(work, PRODUCTS).max(count(work, HALF).min(2))
}

/// Into how many parts arrays of a shape are cut, and along which axis: the first with a place for
/// each part, or else the longest. `whole` is an axis that stays in one piece.
pub(super) fn plan(shape: &Shape, whole: Option<usize>) -> (usize, usize) {
    let parts = count(shape.size(), ELEMENTS);
    let axes = || shape.dims().iter().enumerate().filter(|(axis, _)| Some(*axis) != whole);
    let first = axes().find(|(_, dim)| **dim >= parts);
    match first.or_else(|| axes().max_by_key(|(_, dim)| **dim)) {
        Some((axis, _)) => (parts, axis),
        None => (1, 0),
    }
}

/// Where the parts of a kernel run, and where they have their memory from. Goes along with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workers<'a>(&'a Runtime);

impl<'a> Workers<'a> {
    pub fn new(runtime: &'a Runtime) -> Workers<'a> {
        Workers(runtime)
    }

    /// Memory for a part's own use.
    pub fn scratch<T: Element>(self, elements: usize) -> Result<Scratch<T>, Error> {
        Scratch::new(self.0.storage(), elements)
    }

    /// Runs `each` for every piece, and returns when all have ended. A single piece is run as it
    /// is. If some fail, the error is that of the first.
    pub fn run<P: Send>(
        self,
        pieces: impl IntoIterator<Item = P>,
        each: impl Fn(P) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let mut pieces = pieces.into_iter();
        let Some(first) = pieces.next() else { return Ok(()) };
        let Some(second) = pieces.next() else { return each(first) };
        let (each, mut of_first) = (&each, Ok(()));
        let others = self.0.engine().scope(|scope| {
            for piece in std::iter::once(second).chain(pieces) {
                scope.op("part").push(move |_| each(piece))?;
            }
            of_first = each(first);
            Ok(())
        });
        of_first?;
        Ok(others?)
    }

    /// Runs a kernel on its arrays in so many pieces of them along an axis.
    pub fn cut<'b>(
        self,
        (parts, axis): (usize, usize),
        inputs: &[Blob<'b>],
        outs: &'b mut [BlobMut<'_>],
        each: impl Fn(&[Blob<'_>], &mut [BlobMut<'_>]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        if parts == 1 {
            return each(inputs, outs);
        }
        self.run(Cut::new(inputs, outs, axis).pieces(parts), |piece| piece.with(&each)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_halved_early_and_cut_further_late() {
        let of = [(1 << 19) - 1, 1 << 19, (1 << 23) - 1, 1 << 23, 1 << 25, 1 << 40].map(of_products);
        assert_eq!(of, [1, 2, 2, 4, MOST, MOST]);
    }
}
