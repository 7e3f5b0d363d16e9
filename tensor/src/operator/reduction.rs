//! The work of reductions: which axes go, and what becomes of the elements along them.
//!
//! Used by `reduce.rs`, and by operators whose gradients are sums. Sums are added in a fixed tree
//! (`kernel/tree.rs`) along the reduced axes in their order, so they have the same bits however the
//! array lies in memory.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::kernel::tree::{column_sums, Tree, LEAF};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::fold::{add, finish, fold, is_sum, Kind, Work};
use crate::operator::map::with_work;
use crate::operator::ordered::write_with;
use crate::operator::parameters::Axes;
use crate::operator::parts::{self, Workers, ELEMENTS, MOST};
use crate::request::OpReq;
use crate::shape::{Layout, Shape, MAX_RANK};
use smallvec::SmallVec;

/// Which axes go.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    goes: [bool; MAX_RANK],
}

impl Plan {
    pub fn new(axes: &Axes, exclude: bool, shape: &Shape) -> Result<Plan, Error> {
        let mut goes = [axes.0.is_none() && !exclude; MAX_RANK];
        for axis in axes.0.iter().flatten() {
            goes[shape.axis(*axis)?] = true;
        }
        if exclude {
            goes.iter_mut().for_each(|goes| *goes = !*goes);
        }
        Ok(Plan { goes })
    }

    /// The shape of the result.
    pub fn shape(&self, shape: &Shape, keepdims: bool) -> Result<Shape, Error> {
        let kept = shape.dims().iter().zip(self.goes).filter(|(_, goes)| !goes || keepdims);
        let dims: SmallVec<[usize; MAX_RANK]> = kept.map(|(dim, goes)| if goes { 1 } else { *dim }).collect();
        Shape::new(&dims)
    }

    /// The layout without the axes that go, and one of these alone, whose offset is 0.
    fn parted(&self, layout: &Layout) -> Result<(Layout, Layout), Error> {
        let of = |go: bool| {
            let (mut dims, mut strides, mut rank) = ([0; MAX_RANK], [0; MAX_RANK], 0);
            for axis in (0..layout.shape.rank()).filter(|axis| self.goes[*axis] == go) {
                (dims[rank], strides[rank]) = (layout.shape.dims()[axis], layout.strides[axis]);
                rank += 1;
            }
            Ok::<Layout, Error>(Layout { shape: Shape::new(&dims[..rank])?, strides, offset: 0 })
        };
        Ok((Layout { offset: layout.offset, ..of(false)? }, of(true)?))
    }

    /// How many elements the axes that go have together.
    pub fn turned_count(&self, shape: &Shape) -> usize {
        shape.dims().iter().zip(self.goes).filter(|(_, goes)| *goes).map(|(dim, _)| dim).product()
    }

    /// Whether the axes that go are the first, but for those of one element.
    fn first_go(&self, from: &Blob<'_>) -> bool {
        let long = from.layout().shape.dims().iter().zip(self.goes).filter(|(dim, _)| **dim > 1);
        long.map(|(_, goes)| goes).is_sorted_by(|one, other| one >= other)
    }

    /// A result's layout, with which it broadcasts to the shape of the array.
    pub fn spread(&self, layout: &Layout, shape: &Shape) -> Result<Layout, Error> {
        let (mut dims, mut strides, mut at) = ([1; MAX_RANK], [0; MAX_RANK], 0);
        let is_kept = layout.shape.rank() == shape.rank();
        for axis in 0..shape.rank() {
            if !self.goes[axis] {
                (dims[axis], strides[axis]) = (layout.shape.dims()[at], layout.strides[at]);
            }
            at += usize::from(!self.goes[axis] || is_kept);
        }
        let spread = Layout { shape: Shape::new(&dims[..shape.rank()])?, strides, offset: layout.offset };
        spread.broadcast_to(*shape)
    }
}

/// Reduces an array by its axes. A long one is cut into parts where its elements are in a slice.
pub(super) fn reduce_all(
    workers: Workers<'_>,
    kind: Kind,
    plan: &Plan,
    from: &Blob<'_>,
    out: &mut BlobMut<'_>,
    req: OpReq,
) -> Result<(), Error> {
    fn all<W: Work>(
        workers: Workers<'_>,
        kind: Kind,
        plan: &Plan,
        from: &Blob<'_>,
        out: &mut BlobMut<'_>,
        req: OpReq,
    ) -> Result<(), Error> {
        let (size, count, parts) =
            (out.size(), plan.turned_count(&from.layout().shape), parts::count(from.size(), ELEMENTS));
        let values = from.as_slice::<W>();
        if let (Kind::Sum, true, true) = (kind, req.overwrites(), count <= LEAF && size > 1 && plan.first_go(from)) {
            if let (Some(values), Some(sums)) = (values.filter(|_| parts == 1), out.as_mut_slice::<W>()) {
                column_sums(values, sums, &W::plus);
                return Ok(());
            }
        }
        if let (Some(values), true, true) = (values, parts > 1 && size == 1, is_sum(kind)) {
            out.writer::<W>(req).put(&[one_in_parts(workers, parts, kind, values)?]);
            return Ok(());
        }
        let (kept, gone) = plan.parted(from.layout())?;
        write_with(workers, out, req, |results: &mut [W]| match values.filter(|_| parts > 1 && size > 1) {
            Some(values) => {
                // An element of the slice at 0 is the first of the array.
                let (kept, whole) = (Layout { offset: 0, ..kept }, Layout { offset: 0, ..*from.layout() });
                let first = kept.shape.dims()[0];
                let rows = first.div_ceil(parts);
                workers.run(results.chunks_mut(rows * (size / first)).enumerate(), |(part, results)| {
                    let rows = kept.slice(0, part * rows, first.min((part + 1) * rows), 1)?;
                    fold(workers, kind, &Blob::of_slice(values, &whole), (&rows, &gone), results)
                })
            }
            None => fold(workers, kind, from, (&kept, &gone), results),
        })
    }
    if req.is_null() {
        return Ok(());
    }
    with_work!(from.dtype(), W => all::<W>(workers, kind, plan, from, out, req))
}

/// A sum, mean or norm of all elements in parts: nodes of the tree that it has in one.
fn one_in_parts<W: Work>(workers: Workers<'_>, parts: usize, kind: Kind, values: &[W]) -> Result<W, Error> {
    let each = LEAF * values.len().div_ceil(LEAF * parts).next_power_of_two();
    let mut nodes = [W::default(); MOST];
    workers.run(values.chunks(each).zip(&mut nodes), |(values, node)| {
        let mut tree = Tree::new();
        add(kind, &mut tree, values);
        *node = tree.sum(W::plus);
        Ok(())
    })?;
    let (whole, rest) = (values.len() / each, values.len() % each);
    let mut tree = Tree::new();
    nodes[..whole].iter().for_each(|node| tree.carry(*node, W::plus));
    Ok(finish(kind, tree.sum_with((rest > 0).then(|| nodes[whole]), W::plus), values.len()))
}

/// Sums an array over the axes along which `out` broadcasts to its shape.
pub(super) fn sum_to(workers: Workers<'_>, from: &Blob<'_>, out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
    let (shape, to) = (from.shape(), out.shape());
    let missing = shape.rank() - to.rank();
    let mut goes = [false; MAX_RANK];
    for (axis, (goes, dim)) in goes.iter_mut().zip(shape.dims()).enumerate() {
        *goes = axis < missing || to.dims()[axis - missing] != *dim;
    }
    reduce_all(workers, Kind::Sum, &Plan { goes }, from, out, req)
}
