//! Arrays as tensors of DLPack: an asynchronous operation that reads or changes the array, and ends
//! when the tensor's deleter runs.

use crate::dlpack::structs::{DLDataType, DLDevice, DLTensor, CPU, CUDA, FLAG_READ_ONLY};
use crate::dlpack::tensor::Tensor;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::frame::Frame;
use seriatim::{Completion, Context, Property};
use std::sync::mpsc;

/// What ends the loan. The operation ends before the array does.
struct Held {
    completion: Option<Completion>,
    _array: NDArray,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(completion) = self.completion.take() {
            completion.complete();
        }
    }
}

impl NDArray {
    /// Waits for the array, and lends it to be read, without a copy. The tensor is read only.
    ///
    /// Operations that change the array and were pushed afterwards wait until the tensor is dropped
    /// or its deleter has run; so do [`wait_all`](crate::Runtime::wait_all) and the end of the
    /// engine. Operations that read it do not.
    ///
    /// # Errors
    /// Those of [`wait_to_read`](NDArray::wait_to_read);
    /// [`Unwritten`](ErrorKind::Unwritten);
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) on a GPU that CUDA's driver does not
    /// drive.
    ///
    /// ```
    /// use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
    /// let lent = x.to_dlpack()?;
    /// x.fill(7.0f32)?; // Waits in the engine, and not here.
    /// drop(lent);
    /// assert_eq!(x.to_vec::<f32>()?, [7.0, 7.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn to_dlpack(&self) -> Result<Tensor, Error> {
        self.lend(false)
    }

    /// Waits until nobody uses the array, and lends it to be changed, without a copy. Memory of the
    /// processor that nothing has written is made, with zeros.
    ///
    /// Operations that use the array and were pushed afterwards wait, as
    /// [`to_dlpack`](NDArray::to_dlpack) has it. What the borrower writes is what they see.
    ///
    /// # Errors
    /// Those of [`wait_to_read`](NDArray::wait_to_read);
    /// [`OverlappingView`](ErrorKind::OverlappingView); [`ReadOnly`](ErrorKind::ReadOnly);
    /// [`OutOfMemory`](ErrorKind::OutOfMemory); on a GPU those of
    /// [`to_dlpack`](NDArray::to_dlpack).
    ///
    /// ```
    /// use seriatim_tensor::{NDArray, Runtime};
    /// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
    /// let other = Runtime::global()?.from_dlpack(x.to_dlpack_mut()?)?;
    /// other.mul_scalar_assign(10.0)?;
    /// drop(other);
    /// assert_eq!(x.to_vec::<f32>()?, [10.0, 20.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn to_dlpack_mut(&self) -> Result<Tensor, Error> {
        self.check_writable()?;
        self.lend(true)
    }

    /// The device as DLPack names it.
    fn lent_on(&self) -> Result<DLDevice, Error> {
        if !self.is_on_device() {
            return Ok(DLDevice { device_type: CPU, device_id: 0 });
        }
        let device = self.runtime().device(self.context())?;
        if device.driver() != "CUDA" {
            let message = format!(
                "{} {} on {} is lent by DLPack, and {} drives that: copy it to Context::cpu(0)",
                self.dtype(),
                self.shape(),
                self.context(),
                device.driver()
            );
            return Err(Error::new(ErrorKind::UnsupportedContext, message));
        }
        Ok(DLDevice { device_type: CUDA, device_id: self.context().id() as i32 })
    }

    fn lend(&self, writes: bool) -> Result<Tensor, Error> {
        let device = self.lent_on()?;
        self.wait_to_read()?;
        let (frame, argument) = Frame::of(self)?;
        let (give, take) = mpsc::sync_channel(1);
        let variable = [argument.variable];
        let (reads, changes) = if writes { (&[][..], &variable[..]) } else { (&variable[..], &[][..]) };
        let block = self.on_device().cloned();
        let context = block.as_ref().map_or(Context::cpu(0), |_| self.context());
        let builder = self.runtime().engine().op("lend by DLPack").property(Property::Async).context(context);
        builder.reads(reads.iter().copied()).writes(changes.iter().copied()).push_async(move |run, completion| {
            let address = match &block {
                Some(block) => block.address(run, writes).map(|base| frame.first(argument, base)),
                // SAFETY: this operation has declared the variable, just above, to change it if
                // `writes`. It stays open until the tensor's deleter runs, behind the last use.
                None => unsafe { frame.address(argument, writes) },
            };
            let lent = match address {
                Ok(first) => Ok((first.expose_provenance(), completion)),
                Err(error) => {
                    completion.complete();
                    Err(error)
                }
            };
            // If nobody takes it, the completion is dropped with it, and the operation fails.
            let _ = give.send(lent);
        })?;
        let Ok(lent) = take.recv() else {
            // It was skipped, because an operation failed that was pushed meanwhile.
            self.wait_to_read()?;
            return Err(Error::new(ErrorKind::Engine, "the engine has not run the loan of an array"));
        };
        let (first, completion) = lent?;
        let data = if self.size() == 0 { std::ptr::null_mut() } else { std::ptr::with_exposed_provenance_mut(first) };
        let (layout, rank) = (self.layout(), self.ndim());
        // Shapes have at most `isize::MAX / 16` elements: sizes and strides fit into 64 bits.
        let shape: Vec<i64> = layout.shape.dims().iter().map(|dim| *dim as i64).collect();
        let strides: Vec<i64> = layout.strides[..rank].iter().map(|stride| *stride as i64).collect();
        let dl_tensor = DLTensor {
            data,
            device,
            ndim: rank as i32,
            dtype: DLDataType::of(self.dtype()),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let flags = if writes { 0 } else { FLAG_READ_ONLY };
        let held = Held { completion: Some(completion), _array: self.clone() };
        Ok(Tensor::own(dl_tensor, flags, (shape, strides), Box::new(held)))
    }
}
