//! What a back end gives out: handles, which the engine keeps and gives back, and [`DriverError`],
//! why a call failed. Back ends make them. A handle is a number without an owner, which any thread
//! may copy; `backend.rs` says when it may be used.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use std::ffi::c_void;
use std::fmt;

macro_rules! handle {
    ($(#[$text:meta])* $name:ident) => {
        $(#[$text])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(usize);

        impl $name {
            /// Makes a handle of what the back end has: a pointer or a number.
            ///
            /// ```
            #[doc = concat!("let handle = seriatim::gpu::", stringify!($name), "::new(16 as *mut std::ffi::c_void);")]
            /// assert_eq!(handle.raw().addr(), 16);
            /// ```
            pub fn new(raw: *mut c_void) -> $name {
                $name(raw.expose_provenance())
            }

            /// What the back end has.
            ///
            /// ```
            #[doc = concat!("let handle = seriatim::gpu::", stringify!($name), "::new(std::ptr::null_mut());")]
            /// assert!(handle.raw().is_null());
            /// ```
            pub fn raw(self) -> *mut c_void {
                std::ptr::with_exposed_provenance_mut(self.0)
            }
        }
    };
}

handle!(
    /// An in-order queue of a device, as its back end knows it: CUDA's `CUstream`.
    RawStream
);
handle!(
    /// A mark of a back end: CUDA's `CUevent`.
    RawMark
);
handle!(
    /// Memory of a back end: an address, as CUDA's `CUdeviceptr`, or an object, as OpenCL's
    /// `cl_mem`.
    RawMemory
);
handle!(
    /// A graph of a back end: CUDA's `CUgraphExec`.
    RawGraph
);
handle!(
    /// What was current on a thread before [`Backend::enter`](crate::gpu::Backend::enter): CUDA's
    /// `CUcontext`.
    Previous
);

/// Why a call of a back end failed.
///
/// ```
/// let fault = seriatim::gpu::DriverError::lost("an illegal address was used");
/// assert!(fault.is_lost() && fault.to_string().contains("illegal"));
/// ```
///
/// It becomes an [`Error`](crate::Error) of which it is the source, so `?` takes it. The kind is
/// [`DeviceLost`](crate::ErrorKind::DeviceLost) if the device is lost, and
/// [`DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable) otherwise.
///
/// ```
/// use seriatim::gpu::{Backend, Immediate};
/// use seriatim::{Engine, Error};
///
/// fn engine() -> Result<(Engine, usize), Error> {
///     let devices = Immediate::new(2);
///     let count = devices.devices()?; // a `DriverError`
///     Ok((Engine::builder().gpus(devices).build()?, count))
/// }
/// assert_eq!(engine()?.1, 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriverError {
    lost: bool,
    message: String,
}

impl DriverError {
    /// The call was refused; the device goes on.
    ///
    /// ```
    /// assert!(!seriatim::gpu::DriverError::refused("out of memory").is_lost());
    /// ```
    pub fn refused(message: impl Into<String>) -> DriverError {
        DriverError { lost: false, message: message.into() }
    }

    /// The device takes no more work in this process.
    ///
    /// ```
    /// assert!(seriatim::gpu::DriverError::lost("the device fell off the bus").is_lost());
    /// ```
    pub fn lost(message: impl Into<String>) -> DriverError {
        DriverError { lost: true, message: message.into() }
    }

    /// Whether the device is lost.
    ///
    /// ```
    /// assert!(!seriatim::gpu::DriverError::refused("busy").is_lost());
    /// ```
    pub fn is_lost(&self) -> bool {
        self.lost
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DriverError {}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        let kind = if error.lost { ErrorKind::DeviceLost } else { ErrorKind::DeviceUnavailable };
        Error::with_source(kind, error.message.clone(), error)
    }
}
