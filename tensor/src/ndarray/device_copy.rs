//! Copies between the processor and devices, and on devices: each is an operation of the device, on
//! its streams for copies.
//!
//! Used by `create.rs` and `transfer.rs` for values of slices, and by `operator/arithmetic.rs`,
//! which leaves copies here that touch a device. What lies in order in pinned memory of the
//! engine's is copied from and to as it lies. All else goes by way of such memory: an operation of
//! the processor gathers the elements before the copy, or puts them in their places behind it.

use crate::dtype::{with_type, DType, Element};
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, SHORT};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing::{self, Side};
use crate::ndarray::chunk::Placed;
use crate::ndarray::frame::{Argument, Frame};
use crate::ndarray::runtime::Runtime;
use crate::shape::Shape;
use crate::storage::device::{DeviceBlock, Staging};
use seriatim::gpu::DeviceHandle;
use seriatim::{Context, Property, RunContext};
use std::fmt;

/// What an operation copies, for its errors.
#[derive(Clone, Copy)]
struct What {
    dtype: DType,
    shape: Shape,
    from: Context,
    to: Context,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let What { dtype, shape, from, to } = self;
        write!(f, "copy of {dtype} {shape} from {from} to {to}")
    }
}

/// Where an operation runs, and what it is for.
type Place = (Context, Property);

/// Pushes an operation that reads one side and writes the other, or keeps it for the graph of a
/// step.
fn push(
    runtime: &Runtime,
    name: &'static str,
    place: Place,
    (from, to): (Option<Side>, Side),
    mut run: impl FnMut(&RunContext<'_>) -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    if capturing::is_active() {
        return capturing::record_between(runtime, (name.into(), place), (from, to), run);
    }
    let is_short = place.1 == Property::Normal && to.elements <= SHORT;
    let operation = runtime.engine().op(name).context(place.0).property(place.1);
    let operation = operation.reads(from.map(|from| from.variable)).write(to.variable);
    let operation = if is_short { operation.short() } else { operation };
    operation.push(move |ctx| run(ctx))?;
    Ok(())
}

/// A side of which only the device's memory is known.
fn bare(variable: seriatim::Variable) -> Side {
    Side { variable, elements: usize::MAX, used: None }
}

/// The side of an array that the processor reaches.
fn side(frame: &Frame, argument: Argument, covers: bool) -> Side {
    let (elements, used) = (frame.shape(argument).size(), frame.used(argument, covers));
    Side { variable: argument.variable, elements, used: Some(used) }
}

impl DeviceBlock {
    /// Pushes the filling with zeros.
    fn push_zeros(&self, runtime: &Runtime, dtype: DType, shape: Shape) -> Result<(), Error> {
        let (block, context) = (self.clone(), self.context());
        push(runtime, "zeros", (context, Property::Normal), (None, bare(self.variable())), move |run| {
            block
                .fill(|data| run.zero(data))
                .map_err(|error| error.within(format_args!("operation 'zeros' of {dtype} {shape} on {context}")))
        })
    }

    /// Pushes a copy of pinned memory.
    fn push_from(&self, runtime: &Runtime, from: &Staging, what: What) -> Result<(), Error> {
        let (block, staged) = (self.clone(), from.clone());
        let sides = (Some(bare(from.0.variable())), bare(self.variable()));
        push(runtime, "copy to device", (self.context(), Property::CopyToGpu), sides, move |run| {
            block.fill(|data| run.copy(&staged.0, data)).map_err(|error| error.within(what))
        })
    }

    /// Pushes a copy to pinned memory.
    fn push_to(&self, runtime: &Runtime, to: &Staging, what: What) -> Result<(), Error> {
        let (block, staged) = (self.clone(), to.clone());
        let sides = (Some(bare(self.variable())), bare(to.0.variable()));
        push(runtime, "copy from device", (self.context(), Property::CopyFromGpu), sides, move |run| {
            let copied = block.source().and_then(|data| Ok(run.copy(data, &staged.0)?));
            copied.map_err(|error| error.within(what))
        })
    }

