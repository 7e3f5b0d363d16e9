//! The work of reductions: which axes go, and what becomes of the elements along them.
//!
//! Used by `reduce.rs`, and by operators whose gradients are sums. Sums are added in a fixed tree
//! (`kernel/tree.rs`) along the reduced axes in their order, so they have the same bits however the
//! array lies in memory.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::Error;
use crate::kernel::tree::{column_sums, leaf_sum, Tree, LEAF};
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::cursor::Reader;
use crate::operator::map::with_work;
use crate::operator::parameters::Axes;
use crate::operator::parts::{self, Workers, ELEMENTS, MOST};
use crate::request::OpReq;
use crate::shape::{Layout, Shape, MAX_RANK};
use num_traits::Num;
use smallvec::SmallVec;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
    Norm,
    ArgMax,
    ArgMin,
}

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

    /// A layout with the axes that go behind the others.
    fn turned(&self, layout: &Layout) -> Result<Layout, Error> {
        let shape = &layout.shape;
        let axes = |go: bool| (0..shape.rank()).filter(move |axis| self.goes[*axis] == go);
        let order: SmallVec<[usize; MAX_RANK]> = axes(false).chain(axes(true)).collect();
        layout.permute(&order)
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

/// Calls `each` with the leaves of the next `count` elements.
fn leaves<W: Element>(reader: &mut Reader<'_, W>, count: usize, mut each: impl FnMut(&[W])) {
    let (mut leaf, mut left) = ([W::default(); LEAF], count);
    while left > 0 {
        let length = left.min(LEAF);
        reader.fill(&mut leaf[..length]);
        each(&leaf[..length]);
        left -= length;
    }
}

/// The numbers that reductions compute with.
trait Work: Element + Num + PartialOrd {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn root(self) -> Self;
    fn is_nan(self) -> bool;
}

macro_rules! work {
    ($($type:ty, |$a:ident, $b:ident| $plus:expr, $times:expr, |$x:ident| $root:expr, $is_nan:expr;)*) => {$(
        impl Work for $type {
            #[inline]
            fn plus(self, other: $type) -> $type {
                let ($a, $b) = (self, other);
                $plus
            }

            #[inline]
            fn times(self, other: $type) -> $type {
                let ($a, $b) = (self, other);
                $times
            }

            fn root(self) -> $type {
                let $x = self;
                $root
            }

            fn is_nan(self) -> bool {
                let $x = self;
                $is_nan
            }
        }
    )*};
}

work! {
    f32, |a, b| a + b, a * b, |x| x.sqrt(), f32::is_nan(x);
    f64, |a, b| a + b, a * b, |x| x.sqrt(), f64::is_nan(x);
    i64, |a, b| a.wrapping_add(b), a.wrapping_mul(b), |x| x, { let _ = x; false };
}

/// Adds the next elements to a sum, or their squares for a norm.
fn add<W: Work>(kind: Kind, tree: &mut Tree<W>, leaf: &[W]) {
    if kind != Kind::Norm {
        return tree.add(leaf, W::plus);
    }
    let mut squares = [W::default(); LEAF];
    squares.iter_mut().zip(leaf).for_each(|(square, value)| *square = value.times(*value));
    tree.add(&squares[..leaf.len()], W::plus);
}

/// What a sum of so many elements becomes.
fn finish<W: Work>(kind: Kind, sum: W, count: usize) -> W {
    match kind {
        Kind::Mean => sum / W::from_number(crate::dtype::Number::Whole(count as i64)),
        Kind::Norm => sum.root(),
        _ => sum,
    }
}

/// So many elements are one leaf of a tree, which need not be made.
const FEW: usize = 32;

/// One reduction of a run of elements.
fn reduce<W: Work>(kind: Kind, reader: &mut Reader<'_, W>, count: usize) -> W {
    let number = |value: usize| W::from_number(crate::dtype::Number::Whole(value as i64));
    match kind {
        Kind::Sum | Kind::Mean | Kind::Norm => {
            let sum = if count <= FEW && kind != Kind::Norm {
                let mut few = [W::default(); FEW];
                let filled = reader.fill(&mut few[..count]);
                leaf_sum(&few[..filled], &W::plus)
            } else {
                let mut tree = Tree::new();
                leaves(reader, count, |leaf| add(kind, &mut tree, leaf));
                tree.sum(W::plus)
            };
            finish(kind, sum, count)
        }
        Kind::Prod => {
            let mut product = W::one();
            leaves(reader, count, |leaf| product = leaf.iter().fold(product, |product, value| product.times(*value)));
            product
        }
        Kind::Max | Kind::Min | Kind::ArgMax | Kind::ArgMin => {
            let (mut best, mut place, mut at) = (None::<W>, 0, 0);
            leaves(reader, count, |leaf| {
                for value in leaf {
                    let is_greater = matches!(kind, Kind::Max | Kind::ArgMax);
                    let is_better = best.is_none_or(|best| {
                        let beats = if is_greater { *value > best } else { *value < best };
                        beats || value.is_nan() && !best.is_nan()
                    });
                    if is_better {
                        (best, place) = (Some(*value), at);
                    }
                    at += 1;
                }
            });
            match kind {
                Kind::Max | Kind::Min => best.unwrap_or(W::zero()),
                _ => number(place),
            }
        }
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
        let count = plan.turned_count(&from.layout().shape);
        let (size, parts) = (out.size(), parts::count(from.size(), ELEMENTS));
        if let Some(values) = from.as_slice::<W>().filter(|_| parts > 1) {
            let turned = plan.turned(from.layout())?;
            // An element of the slice at 0 is the first of the array.
            let layout = Layout { offset: 0, ..turned };
            let first = layout.shape.dims().first().copied().unwrap_or(1);
            if size == 1 && matches!(kind, Kind::Sum | Kind::Mean | Kind::Norm) {
                out.writer::<W>(req).put(&[one_in_parts(workers, parts, kind, values)?]);
                return Ok(());
            }
            if size > 1 && first > 1 {
                let mut results = workers.scratch::<W>(size)?;
                let (results, rows) = (results.as_mut_slice(), first.div_ceil(parts));
                workers.run(results.chunks_mut(rows * (size / first)).enumerate(), |(part, results)| {
                    let rows = layout.slice(0, part * rows, first.min((part + 1) * rows), 1)?;
                    let mut reader = Blob::of_slice(values, &rows).reader::<W>();
                    results.iter_mut().for_each(|result| *result = reduce(kind, &mut reader, count));
                    Ok(())
                })?;
                out.writer::<W>(req).put(results);
                return Ok(());
            }
        }
        if let (Kind::Sum, true, true) = (kind, req.overwrites(), count <= LEAF && size > 1 && plan.first_go(from)) {
            if let (Some(values), Some(sums)) = (from.as_slice::<W>(), out.as_mut_slice::<W>()) {
                column_sums(values, sums, &W::plus);
                return Ok(());
            }
        }
        let turned = plan.turned(from.layout())?;
        let (mut reader, mut writer) = (from.reader_along::<W>(&turned), out.writer::<W>(req));
        (0..size).for_each(|_| writer.put(&[reduce(kind, &mut reader, count)]));
        Ok(())
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
        values.chunks(LEAF).for_each(|leaf| add(kind, &mut tree, leaf));
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
