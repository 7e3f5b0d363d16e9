//! Tensors of DLPack as arrays: what they are is checked, and their memory becomes the array's.

#![forbid(unsafe_code)]

use crate::dlpack::structs::{DLTensor, CPU, CUDA_HOST, VERSION};
use crate::dlpack::tensor::Tensor;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing;
use crate::ndarray::runtime::Runtime;
use crate::shape::{Layout, Shape, MAX_RANK};
use crate::storage::memory::Memory;

fn bad(why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::BadFormat, format!("not a tensor of DLPack that arrays can have: {why}"))
}

/// What a tensor is, as far as arrays have it.
fn describe(tensor: &Tensor) -> Result<(Layout, DType), Error> {
    let version = tensor.managed().version;
    if version.major != VERSION.major {
        let (major, minor) = (version.major, version.minor);
        return Err(bad(format!("its version is {major}.{minor}, and {}.x is known", VERSION.major)));
    }
    let DLTensor { device, ndim, dtype, .. } = *tensor.dl_tensor();
    if ![CPU, CUDA_HOST].contains(&device.device_type) {
        let message = format!(
            "a tensor of DLPack lies on device {} of type {}, and arrays lie in memory of the processor (types {CPU} \
             and {CUDA_HOST}): copy it there first",
            device.device_id, device.device_type
        );
        return Err(Error::new(ErrorKind::UnsupportedContext, message));
    }
    let Some(dtype) = dtype.dtype() else {
        let message = format!(
            "a tensor of DLPack has elements of code {}, {} bits and {} lanes, which arrays have not",
            dtype.code, dtype.bits, dtype.lanes
        );
        return Err(Error::new(ErrorKind::UnsupportedType, message));
    };
    let rank = usize::try_from(ndim).map_err(|_| bad(format!("it has {ndim} dimensions")))?;
    let (sizes, strides) = tensor.sizes();
    if sizes.len() != rank {
        return Err(bad("it has no shape"));
    }
    let dims = sizes.iter().map(|size| usize::try_from(*size).map_err(|_| bad(format!("a size is {size}"))));
    let mut layout = Layout::contiguous(Shape::new(&dims.collect::<Result<Vec<usize>, Error>>()?)?);
    if let Some(strides) = strides {
        layout.strides = [0; MAX_RANK];
        for (at, stride) in strides.iter().enumerate() {
            layout.strides[at] = isize::try_from(*stride).map_err(|_| bad(format!("a stride is {stride}")))?;
        }
    }
    Ok((layout, dtype))
}

/// How far the elements lie before and behind the first one, if that is a place in memory and no
/// two axes meet there.
fn reach(layout: &Layout, dtype: DType) -> Result<(isize, isize), Error> {
    let (dims, strides) = (layout.shape.dims(), &layout.strides[..layout.shape.rank()]);
    let (mut low, mut high) = (0isize, 0isize);
    // With the smallest step first, each axis must step over all that those before it reach.
    let mut axes: Vec<(usize, usize)> = dims.iter().copied().zip(strides.iter().map(|s| s.unsigned_abs())).collect();
    axes.sort_by_key(|(_, step)| *step);
    let mut reached = 0usize;
    for (dim, step) in axes.into_iter().filter(|(dim, step)| *dim > 1 && *step > 0) {
        if step <= reached {
            return Err(bad(format!("strides {strides:?} of shape {} lead to one element twice", layout.shape)));
        }
        reached = step.checked_mul(dim - 1).and_then(|far| far.checked_add(reached)).unwrap_or(usize::MAX);
    }
    let far = |sum: isize, by: Option<isize>| by.and_then(|by| sum.checked_add(by));
    for (dim, stride) in dims.iter().zip(strides) {
        let steps = dim.saturating_sub(1) as isize;
        let by = steps.checked_mul(*stride).filter(|by| by.unsigned_abs() <= isize::MAX as usize / 16 / dtype.size());
        let sum = if *stride < 0 { &mut low } else { &mut high };
        let next = far(*sum, by).ok_or_else(|| bad(format!("strides {strides:?} lead beyond memory")))?;
        *sum = next;
    }
    Ok((low, high))
}

impl Runtime {
    /// An array in the memory of a tensor, without a copy. The tensor is dropped, which calls its
    /// deleter, behind the last operation on the array; and in the call if that is refused.
    ///
    /// If the tensor is read only, operations that write to the array fail with
    /// [`ReadOnly`](ErrorKind::ReadOnly).
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) if it lies on a device;
    /// [`UnsupportedType`](ErrorKind::UnsupportedType); [`TooLarge`](ErrorKind::TooLarge);
    /// [`BadFormat`](ErrorKind::BadFormat) for another major version, for negative sizes, for
    /// strides that lead to an element twice (0 is allowed: it repeats an axis) or beyond memory,
    /// and for memory that is not aligned to its elements.
    ///
    /// ```
    /// use seriatim_tensor::{NDArray, Runtime};
    /// let x = NDArray::from_slice(&[1, 2, 3, 4, 5, 6], [2, 3])?;
    /// let y = Runtime::global()?.from_dlpack(x.transpose()?.to_dlpack()?)?;
    /// assert_eq!(y.to_vec::<i32>()?, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn from_dlpack(&self, tensor: Tensor) -> Result<NDArray, Error> {
        capturing::refuse("a tensor is borrowed")?;
        let (mut layout, dtype) = describe(&tensor)?;
        if layout.shape.size() == 0 {
            // There is nothing to read: the tensor ends here.
            return self.zeros(layout.shape, dtype);
        }
        let (low, high) = reach(&layout, dtype)?;
        let memory = tensor.into_memory(low * dtype.size() as isize, dtype.size())?;
        layout.offset = low.unsigned_abs();
        NDArray::in_memory(self, layout, (dtype, (high - low) as usize + 1), Memory::Foreign(memory))
    }
}
