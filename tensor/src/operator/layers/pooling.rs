//! `Pooling`, in one, two and three dimensions: the greatest element, the mean, the sum or a norm
//! of windows. `kernel/pool.rs` does the work.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::kernel::pool::{Kind, Pool, Power, DIMENSIONS};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::lists::Dims;
use crate::operator::map::with_float;
use crate::operator::ordered::{write, Ordered};
use crate::operator::parameters::{Choices, Parameters};
use crate::operator::parts::{self, ELEMENTS};
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Shape, MAX_RANK};
use smallvec::SmallVec;

/// What becomes of a window.
#[derive(Clone, Copy, PartialEq, Debug, Choices)]
pub(crate) enum PoolType {
    Max,
    Avg,
    Sum,
    Lp,
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
    /// The size of a window: columns, rows and columns, or planes, rows and columns; not used by
    /// global_pool.
    #[parameter(default = "()", range = 1..=16777216)]
    pub kernel: Dims,
    /// Whether the greatest element of a window, its mean, its sum or its norm (lp) is the result.
    #[parameter(default = "max")]
    pub pool_type: PoolType,
    /// Whether the one window is the whole image.
    #[parameter(default = false)]
    pub global_pool: bool,
    /// Whether a last window on a part of the image is left out, or counts (full).
    #[parameter(default = "valid")]
    pub pooling_convention: Convention,
    /// From window to window; by default 1.
    #[parameter(default = "()", range = 1..=16777216)]
    pub stride: Dims,
    /// Places around the image on each side, fewer than kernel; by default none.
    #[parameter(default = "()", range = 0..=16777216)]
    pub pad: Dims,
    /// Whether these count in a mean, as zeros.
    #[parameter(default = true)]
    pub count_include_pad: bool,
    /// The order of the norm, which lp needs: the root of this order of the sum of such powers.
    #[parameter(default = None, range = 1..=3)]
    pub p_value: Option<usize>,
}

/// Numbers of all axes. Those that images do not have come first.
type Sizes = [usize; DIMENSIONS];

