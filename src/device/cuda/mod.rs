//! The back end for CUDA: [`Cuda`], over the driver that the machine has.
//!
//! A program opens it. If it gives no back end, `src/engine/gpu/admit.rs` does. Any thread calls
//! it, through the seams of `src/device/`. Two things change once it is open, both atomic: the
//! first thread to enter a device sets its `context`, and any thread whose call finds a device lost
//! sets `lost`.
//!
//! cudarc loads the driver's library; [`symbols`] looks up what is called, once. cudarc's own calls
//! panic where the library or a symbol is missing, so none of them is made. [`fault`] makes the
//! errors, [`memory`] allocates and copies, and [`cores`] finds the cores near a device. [`graphs`]
//! captures streams for the engine; [`capture`] protects captures that the program makes itself.

mod capture;
mod cores;
mod fault;
mod graphs;
mod memory;
mod symbols;

use crate::device::backend::{Backend, Class};
use crate::device::clock::DeviceClock;
use crate::device::cuda::symbols::{GraphSymbols, Symbols};
use crate::device::graphs::DeviceGraphs;
use crate::device::memory::DeviceMemory;
use crate::device::raw::{DriverError, Previous, RawMark, RawStream};
use crate::sync::{AtomicBool, AtomicPtr, Ordering};
use cudarc::driver::sys::{CUctx_st, CUdevice, CUevent_flags_enum, CUresult, CUstream_flags_enum};
use std::ffi::{c_char, c_int, CStr};
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;

/// The oldest driver that will do: CUDA 11.2, which brought ordered allocation. It has every call
/// that this back end cannot do without.
const OLDEST: c_int = 11_020;

/// `CU_STREAM_PER_THREAD`: the calling thread's own default stream.
const PER_THREAD: usize = 2;

/// CUDA, as a back end of engines. Needs the feature `cuda`, and Rust 1.88.
///
/// The driver is found when a program runs, not when it is built: a program with the feature starts
/// on machines that have none. Streams are made non-blocking in the primary context of each device,
/// which is retained when the device is first used. Events are made without timing, but for
/// operations that are profiled.
///
/// ```no_run
/// use seriatim::gpu::{Backend, Cuda};
/// use seriatim::{Context, Engine, Error};
///
/// let cuda = Cuda::open()?;
/// println!("{} devices; near the first: cores {:?}", cuda.devices()?, cuda.cores(0));
/// let engine = Engine::builder().gpus(cuda).build()?;
/// engine.op("kernel").context(Context::gpu(0)).push(|run| assert!(run.stream().is_some()))?;
/// engine.wait_for_all()?;
/// # Ok::<(), Error>(())
/// ```
pub struct Cuda {
    symbols: Symbols,
    /// `None` if the driver has no graphs.
    graphs: Option<GraphSymbols>,
    devices: Box<[Primary]>,
    /// Whether a call has said that a device is lost: then nothing is given back any more.
    lost: AtomicBool,
    /// The process that has opened the driver, which does not survive a fork.
    process: u32,
}

/// A device and its primary context, null until it has been retained.
struct Primary {
    device: CUdevice,
    context: AtomicPtr<CUctx_st>,
}

impl Cuda {
    /// Loads the driver and asks it for its devices.
    ///
    /// # Errors
    /// If there is no driver, if it is older than CUDA 11.2 or lacks a function, or if it finds no
    /// device. The message says which, and what to do.
    ///
    /// ```
    /// use seriatim::gpu::{Backend, Cuda};
    ///
    /// match Cuda::open() {
    ///     Ok(cuda) => println!("{} devices", cuda.devices()?),
    ///     Err(fault) => println!("without devices: {fault}"),
    /// }
    /// # Ok::<(), seriatim::gpu::DriverError>(())
    /// ```
    pub fn open() -> Result<Arc<Cuda>, DriverError> {
        let version = symbols::driver_version()?;
        if version < OLDEST {
            return Err(fault::too_old(version, OLDEST));
        }
        let mut cuda = Cuda {
            symbols: Symbols::load(version)?,
            graphs: GraphSymbols::load(),
            devices: Box::default(),
            lost: AtomicBool::new(false),
            process: std::process::id(),
        };
        // SAFETY: the flags must be 0, and are.
        cuda.check("cuInit", unsafe { (cuda.symbols.init)(0) })?;
        let mut count = 0;
        // SAFETY: `count` is ours.
        cuda.check("cuDeviceGetCount", unsafe { (cuda.symbols.device_count)(&mut count) })?;
        if count <= 0 {
            return Err(fault::no_device());
        }
        let primary = |ordinal| {
            let mut device = 0;
            // SAFETY: `device` is ours.
            cuda.check("cuDeviceGet", unsafe { (cuda.symbols.device)(&mut device, ordinal) })?;
            Ok(Primary { device, context: AtomicPtr::new(null_mut()) })
        };
        cuda.devices = (0..count).map(primary).collect::<Result<_, DriverError>>()?;
        Ok(Arc::new(cuda))
    }

