//! Arrays of a device as resources: `&array` and `Write(&array)` of a `DeviceData`, which the
//! closure is given as a [`DeviceSlice`] or a [`DeviceSliceMut`].
//!
//! `run.rs` enters them on the thread that pushes or captures, and lends them on the device's
//! workers. Nobody touches the memory here: a slice leads to its address, by the rule of
//! `src/api/device_array.rs`. The operation keeps a handle of the array, as
//! `src/engine/gpu/lease.rs` asks.

use crate::api::device_data::DeviceData;
use crate::api::typed::resources::{Entering, Keepers, Lendable, Resources, Write};
use crate::device::memory::Plain;
use crate::device::raw::RawMemory;
use crate::error::Error;
use crate::operation::access::Mode;
use crate::operation::context::RunContext;
use std::fmt;

/// An array of a device that an operation reads, of which it has named `&array`: see
/// [`DeviceData`] and [`Resources`].
///
/// The processor does not touch it. The closure hands the address to the device, with the stream of
/// its operation.
///
/// ```
/// use seriatim::gpu::{DeviceData, Immediate};
/// use seriatim::{Context, Engine, Error, Write};
/// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let gpu = engine.device(Context::gpu(0))?;
/// let (x, y) = (DeviceData::<f32>::zeros(&gpu, 64)?, DeviceData::<f32>::zeros(&gpu, 64)?);
/// engine.op("kernel").context(gpu.context()).run_with((&x, Write(&y)), |run, (x, mut y)| {
///     let (from, to) = (x.memory(run)?, y.memory(run)?);
///     assert_ne!(from, to); // a real operation gives these, and run.stream(), to a kernel
///     Ok::<(), Error>(())
/// })?;
/// engine.wait_for_all()?;
/// # Ok::<(), Error>(())
/// ```
///
/// It ends with its operation.
///
/// ```compile_fail
/// # use seriatim::gpu::{DeviceData, Immediate};
/// # use seriatim::{Context, Engine};
/// # let engine = Engine::builder().gpus(Immediate::new(1)).build().unwrap();
/// # let x = DeviceData::<f32>::zeros(&engine.device(Context::gpu(0)).unwrap(), 64).unwrap();
/// let mut kept = None;
/// engine.op("keep").context(Context::gpu(0)).run(&x, |x| kept = Some(x)).unwrap();
/// ```
pub struct DeviceSlice<'a, T>(&'a DeviceData<T>);

/// An array of a device that an operation changes, of which it has named
/// [`Write(&array)`](crate::Write). Otherwise as a [`DeviceSlice`], which has an example.
pub struct DeviceSliceMut<'a, T>(&'a DeviceData<T>);

impl<T: Plain> DeviceSlice<'_, T> {
    /// The array's memory. For CUDA it is the address of the first element. It is valid for what
    /// the closure puts on its stream. Closures of [`run`](crate::OperationBuilder::run) and
    /// [`operator_on`](crate::OperationBuilder::operator_on) have no run context: `run_with` is for
    /// arrays, and an operator declares them and asks a handle ([`DeviceData::read_on`]).
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory) if there is no memory for the array after
    /// all; [`NoStream`](crate::ErrorKind::NoStream) in an operation of a graph, on another thread
    /// than the one that calls its closure. Others of [`DeviceData::read_on`] only if `run` is not
    /// the operation's own.
    ///
    /// [`DeviceSlice`] has an example.
    pub fn memory(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        self.0.read_on(run)
    }

    /// The number of elements.
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let x = DeviceData::<f32>::zeros(&engine.device(Context::gpu(0))?, 8)?;
    /// engine.op("look").context(Context::gpu(0)).run(&x, |x| assert_eq!(x.len(), 8))?;
    /// # engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no elements.
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let x = DeviceData::<f32>::zeros(&engine.device(Context::gpu(0))?, 0)?;
    /// engine.op("look").context(Context::gpu(0)).run(&x, |x| assert!(x.is_empty()))?;
    /// # engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Plain> DeviceSliceMut<'_, T> {
    /// The array's memory, as [`DeviceSlice::memory`] has it.
    ///
    /// # Errors
    /// Those of [`DeviceSlice::memory`].
    ///
    /// [`DeviceSlice`] has an example.
    pub fn memory(&mut self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        self.0.write_on(run)
    }

    /// The number of elements.
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate}, Context, Engine, Write};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let x = DeviceData::<f32>::zeros(&engine.device(Context::gpu(0))?, 8)?;
    /// engine.op("look").context(Context::gpu(0)).run(Write(&x), |x| assert_eq!(x.len(), 8))?;
    /// # engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no elements.
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate}, Context, Engine, Write};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let x = DeviceData::<f32>::zeros(&engine.device(Context::gpu(0))?, 8)?;
    /// engine.op("look").context(Context::gpu(0)).run(Write(&x), |x| assert!(!x.is_empty()))?;
    /// # engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> fmt::Debug for DeviceSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSlice of {:?}", self.0)
    }
}

impl<T> fmt::Debug for DeviceSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSliceMut of {:?}", self.0)
    }
}

impl<T> Lendable for &DeviceData<T> {}

impl<T: Plain, W> Resources<W> for &DeviceData<T> {
    type Item<'a> = DeviceSlice<'a, T>;
    type Held = DeviceData<T>;

    fn check(&self, entry: &Entering<'_>) -> Result<(), Error> {
        self.check_context(entry.draft.request().context)
    }

    fn enter(&self, entry: &mut Entering<'_>) -> DeviceData<T> {
        entry.draft.add(self.variable(), Mode::Read);
        DeviceData::clone(self)
    }

    // What is held is a handle.
    fn keep(&self, _: &mut Keepers) {}

    unsafe fn lend<'a>(held: &'a DeviceData<T>) -> DeviceSlice<'a, T> {
        DeviceSlice(held)
    }
}

impl<T> Lendable for Write<&DeviceData<T>> {}

impl<T: Plain, W> Resources<W> for Write<&DeviceData<T>> {
    type Item<'a> = DeviceSliceMut<'a, T>;
    type Held = DeviceData<T>;

    fn check(&self, entry: &Entering<'_>) -> Result<(), Error> {
        self.0.check_context(entry.draft.request().context)
    }

    fn enter(&self, entry: &mut Entering<'_>) -> DeviceData<T> {
        entry.draft.add(self.0.variable(), Mode::Write);
        DeviceData::clone(self.0)
    }

    fn keep(&self, _: &mut Keepers) {}

    unsafe fn lend<'a>(held: &'a DeviceData<T>) -> DeviceSliceMut<'a, T> {
        DeviceSliceMut(held)
    }
}
