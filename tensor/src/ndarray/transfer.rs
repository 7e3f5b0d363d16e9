//! How values go in and out: from a slice into an array, and from an array to a vector, a slice or
//! a number. Programs call it on any thread, but not inside of operations, which would wait for
//! themselves.

use crate::dtype::Element;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing;
use crate::ndarray::frame::Frame;
use crate::ndarray::profiled;
use crate::storage::Tag;

impl NDArray {
    /// Copies values into the array (`SyncCopyFromCPU`). They are copied in the call, and the slice
    /// may be changed afterwards: into the array, if nothing holds that up, and else into memory of
    /// the storage, and from there by an operation. To write a part of an array of a GPU takes all
    /// of it to the processor and back.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if there are not as many as the array has;
    /// [`UnsupportedType`](ErrorKind::UnsupportedType) if they are of another type;
    /// [`OutOfMemory`](ErrorKind::OutOfMemory);
    /// [`OverlappingView`](ErrorKind::OverlappingView); those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{DType, NDArray};
    /// let x = NDArray::zeros([2, 2], DType::F32)?;
    /// x.transpose()?.copy_from_slice(&[1.0f32, 2.0, 3.0, 4.0])?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn copy_from_slice<T: Element>(&self, values: &[T]) -> Result<(), Error> {
        self.check_type::<T>()?;
        self.check_length(values.len())?;
        self.check_writable()?;
        if self.is_on_device() {
            return self.copy_slice_to_device(values);
        }
        if !capturing::is_active() && !profiled::is_active() && self.write_now(values)? {
            return Ok(());
        }
        let mut staged = self.runtime().storage().alloc_as(Tag::NONE, size_of_val(values), self.context())?;
        staged.elements_mut::<T>(values.len()).copy_from_slice(values);
        let count = values.len();
        self.push_write("copy from slice", move |mut blob| {
            blob.same_writer::<T>().put(staged.elements(count));
        })
    }

    /// Waits for the array, and copies its values into a slice (`SyncCopyToCPU`).
    ///
    /// # Errors
    /// Those of [`to_vec`](NDArray::to_vec), and [`ShapeMismatch`](ErrorKind::ShapeMismatch) if
    /// the slice has not as many.
    ///
    /// ```
    /// use seriatim_tensor::NDArray;
    /// let mut values = [0; 3];
    /// NDArray::from_slice(&[1, 2, 3], [3])?.copy_to_slice(&mut values)?;
    /// assert_eq!(values, [1, 2, 3]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn copy_to_slice<T: Element>(&self, values: &mut [T]) -> Result<(), Error> {
        capturing::refuse("an array is read")?;
        self.check_type::<T>()?;
        self.check_length(values.len())?;
        if self.is_on_device() {
            return self.copy_device_to_slice(values);
        }
        let (frame, argument) = Frame::of(self)?;
        let mut outcome = Ok(());
        let mut read = |frame: &Frame| {
            // SAFETY: the operations below, which call this, have declared to read the variable.
            let blob = unsafe { frame.read(argument) }?;
            match blob.as_slice() {
                Some(elements) => values.copy_from_slice(elements),
                None => _ = blob.same_reader::<T>().fill(values),
            }
            Ok::<(), Error>(())
        };
        let engine = self.runtime().engine();
        if engine.op("copy to slice").read(argument.variable).run_now(|_| outcome = read(&frame)) {
            return outcome;
        }
        self.wait_to_read()?;
        engine.scope(|scope| scope.op("copy to slice").reads([argument.variable]).push(move |_| read(&frame)))?;
        Ok(())
    }

    /// Writes values in the call, if nothing holds that up; says whether it has.
    fn write_now<T: Element>(&self, values: &[T]) -> Result<bool, Error> {
        let (frame, argument) = Frame::of(self)?;
        let operation = self.runtime().engine().op("copy from slice").write(argument.variable);
        Ok(operation.run_now(|_| {
            // SAFETY: this operation declares to change the variable, just above.
            let mut blob = unsafe { frame.write(argument, true) }?;
            match blob.as_mut_slice() {
                Some(elements) => elements.copy_from_slice(values),
                None => blob.same_writer::<T>().put(values),
            }
            Ok::<(), Error>(())
        }))
    }

    /// Waits for the array, and returns its values in order.
    ///
    /// # Errors
    /// The error of the operation that should have written the array, as
    /// [`wait_to_read`](NDArray::wait_to_read) has it;
    /// [`UnsupportedType`](ErrorKind::UnsupportedType) if its elements are of another type;
    /// [`Unwritten`](ErrorKind::Unwritten).
    ///
    /// ```
    /// use seriatim_tensor::{ErrorKind, NDArray};
    /// let x = NDArray::from_slice(&[1, 2, 3], [3])?;
    /// assert_eq!(x.to_vec::<i32>()?, [1, 2, 3]);
    /// assert_eq!(x.to_vec::<f32>().unwrap_err().kind(), ErrorKind::UnsupportedType);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        let mut values = vec![T::default(); self.size()];
        self.copy_to_slice(&mut values)?;
        Ok(values)
    }

    /// Waits for an array of one element, and returns it (`asscalar`).
    ///
    /// # Errors
    /// Those of [`to_vec`](NDArray::to_vec), and [`ShapeMismatch`](ErrorKind::ShapeMismatch).
    ///
    /// ```
    /// use seriatim_tensor::NDArray;
    /// assert_eq!(NDArray::from_slice(&[7u8], [1, 1])?.as_scalar::<u8>()?, 7);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn as_scalar<T: Element>(&self) -> Result<T, Error> {
        let mut value = [T::default()];
        self.copy_to_slice(&mut value)?;
        Ok(value[0])
    }

    fn check_type<T: Element>(&self) -> Result<(), Error> {
        if T::DTYPE != self.dtype() {
            let message = format!("an array of {} is used as one of {}: convert it by astype", self.dtype(), T::DTYPE);
            return Err(Error::new(ErrorKind::UnsupportedType, message));
        }
        Ok(())
    }

    fn check_length(&self, values: usize) -> Result<(), Error> {
        if values != self.size() {
            let message = format!("{values} values for an array of shape {}, which has {}", self.shape(), self.size());
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        }
        Ok(())
    }
}
