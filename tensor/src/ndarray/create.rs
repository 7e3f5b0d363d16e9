//! How arrays are made: empty, filled, counted, or from a slice. Programs call it on any thread.
//!
//! Only [`NDArray::from_slice`] and [`Runtime::from_slice`] copy anything in the call. All else is
//! pushed.

use crate::dtype::{DType, Element, Number};
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{BlobMut, SHORT};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing;
use crate::ndarray::frame::Frame;
use crate::ndarray::placing::check_processor;
use crate::ndarray::profiled;
use crate::ndarray::runtime::Runtime;
use crate::request::OpReq;
use crate::shape::Shape;
use seriatim::{Context, Name, RunContext, Variable};

/// How many elements are made at a time.
const BLOCK: usize = 256;

impl Runtime {
    /// An array that nothing has written. Its memory is made by the first operation that writes to
    /// it; if that writes only a part, the rest is zero. Reading it before is an error of the
    /// operation that reads ([`Unwritten`](ErrorKind::Unwritten)).
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge).
    ///
    /// ```
    /// use seriatim_tensor::{DType, Runtime};
    /// let x = Runtime::global()?.empty([3], DType::I32)?;
    /// x.slice(0, 1, 2, 1)?.fill(7)?;
    /// assert_eq!(x.to_vec::<i32>()?, [0, 7, 0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn empty(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<NDArray, Error> {
        NDArray::new(self, Shape::new(shape.as_ref())?, dtype, Context::cpu(0))
    }

    /// An empty array in memory of a context: `cpu`, `cpu_pinned` or `gpu`.
    ///
    /// Memory of a GPU is made here, by the engine, and that of `cpu_pinned(i)` too if there is a
    /// `gpu(i)`, with which it is registered; that one is zero from the start. An array of a GPU
    /// can be copied to and from, and no operator of this crate has a kernel for it. One that is
    /// made while a step is captured is the step's.
    ///
    /// # Errors
    /// Also [`UnsupportedContext`](ErrorKind::UnsupportedContext) if there is no such GPU;
    /// [`OutOfMemory`](ErrorKind::OutOfMemory) and [`DeviceFailed`](ErrorKind::DeviceFailed).
    ///
    /// ```
    /// use seriatim_tensor::{DType, ErrorKind, Runtime};
    /// use seriatim::{gpu::Immediate, Context, Engine};
    /// let refused = Runtime::global()?.empty_in([3], DType::F32, Context::gpu(200)).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::UnsupportedContext);
    /// // Devices that are the processor, for tests.
    /// let runtime = Runtime::new(&Engine::builder().gpus(Immediate::new(1)).build()?);
    /// let x = runtime.empty_in([3], DType::F32, Context::gpu(0))?;
    /// assert_eq!(x.to_vec::<f32>().unwrap_err().kind(), ErrorKind::Unwritten);
    /// assert_eq!(x.square().unwrap_err().kind(), ErrorKind::UnsupportedContext);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn empty_in(&self, shape: impl AsRef<[usize]>, dtype: DType, context: Context) -> Result<NDArray, Error> {
        NDArray::new(self, Shape::new(shape.as_ref())?, dtype, context)
    }

    /// An array of zeros in memory of a context. That of a GPU is filled by its driver.
    ///
    /// # Errors
    /// Those of [`empty_in`](Runtime::empty_in), and those of a push.
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine};
    /// use seriatim_tensor::{DType, Runtime};
    /// let runtime = Runtime::new(&Engine::builder().gpus(Immediate::new(1)).build()?);
    /// let x = runtime.zeros_in([2], DType::I32, Context::gpu(0))?;
    /// assert_eq!(x.to_vec::<i32>()?, [0, 0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn zeros_in(&self, shape: impl AsRef<[usize]>, dtype: DType, context: Context) -> Result<NDArray, Error> {
        let array = self.empty_in(shape, dtype, context)?;
        if array.is_on_device() { array.zero_on_device() } else { array.fill(0i64) }?;
        Ok(array)
    }

    /// An array with the values of a slice, in memory of a context.
    ///
    /// # Errors
    /// Those of [`empty_in`](Runtime::empty_in) and of
    /// [`copy_from_slice`](NDArray::copy_from_slice).
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine};
    /// use seriatim_tensor::Runtime;
    /// let runtime = Runtime::new(&Engine::builder().gpus(Immediate::new(1)).build()?);
    /// let x = runtime.from_slice_in(&[1.0f32, 2.0], [2], Context::gpu(0))?;
    /// let y = x.as_in_context(Context::cpu(0))?.add_scalar(1.0)?;
    /// y.copy_to(&x)?;
    /// assert_eq!(x.to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn from_slice_in<T: Element>(
        &self,
        values: &[T],
        shape: impl AsRef<[usize]>,
        context: Context,
    ) -> Result<NDArray, Error> {
        let array = self.empty_in(shape, T::DTYPE, context)?;
        array.copy_from_slice(values)?;
        Ok(array)
    }

    /// An array of one value, converted to the type.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge), and those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{DType, Runtime};
    /// assert_eq!(Runtime::global()?.full([2], DType::F32, 1.5)?.to_vec::<f32>()?, [1.5; 2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn full(&self, shape: impl AsRef<[usize]>, dtype: DType, value: impl Element) -> Result<NDArray, Error> {
        let array = self.empty(shape, dtype)?;
        array.fill(value)?;
        Ok(array)
    }

    /// An array of zeros.
    ///
    /// # Errors
    /// Those of [`full`](Runtime::full).
    ///
    /// ```
    /// use seriatim_tensor::{DType, Runtime};
    /// assert_eq!(Runtime::global()?.zeros([2], DType::U8)?.to_vec::<u8>()?, [0, 0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn zeros(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<NDArray, Error> {
        self.full(shape, dtype, 0i64)
    }

    /// An array of ones.
    ///
    /// # Errors
    /// Those of [`full`](Runtime::full).
    ///
    /// ```
    /// use seriatim_tensor::{DType, Runtime};
    /// assert_eq!(Runtime::global()?.ones([2], DType::Bool)?.to_vec::<bool>()?, [true, true]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn ones(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<NDArray, Error> {
        self.full(shape, dtype, 1i64)
    }

    /// `start`, `start + step`, … before `stop`, in one dimension.
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if the step is 0 or a number is not finite;
    /// otherwise those of [`full`](Runtime::full).
    ///
    /// ```
    /// use seriatim_tensor::{DType, Runtime};
    /// assert_eq!(Runtime::global()?.arange(1.0, 4.0, 1.5, DType::F32)?.to_vec::<f32>()?, [1.0, 2.5]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn arange(&self, start: f64, stop: f64, step: f64, dtype: DType) -> Result<NDArray, Error> {
        let count = ((stop - start) / step).ceil().max(0.0);
        if !count.is_finite() {
            let message = format!("arange from {start} to {stop} by {step} has no end");
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
        let array = self.empty([count as usize], dtype)?;
        array.generate("arange", move |at| start + at as f64 * step)?;
        Ok(array)
    }

    /// A matrix with ones on the diagonal that begins `offset` columns to the right of the first
    /// element, or to the left if that is negative, and zeros elsewhere.
    ///
    /// # Errors
    /// Those of [`full`](Runtime::full).
    ///
    /// ```
    /// use seriatim_tensor::{DType, Runtime};
    /// let eye = Runtime::global()?.eye(2, 3, 1, DType::F64)?;
    /// assert_eq!(eye.to_vec::<f64>()?, [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn eye(&self, rows: usize, columns: usize, offset: isize, dtype: DType) -> Result<NDArray, Error> {
        let array = self.empty([rows, columns], dtype)?;
        let is_on = move |at: usize| (at / columns) as isize + offset == (at % columns) as isize;
        array.generate("eye", move |at| f64::from(u8::from(is_on(at))))?;
        Ok(array)
    }

    /// An array of these values, which are copied in the call.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if there are not as many as the shape has;
    /// [`OutOfMemory`](ErrorKind::OutOfMemory).
    ///
    /// ```
    /// use seriatim_tensor::Runtime;
    /// let x = Runtime::global()?.from_slice(&[1, 2, 3, 4], [2, 2])?;
    /// assert_eq!(x.to_vec::<i32>()?, [1, 2, 3, 4]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn from_slice<T: Element>(&self, values: &[T], shape: impl AsRef<[usize]>) -> Result<NDArray, Error> {
        let array = self.empty(shape, T::DTYPE)?;
        array.copy_from_slice(values)?;
        Ok(array)
    }
}