/// The numbers of a list. An axis that images do not have gets `of_others`, and an empty list is
/// one of `default`.
fn sizes(name: &str, list: &Dims, dimensions: usize, of_others: usize, default: usize) -> Result<Sizes, Error> {
    let mut all = [of_others; DIMENSIONS];
    let own = &mut all[DIMENSIONS - dimensions..];
    match list.0.len() {
        0 => own.fill(default),
        count if count == dimensions => own.copy_from_slice(&list.0),
        _ => {
            let message = format!("{name} = {:?} is no list of {dimensions} numbers, as many as kernel has", list.0);
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
    }
    Ok(all)
}

/// Windows as the parameters say: kernel, strides and padding.
struct Window {
    dimensions: usize,
    kernel: Sizes,
    stride: Sizes,
    pad: Sizes,
}

#[derive(Clone, Debug)]
struct Pooling {
    parameters: PoolingParameters,
    kind: Kind,
}

impl Pooling {
    fn new(parameters: PoolingParameters) -> Result<Pooling, Error> {
        let kind = match (parameters.pool_type, parameters.p_value) {
            (PoolType::Max, _) => Kind::Max,
            (PoolType::Avg, _) => Kind::Mean,
            (PoolType::Sum, _) | (PoolType::Lp, Some(1)) => Kind::Sum,
            (PoolType::Lp, Some(2)) => Kind::Norm(Power::Two),
            (PoolType::Lp, Some(_)) => Kind::Norm(Power::Three),
            (PoolType::Lp, None) => {
                let message = "pool_type = lp needs p_value, the order of the norm: 1, 2 or 3";
                return Err(Error::new(ErrorKind::BadParameter, message));
            }
        };
        let pooling = Pooling { parameters, kind };
        if !pooling.parameters.global_pool {
            pooling.window()?;
        }
        Ok(pooling)
    }

    fn window(&self) -> Result<Window, Error> {
        let PoolingParameters { kernel, stride, pad, .. } = &self.parameters;
        let dimensions = kernel.0.len();
        let wrong = |message: String| Err(Error::new(ErrorKind::BadParameter, message));
        if !(1..=DIMENSIONS).contains(&dimensions) {
            return wrong(format!("kernel has {dimensions} dimensions: one, two and three are there"));
        }
        let window = Window {
            dimensions,
            kernel: sizes("kernel", kernel, dimensions, 1, 1)?,
            stride: sizes("stride", stride, dimensions, 1, 1)?,
            pad: sizes("pad", pad, dimensions, 0, 0)?,
        };
        if window.pad.iter().zip(window.kernel).any(|(pad, kernel)| *pad >= kernel) {
            return wrong(format!("pad = {:?} is not below kernel = {:?}: a window would be empty", pad.0, kernel.0));
        }
        Ok(window)
    }

    /// How many images and channels there are, and how each image is pooled.
    fn plan(&self, data: &Shape) -> Result<(usize, Pool), Error> {
        let PoolingParameters { global_pool, pooling_convention, count_include_pad, .. } = self.parameters;
        let wrong = |message: String| Err(Error::new(ErrorKind::ShapeMismatch, message));
        let window = if global_pool { None } else { Some(self.window()?) };
        let dimensions = window.as_ref().map_or(data.rank().saturating_sub(2), |window| window.dimensions);
        if data.rank() != 2 + dimensions || !(1..=DIMENSIONS).contains(&dimensions) {
            return wrong(format!(
                "'data' has shape {data}: axes of images and channels belong, and {dimensions} of places, as many as \
                 the kernel has"
            ));
        }
        let mut size = [1; DIMENSIONS];
        size[DIMENSIONS - dimensions..].copy_from_slice(&data.dims()[2..]);
        let (images, ones, kind) = (data.dims()[0] * data.dims()[1], [1; DIMENSIONS], self.kind);
        let Some(Window { kernel, stride, pad, .. }) = window else {
            if size.contains(&0) {
                return wrong(format!("images of shape {data} have no elements to pool"));
            }
            let pad = [0; DIMENSIONS];
            return Ok((images, Pool { kind, size, out: ones, kernel: size, stride: ones, pad, counts_pad: true }));
        };
        let mut out = ones;
        for axis in 0..DIMENSIONS {
            let (kernel, stride, padded) = (kernel[axis], stride[axis], size[axis] + 2 * pad[axis]);
            let Some(left) = padded.checked_sub(kernel) else {
                return wrong(format!(
                    "a window spans {kernel} places, and a padded image has {padded}: pad it, or make the kernel \
                     smaller"
                ));
            };
            out[axis] = match pooling_convention {
                Convention::Valid => left / stride + 1,
                Convention::Full => left.div_ceil(stride) + 1,
            };
            if (out[axis] - 1) * stride >= size[axis] + pad[axis] {
                return wrong(format!("the last window of {kernel} by {stride} lies beyond an image of {size:?}"));
            }
        }
        Ok((images, Pool { kind, size, out, kernel, stride, pad, counts_pad: count_include_pad }))
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
        let (_, pool) = self.plan(&data)?;
        let mut dims = SmallVec::<[usize; MAX_RANK]>::from_slice(data.dims());
        let own = dims.len() - 2;
        dims[2..].copy_from_slice(&pool.out[DIMENSIONS - own..]);
        assign_shape("output", &mut out_shape[0], Shape::new(&dims)?).map(|()| true)
    }

    /// Where the greatest elements are is found again by their values, of which norms have a
    /// gradient too.
    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        match self.kind {
            Kind::Max | Kind::Norm(_) => [out_grad, in_data, out_data].concat(),
            Kind::Mean | Kind::Sum => out_grad.to_vec(),
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
        let [pixels, places] = [of.size, of.out].map(|size| size.iter().product::<usize>());
        with_float!(in_data[0].dtype(), W => {
            let mut data = Ordered::<W>::new(ctx, &in_data[0])?;
            let data = data.get();
            write::<W>(ctx, &mut out_data[0], req[0], |out| {
                let each = each(images, pixels);
                ctx.workers().run(out.chunks_mut((each * places).max(1)).enumerate(), |(part, out)| {
                    let (of, times) = stacked(&of, out.len() / places);
                    let images = (part * each..).step_by(times);
                    for (image, out) in images.zip(out.chunks_exact_mut(times * places)) {
                        of.forward(&data[image * pixels..][..times * pixels], out);
                    }
                    Ok(())
                })
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
        let [pixels, places] = [of.size, of.out].map(|size| size.iter().product::<usize>());
        let has_data = matches!(of.kind, Kind::Max | Kind::Norm(_));
        // Where there are none, they are not looked at.
        let arrays = if has_data { [in_data.get(0)?, out_data.get(0)?] } else { [grad, grad] };
        with_float!(grad.dtype(), W => {
            let (mut grad, [data, value]) = (Ordered::<W>::new(ctx, &grad)?, arrays);
            let (mut data, mut value) = (Ordered::<W>::new(ctx, &data)?, Ordered::<W>::new(ctx, &value)?);
            let (grad, data, value) = (grad.get(), data.get(), value.get());
            write::<W>(ctx, &mut in_grad[0], req[0], |out| {
                let each = each(images, pixels);
                ctx.workers().run(out.chunks_mut((each * pixels).max(1)).enumerate(), |(part, out)| {
                    let (of, times) = stacked(&of, out.len() / pixels.max(1));
                    let images = (part * each..).step_by(times);
                    for (image, out) in images.zip(out.chunks_exact_mut((times * pixels).max(1))) {
                        let windows = image * places..(image + times) * places;
                        let data = if has_data { &data[image * pixels..][..times * pixels] } else { data };
                        of.backward(&grad[windows.clone()], data, &value[windows], out);
                    }
                    Ok(())
                })
            })
        })
    }
}

/// Pools so many images as one, if their windows lie as they would there, and says of how many.
fn stacked(of: &Pool, images: usize) -> (Pool, usize) {
    of.stacked(images).map_or((*of, 1), |all| (all, images.max(1)))
}

/// How many images a part has.
fn each(images: usize, pixels: usize) -> usize {
    images.div_ceil(parts::count(images * pixels, ELEMENTS)).max(1)
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "The greatest element, the mean, the sum or a norm of windows on images";
    add("Pooling", about, Maker::of(|parameters: PoolingParameters| Ok(Box::new(Pooling::new(parameters)?))));
}
