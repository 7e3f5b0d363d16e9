//! The functions of the driver's library, each looked up once. Used by `mod.rs` when the driver is
//! opened, and by `capture.rs`. The tables do not change after that, and any thread calls what is
//! in them.
//!
//! cudarc loads the library. Its own functions panic where the library or a symbol is missing, so
//! they are not called: [`Symbols::load`] looks every symbol up and says which is missing.

use crate::device::cuda::fault;
use crate::device::raw::DriverError;
use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUgraph, CUgraphExec, CUgraphNode, CUstream,
};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

/// Declares the table: for each field its symbol, then the older one that does as well, if there
/// is one, and the arguments. Every function returns a code. The older forms of functions for
/// memory do not do: their addresses and sizes have 32 bits.
macro_rules! table {
    ($($field:ident: $symbol:literal $(or $older:literal)? ($($argument:ty),*);)*) => {
        pub struct Symbols {
            $(pub $field: unsafe extern "system" fn($($argument),*) -> c_int,)*
            /// Without it there are no times.
            pub elapsed: Option<Elapsed>,
            name: Option<Text>,
            text: Option<Text>,
        }

        impl Symbols {
            /// Looks every symbol up, in a library that [`driver_version`] has found.
            ///
            /// # Errors
            /// If one is missing: the message names it, and this version.
            pub fn load(version: c_int) -> Result<Symbols, DriverError> {
                Ok(Symbols {
                    // SAFETY: the driver's documentation has these arguments for that symbol. The
                    // newer one came with CUDA 12.8.
                    elapsed: unsafe { find("cuEventElapsedTime_v2").or_else(|| find("cuEventElapsedTime")) },
                    // SAFETY: as above.
                    $($field: unsafe { find($symbol)$(.or_else(|| find($older)))? }
                        .ok_or_else(|| fault::missing($symbol, version))?,)*
                    // SAFETY: as above. Messages can do without them.
                    name: unsafe { find("cuGetErrorName") },
                    // SAFETY: as above.
                    text: unsafe { find("cuGetErrorString") },
                })
            }
        }
    };
}

table! {
    init: "cuInit" (c_uint);
    device_count: "cuDeviceGetCount" (*mut c_int);
    device: "cuDeviceGet" (*mut CUdevice, c_int);
    bus_id: "cuDeviceGetPCIBusId" (*mut c_char, c_int, CUdevice);
    retain: "cuDevicePrimaryCtxRetain" (*mut CUcontext, CUdevice);
    release: "cuDevicePrimaryCtxRelease_v2" or "cuDevicePrimaryCtxRelease" (CUdevice);
    current: "cuCtxGetCurrent" (*mut CUcontext);
    set_current: "cuCtxSetCurrent" (CUcontext);
    priorities: "cuCtxGetStreamPriorityRange" (*mut c_int, *mut c_int);
    stream_create: "cuStreamCreateWithPriority" (*mut CUstream, c_uint, c_int);
    stream_wait: "cuStreamWaitEvent" (CUstream, CUevent, c_uint);
    stream_finish: "cuStreamSynchronize" (CUstream);
    is_capturing: "cuStreamIsCapturing" (CUstream, *mut c_int);
    stream_destroy: "cuStreamDestroy_v2" or "cuStreamDestroy" (CUstream);
    event_create: "cuEventCreate" (*mut CUevent, c_uint);
    event_record: "cuEventRecord" (CUevent, CUstream);
    event_query: "cuEventQuery" (CUevent);
    event_destroy: "cuEventDestroy_v2" or "cuEventDestroy" (CUevent);
    capture_mode: "cuThreadExchangeStreamCaptureMode" (*mut c_uint);
    allocate: "cuMemAlloc_v2" (*mut CUdeviceptr, usize);
    free: "cuMemFree_v2" (CUdeviceptr);
    allocate_pinned: "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    free_pinned: "cuMemFreeHost" (*mut c_void);
    copy_in: "cuMemcpyHtoDAsync_v2" (CUdeviceptr, *const c_void, usize, CUstream);
    copy_out: "cuMemcpyDtoHAsync_v2" (*mut c_void, CUdeviceptr, usize, CUstream);
    copy_over: "cuMemcpyDtoDAsync_v2" (CUdeviceptr, CUdeviceptr, usize, CUstream);
    fill: "cuMemsetD8Async" (CUdeviceptr, u8, usize, CUstream);
}

