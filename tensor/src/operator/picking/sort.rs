//! `topk`, `sort` and `argsort`: elements in their order along an axis, or the places of these.
//!
//! Of equal elements the first one comes first. What is not a number counts as the greatest.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::{with_float, with_work};
use crate::operator::parameters::{Choices, Parameters};
use crate::operator::property::{assign_shape, assign_type, Given, OpContext, Operator, OperatorProperty, NUMBERS};
use crate::operator::registry::Maker;
use crate::operator::softmax::rows;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape, MAX_RANK};
use seriatim::Context;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// What `topk` returns.
#[derive(Clone, Copy, PartialEq, Debug, Choices)]
pub(crate) enum Returns {
    Value,
    Indices,
    Mask,
    Both,
}

/// Of `topk`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct TopkParameters {
    /// The axis, counted from the end if negative; None has all elements as one row.
    #[parameter(default = -1)]
    pub axis: Option<isize>,
    /// How many elements; 0 has all.
    #[parameter(default = 1)]
    pub k: usize,
    /// Whether values, places or both are returned, or a mask that is 1 at them.
    #[parameter(default = "indices")]
    pub ret_typ: Returns,
    /// Whether the least come first, and not the greatest.
    #[parameter(default = false)]
    pub is_ascend: bool,
    /// The type of places.
    #[parameter(default = "float32")]
    pub dtype: DType,
}

/// Of `sort`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct SortParameters {
    /// The axis, counted from the end if negative; None has all elements as one row.
    #[parameter(default = -1)]
    pub axis: Option<isize>,
    /// Whether the least come first, and not the greatest.
    #[parameter(default = true)]
    pub is_ascend: bool,
}

/// Of `argsort`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct ArgsortParameters {
    /// The axis, counted from the end if negative; None has all elements as one row.
    #[parameter(default = -1)]
    pub axis: Option<isize>,
    /// Whether the least come first, and not the greatest.
    #[parameter(default = true)]
    pub is_ascend: bool,
    /// The type of places.
    #[parameter(default = "float32")]
    pub dtype: DType,
}

#[derive(Clone, Debug)]
struct Order {
    of: TopkParameters,
    /// As the operator has them.
    written: Vec<(&'static str, String)>,
}

/// The order of two elements and their places.
fn compare<W: PartialOrd + Copy>(row: &[W], ascends: bool, one: i64, other: i64) -> Ordering {
    let (a, b) = (row[one as usize], row[other as usize]);
    #[expect(clippy::eq_op, reason = "only what is not a number differs from itself")]
    let is_nan = |value: W| value != value;
    let order = a.partial_cmp(&b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)));
    if ascends { order } else { order.reverse() }.then(one.cmp(&other))
}

/// So many elements are chosen in one pass, which keeps them in their order.
const FEW: usize = 16;

impl Order {
    /// The layout with the axis behind the others; how many rows there are, and how long they are.
    fn rows(&self, layout: &Layout) -> Result<(Layout, usize, usize), Error> {
        match self.of.axis {
            Some(axis) => rows(layout, layout.shape.axis(axis)?),
            None => Ok((*layout, 1, layout.shape.size())),
        }
    }

    /// How many elements of a row are returned.
    fn count(&self, length: usize) -> usize {
        if self.of.k == 0 {
            length
        } else {
            self.of.k
        }
    }

    /// Writes the places of the first elements of a row in their order.
    fn choose<W: PartialOrd + Copy>(&self, row: &[W], places: &mut [i64]) {
        let (count, ascends) = (self.count(row.len()), self.of.is_ascend);
        let order = |one: &i64, other: &i64| compare(row, ascends, *one, *other);
        places.iter_mut().zip(0..).for_each(|(place, at)| *place = at);
        let is_few = count <= FEW && count < places.len();
        if count > FEW && count < places.len() {
            places.select_nth_unstable_by(count - 1, order);
        }
        let chosen = &mut places[..count];
        chosen.sort_unstable_by(order);
        let Some(last) = count.checked_sub(1).filter(|_| is_few) else { return };
        let mut worst = row[chosen[last] as usize];
        for (value, at) in row[count..].iter().zip(count as i64..) {
            // Most elements are left out by one comparison. It is false for what is not a number.
            if (if ascends { *value >= worst } else { *value <= worst }) || order(&at, &chosen[last]).is_gt() {
                continue;
            }
            let place = chosen.partition_point(|other| order(other, &at).is_lt());
            chosen[place..].rotate_right(1);
            chosen[place] = at;
            worst = row[chosen[last] as usize];
        }
    }
}