    /// Pushes a copy to a device, this one or another.
    fn push_across(&self, runtime: &Runtime, to: &DeviceBlock, what: What) -> Result<(), Error> {
        let (from, target) = (self.clone(), to.clone());
        let sides = (Some(bare(self.variable())), bare(to.variable()));
        push(runtime, "copy between devices", (to.context(), Property::CopyToGpu), sides, move |run| {
            let copied = from.source().and_then(|source| target.fill(|data| run.copy(source, data)));
            copied.map_err(|error| error.within(what))
        })
    }
}

impl NDArray {
    /// Its memory on a device, if it lies there.
    pub(crate) fn on_device(&self) -> Option<&DeviceBlock> {
        match self.chunk().placed() {
            Some(Placed::Device(block)) => Some(block),
            _ => None,
        }
    }

    /// The pinned memory of the engine's that it lies in, in order, if a device can copy that as it
    /// is. Truth values are looked at on their way, as memory of a device may have been lent.
    fn as_staging(&self) -> Option<Staging> {
        match self.chunk().placed() {
            Some(Placed::Pinned(pinned, _)) if self.is_all() && self.dtype() != DType::Bool => {
                Some(Staging(pinned.clone()))
            }
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        self.elements() * self.dtype().size()
    }

    fn what(&self, from: Context, to: Context) -> What {
        What { dtype: self.dtype(), shape: self.shape(), from, to }
    }

    /// The device memory of an array that is to be written, if it is written whole.
    fn whole_target(&self) -> Result<Option<&DeviceBlock>, Error> {
        let block = self.on_device();
        if block.is_some() && !self.is_all() {
            let message = format!(
                "a view of {} {} of a part of an array of {}, or in another order, is written: copy the whole array to \
                 the processor, change it there, and copy it back",
                self.dtype(),
                self.shape(),
                self.context()
            );
            return Err(Error::new(ErrorKind::UnsupportedContext, message));
        }
        Ok(block)
    }

    /// Fills an array of a device with zeros.
    pub(super) fn zero_on_device(&self) -> Result<(), Error> {
        match self.whole_target()? {
            Some(block) if self.size() > 0 => block.push_zeros(self.runtime(), self.dtype(), self.shape()),
            _ => Ok(()),
        }
    }

    /// Copies values to an array of a device. They are copied in the call, to pinned memory.
    pub(super) fn copy_slice_to_device<T: Element>(&self, values: &[T]) -> Result<(), Error> {
        let Some(block) = self.whole_target()?.filter(|_| self.size() > 0) else { return Ok(()) };
        let what = self.what(Context::cpu(0), self.context());
        let device = self.runtime().device(self.context())?;
        let staged = Staging::of(&device, values).map_err(|error| error.within(what))?;
        block.push_from(self.runtime(), &staged, what)
    }

    /// Waits for an array of a device, and copies its values to a slice that is as long.
    pub(super) fn copy_device_to_slice<T: Element>(&self, values: &mut [T]) -> Result<(), Error> {
        self.wait_to_read()?;
        let Some(block) = self.on_device().filter(|_| self.size() > 0) else { return Ok(()) };
        let (device, what) = (self.runtime().device(self.context())?, self.what(self.context(), Context::cpu(0)));
        let staged = Staging::new(&device, self.bytes()).map_err(|error| error.within(what))?;
        block.push_to(self.runtime(), &staged, what)?;
        self.runtime().engine().wait_for_var(staged.0.variable())?;
        staged.read::<T>(|elements| {
            Blob::of_slice(elements, self.layout()).same_reader::<T>().fill(values);
            Ok(())
        })
    }

    /// Copies the values to another array, of which at least one lies on a device.
    ///
    /// # Errors
    /// [`ForeignArray`](ErrorKind::ForeignArray), [`ShapeMismatch`](ErrorKind::ShapeMismatch),
    /// [`UnsupportedType`](ErrorKind::UnsupportedType) if the types are not the same,
    /// [`OverlappingView`](ErrorKind::OverlappingView),
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) for a part of an array of a device,
    /// [`OutOfMemory`](ErrorKind::OutOfMemory); those of a push.
    pub(crate) fn copy_across(&self, other: &NDArray) -> Result<(), Error> {
        let what = self.what(self.context(), other.context());
        self.check_copy(other).map_err(|error| error.within(what))?;
        let target = other.whole_target()?;
        if self.size() == 0 || (self.number() == other.number() && self.layout() == other.layout()) {
            return Ok(());
        }
        let runtime = self.runtime();
        let staging = |device: &DeviceHandle, of: &NDArray| {
            Staging::new(device, of.bytes()).map_err(|error: Error| error.within(what))
        };
        match (self.on_device(), target) {
            (Some(from), Some(to)) if self.is_all() => from.push_across(runtime, to, what),
            // Another order of the elements: the processor knows how to get it.
            (Some(_), Some(_)) => {
                let between = NDArray::new(runtime, self.shape(), self.dtype(), Context::cpu(0))?;
                self.copy_across(&between)?;
                between.copy_across(other)
            }
            (None, Some(to)) => {
                let staged = match self.as_staging() {
                    Some(as_it_lies) => as_it_lies,
                    None => self.push_gather(staging(&runtime.device(other.context())?, other)?, what)?,
                };
                to.push_from(runtime, &staged, what)
            }
            (Some(from), None) => match other.as_staging().filter(|_| self.is_all()) {
                Some(as_it_lies) => from.push_to(runtime, &as_it_lies, what),
                None => {
                    let staged = staging(&runtime.device(self.context())?, self)?;
                    from.push_to(runtime, &staged, what)?;
                    self.push_scatter(&staged, other, what)
                }
            },
            (None, None) => Err(Error::new(ErrorKind::UnsupportedContext, "neither array lies on a device")),
        }
    }