/// A function that says how many milliseconds lie between two events.
type Elapsed = unsafe extern "system" fn(*mut f32, CUevent, CUevent) -> c_int;
/// The functions for graphs, which drivers have since CUDA 11.4.
pub struct GraphSymbols {
    pub begin: unsafe extern "system" fn(CUstream, c_int) -> c_int,
    pub end: unsafe extern "system" fn(CUstream, *mut CUgraph) -> c_int,
    pub instantiate: unsafe extern "system" fn(*mut CUgraphExec, CUgraph, u64) -> c_int,
    pub launch: unsafe extern "system" fn(CUgraphExec, CUstream) -> c_int,
    pub destroy_instance: unsafe extern "system" fn(CUgraphExec) -> c_int,
    pub destroy: unsafe extern "system" fn(CUgraph) -> c_int,
    /// Changes an instance, if the driver has that. It is the first form, which newer drivers have
    /// too.
    pub update: Option<Update>,
}

/// A function that makes an instance one of another graph. If it cannot, it says at which node and
/// why.
type Update = unsafe extern "system" fn(CUgraphExec, CUgraph, *mut CUgraphNode, *mut c_int) -> c_int;

impl GraphSymbols {
    /// Looks them up, in a library that [`driver_version`] has found. `None` if one is missing.
    pub fn load() -> Option<GraphSymbols> {
        // SAFETY: the driver's documentation has these arguments for these symbols.
        unsafe {
            Some(GraphSymbols {
                begin: find("cuStreamBeginCapture_v2")?,
                end: find("cuStreamEndCapture")?,
                instantiate: find("cuGraphInstantiateWithFlags")?,
                launch: find("cuGraphLaunch")?,
                destroy_instance: find("cuGraphExecDestroy")?,
                destroy: find("cuGraphDestroy")?,
                update: find("cuGraphExecUpdate"),
            })
        }
    }
}

/// A function that says what a code means.
type Text = unsafe extern "system" fn(c_int, *mut *const c_char) -> c_int;

/// The version of the driver, such as 12080 for CUDA 12.8.
///
/// # Errors
/// If there is no driver.
pub fn driver_version() -> Result<c_int, DriverError> {
    // SAFETY: loads libcuda.so, which runs its initialisers, as every program that uses it does.
    if !unsafe { sys::is_culib_present() } {
        return Err(fault::no_driver());
    }
    let symbol = "cuDriverGetVersion";
    // SAFETY: the driver's documentation has this argument for this symbol.
    let ask: unsafe extern "system" fn(*mut c_int) -> c_int =
        unsafe { find(symbol) }.ok_or_else(|| fault::missing(symbol, 0))?;
    let mut version = 0;
    // SAFETY: `version` is ours.
    match unsafe { ask(&mut version) } {
        0 => Ok(version),
        code => Err(fault::of(symbol, code, &format!("error {code}"))),
    }
}

/// Looks a symbol up in the driver's library, which must be present.
///
/// # Safety
/// `F` is the type of a pointer to the function of that name.
unsafe fn find<F: Copy>(symbol: &str) -> Option<F> {
    // SAFETY: the caller says that the library is present, without which this would panic, and that
    // the symbol has that type.
    unsafe { sys::culib().get::<F>(symbol.as_bytes()).ok().map(|found| *found) }
}

impl Symbols {
    /// What the driver says of a code: its number, its name and its text.
    pub fn describe(&self, code: c_int) -> String {
        let ask = |ask: Option<Text>| {
            let mut said = std::ptr::null();
            // SAFETY: `said` is ours. Unknown codes are answered with an error, or with null.
            let known = ask.is_some_and(|ask| unsafe { ask(code, &mut said) } == 0) && !said.is_null();
            // SAFETY: the driver's texts end with a zero and are there for ever.
            known.then(|| unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned())
        };
        let words: Vec<String> = [ask(self.name), ask(self.text)].into_iter().flatten().collect();
        match words.is_empty() {
            true => format!("error {code}"),
            false => format!("error {code}, {}", words.join(": ")),
        }
    }
}
