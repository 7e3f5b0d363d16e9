//! How a function on slices is applied to arrays of any layout, type and request, element by
//! element.
//!
//! Used by `simple.rs`, `elementwise.rs` and others here. The function computes in `f32`, `f64` or
//! `i64`: [`with_work!`] chooses by the type of the elements.

#![forbid(unsafe_code)]

use crate::dtype::{DType, Element};
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::cursor::{blocks, Function, INPUTS};
use crate::operator::parts::{self, Workers, ELEMENTS};
use crate::request::OpReq;
use crate::shape::{Layout, Shape, MAX_RANK};
use smallvec::SmallVec;

/// How many elements are computed at a time where there are no slices.
const BLOCK: usize = 256;

/// The same of long arrays, which have at least as many elements.
const LONG: usize = 1024;

/// The side of a tile of a turned array, which has as many elements as a block.
const SIDE: usize = 16;

/// Runs `$body` with `$type` as the type in which elements of a type are computed.
macro_rules! with_work {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F64 => {
                type $type = f64;
                $body
            }
            $crate::dtype::DType::F32 | $crate::dtype::DType::F16 | $crate::dtype::DType::Bf16 => {
                type $type = f32;
                $body
            }
            _ => {
                type $type = i64;
                $body
            }
        }
    };
}
pub(crate) use with_work;

/// The same for types that are floats.
macro_rules! with_float {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F64 => {
                type $type = f64;
                $body
            }
            _ => {
                type $type = f32;
                $body
            }
        }
    };
}
pub(crate) use with_float;

/// Those of inputs and of an output.
type Layouts = SmallVec<[Layout; INPUTS + 1]>;

/// Writes `f` of the inputs, which broadcast to the shape of `out`. `f` is given as many elements
/// of each input as of the output, at most all.
pub(crate) fn map<W: Element>(
    inputs: &[Blob<'_>],
    out: &mut BlobMut<'_>,
    req: OpReq,
    f: impl Fn(&[&[W]], &mut [W]),
) -> Result<(), Error> {
    if req.is_null() {
        return Ok(());
    }
    if have_shape(inputs, &out.layout().shape) {
        return map_alike(inputs, out, req, &f);
    }
    let layouts = broadcast(inputs, &out.layout().shape)?;
    map_alike(&shown(inputs, &layouts), out, req, &f)
}

fn have_shape(inputs: &[Blob<'_>], shape: &Shape) -> bool {
    inputs.iter().all(|input| input.layout().shape == *shape)
}

/// The layouts of inputs along a shape.
fn broadcast(inputs: &[Blob<'_>], shape: &Shape) -> Result<Layouts, Error> {
    inputs.iter().map(|input| input.layout().broadcast_to(*shape)).collect()
}

/// The inputs in these layouts.
fn shown<'a>(inputs: &[Blob<'a>], layouts: &'a [Layout]) -> SmallVec<[Blob<'a>; INPUTS]> {
    inputs.iter().zip(layouts).map(|(input, layout)| input.with_layout(layout)).collect()
}

/// The same for arrays of one shape.
fn map_alike<W: Element>(
    inputs: &[Blob<'_>],
    out: &mut BlobMut<'_>,
    req: OpReq,
    f: &impl Fn(&[&[W]], &mut [W]),
) -> Result<(), Error> {
    if let (Some(slices), true) = (slices(inputs), req.overwrites()) {
        if let Some(out) = out.as_mut_slice::<W>() {
            f(&slices[..inputs.len()], out);
            return Ok(());
        }
    }
    if out.size() >= LONG {
        return map_in_tiles(inputs, out, req, f);
    }
    let mut readers: SmallVec<[_; INPUTS]> = inputs.iter().map(Blob::reader::<W>).collect();
    blocks::<W, BLOCK>(&mut readers, &mut out.writer::<W>(req), f);
    Ok(())
}

/// The elements of inputs that are of this type and lie one after the other.
#[inline]
fn slices<'a, W: Element>(inputs: &[Blob<'a>]) -> Option<[&'a [W]; INPUTS]> {
    let mut slices = [&[][..]; INPUTS];
    for (slice, input) in slices.iter_mut().zip(inputs) {
        *slice = input.as_slice()?;
    }
    Some(slices)
}

