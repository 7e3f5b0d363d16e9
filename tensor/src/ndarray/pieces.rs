//! Arrays of a kernel in pieces, on which workers are at the same time: [`Cut`] and [`Piece`].
//!
//! Used by `operator/parts.rs`, which says how many there are, and by kernels of operators.

use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::device_blob::Reach;
use crate::shape::Layout;
use smallvec::SmallVec;

/// What there is of each blob of a kernel.
type Blobs<B> = SmallVec<[B; 6]>;

/// What a kernel reads and writes, to be cut along one axis.
pub(crate) struct Cut<'a> {
    inputs: Blobs<Blob<'a>>,
    outs: Blobs<BlobMut<'a>>,
    axis: usize,
    places: usize,
    /// Whether no place of an output is in two pieces, or is read in another one.
    is_apart: bool,
}

impl<'a> Cut<'a> {
    /// An axis that has as many places in all of them; arrays with one axis are cut along that.
    pub fn new(inputs: &[Blob<'a>], outs: &'a mut [BlobMut<'_>], axis: usize) -> Cut<'a> {
        let inputs: Blobs<_> = inputs.iter().copied().collect();
        let outs: Blobs<_> = outs.iter_mut().map(BlobMut::again).collect();
        let mut layouts = inputs.iter().map(Blob::layout).chain(outs.iter().map(BlobMut::layout));
        let places = layouts.next().map_or(0, |layout| places(layout, axis));
        assert!(layouts.all(|layout| self::places(layout, axis) == places), "an axis of all arrays");
        let is_apart = is_apart(&inputs, &outs);
        Cut { inputs, outs, axis, places, is_apart }
    }

    /// So many pieces, or less if there are not as many places. One if arrays lie in each other.
    pub fn pieces(&mut self, parts: usize) -> impl Iterator<Item = Piece<'_, 'a>> + use<'_, 'a> {
        let each = if self.is_apart { self.places.div_ceil(parts).max(1) } else { self.places.max(1) };
        let (of, places) = (&*self, self.places);
        // The ranges of places have none in common.
        (0..places.max(1)).step_by(each).map(move |begin| Piece { of, begin, end: places.min(begin + each) })
    }
}

/// The number of places along the axis.
fn places(layout: &Layout, axis: usize) -> usize {
    layout.shape.dims()[axis_of(layout, axis)]
}

fn axis_of(layout: &Layout, axis: usize) -> usize {
    if layout.shape.rank() == 1 {
        0
    } else {
        axis
    }
}

/// Whether each place of an output is one element, and no other blob has the element at another
/// place.
fn is_apart(inputs: &[Blob<'_>], outs: &[BlobMut<'_>]) -> bool {
    outs.iter().enumerate().all(|(at, out)| {
        let out = &out.0;
        let is_other = |other: &BlobMut<'_>| other.0.base != out.base || !out.layout.overlaps(other.0.layout);
        let is_same = |input: &Blob<'_>| out.layout == input.0.layout && out.dtype == input.0.dtype;
        // Blobs that are not shared are of other memory than all others.
        let is_alone = out.base.is_null() || out.reach == Reach::Alone || {
            outs[..at].iter().all(is_other)
                && inputs
                    .iter()
                    .all(|input| input.0.base != out.base || is_same(input) || !out.layout.overlaps(input.0.layout))
        };
        !out.layout.repeats() && is_alone
    })
}

/// Some places of arrays, along the axis of their cut.
pub(crate) struct Piece<'c, 'a> {
    of: &'c Cut<'a>,
    begin: usize,
    end: usize,
}

// SAFETY: a piece shows elements, which threads may share, and writes those of outputs at its own
// places. `pieces` borrows the cut, and with it the outputs, exclusively; it makes one piece for
// each place, and `is_apart` says that no other place, also of an input, has the element.
unsafe impl Send for Piece<'_, '_> {}

impl Piece<'_, '_> {
    /// Calls a function with the arrays, of which each has its piece.
    pub fn with<R>(self, each: impl FnOnce(&[Blob<'_>], &mut [BlobMut<'_>]) -> R) -> Result<R, Error> {
        let Cut { inputs, outs, axis, .. } = self.of;
        let piece = |layout: &Layout| layout.slice(axis_of(layout, *axis), self.begin, self.end, 1);
        let of_inputs = inputs.iter().map(|input| piece(input.layout())).collect::<Result<Blobs<Layout>, Error>>()?;
        let of_outs = outs.iter().map(|out| piece(out.layout())).collect::<Result<Blobs<Layout>, Error>>()?;
        let inputs: Blobs<_> = inputs.iter().zip(&of_inputs).map(|(input, layout)| input.with_layout(layout)).collect();
        let mut outs: Blobs<_> = outs.iter().zip(&of_outs).map(|(out, layout)| BlobMut(out.0.shown(layout))).collect();
        Ok(each(&inputs, &mut outs))
    }
}
