//! `softmax`, `log_softmax`, and `SoftmaxOutput`, the softmax whose gradient is that of the cross
//! entropy with a label.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::{Error, ErrorKind};
use crate::kernel::math::Math;
use crate::kernel::softmax;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::{map, with_float};
use crate::operator::parameters::{Choices, Parameters};
use crate::operator::parts::{self, Workers};
use crate::operator::property::{assign_shape, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};
use num_traits::Float;
use seriatim::Context;

/// By what `SoftmaxOutput` and `MakeLoss` divide their gradients.
#[derive(Clone, Copy, PartialEq, Debug, Choices)]
pub(crate) enum Normalization {
    Null,
    Batch,
    Valid,
}

/// Of `softmax` and `log_softmax`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct SoftmaxParameters {
    /// Along which axis the results sum to 1.
    #[parameter(default = -1)]
    pub axis: isize,
    /// What the data are divided by first.
    #[parameter(default = 1, range = 1e-30..=1e30)]
    pub temperature: f64,
}

/// Of `SoftmaxOutput`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct OutputParameters {
    /// What the gradient is multiplied by.
    #[parameter(default = 1)]
    pub grad_scale: f64,
    /// Whether rows with the label ignore_label have no gradient.
    #[parameter(default = false)]
    pub use_ignore: bool,
    /// Which label that is.
    #[parameter(default = -1)]
    pub ignore_label: f64,
    /// Whether the gradient is divided by the rows, or by those that count.
    #[parameter(default = "null")]
    pub normalization: Normalization,
    /// Whether the gradient is multiplied by that of the output.
    #[parameter(default = false)]
    pub out_grad: bool,
    /// Whether classes are along axis 1, and the gradient is divided by the places of a row.
    #[parameter(default = false)]
    pub multi_output: bool,
    /// Taken for MXNet's sake: classes are along the last axis either way.
    #[parameter(default = false)]
    pub preserve_shape: bool,
}

/// A layout with the axis behind the others, and how many rows and elements a row there are.
pub(super) fn rows(layout: &Layout, axis: usize) -> Result<(Layout, usize, usize), Error> {
    let (rank, size) = (layout.shape.rank(), layout.shape.size());
    if axis + 1 == rank {
        let length = layout.shape.dims()[axis];
        return Ok((*layout, size.checked_div(length).unwrap_or(0), length));
    }
    let order: smallvec::SmallVec<[usize; 8]> = (0..rank).filter(|at| *at != axis).chain([axis]).collect();
    let length = layout.shape.dims()[axis];
    Ok((layout.permute(&order)?, size.checked_div(length).unwrap_or(0), length))
}

#[derive(Clone, Debug)]
struct Softmax {
    parameters: SoftmaxParameters,
    is_log: bool,
}

