//! Devices and their primary contexts. The context of device `n` is the address `n + 1`.

use crate::driver::{current, driver};
use crate::held::{Held, CURRENT};
use crate::world::code;
use std::ffi::{c_char, c_int, c_uint};

fn check(world: &Held, device: c_int) -> Result<usize, i32> {
    usize::try_from(device).ok().filter(|device| *device < world.devices.len()).ok_or(code::INVALID_DEVICE)
}

driver! {
    fn [cuInit](_flags: c_uint) |world| {
        if world.devices.is_empty() {
            return Err(code::NO_DEVICE);
        }
    }
    fn [cuDriverGetVersion](version: *mut c_int) |world| {
        *version = world.version;
    }
    fn [cuDeviceGetCount](count: *mut c_int) |world| {
        *count = world.devices.len() as c_int;
    }
    fn [cuDeviceGet](device: *mut c_int, ordinal: c_int) |world| {
        *device = check(&world, ordinal)? as c_int;
    }
    fn [cuDeviceGetAttribute](value: *mut c_int, which: c_int, device: c_int) |world| {
        check(&world, device)?;
        *value = match which {
            75 => 9,   // Compute capability: 9.0.
            16 => 132, // Multiprocessors.
            115 => 1,  // Ordered allocation.
            _ => 0,
        };
    }
    fn [cuDeviceGetName](name: *mut c_char, room: c_int, device: c_int) |world| {
        check(&world, device)?;
        write("stand-in", name, room);
    }
    fn [cuDeviceGetPCIBusId](address: *mut c_char, room: c_int, device: c_int) |world| {
        let device = check(&world, device)?;
        write(&world.devices[device].address, address, room);
    }
    fn [cuDeviceTotalMem_v2 cuDeviceTotalMem](bytes: *mut usize, device: c_int) |world| {
        check(&world, device)?;
        *bytes = 1 << 34;
    }
    fn [cuDevicePrimaryCtxRetain](context: *mut usize, device: c_int) |world| {
        let device = check(&world, device)?;
        let lost = world.devices[device].lost;
        if lost != 0 {
            return Err(lost);
        }
        world.devices[device].retained += 1;
        *context = device + 1;
    }
    fn [cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxRelease](device: c_int) |world| {
        let device = check(&world, device)?;
        if world.devices[device].retained == 0 {
            world.report("a primary context was released more often than it was retained".to_owned());
            return Err(code::INVALID_CONTEXT);
        }
        if world.devices[device].lost != 0 {
            world.report("the primary context of a lost device was released".to_owned());
        }
        world.devices[device].retained -= 1;
        if world.devices[device].retained == 0 && world.streams.values().any(|stream| stream.device == device) {
            world.report("a primary context has gone before its streams".to_owned());
        }
    }
    fn [cuCtxGetCurrent](context: *mut usize) |world| {
        *context = CURRENT.get();
    }
    fn [cuCtxSetCurrent](context: usize) |world| {
        let known = context == 0 || world.devices.get(context - 1).is_some_and(|device| device.retained > 0);
        if !known {
            world.report("a context that is gone was made current".to_owned());
            return Err(code::INVALID_CONTEXT);
        }
        CURRENT.set(context);
    }
    fn [cuCtxGetStreamPriorityRange](least: *mut c_int, greatest: *mut c_int) |world| {
        current(&world)?;
        (*least, *greatest) = (0, -5);
    }
    fn [cuCtxSynchronize]() |world| {
        let device = current(&world)?;
        let streams: Vec<usize> =
            world.streams.iter().filter(|(_, stream)| stream.device == device).map(|(&handle, _)| handle).collect();
        for stream in streams {
            crate::run::until(&mut world, stream, |world| world.is_idle(stream))?;
            let clock = world.streams[&stream].clock.clone();
            world.host_learns(&clock);
        }
    }
}

/// # Safety
/// There is so much room.
unsafe fn write(text: &str, to: *mut c_char, room: c_int) {
    let kept = text.len().min(room.max(1) as usize - 1);
    // SAFETY: as the caller says.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), kept);
        to.add(kept).write(0);
    }
}

fn known(error: c_int) -> Option<(&'static [u8], &'static [u8])> {
    Some(match error {
        0 => (b"CUDA_SUCCESS\0", b"no error\0"),
        2 => (b"CUDA_ERROR_OUT_OF_MEMORY\0", b"out of memory\0"),
        100 => (b"CUDA_ERROR_NO_DEVICE\0", b"no CUDA-capable device is detected\0"),
        600 => (b"CUDA_ERROR_NOT_READY\0", b"device not ready\0"),
        700 => (b"CUDA_ERROR_ILLEGAL_ADDRESS\0", b"an illegal memory access was encountered\0"),
        719 => (b"CUDA_ERROR_LAUNCH_FAILED\0", b"unspecified launch failure\0"),
        900 => (b"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED\0", b"operation not permitted when stream is capturing\0"),
        _ => return None,
    })
}

/// Works whatever has happened, as with the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: c_int, text: *mut *const u8) -> i32 {
    let said = known(error);
    // SAFETY: the caller keeps to the driver's documentation.
    unsafe { *text = said.map_or(std::ptr::null(), |(name, _)| name.as_ptr()) };
    said.map_or(code::INVALID_VALUE, |_| 0)
}

/// As `cuGetErrorName`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: c_int, text: *mut *const u8) -> i32 {
    let said = known(error);
    // SAFETY: the caller keeps to the driver's documentation.
    unsafe { *text = said.map_or(std::ptr::null(), |(_, text)| text.as_ptr()) };
    said.map_or(code::INVALID_VALUE, |_| 0)
}
