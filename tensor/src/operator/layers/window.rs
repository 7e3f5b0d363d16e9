//! Windows on images: what the parameters of convolutions and of pooling say, for one and for two
//! dimensions. Images of one dimension have a single row.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::kernel::convolve::Window;
use crate::operator::lists::Dims;
use crate::shape::{Shape, MAX_RANK};
use smallvec::SmallVec;

/// Images, and how many rows and columns each has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Images {
    pub images: usize,
    pub channels: usize,
    pub size: [usize; 2],
    /// Whether there is one dimension.
    is_row: bool,
}

impl Images {
    /// The images of an array with axes for images, channels, and one or two of places.
    pub fn new(shape: &Shape, dimensions: usize) -> Result<Images, Error> {
        match *shape.dims() {
            [images, channels, columns] if dimensions == 1 => {
                Ok(Images { images, channels, size: [1, columns], is_row: true })
            }
            [images, channels, rows, columns] if dimensions == 2 => {
                Ok(Images { images, channels, size: [rows, columns], is_row: false })
            }
            _ => {
                let message = format!(
                    "'data' has shape {shape}: axes of images and channels belong, and {dimensions} of places, as \
                     many as the kernel has"
                );
                Err(Error::new(ErrorKind::ShapeMismatch, message))
            }
        }
    }

    /// An array of as many images with other channels and places.
    pub fn shape(&self, channels: usize, size: [usize; 2]) -> Result<Shape, Error> {
        match self.is_row {
            true => Shape::new(&[self.images, channels, size[1]]),
            false => Shape::new(&[self.images, channels, size[0], size[1]]),
        }
    }
}

/// A list of one or two numbers as two: with one, it is that of the columns.
fn two(name: &str, list: &Dims, dimensions: usize, [of_rows, default]: [usize; 2]) -> Result<[usize; 2], Error> {
    match *list.0 {
        [] => Ok(if dimensions == 1 { [of_rows, default] } else { [default; 2] }),
        [columns] if dimensions == 1 => Ok([of_rows, columns]),
        [rows, columns] if dimensions == 2 => Ok([rows, columns]),
        _ => {
            let message = format!("{name} = {:?} is no list of {dimensions} numbers, as many as kernel has", list.0);
            Err(Error::new(ErrorKind::BadParameter, message))
        }
    }
}

/// How many dimensions a kernel has.
pub(super) fn dimensions(kernel: &Dims) -> Result<usize, Error> {
    match kernel.0.len() {
        count @ 1..=2 => Ok(count),
        count => {
            let message = format!("kernel has {count} dimensions: one and two are there");
            Err(Error::new(ErrorKind::BadParameter, message))
        }
    }
}

/// Windows of these parameters.
pub(super) fn window(kernel: &Dims, stride: &Dims, dilate: &Dims, pad: &Dims) -> Result<Window, Error> {
    let count = dimensions(kernel)?;
    let window = Window {
        kernel: two("kernel", kernel, count, [1, 1])?,
        stride: two("stride", stride, count, [1, 1])?,
        dilate: two("dilate", dilate, count, [1, 1])?,
        pad: two("pad", pad, count, [0, 0])?,
    };
    for (name, sizes) in [("kernel", window.kernel), ("stride", window.stride), ("dilate", window.dilate)] {
        if sizes.iter().any(|size| !(1..=1 << 24).contains(size)) {
            let message = format!("{name} = {sizes:?} has a size that is not in 1..={}", 1 << 24);
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
    }
    if window.pad.iter().any(|pad| *pad > 1 << 24) {
        let message = format!("pad = {:?} has a size above {}", window.pad, 1 << 24);
        return Err(Error::new(ErrorKind::BadParameter, message));
    }
    Ok(window)
}

/// The numbers of an adjustment or of a target, where there are any.
pub(super) fn places(name: &str, list: &Dims, dimensions: usize, of_row: usize) -> Result<Option<[usize; 2]>, Error> {
    if list.0.is_empty() {
        return Ok(None);
    }
    two(name, list, dimensions, [of_row, 0]).map(Some)
}

/// How many places a window spans along both dimensions.
pub(super) fn span(window: &Window) -> [usize; 2] {
    [0, 1].map(|axis| window.dilate[axis] * (window.kernel[axis] - 1) + 1)
}

/// How many windows there are on images of a size, the last rounded down.
pub(super) fn count(window: &Window, size: [usize; 2]) -> Result<[usize; 2], Error> {
    let (spans, mut counts) = (span(window), [0; 2]);
    for axis in 0..2 {
        let padded = size[axis] + 2 * window.pad[axis];
        let Some(left) = padded.checked_sub(spans[axis]) else {
            let message = format!(
                "a window spans {spans:?} places, and a padded image has {padded}: pad it, or make the kernel smaller"
            );
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        };
        counts[axis] = left / window.stride[axis] + 1;
    }
    Ok(counts)
}

/// The shape of the weights of a convolution.
pub(super) fn weights(filters: usize, channels: usize, kernel: &Dims) -> Result<Shape, Error> {
    let mut dims = SmallVec::<[usize; MAX_RANK]>::from_slice(&[filters, channels]);
    dims.extend_from_slice(&kernel.0);
    Shape::new(&dims)
}

/// Checks that channels and filters can be parted in groups.
pub(super) fn check_groups(groups: usize, channels: usize, filters: usize) -> Result<(), Error> {
    if channels % groups == 0 && filters % groups == 0 {
        return Ok(());
    }
    let message = format!("{channels} channels and {filters} filters have no {groups} equal groups (num_group)");
    Err(Error::new(ErrorKind::ShapeMismatch, message))
}
