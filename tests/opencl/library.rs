//! The functions of an OpenCL driver, which is loaded when a test runs.
//!
//! A driver exports one function that leads to its platform. An object of OpenCL begins with the
//! address of a table of all functions, whose order the header `CL/cl_icd.h` keeps for ever. So no
//! other library is needed, and none that chooses between drivers.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::{null, null_mut};

/// An object of OpenCL: a platform, a device, a context, a queue, a program, a buffer, an event.
/// Any thread may use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Object(pub *mut c_void);

// SAFETY: the calls of OpenCL may be made from any thread, but for `clSetKernelArg`; who has a
// kernel keeps it behind a lock.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    pub const NONE: Object = Object(null_mut());
}

/// What a call returns: 0, or an error.
pub type Code = c_int;

pub const TRUE: u32 = 1;
pub const FALSE: u32 = 0;
pub const EVERY_DEVICE: u64 = 0xffff_ffff;
pub const READ_WRITE: u64 = 1;
pub const FILLED: u64 = 32;
pub const MAP_READ: u64 = 1;
pub const MAP_WRITE: u64 = 2;
pub const STATUS: u32 = 0x11d3;
pub const BUILD_LOG: u32 = 0x1183;
pub const COMPLETE: Code = 0;
/// A failure that a test gives to an event: CL_OUT_OF_RESOURCES.
pub const OUT_OF_RESOURCES: Code = -5;
const MOST_DEVICES: usize = 8;

