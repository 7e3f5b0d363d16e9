//! The errors of this back end, with what a user can do about each. Most are made from the driver's
//! codes ([`of`]). Others have no code, such as a driver that is missing or too old.
//!
//! Used by `mod.rs` (`Cuda::check`, through which the other files go) and by `symbols.rs`, on any
//! thread. `src/engine/gpu/loss.rs` has what an engine does when a device is lost.

#![forbid(unsafe_code)]

use crate::device::raw::DriverError;
use cudarc::driver::sys::CUresult::{self, *};
use std::ffi::c_int;

/// After one of these the driver answers every later call of the process with the same code, or
/// cannot be relied on.
const LOST: [CUresult; 22] = [
    CUDA_ERROR_DEINITIALIZED,
    CUDA_ERROR_ECC_UNCORRECTABLE,
    CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUDA_ERROR_CONTAINED,
    CUDA_ERROR_ILLEGAL_ADDRESS,
    CUDA_ERROR_LAUNCH_TIMEOUT,
    CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUDA_ERROR_ASSERT,
    CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_MISALIGNED_ADDRESS,
    CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUDA_ERROR_INVALID_PC,
    CUDA_ERROR_LAUNCH_FAILED,
    CUDA_ERROR_TENSOR_MEMORY_LEAK,
    CUDA_ERROR_SYSTEM_NOT_READY,
    CUDA_ERROR_MPS_CONNECTION_FAILED,
    CUDA_ERROR_MPS_RPC_FAILURE,
    CUDA_ERROR_MPS_SERVER_NOT_READY,
    CUDA_ERROR_MPS_CLIENT_TERMINATED,
    CUDA_ERROR_EXTERNAL_DEVICE,
    CUDA_ERROR_UNKNOWN,
];

/// The codes that say that a stream, or what it waits for, is being captured.
const CAPTURE: std::ops::RangeInclusive<c_int> =
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED as c_int..=CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD as c_int;

/// The fault of a call that has returned `code`; `said` is what the driver says of it.
pub fn of(call: &str, code: c_int, said: &str) -> DriverError {
    if CAPTURE.contains(&code) && call == "cuStreamEndCapture" {
        return DriverError::refused(format!(
            "{call} was refused ({said}): while a part of a graph was captured, a closure has called what cannot be, such as \
             a wait for the stream; push that operation without device_graph()"
        ));
    }
    if CAPTURE.contains(&code) {
        return DriverError::refused(format!(
            "{call} was refused ({said}): the stream is being captured; end its capture before the engine uses it"
        ));
    }
    let advice = advice(code);
    if LOST.iter().any(|lost| *lost as c_int == code) {
        return DriverError::lost(format!(
            "{call} found the device lost ({said}): {advice}; the device takes no more work from this process"
        ));
    }
    DriverError::refused(format!("{call} failed ({said}): {advice}"))
}

