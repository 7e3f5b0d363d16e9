//! Where operations run: `Context`, a device and its number, a plain value; and what the engine
//! needs of a device.
//!
//! [`resolve`] checks the context of each push that names another one than `cpu(0)`
//! (`src/engine/push/mod.rs`), and of each recorded push (`src/engine/replay/assemble.rs`).
//!
//! [`backend`] is the seam to a library that drives devices, [`memory`] that to its memory, [`clock`]
//! that to its times, [`graphs`] that to its graphs, [`raw`] what they give out. `cuda/` implements
//! the four seams, and [`immediate`] all but the graphs. [`timeline`] keeps the order on a device
//! by its streams and marks. [`timed_marks`] are those of operations that are profiled. [`current`]
//! knows the stream of the operation that a thread runs, [`handles`] the libraries' handles that a
//! worker keeps, and [`borrows`] the arrays that a graph of the driver uses. The engine's side is
//! in `src/engine/gpu/`.

pub mod backend;
pub mod borrows;
pub mod clock;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod current;
pub mod graphs;
pub mod handles;
pub mod immediate;
pub mod memory;
pub mod raw;
pub mod timed_marks;
pub mod timeline;

use crate::error::{Error, ErrorKind};
use std::fmt;

/// The kind of a device.
///
/// ```
/// assert_eq!(seriatim::Context::gpu(1).device(), seriatim::Device::Gpu);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
#[non_exhaustive]
pub enum Device {
    /// The processor.
    Cpu,
    /// The processor, on memory that a GPU can copy from and to without the processor.
    CpuPinned,
    /// A GPU.
    Gpu,
}

/// Where an operation runs: a device and its number.
///
/// `cpu(0)` means any worker of the processor; on the per-device engine `cpu(i)` for i ≥ 1 prefers
/// one worker, always the same for the same number. Numbers reach to 1023.
///
/// ```
/// use seriatim::Context;
/// assert_eq!(Context::default(), Context::cpu(0));
/// assert_eq!(Context::gpu(2).to_string(), "gpu(2)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Context {
    device: Device,
    id: u32,
}

/// Device numbers from here on are unknown.
pub const DEVICES: u32 = 1024;

impl Context {
    /// The processor.
    ///
    /// ```
    /// assert_eq!(seriatim::Context::cpu(3).id(), 3);
    /// ```
    pub const fn cpu(id: u32) -> Context {
        Context { device: Device::Cpu, id }
    }

    /// The processor, on pinned memory.
    ///
    /// ```
    /// assert_eq!(seriatim::Context::cpu_pinned(0).to_string(), "cpu_pinned(0)");
    /// ```
    pub const fn cpu_pinned(id: u32) -> Context {
        Context { device: Device::CpuPinned, id }
    }

    /// A GPU. A push to one that cannot be used is an error of kind
    /// [`DeviceUnavailable`](ErrorKind::DeviceUnavailable), which says why: the build has no GPUs,
    /// there is no driver, or no such device.
    ///
    /// ```
    /// use seriatim::{Context, Engine, ErrorKind};
    /// let engine = Engine::new()?;
    /// let refused = engine.op("kernel").context(Context::gpu(1023)).push(|_| ());
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::DeviceUnavailable);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub const fn gpu(id: u32) -> Context {
        Context { device: Device::Gpu, id }
    }

    pub(crate) const fn new(device: Device, id: u32) -> Context {
        Context { device, id }
    }

    /// The kind of the device.
    ///
    /// ```
    /// assert_eq!(seriatim::Context::cpu(0).device(), seriatim::Device::Cpu);
    /// ```
    pub const fn device(self) -> Device {
        self.device
    }

    /// The number of the device.
    ///
    /// ```
    /// assert_eq!(seriatim::Context::gpu(7).id(), 7);
    /// ```
    pub const fn id(self) -> u32 {
        self.id
    }
}

impl Default for Context {
    fn default() -> Context {
        Context::cpu(0)
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = match self.device {
            Device::Cpu => "cpu",
            Device::CpuPinned => "cpu_pinned",
            Device::Gpu => "gpu",
        };
        write!(f, "{device}({})", self.id)
    }
}

/// Checks that a context has a number that there may be.
pub fn resolve(context: Context) -> Result<(), Error> {
    if context.id >= DEVICES {
        return Err(Error::new(
            ErrorKind::UnknownDevice,
            format!("there is no device {context}: device numbers go from 0 to {}", DEVICES - 1),
        ));
    }
    Ok(())
}