impl OperatorProperty for Order {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.written.clone()
    }

    fn list_outputs(&self) -> Vec<&'static str> {
        match self.of.ret_typ {
            Returns::Both => vec!["output0", "output1"],
            // MXNet's has a second one that does not show.
            Returns::Value => vec!["output0"],
            _ => vec!["output"],
        }
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        let (_, _, length) = self.rows(&Layout::contiguous(shape))?;
        if self.of.k > length {
            let message = format!("k = {} elements of {length}, along axis {:?} of {shape}", self.of.k, self.of.axis);
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        }
        let mut dims = SmallVec::<[usize; MAX_RANK]>::from_slice(shape.dims());
        match (self.of.ret_typ, self.of.axis) {
            (Returns::Mask, _) => {}
            (_, Some(axis)) => dims[shape.axis(axis)?] = self.count(length),
            (_, None) => dims = [self.count(length)].into_iter().collect(),
        }
        let out = Shape::new(&dims)?;
        out_shape.iter_mut().try_for_each(|place| assign_shape("output", place, out)).map(|()| true)
    }

    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        _: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        if let Some(places) = match self.of.ret_typ {
            Returns::Both => Some(1),
            Returns::Indices => Some(0),
            _ => None,
        } {
            assign_type("indices", &mut out_type[places], self.of.dtype)?;
        }
        let Some(dtype) = in_type[0] else { return Ok(false) };
        if self.of.ret_typ != Returns::Indices {
            assign_type("output", &mut out_type[0], dtype)?;
        }
        Ok(true)
    }

    fn types(&self) -> &'static [DType] {
        NUMBERS
    }

    fn has_gradient(&self) -> bool {
        matches!(self.of.ret_typ, Returns::Value | Returns::Both)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [&out_grad[..1], in_data].concat()
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Order {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (layout, count, length) = self.rows(in_data[0].layout())?;
        let chosen = self.count(length);
        let (first, second) = out_data.split_at_mut(1);
        let along = self.rows(first[0].layout())?.0;
        with_work!(in_data[0].dtype(), W => {
            let mut reader = in_data[0].reader_along::<W>(&layout);
            let (mut row, mut places) = (ctx.scratch::<W>(2 * length)?, ctx.scratch::<i64>(length)?);
            let ((row, values), places) = (row.as_mut_slice().split_at_mut(length), places.as_mut_slice());
            let is_places = self.of.ret_typ == Returns::Indices;
            let (mut of_values, mut of_places) = match second.first_mut() {
                Some(second) => {
                    let of_second = self.rows(second.layout())?.0;
                    (
                        Some(first[0].writer_along::<W>(&along, req[0])),
                        Some(second.writer_along::<i64>(&of_second, req[1])),
                    )
                }
                None if is_places => (None, Some(first[0].writer_along::<i64>(&along, req[0]))),
                None => (Some(first[0].writer_along::<W>(&along, req[0])), None),
            };
            for _ in 0..count {
                reader.fill(row);
                self.choose(row, places);
                if let Some(writer) = &mut of_places {
                    writer.put(&places[..chosen]);
                }
                let Some(writer) = &mut of_values else { continue };
                if self.of.ret_typ == Returns::Mask {
                    values.fill(W::default());
                    places[..chosen].iter().for_each(|place| values[*place as usize] = 1 as W);
                    writer.put(values);
                } else {
                    values.iter_mut().zip(&*places).for_each(|(value, place)| *value = row[*place as usize]);
                    writer.put(&values[..chosen]);
                }
            }
        });
        Ok(())
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        if req[0].is_null() {
            return Ok(());
        }
        let (grad, data) = (out_grad.get(0)?, in_data.get(0)?);
        let (layout, count, length) = self.rows(data.layout())?;
        let of_grad = self.rows(grad.layout())?.0;
        let grad = grad.with_layout(&of_grad);
        let of_out = self.rows(in_grad[0].layout())?.0;
        let mut out = in_grad[0].with_layout(&of_out);
        with_float!(data.dtype(), W => {
            let (mut reader, mut grads) = (data.reader_along::<W>(&layout), grad.reader::<W>());
            let (mut row, mut places) = (ctx.scratch::<W>(2 * length)?, ctx.scratch::<i64>(length)?);
            let ((row, of), places) = (row.as_mut_slice().split_at_mut(length), places.as_mut_slice());
            let (mut writer, chosen) = (out.writer::<W>(req[0]), self.count(length));
            for _ in 0..count {
                reader.fill(row);
                self.choose(row, places);
                grads.fill(&mut of[..chosen]);
                row.fill(0.0);
                places[..chosen].iter().zip(&*of).for_each(|(place, grad)| row[*place as usize] = *grad);
                writer.put(row);
            }
        });
        Ok(())
    }
}

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    let maker = Maker::of(|of: TopkParameters| Ok(Box::new(Order { written: of.params(), of })));
    add("topk", "The greatest or the least elements along an axis, or their places", maker);
    let maker = Maker::of(|sort: SortParameters| {
        let SortParameters { axis, is_ascend } = sort;
        let of = TopkParameters { axis, k: 0, ret_typ: Returns::Value, is_ascend, dtype: DType::F32 };
        Ok(Box::new(Order { of, written: sort.params() }))
    });
    add("sort", "The elements in their order along an axis", maker);
    let maker = Maker::of(|argsort: ArgsortParameters| {
        let ArgsortParameters { axis, is_ascend, dtype } = argsort;
        let of = TopkParameters { axis, k: 0, ret_typ: Returns::Indices, is_ascend, dtype };
        Ok(Box::new(Order { of, written: argsort.params() }))
    });
    add("argsort", "The places of the elements in their order along an axis", maker);
}
