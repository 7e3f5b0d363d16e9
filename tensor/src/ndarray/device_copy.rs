//! Copies between the processor and devices, and on devices: each is an operation of the device, on
//! its streams for copies.
//!
//! Used by `create.rs` and `transfer.rs` for values of slices, and by `operator/arithmetic.rs`,
//! which leaves copies here that touch a device. What lies in order in pinned memory of the
//! engine's is copied from and to as it lies. All else goes by way of such memory: an operation of
//! the processor gathers the elements before the copy, or puts them in their places behind it.
//!
//! The engine copies arrays whole. So where a part of an array is written, all of it goes to pinned
//! memory, gets the new elements there, and goes back.

use crate::dtype::{with_type, DType, Element};
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut, SHORT};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing::{self, Side};
use crate::ndarray::chunk::Placed;
use crate::ndarray::cursor::{Reader, Writer};
use crate::ndarray::frame::{Argument, Frame};
use crate::ndarray::runtime::Runtime;
use crate::shape::{Layout, Shape};
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

/// A side that is no array.
fn bare(variable: seriatim::Variable) -> Side {
    Side { variable, elements: usize::MAX, used: None }
}

/// The side of an array that the processor reaches.
fn side(frame: &Frame, argument: Argument, covers: bool) -> Side {
    let (elements, used) = (frame.shape(argument).size(), frame.used(argument, covers));
    Side { variable: argument.variable, elements, used: Some(used) }
}

/// Takes all elements of a reader to a writer.
fn pass_on<T: Element>(mut reader: Reader<'_, T>, mut writer: Writer<'_, T>) {
    let mut block = [T::default(); 256];
    loop {
        match reader.fill(&mut block) {
            0 => return,
            count => writer.put(&block[..count]),
        }
    }
}

impl DeviceBlock {
    /// Pushes the filling of its array with zeros; or only `if_new`, where nothing has written it.
    fn push_zeros(&self, of: &NDArray, if_new: bool) -> Result<(), Error> {
        let (block, context, dtype, shape) = (self.clone(), self.context(), of.dtype(), of.shape());
        push(of.runtime(), "zeros", (context, Property::Normal), (None, of.device_side(!if_new)), move |run| {
            let filled = if if_new { block.changed(run).map(drop) } else { block.fill(|data| run.zero(data)) };
            filled.map_err(|error| error.within(format_args!("operation 'zeros' of {dtype} {shape} on {context}")))
        })
    }

    /// Pushes a copy of pinned memory to its array.
    fn push_from(&self, of: &NDArray, from: &Staging, what: What) -> Result<(), Error> {
        let (block, staged) = (self.clone(), from.clone());
        let sides = (Some(bare(from.0.variable())), of.device_side(true));
        push(of.runtime(), "copy to device", (self.context(), Property::CopyToGpu), sides, move |run| {
            block.fill(|data| run.copy(&staged.0, data)).map_err(|error| error.within(what))
        })
    }

    /// Pushes a copy of its array to pinned memory.
    fn push_to(&self, of: &NDArray, to: &Staging, what: What) -> Result<(), Error> {
        let (block, staged) = (self.clone(), to.clone());
        let sides = (Some(of.device_side(false)), bare(to.0.variable()));
        push(of.runtime(), "copy from device", (self.context(), Property::CopyFromGpu), sides, move |run| {
            let copied = block.source().and_then(|data| Ok(run.copy(data, &staged.0)?));
            copied.map_err(|error| error.within(what))
        })
    }

    /// Pushes a copy of its array to one of a device, this one or another.
    fn push_across(&self, of: &NDArray, (to, array): (&DeviceBlock, &NDArray), what: What) -> Result<(), Error> {
        let (from, target) = (self.clone(), to.clone());
        let sides = (Some(of.device_side(false)), array.device_side(true));
        push(of.runtime(), "copy between devices", (to.context(), Property::CopyToGpu), sides, move |run| {
            let copied = from.source().and_then(|source| target.fill(|data| run.copy(source, data)));
            copied.map_err(|error| error.within(what))
        })
    }
}

