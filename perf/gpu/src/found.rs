//! Whether there is a device to run on at all. `scripts/gpu.sh` skips where there is none, and
//! fails where there is one that cannot be used.

use crate::device::{Device, Which};
use libloading::Library;
use std::ffi::{c_int, c_uint};
use std::path::Path;

/// What was found.
pub enum Found {
    /// What there is.
    Device(String),
    /// Why there is none.
    Nothing(String),
}

/// The driver's names. The stand-in goes by the first one only.
const DRIVERS: [&str; 2] = ["libcuda.so", "libcuda.so.1"];
/// The driver's code for no device.
const NO_DEVICE: c_int = 100;
/// Where the system has NVIDIA's module, and so perhaps a device.
const MODULE: &str = "/proc/driver/nvidia/version";

/// Looks for a device, and makes it ready.
///
/// # Errors
/// Why what is there cannot be used.
pub fn found(which: Which) -> Result<Found, String> {
    if which == Which::Cuda {
        if let Some(why) = nothing(DRIVERS, Path::new(MODULE).exists())? {
            return Ok(Found::Nothing(why));
        }
    }
    let device = Device::open(which)?;
    let devices = device.backend.devices().map_err(|error| error.to_string())?;
    let usable = device.driver.map_or(0, |driver| driver.devices());
    Ok(Found::Device(format!("{usable} of {devices} devices can be used")))
}

/// Why there is no device: no driver, or one that says so. Other errors are for [`Device::open`].
fn nothing(drivers: [&str; 2], has_module: bool) -> Result<Option<String>, String> {
    // SAFETY: the back end loads the same.
    let opened = drivers.map(|name| unsafe { Library::new(name) });
    let library = match opened {
        [Ok(library), _] | [_, Ok(library)] => library,
        [_, Err(said)] if has_module => {
            return Err(format!("{MODULE} is there, and the CUDA driver cannot be loaded: {said}"));
        }
        [_, Err(said)] => return Ok(Some(format!("there is no CUDA driver: {said}"))),
    };
    // SAFETY: the driver's documentation has these arguments.
    let init = unsafe { library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit") };
    // SAFETY: as above.
    let count = unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDeviceGetCount") };
    let (Ok(init), Ok(count)) = (init, count) else { return Ok(None) };
    let mut devices = 0;
    // SAFETY: the flags must be 0, and are; the place is ours.
    let codes = unsafe { (init(0), count(&mut devices)) };
    let is_none = codes.0 == NO_DEVICE || codes.0 == 0 && (codes.1 == NO_DEVICE || codes.1 == 0 && devices == 0);
    Ok(is_none.then(|| "the CUDA driver finds no device".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::fail;
    use crate::standin;

    /// Over the stand-in, which is this process's driver.
    #[test]
    fn only_where_there_is_no_device_is_anything_skipped() {
        let outcome = || match found(Which::Cuda) {
            Ok(Found::Device(said)) => ("found", said),
            Ok(Found::Nothing(why)) => ("skipped", why),
            Err(why) => ("failed", why),
        };
        standin::begin().unwrap();
        assert_eq!(outcome(), ("found", "2 of 2 devices can be used".to_owned()));
        for (function, code, expected, says) in [
            (c"cuInit", 100, "skipped", "finds no device"),
            (c"cuDeviceGetCount", 100, "skipped", "finds no device"),
            (c"cuInit", 999, "failed", "cuInit"),
            (c"cuModuleLoadData", 218, "failed", "cuModuleLoadData returned 218"),
            (c"cuModuleGetFunction", 500, "failed", "500"),
            (c"cuDevicePrimaryCtxRetain", 2, "failed", "cuDevicePrimaryCtxRetain"),
            (c"cuDevicePrimaryCtxRetain", 46, "failed", "nvidia-smi"),
        ] {
            standin::begin().unwrap();
            // The first call looks whether there is a device, and the second is the back end's.
            (1..=2).for_each(|nth| fail(function, nth, code));
            let (what, said) = outcome();
            assert!(what == expected && said.contains(says), "{function:?} returns {code}: {what}, {said}");
        }
        standin::begin().unwrap();
        standin::devices(0);
        assert_eq!(outcome(), ("skipped", "the CUDA driver finds no device".to_owned()));
    }

    #[test]
    fn a_machine_with_the_module_and_without_the_library_is_not_skipped() {
        let none = ["libcuda-that-is-nowhere.so"; 2];
        assert!(nothing(none, false).unwrap().is_some_and(|why| why.contains("there is no CUDA driver")));
        assert!(nothing(none, true).unwrap_err().contains("cannot be loaded"));
    }
}
