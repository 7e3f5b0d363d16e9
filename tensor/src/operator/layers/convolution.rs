//! `Convolution`, in one and in two dimensions. `filtering.rs` does what it has in common
//! with `Deconvolution`.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::kernel::convolve::Geometry;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::layers::filtering::{arguments, Filtering};
use crate::operator::layers::window::{check_groups, count, dimensions, window, Images};
use crate::operator::lists::Dims;
use crate::operator::parameters::Parameters;
use crate::operator::property::{by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::Shape;

/// Of `Convolution`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct ConvolutionParameters {
    /// The size of a window: columns, or rows and columns.
    pub kernel: Dims,
    /// From window to window; by default 1.
    #[parameter(default = "()")]
    pub stride: Dims,
    /// From element to element of a window; by default 1.
    #[parameter(default = "()")]
    pub dilate: Dims,
    /// Zeros on each side; by default none.
    #[parameter(default = "()")]
    pub pad: Dims,
    /// How many channels the result has.
    #[parameter(range = 1..)]
    pub num_filter: usize,
    /// In how many groups channels and filters are parted.
    #[parameter(default = 1, range = 1..)]
    pub num_group: usize,
    /// Whether there is no bias.
    #[parameter(default = false)]
    pub no_bias: bool,
}

#[derive(Clone, Debug)]
struct Convolution {
    parameters: ConvolutionParameters,
}

impl Convolution {
    fn plan(&self, data: &Shape) -> Result<Filtering, Error> {
        let ConvolutionParameters { kernel, stride, dilate, pad, num_filter, num_group, .. } = &self.parameters;
        let images = Images::new(data, dimensions(kernel)?)?;
        check_groups(*num_group, images.channels, *num_filter)?;
        let window = window(kernel, stride, dilate, pad)?;
        let of = Geometry {
            images: images.images,
            groups: *num_group,
            channels: images.channels / num_group,
            filters: num_filter / num_group,
            size: images.size,
            out: count(&window, images.size)?,
            window,
        };
        Ok(Filtering { images, of, is_backwards: false })
    }
}

impl OperatorProperty for Convolution {
    by_parameters!();

    fn list_arguments(&self) -> Vec<&'static str> {
        arguments(self.parameters.no_bias)
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(data) = in_shape[0] else { return Ok(false) };
        self.plan(&data)?.infer_shape(&self.parameters.kernel, in_shape, out_shape)
    }

    /// The output is not needed: it may be freed once it is consumed.
    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [out_grad, &in_data[..2]].concat()
    }
}

impl Operator for Convolution {
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
        self.plan(&in_data[0].shape())?.forward(ctx, in_data, req[0], &mut out_data[0])
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
        self.plan(&in_data.get(0)?.shape())?.backward(ctx, out_grad, in_data, req, in_grad)
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "The sums of products of windows on images with filters, plus a bias";
    let maker = Maker::of(|parameters: ConvolutionParameters| {
        window(&parameters.kernel, &parameters.stride, &parameters.dilate, &parameters.pad)?;
        Ok(Box::new(Convolution { parameters }))
    });
    add("Convolution", about, maker);
}
