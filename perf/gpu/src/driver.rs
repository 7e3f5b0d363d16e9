//! Bare calls of the driver, for what the engine's figures are beside, and the package's kernels.
//!
//! The symbols are looked up one by one in the library that the engine's back end has loaded.

use crate::mix::{Mix, Mixture};
use crate::tiles::Matrix;
use libloading::Library;
use seriatim::gpu::{Backend, RawMemory, RawStream};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

/// The kernels, with the zero at the end that the driver asks for.
const KERNELS: &str = concat!(include_str!("kernels/kernels.ptx"), "\0");
/// Threads of a block.
const BLOCK: usize = 128;

type Handle = *mut c_void;
type HostFunction = unsafe extern "C" fn(*mut c_void);

/// The functions of the driver, each of which returns a code.
macro_rules! table {
    ($($field:ident: $symbol:literal ($($argument:ty),* $(,)?);)*) => {
        struct Symbols {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            _library: Library,
        }

        impl Symbols {
            fn load() -> Result<Symbols, String> {
                // The stand-in goes by the first name only.
                let names = ["libcuda.so", "libcuda.so.1"];
                // SAFETY: the back end has loaded it already.
                let found = names.iter().find_map(|name| unsafe { Library::new(name) }.ok());
                let library = found.ok_or("libcuda.so cannot be opened a second time")?;
                Ok(Symbols {
                    // SAFETY: the driver's documentation has these arguments for that symbol.
                    $($field: *unsafe { library.get($symbol.as_bytes()) }
                        .map_err(|error| format!("the driver has no {}: {error}", $symbol))?,)*
                    _library: library,
                })
            }
        }
    };
}

table! {
    load: "cuModuleLoadData" (*mut Handle, *const c_void);
    function: "cuModuleGetFunction" (*mut Handle, Handle, *const i8);
    launch: "cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void,
    );
    stream: "cuStreamCreateWithPriority" (*mut Handle, c_uint, c_int);
    drop_stream: "cuStreamDestroy_v2" (Handle);
    synchronize: "cuStreamSynchronize" (Handle);
    stream_query: "cuStreamQuery" (Handle);
    wait: "cuStreamWaitEvent" (Handle, Handle, c_uint);
    event: "cuEventCreate" (*mut Handle, c_uint);
    record: "cuEventRecord" (Handle, Handle);
    query: "cuEventQuery" (Handle);
    host: "cuLaunchHostFunc" (Handle, HostFunction, *mut c_void);
    allocate: "cuMemAlloc_v2" (*mut u64, usize);
    free: "cuMemFree_v2" (u64);
    allocate_pinned: "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    copy_in: "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, Handle);
    copy_out: "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, Handle);
    zero: "cuMemsetD8Async" (u64, u8, usize, Handle);
    begin_capture: "cuStreamBeginCapture_v2" (Handle, c_int);
    end_capture: "cuStreamEndCapture" (Handle, *mut Handle);
    instantiate: "cuGraphInstantiateWithFlags" (*mut Handle, Handle, u64);
    launch_graph: "cuGraphLaunch" (Handle, Handle);
}

/// The kernels of one device.
struct Kernels {
    mix: Handle,
    fill: Handle,
    compare: Handle,
}

/// The driver's functions, and the kernels on every device that is used.
pub struct Driver {
    symbols: Symbols,
    kernels: Vec<Kernels>,
}

// SAFETY: functions of the driver may be called on any thread, and handles used there.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

/// A stream of the bare calls.
#[derive(Clone, Copy, Debug)]
pub struct Stream(Handle);

/// An event without times.
#[derive(Clone, Copy, Debug)]
pub struct Event(Handle);

/// A graph of the driver that can be launched.
#[derive(Clone, Copy, Debug)]
pub struct Graph(Handle);

impl Stream {
    /// One of the engine's, for bare calls.
    pub fn of(raw: RawStream) -> Stream {
        Stream(raw.raw())
    }

    /// For what takes the engine's streams.
    pub fn raw(self) -> RawStream {
        RawStream::new(self.0)
    }
}