    /// What a call has returned.
    fn check(&self, call: &str, code: c_int) -> Result<(), DriverError> {
        if code == CUresult::CUDA_SUCCESS as c_int {
            return Ok(());
        }
        let fault = fault::of(call, code, &self.symbols.describe(code));
        if fault.is_lost() {
            // It keeps what is given back from the driver, for which nothing else is read.
            self.lost.store(true, Ordering::Relaxed);
        }
        Err(fault)
    }

    /// The functions for graphs.
    fn graph_symbols(&self) -> Result<&GraphSymbols, DriverError> {
        self.graphs.as_ref().ok_or_else(|| DriverError::refused("the CUDA driver has no graphs: install a newer one"))
    }

    /// Whether a call has said that a device is lost.
    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Makes an event. On a thread that has entered the device.
    fn event(&self, device: usize, flags: CUevent_flags_enum) -> Result<RawMark, DriverError> {
        self.primary(device)?;
        let mut event = null_mut();
        // SAFETY: `event` is ours, and the thread has entered the device.
        self.check("cuEventCreate", unsafe { (self.symbols.event_create)(&mut event, flags as u32) })?;
        Ok(RawMark::new(event.cast()))
    }

    /// The context that is current on the calling thread.
    fn current(&self) -> Result<*mut CUctx_st, DriverError> {
        let mut current = null_mut();
        // SAFETY: `current` is ours.
        self.check("cuCtxGetCurrent", unsafe { (self.symbols.current)(&mut current) })?;
        Ok(current)
    }

    /// Makes a context of [`Cuda::context`] current on the calling thread.
    fn set_current(&self, context: *mut CUctx_st) -> Result<(), DriverError> {
        // SAFETY: the context is retained until this back end is dropped.
        self.check("cuCtxSetCurrent", unsafe { (self.symbols.set_current)(context) })
    }

    fn primary(&self, device: usize) -> Result<&Primary, DriverError> {
        self.devices.get(device).ok_or_else(|| fault::no_such_device(device, self.devices.len()))
    }

    /// The primary context of a device, retained once for this back end.
    fn context(&self, primary: &Primary) -> Result<*mut CUctx_st, DriverError> {
        // Acquire: with the exchange below, so that what the driver wrote in the retaining call has
        // happened before other threads use the context.
        let known = primary.context.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let mut context = null_mut();
        // SAFETY: `context` is ours, and the device is one that the driver has given.
        let code = unsafe { (self.symbols.retain)(&mut context, primary.device) };
        self.check("cuDevicePrimaryCtxRetain", code)?;
        match primary.context.compare_exchange(null_mut(), context, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(context),
            Err(other) => {
                // Another thread was first. The driver counts: this one's is given back.
                // SAFETY: this thread has retained it just now.
                unsafe { (self.symbols.release)(primary.device) };
                Ok(other)
            }
        }
    }
}

// SAFETY: streams are in order, and events are the driver's.
unsafe impl Backend for Cuda {
    fn name(&self) -> &str {
        "CUDA"
    }

    fn devices(&self) -> Result<usize, DriverError> {
        Ok(self.devices.len())
    }

    fn enter(&self, device: usize) -> Result<Previous, DriverError> {
        if std::process::id() != self.process {
            return Err(fault::forked());
        }
        let context = self.context(self.primary(device)?)?;
        let previous = self.current()?;
        self.set_current(context)?;
        // As in `leave`. If the mode is refused, captures of the program may be spoiled, no more.
        let _ = self.check("cuThreadExchangeStreamCaptureMode", capture::enter(&self.symbols));
        Ok(Previous::new(previous.cast()))
    }

    /// The driver answers from what it keeps of the thread, without the device.
    fn reenter(&self, device: usize) -> Result<(), DriverError> {
        let context = self.context(self.primary(device)?)?;
        if self.current()? == context {
            return Ok(());
        }
        self.set_current(context)
    }

    unsafe fn leave(&self, previous: Previous) {
        let _ = self.check("cuThreadExchangeStreamCaptureMode", capture::leave(&self.symbols));
        // SAFETY: it was current on this thread when `enter` asked, and its owner keeps it.
        let code = unsafe { (self.symbols.set_current)(previous.raw().cast()) };
        // It fails only for a lost device, which is remembered; every later call says so, too.
        let _ = self.check("cuCtxSetCurrent", code);
    }

    fn stream(&self, device: usize, class: Class) -> Result<RawStream, DriverError> {
        self.primary(device)?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: both are ours.
        let code = unsafe { (self.symbols.priorities)(&mut least, &mut greatest) };
        self.check("cuCtxGetStreamPriorityRange", code)?;
        let priority = if class == Class::Urgent { greatest } else { least };
        let flags = CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        let mut stream = null_mut();
        // SAFETY: `stream` is ours, and the thread has entered the device.
        let code = unsafe { (self.symbols.stream_create)(&mut stream, flags, priority) };
        self.check("cuStreamCreateWithPriority", code)?;
        Ok(RawStream::new(stream.cast()))
    }

    fn mark(&self, device: usize) -> Result<RawMark, DriverError> {
        self.event(device, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING)
    }