impl NDArray {
    /// Its memory on a device, if it lies there.
    pub(crate) fn on_device(&self) -> Option<&DeviceBlock> {
        self.chunk().device_block()
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

    /// The side of an array that lies on a device.
    fn device_side(&self, covers: bool) -> Side {
        let used = self.used(covers);
        Side { variable: used.variable, elements: usize::MAX, used: Some(used) }
    }

    /// Fills an array of a device with zeros, all of it.
    pub(super) fn zero_on_device(&self) -> Result<(), Error> {
        let block = self.on_device().filter(|_| self.size() > 0);
        block.map_or(Ok(()), |block| block.push_zeros(self, false))
    }

    /// Copies values to an array of a device. They are copied in the call, to pinned memory.
    pub(super) fn copy_slice_to_device<T: Element>(&self, values: &[T]) -> Result<(), Error> {
        let Some(block) = self.on_device().filter(|_| self.size() > 0) else { return Ok(()) };
        if !self.is_all() {
            return self.runtime().from_slice(values, self.shape())?.copy_across(self);
        }
        let what = self.what(Context::cpu(0), self.context());
        let device = self.runtime().device(self.context())?;
        let staged = Staging::of(&device, values).map_err(|error| error.within(what))?;
        block.push_from(self, &staged, what)
    }

    /// Waits for an array of a device, and copies its values to a slice that is as long.
    pub(super) fn copy_device_to_slice<T: Element>(&self, values: &mut [T]) -> Result<(), Error> {
        self.wait_to_read()?;
        let Some(block) = self.on_device().filter(|_| self.size() > 0) else { return Ok(()) };
        let (device, what) = (self.runtime().device(self.context())?, self.what(self.context(), Context::cpu(0)));
        let staged = Staging::new(&device, self.bytes()).map_err(|error| error.within(what))?;
        block.push_to(self, &staged, what)?;
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
    /// [`OverlappingView`](ErrorKind::OverlappingView), [`OutOfMemory`](ErrorKind::OutOfMemory);
    /// those of a push.
    pub(crate) fn copy_across(&self, other: &NDArray) -> Result<(), Error> {
        let what = self.what(self.context(), other.context());
        self.check_copy(other).map_err(|error| error.within(what))?;
        if self.size() == 0 || (self.number() == other.number() && self.layout() == other.layout()) {
            return Ok(());
        }
        let runtime = self.runtime();
        let staging = |device: &DeviceHandle, of: &NDArray| {
            Staging::new(device, of.bytes()).map_err(|error: Error| error.within(what))
        };
        match (self.on_device(), other.on_device()) {
            (Some(from), Some(to)) if self.is_all() && other.is_all() => from.push_across(self, (to, other), what),
            // Another order of the elements, or a part: the processor knows how to get it.
            (Some(_), Some(_)) => {
                let between = NDArray::new(runtime, self.shape(), self.dtype(), Context::cpu(0))?;
                self.copy_across(&between)?;
                between.copy_across(other)
            }
            (None, Some(to)) => {
                let staged = match self.as_staging() {
                    _ if !other.is_all() => {
                        let staged = staging(&runtime.device(other.context())?, other)?;
                        to.push_zeros(other, true)?;
                        to.push_to(other, &staged, what)?;
                        self.push_gather(staged, Some(*other.layout()), what)?
                    }
                    Some(as_it_lies) => as_it_lies,
                    None => self.push_gather(staging(&runtime.device(other.context())?, other)?, None, what)?,
                };
                to.push_from(other, &staged, what)
            }
            (Some(from), None) => match other.as_staging().filter(|_| self.is_all()) {
                Some(as_it_lies) => from.push_to(self, &as_it_lies, what),
                None => {
                    let staged = staging(&runtime.device(self.context())?, self)?;
                    from.push_to(self, &staged, what)?;
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

    /// Pushes an operation of the processor that puts the elements into pinned memory: in order, or
    /// in the places of a layout, beside what is there.
    fn push_gather(&self, staged: Staging, places: Option<Layout>, what: What) -> Result<Staging, Error> {
        let ((frame, argument), to) = (Frame::of(self)?, staged.clone());
        let sides = (Some(side(&frame, argument, false)), Side { elements: self.size(), ..bare(staged.0.variable()) });
        push(self.runtime(), "gather", (Context::cpu(0), Property::Normal), sides, move |_| {
            // SAFETY: this operation declares to read the variable, just above.
            let blob = unsafe { frame.read(argument) };
            let gathered = blob.and_then(|blob| {
                with_type!(blob.dtype(), T => match &places {
                    None => to.write::<T>(|elements| _ = blob.same_reader::<T>().fill(elements)),
                    Some(places) => to.change::<T>(|elements| {
                        pass_on(blob.same_reader::<T>(), BlobMut::of_slice(elements, places).same_writer::<T>());
                    }),
                })
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
                    pass_on(Blob::of_slice(elements, &layout).same_reader::<T>(), blob.same_writer::<T>());
                    Ok(())
                }))
            };
            scatter().map_err(|error| error.within(what))
        })
    }
}