impl NDArray {
    /// [`Runtime::empty`] on the global runtime.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([0, 4], DType::F32)?.size(), 0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn empty(shape: impl AsRef<[usize]>, dtype: DType) -> Result<NDArray, Error> {
        Runtime::global()?.empty(shape, dtype)
    }

    /// [`Runtime::zeros`] on the global runtime.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::zeros([2], DType::F32)?.to_vec::<f32>()?, [0.0; 2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn zeros(shape: impl AsRef<[usize]>, dtype: DType) -> Result<NDArray, Error> {
        Runtime::global()?.zeros(shape, dtype)
    }

    /// [`Runtime::from_slice`] on the global runtime.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use seriatim_tensor::NDArray;
    /// assert_eq!(NDArray::from_slice(&[0.5f64], [])?.as_scalar::<f64>()?, 0.5);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn from_slice<T: Element>(values: &[T], shape: impl AsRef<[usize]>) -> Result<NDArray, Error> {
        Runtime::global()?.from_slice(values, shape)
    }

    /// Writes one value everywhere, converted to the array's type.
    ///
    /// # Errors
    /// [`OverlappingView`](ErrorKind::OverlappingView),
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) on a GPU, and those of a push.
    ///
    /// ```
    /// use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
    /// x.fill(3)?;
    /// assert_eq!(x.to_vec::<f32>()?, [3.0, 3.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn fill(&self, value: impl Element) -> Result<(), Error> {
        let number = value.to_number();
        self.check_writable()?;
        match number {
            Number::Whole(whole) => self.write_everywhere(whole),
            Number::Float(float) => self.write_everywhere(float),
        }
    }

    fn write_everywhere<W: Element>(&self, value: W) -> Result<(), Error> {
        let size = self.size();
        self.push_write("fill", move |mut blob| {
            let mut writer = blob.writer::<W>(OpReq::Write);
            let block = [value; BLOCK];
            (0..size.div_ceil(BLOCK)).for_each(|_| writer.put(&block));
        })
    }

    /// Pushes an operation that writes element *i* as `value(i)`.
    fn generate(&self, name: &'static str, value: impl Fn(usize) -> f64 + Send + 'static) -> Result<(), Error> {
        let size = self.size();
        self.push_write(name, move |mut blob| {
            let mut writer = blob.writer::<f64>(OpReq::Write);
            for first in (0..size).step_by(BLOCK) {
                let block: [f64; BLOCK] = std::array::from_fn(|at| value(first + at));
                writer.put(&block[..BLOCK.min(size - first)]);
            }
        })
    }

    /// Pushes an operation that writes all elements of this array.
    pub(crate) fn push_write(
        &self,
        name: &'static str,
        mut write: impl FnMut(BlobMut<'_>) + Send + 'static,
    ) -> Result<(), Error> {
        self.push_write_also(name, None, move |blob| {
            write(blob);
            Ok(())
        })
    }

    /// Pushes an operation that writes all elements of this array, and changes another variable
    /// too.
    pub(crate) fn push_write_also(
        &self,
        name: &'static str,
        other: Option<Variable>,
        mut write: impl FnMut(BlobMut<'_>) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        check_processor(std::iter::once(self))
            .map_err(|error| error.within(format_args!("operation '{name}' of {} {}", self.dtype(), self.shape())))?;
        let (frame, argument) = Frame::of(self)?;
        let written = frame.used(argument, true);
        let mut run = move |_: &RunContext<'_>| {
            // SAFETY: this operation declares to change the variable, just below.
            let blob = unsafe { frame.write(argument, true) };
            let done = blob.and_then(&mut write);
            done.map_err(|error| {
                error.within(format_args!("operation '{name}' of {} {}", frame.dtype(argument), frame.shape(argument)))
            })
        };
        if capturing::is_active() {
            let uses = (std::iter::empty(), std::iter::once(written));
            return capturing::record(self.runtime(), Name::from(name), uses, (other.into_iter(), self.size()), run);
        }
        let builder = self.runtime().engine().op(name).writes(other).write(argument.variable);
        let builder = if self.size() <= SHORT { builder.short() } else { builder };
        let builder = if profiled::is_active() { builder.profiled() } else { builder };
        builder.push(move |ctx| run(ctx))?;
        Ok(())
    }

    /// Refuses views that show an element at several places.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        if self.layout().repeats() {
            let message =
                format!("a view of shape {} that shows one element at several places is written", self.shape());
            return Err(Error::new(ErrorKind::OverlappingView, message));
        }
        Ok(())
    }
}
