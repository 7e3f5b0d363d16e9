//! `Pooling`, in one and in two dimensions: the greatest element, the mean or the sum of windows.
//! `kernel/pool.rs` does the work.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::kernel::convolve::Window;
use crate::kernel::pool::{Kind, Pool};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::layers::window::{count, dimensions, window, Images};
use crate::operator::lists::Dims;
use crate::operator::map::with_float;
use crate::operator::ordered::{write, Ordered};
use crate::operator::parameters::{Choices, Parameters};
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::Shape;

/// What becomes of a window.
#[derive(Clone, Copy, PartialEq, Debug, Choices)]
pub(crate) enum PoolType {
    Max,
    Avg,
    Sum,
}

/// Whether a last window that lies on the image in part is left out, or counts.
#[derive(Clone, Copy, PartialEq, Debug, Choices)]
pub(crate) enum Convention {
    Valid,
    Full,
}

/// Of `Pooling`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct PoolingParameters {
    /// The size of a window: columns, or rows and columns; not used by global_pool.
    #[parameter(default = "()")]
    pub kernel: Dims,
    /// Whether the greatest element of a window, its mean or its sum is the result.
    #[parameter(default = "max")]
    pub pool_type: PoolType,
    /// Whether the one window is the whole image.
    #[parameter(default = false)]
    pub global_pool: bool,
    /// Whether a last window on a part of the image is left out, or counts (full).
    #[parameter(default = "valid")]
    pub pooling_convention: Convention,
    /// From window to window; by default 1.
    #[parameter(default = "()")]
    pub stride: Dims,
    /// Places around the image on each side, fewer than kernel; by default none.
    #[parameter(default = "()")]
    pub pad: Dims,
    /// Whether these count in a mean, as zeros.
    #[parameter(default = true)]
    pub count_include_pad: bool,
}

#[derive(Clone, Debug)]
struct Pooling {
    parameters: PoolingParameters,
}

impl Pooling {
    fn window(&self) -> Result<Window, Error> {
        let PoolingParameters { kernel, stride, pad, .. } = &self.parameters;
        let window = window(kernel, stride, &Dims::default(), pad)?;
        if (0..2).any(|axis| window.pad[axis] >= window.kernel[axis]) {
            let message = format!("pad = {:?} is not below kernel = {:?}: a window would be empty", pad.0, kernel.0);
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
        Ok(window)
    }

    fn plan(&self, data: &Shape) -> Result<(Images, Pool), Error> {
        let PoolingParameters { kernel, pool_type, global_pool, pooling_convention, count_include_pad, .. } =
            &self.parameters;
        let kind = match pool_type {
            PoolType::Max => Kind::Max,
            PoolType::Avg => Kind::Mean,
            PoolType::Sum => Kind::Sum,
        };
        let wrong = |message: String| Err(Error::new(ErrorKind::ShapeMismatch, message));
        if *global_pool {
            let images = Images::new(data, data.rank().saturating_sub(2))?;
            if images.size.contains(&0) {
                return wrong(format!("images of shape {data} have no elements to pool"));
            }
            let (size, ones) = (images.size, [1, 1]);
            let pool = Pool { kind, size, out: ones, kernel: size, stride: ones, pad: [0, 0], counts_pad: true };
            return Ok((images, pool));
        }
        let (images, window) = (Images::new(data, dimensions(kernel)?)?, self.window()?);
        let (size, mut out) = (images.size, count(&window, images.size)?);
        for axis in 0..2 {
            let (kernel, stride, pad) = (window.kernel[axis], window.stride[axis], window.pad[axis]);
            if *pooling_convention == Convention::Full {
                out[axis] = (size[axis] + 2 * pad - kernel).div_ceil(stride) + 1;
            }
            if (out[axis] - 1) * stride >= size[axis] + pad {
                return wrong(format!("the last window of {kernel} by {stride} lies beyond an image of {size:?}"));
            }
        }
        let Window { kernel, stride, pad, .. } = window;
        Ok((images, Pool { kind, size, out, kernel, stride, pad, counts_pad: *count_include_pad }))
    }
}

impl OperatorProperty for Pooling {
    by_parameters!();

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(data) = in_shape[0] else { return Ok(false) };
        let (images, pool) = self.plan(&data)?;
        assign_shape("output", &mut out_shape[0], images.shape(images.channels, pool.out)?).map(|()| true)
    }

    /// Where the greatest elements are is found again by their values.
    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        match self.parameters.pool_type {
            PoolType::Max => [out_grad, in_data, out_data].concat(),
            _ => out_grad.to_vec(),
        }
    }
}

impl Operator for Pooling {
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
        let (images, of) = self.plan(&in_data[0].shape())?;
        let [pixels, places] = [of.size, of.out].map(|size| size[0] * size[1]);
        with_float!(in_data[0].dtype(), W => {
            let mut data = Ordered::<W>::new(ctx, &in_data[0])?;
            let data = data.get();
            write::<W>(ctx, &mut out_data[0], req[0], |out| {
                for image in 0..images.images * images.channels {
                    of.forward(&data[image * pixels..][..pixels], &mut out[image * places..][..places]);
                }
                Ok(())
            })
        })
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
        if req[0].is_null() {
            return Ok(());
        }
        let (grad, (images, of)) = (out_grad.get(0)?, self.plan(&in_grad[0].shape())?);
        let [pixels, places] = [of.size, of.out].map(|size| size[0] * size[1]);
        let arrays = match of.kind {
            Kind::Max => [in_data.get(0)?, out_data.get(0)?],
            // They are not looked at.
            _ => [grad, grad],
        };
        with_float!(grad.dtype(), W => {
            let (mut grad, [data, value]) = (Ordered::<W>::new(ctx, &grad)?, arrays);
            let (mut data, mut value) = (Ordered::<W>::new(ctx, &data)?, Ordered::<W>::new(ctx, &value)?);
            let (grad, data, value) = (grad.get(), data.get(), value.get());
            write::<W>(ctx, &mut in_grad[0], req[0], |out| {
                for image in 0..images.images * images.channels {
                    let (at, out) = (image * places, &mut out[image * pixels..][..pixels]);
                    let data = if of.kind == Kind::Max { &data[image * pixels..][..pixels] } else { data };
                    of.backward(&grad[at..at + places], data, &value[at..at + places], out);
                }
                Ok(())
            })
        })
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "The greatest element, the mean or the sum of windows on images";
    let make = |given: &[(&str, &str)]| {
        let property = Pooling { parameters: PoolingParameters::init(given)? };
        if !property.parameters.global_pool {
            property.window()?;
        }
        Ok(Box::new(property) as Box<dyn OperatorProperty>)
    };
    add("Pooling", about, Box::new(make));
}
