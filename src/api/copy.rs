//! `Engine::copy`: copies between arrays of devices and pinned arrays, as operations.

#![forbid(unsafe_code)]

use crate::api::data::Data;
use crate::api::device_data::DeviceData;
use crate::api::engine::Engine;
use crate::api::pinned_data::PinnedData;
use crate::device::memory::Plain;
use crate::device::Context;
use crate::engine::gpu::lease::Lease;
use crate::error::{Error, ErrorKind};
use crate::operation::property::Property;

/// An array that [`Engine::copy`] copies from and to: [`DeviceData`] or [`PinnedData`].
///
/// ```
/// use seriatim::gpu::{Array, DeviceData, Immediate, Plain};
/// use seriatim::{Context, Engine};
///
/// fn doubled<T: Plain>(engine: &Engine, from: &impl Array<T>, to: [&impl Array<T>; 2]) -> Result<(), seriatim::Error> {
///     to.into_iter().try_for_each(|to| engine.copy(from, to))
/// }
///
/// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let gpu = engine.device(Context::gpu(0))?;
/// let [x, y, z] = [(); 3].map(|()| DeviceData::<u8>::zeros(&gpu, 3));
/// doubled(&engine, &x?, [&y?, &z?])?;
/// engine.wait_for_all()?;
/// # Ok::<(), seriatim::Error>(())
/// ```
pub trait Array<T>: OfDevice {}

/// Keeps [`Array`] to the two types.
pub trait OfDevice {
    /// What a copy has to know.
    #[doc(hidden)]
    fn end(&self) -> End<'_>;
}

/// One end of a copy.
#[derive(Debug)]
pub struct End<'a> {
    pub(crate) data: &'a Data<Lease>,
    pub(crate) length: usize,
    pub(crate) context: Context,
    pub(crate) is_on_device: bool,
}

impl<T: Plain> Array<T> for DeviceData<T> {}
impl<T: Plain> Array<T> for PinnedData<T> {}

impl Engine {
    /// Pushes a copy of an array to another one of the same length: an operation that reads `from`
    /// and changes `to`.
    ///
    /// Copies to a device, also from another one, run on its copy worker's stream for that
    /// direction; copies to pinned memory on that of the device that they come from. Between two
    /// devices the processor waits until the first is done, as for any operation.
    ///
    /// # Errors
    /// [`BufferMismatch`](ErrorKind::BufferMismatch) if the lengths are not equal, if both arrays
    /// are one, or if neither is on a device; otherwise those of a push. If the driver refuses the
    /// copy, the operation fails.
    ///
    /// ```
    /// use seriatim::gpu::{DeviceData, Immediate, PinnedData};
    /// use seriatim::{Context, Engine, ErrorKind};
    /// let engine = Engine::builder().gpus(Immediate::new(2)).build()?;
    /// let (first, second) = (engine.device(Context::gpu(0))?, engine.device(Context::gpu(1))?);
    /// let x = DeviceData::from_slice(&first, &[1.5f64, 2.5])?;
    /// let y = DeviceData::zeros(&second, 2)?;
    /// let host = PinnedData::zeros(&second, 2)?;
    /// engine.copy(&x, &y)?;
    /// engine.copy(&y, &host)?;
    /// engine.wait_for_var(host.variable())?;
    /// assert_eq!(*host.read()?, [1.5, 2.5]);
    /// assert_eq!(engine.copy(&x, &x).unwrap_err().kind(), ErrorKind::BufferMismatch);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn copy<T: Plain>(&self, from: &impl Array<T>, to: &impl Array<T>) -> Result<(), Error> {
        let (from, to) = (from.end(), to.end());
        let (source, target) = (from.data.clone(), to.data.clone());
        let (from_variable, to_variable) = (source.variable(), target.variable());
        let refused = |why: String| Err(Error::new(ErrorKind::BufferMismatch, why));
        if from_variable == to_variable {
            return refused(format!("{to_variable:?} cannot be copied to itself"));
        }
        if from.length != to.length {
            return refused(format!(
                "{from_variable:?} has {} elements and {to_variable:?} has {}: arrays are copied whole",
                from.length, to.length
            ));
        }
        let (context, property) = match (from.is_on_device, to.is_on_device) {
            (_, true) => (to.context, Property::CopyToGpu),
            (true, false) => (from.context, Property::CopyFromGpu),
            (false, false) => {
                return refused(format!(
                    "{from_variable:?} and {to_variable:?} are both the processor's: copy in an operation that borrows them"
                ))
            }
        };
        self.op("copy").context(context).property(property).read(from_variable).write(to_variable).push(move |run| {
            let (from, to) = (source.read()?, target.write()?);
            run.stream().map_or(Ok(()), |stream| to.copy_from(&from, stream))
        })
    }
}