fn checked(call: &str, code: c_int) -> Result<(), String> {
    match code {
        0 => Ok(()),
        code => Err(format!("{call} returned {code}")),
    }
}

const NON_BLOCKING: c_uint = 1;
const WITHOUT_TIMES: c_uint = 2;
const PORTABLE: c_uint = 1;
const NOT_READY: c_int = 600;
const RELAXED: c_int = 2;

// SAFETY (of the blocks below that have no other): places for results are the callee's own; handles
// are made by this file and never given back; and the caller of an unsafe method has the memory.
impl Driver {
    /// Loads the kernels on the first two devices, as far as there are. The first is current on
    /// this thread from then on.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load(backend: &dyn Backend) -> Result<Driver, String> {
        let mut driver = Driver { symbols: Symbols::load()?, kernels: Vec::new() };
        let devices = backend.devices().map_err(|error| error.to_string())?.min(2);
        for device in (0..devices).rev() {
            // Never left, so that it stays current.
            backend.enter(device).map_err(|error| error.to_string())?;
            let kernels = driver.kernels()?;
            driver.kernels.insert(0, kernels);
        }
        Ok(driver)
    }

    fn kernels(&self) -> Result<Kernels, String> {
        let mut module = null_mut();
        // SAFETY: as above; the text ends with a zero.
        checked("cuModuleLoadData", unsafe { (self.symbols.load)(&mut module, KERNELS.as_ptr().cast()) })?;
        let find = |name: &std::ffi::CStr| {
            let mut found = null_mut();
            // SAFETY: as above.
            let code = unsafe { (self.symbols.function)(&mut found, module, name.as_ptr().cast()) };
            checked("cuModuleGetFunction", code).map(|()| found)
        };
        Ok(Kernels { mix: find(c"mix")?, fill: find(c"fill")?, compare: find(c"compare")? })
    }

    /// How many devices have the kernels.
    pub fn devices(&self) -> usize {
        self.kernels.len()
    }

    /// # Safety
    /// The kernel takes so many arguments of eight bytes, and what it uses is the caller's.
    unsafe fn launch<const N: usize>(
        &self,
        kernel: Handle,
        stream: Handle,
        threads: usize,
        mut arguments: [u64; N],
    ) -> Result<(), String> {
        let mut places = [null_mut::<c_void>(); N];
        let each = arguments.iter_mut().zip(&mut places);
        each.for_each(|(argument, place)| *place = (&raw mut *argument).cast());
        let block = threads.clamp(1, BLOCK);
        let grid = u32::try_from(threads.div_ceil(block).max(1)).map_err(|_| "a grid is too large".to_owned())?;
        // SAFETY: by the contract.
        let code = unsafe {
            (self.symbols.launch)(kernel, grid, 1, 1, block as u32, 1, 1, 0, stream, places.as_mut_ptr(), null_mut())
        };
        checked("cuLaunchKernel", code)
    }

    /// Queues a filling of a rectangle of the symmetric matrix of `n` rows, from a row and a column
    /// on.
    ///
    /// # Safety
    /// The matrix is of the device, and the caller's until the stream is done.
    ///
    /// # Errors
    /// What the driver says.
    pub unsafe fn fill(
        &self,
        stream: RawStream,
        a: Matrix,
        (row, column): (usize, usize),
        n: usize,
    ) -> Result<(), String> {
        let sizes = [a.rows, a.columns, a.right, row, column, n].map(|size| size as u64);
        let [rows, columns, right, row, column, n] = sizes;
        let arguments = [a.at.raw().addr() as u64, rows, columns, right, row, column, n];
        // SAFETY: by the contract.
        unsafe { self.launch(self.kernels[0].fill, stream.raw(), a.rows * a.columns, arguments) }
    }

    /// Queues a comparison: `worst` gets the bits of the largest difference of two matrices, and
    /// those of the largest number of the second, if they are larger than what is there.
    ///
    /// # Safety
    /// As for [`Driver::fill`].
    ///
    /// # Errors
    /// What the driver says.
    pub unsafe fn compare(
        &self,
        stream: RawStream,
        (a, b): (Matrix, Matrix),
        lower: bool,
        worst: RawMemory,
    ) -> Result<(), String> {
        let [right_a, right_b, rows, columns] = [a.right, b.right, a.rows, a.columns].map(|size| size as u64);
        let [a_at, b_at, worst] = [a.at, b.at, worst].map(|at| at.raw().addr() as u64);
        let arguments = [a_at, right_a, b_at, right_b, rows, columns, u64::from(lower), worst];
        // SAFETY: by the contract.
        unsafe { self.launch(self.kernels[0].compare, stream.raw(), a.rows * a.columns, arguments) }
    }

    /// # Errors
    /// What the driver says; likewise below.
    pub fn stream(&self) -> Result<Stream, String> {
        let mut stream = null_mut();
        // SAFETY: as above.
        let code = unsafe { (self.symbols.stream)(&mut stream, NON_BLOCKING, 0) };
        checked("cuStreamCreateWithPriority", code).map(|()| Stream(stream))
    }

    /// Gives a stream back.
    ///
    /// # Safety
    /// [`Driver::stream`] has returned it, it is done, and nobody uses it any more.
    pub unsafe fn drop_stream(&self, stream: Stream) -> Result<(), String> {
        // SAFETY: by the contract.
        checked("cuStreamDestroy", unsafe { (self.symbols.drop_stream)(stream.0) })
    }

    pub fn event(&self) -> Result<Event, String> {
        let mut event = null_mut();
        // SAFETY: as above.
        checked("cuEventCreate", unsafe { (self.symbols.event)(&mut event, WITHOUT_TIMES) }).map(|()| Event(event))
    }

    pub fn synchronize(&self, stream: Stream) -> Result<(), String> {
        // SAFETY: as above.
        checked("cuStreamSynchronize", unsafe { (self.symbols.synchronize)(stream.0) })
    }

    pub fn record(&self, event: Event, stream: Stream) -> Result<(), String> {
        // SAFETY: as above.
        checked("cuEventRecord", unsafe { (self.symbols.record)(event.0, stream.0) })
    }

    pub fn wait(&self, stream: Stream, event: Event) -> Result<(), String> {
        // SAFETY: as above.
        checked("cuStreamWaitEvent", unsafe { (self.symbols.wait)(stream.0, event.0, 0) })
    }

    /// Whether the device has come to the event.
    pub fn reached(&self, event: Event) -> Result<bool, String> {
        // SAFETY: as above.
        match unsafe { (self.symbols.query)(event.0) } {
            NOT_READY => Ok(false),
            code => checked("cuEventQuery", code).map(|()| true),
        }
    }

    /// Whether the stream has nothing left to do.
    pub fn is_idle(&self, stream: Stream) -> Result<bool, String> {
        // SAFETY: as above.
        match unsafe { (self.symbols.stream_query)(stream.0) } {
            NOT_READY => Ok(false),
            code => checked("cuStreamQuery", code).map(|()| true),
        }
    }

    /// Has the driver call a function of the host.
    ///
    /// # Safety
    /// The function may be called with that word, once, on any thread.
    pub unsafe fn call_back(&self, stream: Stream, run: HostFunction, word: *mut c_void) -> Result<(), String> {
        // SAFETY: by the contract.
        checked("cuLaunchHostFunc", unsafe { (self.symbols.host)(stream.0, run, word) })
    }

    /// Memory of the device that is current.
    pub fn allocate(&self, bytes: usize) -> Result<RawMemory, String> {
        let mut at = 0;
        // SAFETY: as above.
        checked("cuMemAlloc", unsafe { (self.symbols.allocate)(&mut at, bytes) })?;
        Ok(RawMemory::new(std::ptr::with_exposed_provenance_mut(at as usize)))
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// [`Driver::allocate`] has returned it, and nobody uses it any more.
    pub unsafe fn free(&self, at: RawMemory) -> Result<(), String> {
        // SAFETY: by the contract.
        checked("cuMemFree", unsafe { (self.symbols.free)(at.raw().addr() as u64) })
    }

    /// Memory of the host, pinned.
    pub fn allocate_pinned(&self, bytes: usize) -> Result<*mut c_void, String> {
        let mut at = null_mut();
        // SAFETY: as above.
        checked("cuMemHostAlloc", unsafe { (self.symbols.allocate_pinned)(&mut at, bytes, PORTABLE) }).map(|()| at)
    }

    /// Queues a copy to the device.
    ///
    /// # Safety
    /// As for [`Driver::fill`].
    pub unsafe fn copy_in(
        &self,
        stream: Stream,
        from: *const c_void,
        to: RawMemory,
        bytes: usize,
    ) -> Result<(), String> {
        // SAFETY: by the contract.
        let code = unsafe { (self.symbols.copy_in)(to.raw().addr() as u64, from, bytes, stream.0) };
        checked("cuMemcpyHtoDAsync", code)
    }

    /// Queues a copy from the device.
    ///
    /// # Safety
    /// As for [`Driver::fill`].
    pub unsafe fn copy_out(
        &self,
        stream: Stream,
        from: RawMemory,
        to: *mut c_void,
        bytes: usize,
    ) -> Result<(), String> {
        // SAFETY: by the contract.
        let code = unsafe { (self.symbols.copy_out)(to, from.raw().addr() as u64, bytes, stream.0) };
        checked("cuMemcpyDtoHAsync", code)
    }

    /// Queues zeros.
    ///
    /// # Safety
    /// As for [`Driver::fill`].
    pub unsafe fn zero(&self, stream: Stream, at: RawMemory, bytes: usize) -> Result<(), String> {
        // SAFETY: by the contract.
        checked("cuMemsetD8Async", unsafe { (self.symbols.zero)(at.raw().addr() as u64, 0, bytes, stream.0) })
    }

    /// A graph of what `queue` puts on the stream.
    pub fn graph(&self, stream: Stream, queue: impl FnOnce() -> Result<(), String>) -> Result<Graph, String> {
        let (mut graph, mut instance) = (null_mut(), null_mut());
        // SAFETY: as above.
        checked("cuStreamBeginCapture", unsafe { (self.symbols.begin_capture)(stream.0, RELAXED) })?;
        let queued = queue();
        // SAFETY: as above.
        checked("cuStreamEndCapture", unsafe { (self.symbols.end_capture)(stream.0, &mut graph) })?;
        queued?;
        // SAFETY: as above.
        let code = unsafe { (self.symbols.instantiate)(&mut instance, graph, 0) };
        checked("cuGraphInstantiateWithFlags", code).map(|()| Graph(instance))
    }

    pub fn launch_graph(&self, graph: Graph, stream: Stream) -> Result<(), String> {
        // SAFETY: as above.
        checked("cuGraphLaunch", unsafe { (self.symbols.launch_graph)(graph.0, stream.0) })
    }
}

impl Mix for Driver {
    unsafe fn mix(&self, device: usize, stream: RawStream, what: &Mixture) -> Result<(), String> {
        let address = |at: RawMemory| at.raw().addr() as u64;
        let [a, b, c] = what.from.map(|from| from.map_or(0, address));
        let arguments = [address(what.out), a, b, c, what.id, what.spin, what.count as u64];
        // SAFETY: by the contract.
        unsafe { self.launch(self.kernels[device].mix, stream.raw(), what.count, arguments) }
    }
}

#[cfg(test)]
mod tests {
    use super::KERNELS;

    /// How many arguments a kernel has in the text that the driver gets.
    fn arguments(kernel: &str) -> usize {
        let start = KERNELS.split(&format!(".entry {kernel}(")).nth(1).expect("the kernel is there");
        start.split(')').next().unwrap_or_default().matches(".param .u64").count()
    }

    #[test]
    fn the_text_is_of_an_old_version_and_has_the_kernels_that_are_launched() {
        assert!(KERNELS.starts_with(".version 6.5\n.target sm_52\n.address_size 64\n") && KERNELS.ends_with("}\n\0"));
        assert_eq!(["mix", "fill", "compare"].map(arguments), [7, 7, 8]);
    }
}
