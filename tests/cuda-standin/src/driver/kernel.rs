//! Kernels: functions of a test. What a module is made of is not read.

use crate::driver::{current, driver};
use crate::world::{code, Command};
use std::ffi::{c_char, c_uint, c_void, CStr};

driver! {
    fn [cuModuleLoadData](module: *mut usize, _image: *const c_void) |world| {
        current(&world)?;
        *module = world.handle();
    }
    fn [cuModuleUnload](_module: usize) |world| {}
    fn [cuModuleGetFunction](function: *mut usize, _module: usize, name: *const c_char) |world| {
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        if !world.kernels.contains_key(&name) {
            return Err(code::NOT_FOUND);
        }
        let handle = world.handle();
        world.functions.insert(handle, name);
        *function = handle;
    }
    fn [cuLaunchKernel](
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, _shared: c_uint, stream: usize, arguments: *mut *mut c_void, _extra: *mut *mut c_void,
    ) |world| {
        current(&world)?;
        let name = world.functions.get(&function).cloned().ok_or(code::INVALID_HANDLE)?;
        let sizes = world.kernels[&name].sizes.clone();
        let copied = |(at, size): (usize, &usize)| {
            std::slice::from_raw_parts((*arguments.add(at)).cast::<u8>(), *size).to_vec()
        };
        let arguments = sizes.iter().enumerate().map(copied).collect();
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        world.push(stream, Command::Kernel { name, arguments, grid, block })?;
    }
}
