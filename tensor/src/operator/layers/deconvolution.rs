//! `Deconvolution`, in one and in two dimensions: a convolution backwards. Its result is what a
//! convolution has for a gradient by its data.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::kernel::convolve::{Geometry, Window};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::layers::filtering::{arguments, Filtering};
use crate::operator::layers::window::{check_groups, dimensions, places, span, window, Images};
use crate::operator::lists::Dims;
use crate::operator::parameters::Parameters;
use crate::operator::property::{by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::Shape;

/// Of `Deconvolution`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct DeconvolutionParameters {
    /// The size of a window: columns, or rows and columns.
    pub kernel: Dims,
    /// From window to window; by default 1.
    #[parameter(default = "()")]
    pub stride: Dims,
    /// From element to element of a window; by default 1.
    #[parameter(default = "()")]
    pub dilate: Dims,
    /// Places that are cut off on each side; by default none.
    #[parameter(default = "()")]
    pub pad: Dims,
    /// Places that are added at the end, fewer than stride; by default none.
    #[parameter(default = "()")]
    pub adj: Dims,
    /// The size of the result, from which pad and adj follow; by default they say it.
    #[parameter(default = "()")]
    pub target_shape: Dims,
    /// How many channels the result has.
    #[parameter(range = 1..)]
    pub num_filter: usize,
    /// In how many groups channels and filters are parted.
    #[parameter(default = 1, range = 1..)]
    pub num_group: usize,
    /// Whether there is no bias.
    #[parameter(default = true)]
    pub no_bias: bool,
}

#[derive(Clone, Debug)]
struct Deconvolution {
    parameters: DeconvolutionParameters,
}

impl Deconvolution {
    fn window(&self) -> Result<Window, Error> {
        let DeconvolutionParameters { kernel, stride, dilate, pad, .. } = &self.parameters;
        window(kernel, stride, dilate, pad)
    }

    /// The convolution whose gradient this is: from the result to the data.
    fn plan(&self, data: &Shape) -> Result<Filtering, Error> {
        let DeconvolutionParameters { kernel, adj, target_shape, num_filter, num_group, .. } = &self.parameters;
        let count = dimensions(kernel)?;
        let images = Images::new(data, count)?;
        check_groups(*num_group, images.channels, *num_filter)?;
        let (mut window, mut size) = (self.window()?, [0; 2]);
        let (adj, target) = (places("adj", adj, count, 0)?, places("target_shape", target_shape, count, 1)?);
        let spans = span(&window);
        for axis in 0..2 {
            let wrong =
                |why: String| Err(Error::new(ErrorKind::ShapeMismatch, format!("images of {:?}: {why}", images.size)));
            let Some(last) = images.size[axis].checked_sub(1) else { return wrong("they have no places".into()) };
            let whole = window.stride[axis] * last + spans[axis];
            let mut more = adj.map_or(0, |adj| adj[axis]);
            if let Some(target) = target {
                let Some(left) = whole.checked_sub(target[axis]) else {
                    return wrong(format!("target_shape {target:?} is beyond the {whole} places that windows reach"));
                };
                (window.pad[axis], more) = (left.div_ceil(2), left % 2);
            }
            if target.is_none() && more >= window.stride[axis] {
                return wrong(format!("adj = {more} is not below the stride {}", window.stride[axis]));
            }
            let Some(places) = (whole + more).checked_sub(2 * window.pad[axis]).filter(|places| *places > 0) else {
                return wrong(format!("nothing is left of {whole} places without a pad of {}", window.pad[axis]));
            };
            size[axis] = places;
        }
        let of = Geometry {
            images: images.images,
            groups: *num_group,
            channels: num_filter / num_group,
            filters: images.channels / num_group,
            size,
            out: images.size,
            window,
        };
        Ok(Filtering { images, of, is_backwards: true })
    }
}

impl OperatorProperty for Deconvolution {
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

impl Operator for Deconvolution {
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
    let about = "A convolution backwards: filters are added up where elements of images put them";
    let maker = Maker::of(|parameters| {
        let property = Deconvolution { parameters };
        property.window()?;
        Ok(Box::new(property))
    });
    add("Deconvolution", about, maker);
}