/// What to do about a code.
fn advice(code: c_int) -> &'static str {
    let is = |codes: &[CUresult]| codes.iter().any(|one| *one as c_int == code);
    let kernel = [
        CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_ASSERT,
        CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUDA_ERROR_MISALIGNED_ADDRESS,
        CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUDA_ERROR_INVALID_PC,
        CUDA_ERROR_LAUNCH_FAILED,
        CUDA_ERROR_TENSOR_MEMORY_LEAK,
    ];
    let hardware = [
        CUDA_ERROR_ECC_UNCORRECTABLE,
        CUDA_ERROR_NVLINK_UNCORRECTABLE,
        CUDA_ERROR_CONTAINED,
        CUDA_ERROR_EXTERNAL_DEVICE,
        CUDA_ERROR_UNKNOWN,
    ];
    let service = [
        CUDA_ERROR_MPS_CONNECTION_FAILED,
        CUDA_ERROR_MPS_RPC_FAILURE,
        CUDA_ERROR_MPS_SERVER_NOT_READY,
        CUDA_ERROR_MPS_CLIENT_TERMINATED,
        CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
        CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED,
    ];
    if is(&kernel) {
        "a kernel that was queued before did this: run the program under compute-sanitizer to find it"
    } else if is(&hardware) {
        "look for 'Xid' in the system's log (dmesg), and at nvidia-smi -q"
    } else if is(&service) {
        "see whether the Multi-Process Service runs and has room (nvidia-cuda-mps-control)"
    } else if is(&[CUDA_ERROR_LAUNCH_TIMEOUT]) {
        "a kernel took longer than a device with a display allows: make it shorter, or use another device"
    } else if is(&[CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_DEINITIALIZED]) {
        "something has reset the device, or the process is ending: keep engines within main, and call no cuDevicePrimaryCtxReset"
    } else if is(&[CUDA_ERROR_SYSTEM_NOT_READY]) {
        "see whether the services of the driver run, such as nvidia-fabricmanager"
    } else if is(&[CUDA_ERROR_OUT_OF_MEMORY]) {
        "free memory of the device, or let fewer processes share it (nvidia-smi lists them)"
    } else if is(&[CUDA_ERROR_NOT_INITIALIZED]) {
        "the driver does not survive a fork: use devices only in the process that opened them"
    } else if is(&[CUDA_ERROR_NO_DEVICE]) {
        NO_DEVICE
    } else if is(&[CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_INVALID_DEVICE]) {
        "another process may have the device for itself: nvidia-smi lists devices, processes and compute modes"
    } else if is(&[CUDA_ERROR_STUB_LIBRARY]) {
        "this is the toolkit's stub of libcuda.so: take its folder from LD_LIBRARY_PATH"
    } else if is(&[CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE]) {
        "libcuda.so and the system's kernel module do not belong together: install one driver, and start the system again"
    } else if is(&[CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE]) {
        "a stream or an event of another device was used, or one that has been destroyed"
    } else {
        "the documentation of the CUDA driver says more of this error"
    }
}

const NO_DEVICE: &str = "see whether nvidia-smi lists one, and whether CUDA_VISIBLE_DEVICES hides it";

pub fn captured() -> DriverError {
    DriverError::refused("the stream is being captured; end its capture before the engine uses it")
}

pub fn per_thread() -> DriverError {
    DriverError::refused(
        "CU_STREAM_PER_THREAD is another stream on each thread; make a stream, or use the legacy default stream",
    )
}

pub fn no_driver() -> DriverError {
    DriverError::refused(
        "there is no CUDA driver: neither libcuda.so nor libcuda.so.1 can be loaded; install NVIDIA's driver, or add the \
         folder of its libraries to LD_LIBRARY_PATH",
    )
}

pub fn too_old(version: c_int, oldest: c_int) -> DriverError {
    let (version, oldest) = (readable(version), readable(oldest));
    DriverError::refused(format!(
        "the CUDA driver is too old: it is of CUDA {version}, and {oldest} is asked for; install a newer one"
    ))
}

pub fn missing(symbol: &str, version: c_int) -> DriverError {
    let version = if version == 0 { String::new() } else { format!(" of CUDA {}", readable(version)) };
    DriverError::refused(format!(
        "the CUDA driver{version} has no function {symbol}: install NVIDIA's driver anew, and see that nothing else is called libcuda.so"
    ))
}

pub fn forked() -> DriverError {
    DriverError::refused("the CUDA driver does not survive a fork: use devices only in the process that opened them")
}

pub fn no_device() -> DriverError {
    DriverError::refused(format!("the CUDA driver finds no device: {NO_DEVICE}"))
}

pub fn no_such_device(device: usize, devices: usize) -> DriverError {
    DriverError::refused(format!(
        "there is no CUDA device {device}: their numbers go from 0 to {}; CUDA_VISIBLE_DEVICES may hide some",
        devices - 1
    ))
}

/// 12080 is CUDA 12.8.
fn readable(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_lost_refused_or_of_a_capture() {
        for code in 1..1000 {
            let fault = of("cuCall", code, "said");
            let lost = [4, 214, 220, 226, 700, 702, 709, 710, 802, 805, 806, 807, 810, 911, 999].contains(&code)
                || (714..=719).contains(&code)
                || code == 721;
            assert_eq!(fault.is_lost(), lost, "{code}: {fault}");
            assert_eq!(fault.to_string().contains("is being captured"), (900..=908).contains(&code), "{code}: {fault}");
            assert!(fault.to_string().contains("cuCall"), "{code}: {fault}");
        }
    }

    #[test]
    fn versions_can_be_read() {
        assert_eq!([11_020, 12_080, 13_000].map(readable), ["11.2", "12.8", "13.0"]);
    }
}