impl OperatorProperty for Softmax {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.parameters.params()
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0].or(out_shape[0]) else { return Ok(false) };
        shape.axis(self.parameters.axis)?;
        assign_shape("data", &mut in_shape[0], shape)?;
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], _: &[usize], out_data: &[usize]) -> Vec<usize> {
        [out_grad, out_data].concat()
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Softmax {
    /// Divides rows by the temperature.
    fn cool<W: Element + Float>(&self, rows: &mut [W]) {
        if self.parameters.temperature != 1.0 {
            let inverse = W::from_number((1.0 / self.parameters.temperature).to_number());
            rows.iter_mut().for_each(|value| *value = *value * inverse);
        }
    }

    fn rows_forward<W: Element + Math>(
        &self,
        workers: Workers<'_>,
        axis: usize,
        data: &Blob<'_>,
        out: &mut BlobMut<'_>,
        req: OpReq,
    ) -> Result<(), Error> {
        let (layout, count, length) = rows(data.layout(), axis)?;
        let is_last = axis + 1 == data.layout().shape.rank();
        if let (Some(from), true, true) = (data.as_slice::<W>(), req.overwrites(), is_last) {
            if let Some(out) = out.as_mut_slice::<W>() {
                out.copy_from_slice(from);
                self.cool(out);
                softmax::softmax(out, length, self.is_log);
                return Ok(());
            }
        }
        let (mut reader, mut scratch) = (data.reader_along::<W>(&layout), workers.scratch::<W>(length)?);
        let (layout, row) = (rows(out.layout(), axis)?.0, scratch.as_mut_slice());
        let mut writer = out.writer_along::<W>(&layout, req);
        for _ in 0..count {
            reader.fill(row);
            self.cool(row);
            softmax::softmax(row, length, self.is_log);
            writer.put(row);
        }
        Ok(())
    }

    fn rows_backward<W: Element + Math>(
        &self,
        workers: Workers<'_>,
        axis: usize,
        [grad, value]: [&Blob<'_>; 2],
        in_grad: &mut BlobMut<'_>,
        req: OpReq,
    ) -> Result<(), Error> {
        let (layout, count, length) = rows(grad.layout(), axis)?;
        let mut grads = grad.reader_along::<W>(&layout);
        let mut values = value.reader_along::<W>(&rows(value.layout(), axis)?.0);
        let mut scratch = workers.scratch::<W>(2 * length)?;
        let (row, of) = scratch.as_mut_slice().split_at_mut(length);
        let layout = rows(in_grad.layout(), axis)?.0;
        let mut writer = in_grad.writer_along::<W>(&layout, req);
        for _ in 0..count {
            grads.fill(row);
            softmax::gradient(row, values.next(length, of), self.is_log);
            self.cool(row);
            writer.put(row);
        }
        Ok(())
    }
}

impl Operator for Softmax {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        if req[0].is_null() {
            return Ok(());
        }
        let shape = in_data[0].shape();
        let axis = shape.axis(self.parameters.axis)?;
        let workers = ctx.workers();
        with_float!(in_data[0].dtype(), W => {
            workers.cut(parts::plan(&shape, Some(axis)), &in_data[..1], &mut out_data[..1], |data, outs| {
                self.rows_forward::<W>(workers, axis, &data[0], &mut outs[0], req[0])
            })
        })
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        _: Given<'_>,
        out_data: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        if req[0].is_null() {
            return Ok(());
        }
        let (grad, value) = (out_grad.get(0)?, out_data.get(0)?);
        let axis = grad.shape().axis(self.parameters.axis)?;
        let workers = ctx.workers();
        with_float!(grad.dtype(), W => {
            workers.cut(parts::plan(&grad.shape(), Some(axis)), &[grad, value], in_grad, |inputs, outs| {
                self.rows_backward::<W>(workers, axis, [&inputs[0], &inputs[1]], &mut outs[0], req[0])
            })
        })
    }
}

#[derive(Clone, Debug)]
struct SoftmaxOutput(OutputParameters);

impl SoftmaxOutput {
    /// The axis of the classes.
    fn axis(&self, data: &Shape) -> Result<usize, Error> {
        data.axis(if self.0.multi_output { 1 } else { -1 })
    }
}

impl OperatorProperty for SoftmaxOutput {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["data", "label"]
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(data) = in_shape[0].or(out_shape[0]) else { return Ok(false) };
        if data.rank() == 0 {
            return Err(Error::new(ErrorKind::ShapeMismatch, "'data' has no axis, and one of classes is needed"));
        }
        let axis = self.axis(&data)?;
        let labels = data.dims().iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, dim)| *dim);
        let labels: smallvec::SmallVec<[usize; 8]> = labels.collect();
        assign_shape("data", &mut in_shape[0], data)?;
        assign_shape("label", &mut in_shape[1], Shape::new(&labels)?)?;
        assign_shape("output", &mut out_shape[0], data).map(|()| true)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        let out_grad = if self.0.out_grad { out_grad } else { &[] };
        [out_grad, &in_data[1..], out_data].concat()
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for SoftmaxOutput {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let axis = if self.0.multi_output { 1 } else { -1 };
        let parameters = SoftmaxParameters { axis, temperature: 1.0 };
        Softmax { parameters, is_log: false }.forward(ctx, &in_data[..1], req, out_data, aux_states)
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        out_data: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        // A label has no gradient.
        map::<f64>(&[], &mut in_grad[1], req[1], |_, out| out.fill(0.0))?;
        if req[0].is_null() {
            return Ok(());
        }
        let OutputParameters { grad_scale, use_ignore, ignore_label, normalization, multi_output, .. } = self.0;
        let (label, value) = (in_data.get(1)?, out_data.get(0)?);
        let axis = self.axis(&value.shape())?;
        let (turned, count, length) = rows(value.layout(), axis)?;
        let is_ignored = |label: f64| use_ignore && label == ignore_label;
        let mut one = [0.0f64];
        let divisor = match normalization {
            Normalization::Null if multi_output => (count / value.shape().dims()[0].max(1)).max(1),
            Normalization::Null => 1,
            Normalization::Batch => count,
            Normalization::Valid => {
                let mut labels = label.reader::<f64>();
                (0..count).filter(|_| labels.fill(&mut one) == 1 && !is_ignored(one[0])).count().max(1)
            }
        };
        let is_last = axis + 1 == value.layout().shape.rank();
        with_float!(value.dtype(), W => {
            let scale = (grad_scale / divisor as f64) as W;
            let of_row = |row: &mut [W], label: f64| {
                if is_ignored(label) {
                    row.fill(0.0);
                } else if let Some(right) = row.get_mut(label as usize).filter(|_| label >= 0.0) {
                    *right -= 1.0;
                } else {
                    let message = format!("label {label} is none of the classes 0 to {}", length - 1);
                    return Err(Error::new(ErrorKind::OutOfRange, message));
                }
                row.iter_mut().for_each(|value| *value *= scale);
                Ok(())
            };
            let slices = (value.as_slice::<W>(), label.as_slice::<W>());
            if let ((Some(from), Some(labels)), true, true, false) = (slices, is_last, req[0].overwrites(), self.0.out_grad) {
                if let Some(out) = in_grad[0].as_mut_slice::<W>() {
                    out.copy_from_slice(from);
                    let mut rows = out.chunks_exact_mut(length.max(1)).zip(labels);
                    return rows.try_for_each(|(row, label)| of_row(row, wide(*label)));
                }
            }
            let (mut labels, mut values) = (label.reader::<f64>(), value.reader_along::<W>(&turned));
            let mut grads = None;
            if self.0.out_grad {
                let grad = out_grad.get(0)?;
                grads = Some(grad.reader_along::<W>(&rows(grad.layout(), axis)?.0));
            }
            let mut scratch = ctx.scratch::<W>(2 * length)?;
            let (row, grad) = scratch.as_mut_slice().split_at_mut(length);
            let layout = rows(in_grad[0].layout(), axis)?.0;
            let mut writer = in_grad[0].writer_along::<W>(&layout, req[0]);
            for _ in 0..count {
                values.fill(row);
                labels.fill(&mut one);
                of_row(row, one[0])?;
                if let Some(grads) = &mut grads {
                    grads.fill(grad);
                    row.iter_mut().zip(&*grad).for_each(|(value, grad)| *value *= *grad);
                }
                writer.put(row);
            }
        });
        Ok(())
    }
}

fn wide(value: impl Into<f64>) -> f64 {
    value.into()
}

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    for (name, is_log, about) in [
        ("softmax", false, "Powers of e along an axis, divided by their sum"),
        ("log_softmax", true, "The logarithm of the softmax along an axis"),
    ] {
        add(name, about, Maker::of(move |parameters| Ok(Box::new(Softmax { parameters, is_log }))));
    }
    let about = "The softmax along the last axis or axis 1, with the gradient of the cross entropy with a label";
    add("SoftmaxOutput", about, Maker::of(|parameters: OutputParameters| Ok(Box::new(SoftmaxOutput(parameters)))));
}