    unsafe fn record(&self, mark: RawMark, stream: RawStream) -> Result<(), DriverError> {
        // SAFETY: by the contract, this back end has made both.
        let code = unsafe { (self.symbols.event_record)(mark.raw().cast(), stream.raw().cast()) };
        self.check("cuEventRecord", code)
    }

    unsafe fn wait(&self, stream: RawStream, mark: RawMark) -> Result<(), DriverError> {
        // SAFETY: as in `record`. There are no flags.
        let code = unsafe { (self.symbols.stream_wait)(stream.raw().cast(), mark.raw().cast(), 0) };
        self.check("cuStreamWaitEvent", code)
    }

    unsafe fn reached(&self, mark: RawMark) -> Result<bool, DriverError> {
        // SAFETY: as in `record`.
        let code = unsafe { (self.symbols.event_query)(mark.raw().cast()) };
        if code == CUresult::CUDA_ERROR_NOT_READY as c_int {
            return Ok(false);
        }
        self.check("cuEventQuery", code).map(|()| true)
    }

    unsafe fn finish(&self, stream: RawStream) -> Result<(), DriverError> {
        // SAFETY: as in `record`.
        self.check("cuStreamSynchronize", unsafe { (self.symbols.stream_finish)(stream.raw().cast()) })
    }

    unsafe fn drop_stream(&self, stream: RawStream) {
        if self.is_lost() {
            return; // A device may be lost while what it has is given back, one by one.
        }
        // SAFETY: as in `record`; its owner gives it back and uses it no more.
        let code = unsafe { (self.symbols.stream_destroy)(stream.raw().cast()) };
        // The result is not used: `check` remembers a lost device.
        let _ = self.check("cuStreamDestroy", code);
    }

    unsafe fn drop_mark(&self, mark: RawMark) {
        if self.is_lost() {
            return; // As in `drop_stream`.
        }
        // SAFETY: as in `drop_stream`. The driver keeps what streams still wait for.
        let code = unsafe { (self.symbols.event_destroy)(mark.raw().cast()) };
        let _ = self.check("cuEventDestroy", code);
    }

    unsafe fn check_stream(&self, stream: RawStream) -> Result<(), DriverError> {
        // The legacy default stream, null or 1, is one stream of the device like any other.
        if stream.raw().addr() == PER_THREAD {
            return Err(fault::per_thread());
        }
        let mut status = 0;
        // SAFETY: the stream is the driver's, by the contract, and `status` is ours.
        let code = unsafe { (self.symbols.is_capturing)(stream.raw().cast(), &mut status) };
        self.check("cuStreamIsCapturing", code)?;
        match status {
            0 => Ok(()),
            _ => Err(fault::captured()),
        }
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        Some(self)
    }

    fn clock(&self) -> Option<&dyn DeviceClock> {
        self.symbols.elapsed.map(|_| self as &dyn DeviceClock)
    }

    fn graphs(&self) -> Option<&dyn DeviceGraphs> {
        self.graphs.is_some().then_some(self)
    }

    fn cores(&self, device: usize) -> Vec<usize> {
        let Ok(primary) = self.primary(device) else { return Vec::new() };
        // Twelve characters and a zero; the driver asks for room for 13.
        let mut address: [c_char; 32] = [0; 32];
        // SAFETY: the length is less than the room, so that there is a zero at the end.
        let code = unsafe { (self.symbols.bus_id)(address.as_mut_ptr(), 31, primary.device) };
        if code != CUresult::CUDA_SUCCESS as c_int {
            return Vec::new();
        }
        // SAFETY: the last character is a zero.
        let address = unsafe { CStr::from_ptr(address.as_ptr()) };
        address.to_str().map(cores::near).unwrap_or_default()
    }
}

// SAFETY: events with timing are events.
unsafe impl DeviceClock for Cuda {
    fn timed_mark(&self, device: usize) -> Result<RawMark, DriverError> {
        self.event(device, CUevent_flags_enum::CU_EVENT_DEFAULT)
    }

    unsafe fn elapsed(&self, from: RawMark, to: RawMark) -> Result<i64, DriverError> {
        let Some(ask) = self.symbols.elapsed else { return Err(DriverError::refused("the driver has no times")) };
        let mut milliseconds = 0.0;
        // SAFETY: `milliseconds` is ours, and by the contract this back end has made both events.
        let code = unsafe { ask(&mut milliseconds, from.raw().cast(), to.raw().cast()) };
        self.check("cuEventElapsedTime", code)?;
        Ok((f64::from(milliseconds) * 1e6).round() as i64)
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if *self.lost.get_mut() || std::process::id() != self.process {
            return; // The driver takes no more calls; the end of the process cleans up.
        }
        for primary in &mut self.devices {
            if !primary.context.get_mut().is_null() {
                // SAFETY: `context` has retained it once, and nobody calls this back end any more.
                unsafe { (self.symbols.release)(primary.device) };
            }
        }
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda").field("devices", &self.devices.len()).finish_non_exhaustive()
    }
}