macro_rules! functions {
    ($($name:ident: $place:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions, each with its place in the table.
        pub struct Functions {
            $(pub $name: unsafe extern "system" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// # Safety
            /// It is the table of an OpenCL driver, of version 1.2 or newer.
            unsafe fn of(table: *const *const c_void) -> Functions {
                Functions {
                    // SAFETY: the header has a function of that type in that place.
                    $($name: unsafe {
                        std::mem::transmute::<*const c_void, unsafe extern "system" fn($($argument),*) -> $result>(
                            *table.add($place),
                        )
                    },)*
                }
            }
        }
    };
}

functions! {
    devices: 2 (Object, u64, u32, *mut Object, *mut u32) -> Code;
    create_context: 4 (*const isize, u32, *const Object, *const c_void, *mut c_void, *mut Code) -> Object;
    create_queue: 9 (Object, Object, u64, *mut Code) -> Object;
    release_queue: 11 (Object) -> Code;
    create_buffer: 14 (Object, u64, usize, *mut c_void, *mut Code) -> Object;
    release_memory: 18 (Object) -> Code;
    create_program: 26 (Object, u32, *const *const c_char, *const usize, *mut Code) -> Object;
    build: 30 (Object, u32, *const Object, *const c_char, *const c_void, *mut c_void) -> Code;
    build_info: 33 (Object, Object, u32, usize, *mut c_void, *mut usize) -> Code;
    create_kernel: 34 (Object, *const c_char, *mut Code) -> Object;
    release_kernel: 37 (Object) -> Code;
    set_argument: 38 (Object, u32, usize, *const c_void) -> Code;
    event_info: 42 (Object, u32, usize, *mut c_void, *mut usize) -> Code;
    retain_event: 43 (Object) -> Code;
    release_event: 44 (Object) -> Code;
    flush: 46 (Object) -> Code;
    finish: 47 (Object) -> Code;
    read: 48 (Object, Object, u32, usize, usize, *mut c_void, u32, *const Object, *mut Object) -> Code;
    write: 49 (Object, Object, u32, usize, usize, *const c_void, u32, *const Object, *mut Object) -> Code;
    copy: 50 (Object, Object, Object, usize, usize, usize, u32, *const Object, *mut Object) -> Code;
    map: 56 (Object, Object, u32, u64, usize, usize, u32, *const Object, *mut Object, *mut Code) -> *mut c_void;
    unmap: 58 (Object, Object, *mut c_void, u32, *const Object, *mut Object) -> Code;
    launch: 59 (Object, Object, u32, *const usize, *const usize, *const usize, u32, *const Object, *mut Object) -> Code;
    create_user_event: 84 (Object, *mut Code) -> Object;
    set_status: 85 (Object, Code) -> Code;
    fill: 102 (Object, Object, *const c_void, usize, usize, usize, u32, *const Object, *mut Object) -> Code;
    marker: 105 (Object, u32, *const Object, *mut Object) -> Code;
    barrier: 106 (Object, u32, *const Object, *mut Object) -> Code;
}

/// A driver with its devices and one context for all of them. It stays loaded.
pub struct Library {
    pub call: Functions,
    pub devices: Vec<Object>,
    pub context: Object,
}

/// What a call said, in words.
///
/// # Errors
/// If it is not 0.
pub fn check(what: &str, code: Code) -> Result<(), String> {
    match code {
        0 => Ok(()),
        code => Err(format!("{what}: OpenCL's error {code}")),
    }
}

/// As [`check`], for a call that returns what it has made.
///
/// # Errors
/// If there is an error.
pub fn made<T>(what: &str, make: impl FnOnce(*mut Code) -> T) -> Result<T, String> {
    let mut code = 0;
    let made = make(&mut code);
    check(what, code).map(|()| made)
}

impl Library {
    /// Loads a driver.
    ///
    /// # Errors
    /// If it is not there, or none, or finds no device.
    pub fn load(path: &str) -> Result<Library, String> {
        let platform = platform(path)?;
        // SAFETY: an object of a driver begins with the address of its table.
        let call = unsafe { Functions::of(*platform.0.cast::<*const *const c_void>()) };
        let (mut devices, mut count) = (vec![Object::NONE; MOST_DEVICES], 0);
        // SAFETY: there is room for so many devices.
        check("clGetDeviceIDs", unsafe {
            (call.devices)(platform, EVERY_DEVICE, MOST_DEVICES as u32, devices.as_mut_ptr(), &mut count)
        })?;
        devices.truncate(count as usize);
        let context = made("clCreateContext", |code| {
            // SAFETY: the devices are there, and nobody wants to be called back.
            unsafe { (call.create_context)(null(), count, devices.as_ptr(), null(), null_mut(), code) }
        })?;
        Ok(Library { call, devices, context })
    }

    /// Builds a program for every device.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn build(&self, source: &str) -> Result<Object, String> {
        let (text, length) = (source.as_ptr().cast::<c_char>(), source.len());
        let program = made("clCreateProgramWithSource", |code| {
            // SAFETY: one text, of that length.
            unsafe { (self.call.create_program)(self.context, 1, &text, &length, code) }
        })?;
        // SAFETY: the program is ours. Without a list of devices it is built for all.
        let code = unsafe { (self.call.build)(program, 0, null(), null(), null(), null_mut()) };
        check("clBuildProgram", code).map_err(|error| {
            let mut log = vec![0_u8; 4000];
            // SAFETY: there is room for so many bytes.
            let _ = unsafe {
                let to = log.as_mut_ptr().cast();
                (self.call.build_info)(program, self.devices[0], BUILD_LOG, log.len(), to, null_mut())
            };
            format!("{error}: {}", String::from_utf8_lossy(&log).trim_end_matches('\0'))
        })?;
        Ok(program)
    }
}

/// Loads a driver, and asks it for its platform.
fn platform(path: &str) -> Result<Object, String> {
    let name = CString::new(path).map_err(|_| "a path has no zero".to_owned())?;
    // SAFETY: a driver's initialisers run, as in every program that uses it.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: after a failure there is a text.
        let why = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(why.to_string_lossy().into_owned());
    }
    type Find = unsafe extern "system" fn(*const c_char) -> *mut c_void;
    type Platforms = unsafe extern "system" fn(u32, *mut Object, *mut u32) -> Code;
    // SAFETY: the library is loaded.
    let find = unsafe { libc::dlsym(library, c"clGetExtensionFunctionAddress".as_ptr()) };
    if find.is_null() {
        return Err(format!("{path} is no driver of OpenCL"));
    }
    // SAFETY: the function has that type in every driver.
    let platforms = unsafe { std::mem::transmute::<*mut c_void, Find>(find)(c"clIcdGetPlatformIDsKHR".as_ptr()) };
    if platforms.is_null() {
        return Err(format!("{path} is no driver that can be installed beside others (cl_khr_icd)"));
    }
    let (mut platform, mut count) = (Object::NONE, 0);
    // SAFETY: as above; there is room for one platform.
    let code = unsafe { std::mem::transmute::<*mut c_void, Platforms>(platforms)(1, &mut platform, &mut count) };
    check("clIcdGetPlatformIDsKHR", code)?;
    if platform == Object::NONE {
        return Err(format!("{path} has no platform"));
    }
    Ok(platform)
}