    fn check_copy(&self, other: &NDArray) -> Result<(), Error> {
        let wrong = |kind, message: String| Err(Error::new(kind, message));
        if !self.runtime().is(other.runtime()) {
            return wrong(
                ErrorKind::ForeignArray,
                "its arrays belong to different runtimes: copy values by to_vec and from_slice".into(),
            );
        }
        if self.shape() != other.shape() {
            return wrong(ErrorKind::ShapeMismatch, format!("the other array has shape {}", other.shape()));
        }
        if self.dtype() != other.dtype() {
            let message =
                format!("the other array has elements of {}: convert by astype on the processor", other.dtype());
            return wrong(ErrorKind::UnsupportedType, message);
        }
        other.check_writable()
    }

    /// Pushes an operation of the processor that puts the elements in order into pinned memory.
    fn push_gather(&self, staged: Staging, what: What) -> Result<Staging, Error> {
        let ((frame, argument), to) = (Frame::of(self)?, staged.clone());
        let sides = (Some(side(&frame, argument, false)), Side { elements: self.size(), ..bare(staged.0.variable()) });
        push(self.runtime(), "gather", (Context::cpu(0), Property::Normal), sides, move |_| {
            // SAFETY: this operation declares to read the variable, just above.
            let blob = unsafe { frame.read(argument) };
            let gathered = blob.and_then(|blob| {
                with_type!(blob.dtype(), T => to.write::<T>(|elements| {
                    blob.same_reader::<T>().fill(elements);
                }))
            });
            gathered.map_err(|error| error.within(what))
        })?;
        Ok(staged)
    }

    /// Pushes an operation of the processor that takes the elements that this array shows out of
    /// a copy of its memory, and puts them in their places.
    fn push_scatter(&self, staged: &Staging, other: &NDArray, what: What) -> Result<(), Error> {
        let ((frame, argument), from) = (Frame::of(other)?, staged.clone());
        let (layout, covers) = (*self.layout(), frame.is_whole(argument));
        let sides = (Some(bare(staged.0.variable())), side(&frame, argument, covers));
        push(self.runtime(), "scatter", (Context::cpu(0), Property::Normal), sides, move |_| {
            let scatter = || {
                // SAFETY: this operation declares to change the variable, just above.
                let mut blob = unsafe { frame.write(argument, covers) }?;
                with_type!(blob.dtype(), T => from.read::<T>(|elements| {
                    let mut reader = Blob::of_slice(elements, &layout).same_reader::<T>();
                    let mut block = [T::default(); 256];
                    let mut writer = blob.same_writer::<T>();
                    loop {
                        match reader.fill(&mut block) {
                            0 => return Ok(()),
                            count => writer.put(&block[..count]),
                        }
                    }
                }))
            };
            scatter().map_err(|error| error.within(what))
        })
    }
}
