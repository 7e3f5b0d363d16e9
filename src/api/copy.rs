//! `Engine::copy`: copies between arrays of devices and pinned arrays, as operations.
//!
//! Programs call it, on any thread. A copy is an operation like any other (`src/api/push.rs`). The
//! arrays are in `src/api/device_data.rs` and `src/api/pinned_data.rs`; what is queued on the
//! stream is in `src/engine/gpu/lease.rs`.

#![forbid(unsafe_code)]

use crate::api::device_array::Array;
use crate::api::engine::Engine;
use crate::device::memory::Plain;
use crate::error::{Error, ErrorKind};
use crate::operation::property::Property;

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