/// The same for long arrays. If an array has its shortest stride along another axis than
/// the last one, then the elements are taken in tiles of these two axes.
fn map_in_tiles<W: Element>(
    inputs: &[Blob<'_>],
    out: &mut BlobMut<'_>,
    req: OpReq,
    f: &Function<'_, W>,
) -> Result<(), Error> {
    let of_out = *out.layout();
    let mut layouts: Layouts = inputs.iter().map(|input| *input.layout()).collect();
    layouts.push(of_out);
    if let Some(axis) = layouts.iter().find_map(turned_axis) {
        let dims = of_out.shape.dims();
        let last = dims.iter().rposition(|dim| *dim > 1).unwrap_or(axis);
        let rows = dims[axis].min(SIDE.max(BLOCK / dims[last]));
        let columns = dims[last].min(BLOCK / rows);
        for (axis, side) in [(axis, rows), (last, columns)] {
            // What is left beside whole tiles is a smaller array.
            let whole = dims[axis] / side * side;
            if whole == dims[axis] {
                continue;
            }
            for (begin, end) in [(0, whole), (whole, dims[axis])] {
                for (layout, of) in layouts.iter_mut().zip(inputs.iter().map(Blob::layout).chain([&of_out])) {
                    *layout = of.slice(axis, begin, end, 1)?;
                }
                map_in_tiles(&shown(inputs, &layouts), &mut out.with_layout(&layouts[inputs.len()]), req, f)?;
            }
            return Ok(());
        }
        for layout in &mut layouts {
            *layout = layout.tiles((axis, rows), (last, columns))?;
        }
    }
    let readers = inputs.iter().zip(&layouts).map(|(input, layout)| input.reader_along::<W>(layout));
    let mut writer = out.writer_along::<W>(&layouts[inputs.len()], req);
    blocks::<W, LONG>(&mut readers.collect::<SmallVec<[_; INPUTS]>>(), &mut writer, f);
    Ok(())
}

/// The axis of the shortest stride, if that is not the last one, and there is room for the axes of
/// tiles.
fn turned_axis(layout: &Layout) -> Option<usize> {
    let rank = layout.shape.rank();
    let steps = || (0..rank).filter(|axis| layout.shape.dims()[*axis] > 1 && layout.strides[*axis] != 0);
    let axis = steps().min_by_key(|axis| layout.strides[*axis].unsigned_abs())?;
    let is_turned = steps().any(|later| later > axis) && rank + 2 <= MAX_RANK;
    is_turned.then_some(axis)
}

/// The same in parts, where the arrays are long. `f` computes each element from those at its place
/// alone.
pub(super) fn map_in_parts<W: Element>(
    workers: Workers<'_>,
    inputs: &[Blob<'_>],
    out: &mut BlobMut<'_>,
    req: OpReq,
    f: impl Fn(&[&[W]], &mut [W]) + Sync,
) -> Result<(), Error> {
    if req.is_null() {
        return Ok(());
    }
    in_parts(workers, inputs, &mut [out.again()], |inputs, outs| map(inputs, &mut outs[0], req, &f))
}

/// Has `each` write arrays of one shape in parts, of the same places of inputs, which broadcast to
/// that.
pub(super) fn in_parts(
    workers: Workers<'_>,
    inputs: &[Blob<'_>],
    outs: &mut [BlobMut<'_>],
    each: impl Fn(&[Blob<'_>], &mut [BlobMut<'_>]) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    if parts::count(outs[0].size(), ELEMENTS) == 1 {
        return each(inputs, outs);
    }
    let shape = outs[0].shape();
    let mut layouts = broadcast(inputs, &shape)?;
    layouts.extend(outs.iter().map(|out| *out.layout()));
    let mut plan = parts::plan(&shape, None);
    if layouts.iter().all(Layout::is_contiguous) {
        // Elements in one row can be cut anywhere.
        let row = Layout::contiguous(Shape::new(&[shape.size()])?);
        for layout in &mut layouts {
            (layout.shape, layout.strides) = (row.shape, row.strides);
        }
        plan.1 = 0;
    }
    let of_outs = outs.iter_mut().zip(&layouts[inputs.len()..]);
    let mut outs: SmallVec<[BlobMut<'_>; 3]> = of_outs.map(|(out, layout)| out.with_layout(layout)).collect();
    workers.cut(plan, &shown(inputs, &layouts), &mut outs, each)
}

/// Writes the elements of an array into another one of its shape, converted.
pub(crate) fn copy(workers: Workers<'_>, from: &Blob<'_>, out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
    in_parts(workers, &[*from], &mut [out.again()], |inputs, outs| copy_part(&inputs[0], &mut outs[0], req))
}

/// The same on this thread.
pub(super) fn copy_part(from: &Blob<'_>, out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
    match (from.dtype(), out.dtype()) {
        (one, other) if !one.is_float() && !other.is_float() => {
            map::<i64>(&[*from], out, req, |inputs, out| out.copy_from_slice(inputs[0]))
        }
        // Each float of 16 bits is one of 32, so a copy is exact.
        (one, other) if one == other && one != DType::F64 => {
            map::<f32>(&[*from], out, req, |inputs, out| out.copy_from_slice(inputs[0]))
        }
        _ => map::<f64>(&[*from], out, req, |inputs, out| out.copy_from_slice(inputs[0])),
    }
}

/// Writes the elements of an array in order into one of any shape with as many, converted.
pub(crate) fn copy_in_order(from: &Blob<'_>, out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
    if req.is_null() {
        return Ok(());
    }
    with_work!(from.dtype(), W => {
        let (mut reader, mut writer, mut block) = (from.reader::<W>(), out.writer::<W>(req), [W::default(); BLOCK]);
        loop {
            match reader.fill(&mut block) {
                0 => return Ok(()),
                count => writer.put(&block[..count]),
            }
        }
    })
}

/// Writes zeros, or adds them: what has no gradient has none to add.
pub(crate) fn zero(out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
    if !req.overwrites() {
        return Ok(());
    }
    with_work!(out.dtype(), W => map::<W>(&[], out, req, |_, out| out.fill(W::default())))
}
