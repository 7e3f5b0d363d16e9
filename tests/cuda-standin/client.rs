//! The stand-in for the CUDA driver, for tests in Rust: `#[path]` brings this file into a test, as
//! the module `client` of its root.
//!
//! A test loads the library by its path. From then on a program that asks for `libcuda.so` gets it,
//! by the name that is written inside. No variable of the environment is needed, and no file that
//! could stand in the way of a real driver.

#![allow(dead_code)] // Each test binary uses a part of it.

use std::ffi::{c_char, c_void, CStr, CString};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The stand-in, as long as a test has it for itself. Tests of one process take turns.
pub struct Standin {
    _turn: MutexGuard<'static, ()>,
}

/// What can be counted.
#[derive(Clone, Copy)]
pub enum Count {
    Streams = 0,
    Events = 1,
    Recordings = 2,
    Allocations = 3,
    Commands = 4,
    Graphs = 5,
}

/// What the stand-in can be told to do wrong, as a driver.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A wait for an event is not queued.
    WaitSwallowed = 0,
    /// An event is recorded before the last command of its stream, not behind it.
    RecordedEarly = 1,
    /// A query says that an event is done which is not.
    DoneTooEarly = 2,
    /// A wait of the host for a stream ends before the stream is idle.
    FinishedTooEarly = 3,
}

/// What a stream was made with.
#[derive(Debug, PartialEq, Eq)]
pub struct Made {
    pub device: usize,
    pub flags: u32,
    pub priority: i32,
}

static LIBRARY: OnceLock<usize> = OnceLock::new();

/// Where cargo has put the library: beside the test.
pub fn path() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this binary");
    test.parent().expect("it lies somewhere").join("libcuda_standin.so")
}

/// Loads a file as this process's driver.
fn load(path: &Path) -> usize {
    let name = CString::new(path.to_str().expect("names are ASCII")).expect("names have no zero");
    // SAFETY: it is the stand-in, whose initialisers are those of Rust.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{} cannot be loaded: is the test's package built whole?", path.display());
    handle.expose_provenance()
}

/// Loads a copy of the library in which some symbols have other names, so that nobody finds them.
/// In a child process only, and first: a process has one driver.
pub fn load_without(symbols: &[&str]) {
    let mut bytes = std::fs::read(path()).expect("the library is there");
    for symbol in symbols {
        let wanted: Vec<u8> = [b"\0", symbol.as_bytes(), b"\0"].concat();
        let places: Vec<usize> =
            (0..bytes.len() - wanted.len()).filter(|at| bytes[*at..].starts_with(&wanted)).collect();
        assert!(!places.is_empty(), "there is no symbol {symbol}");
        places.into_iter().for_each(|at| bytes[at + 1] = b'_');
    }
    let copy = std::env::temp_dir().join(format!("seriatim-standin-{}.so", std::process::id()));
    std::fs::write(&copy, bytes).expect("there is room for it");
    let handle = load(&copy);
    std::fs::remove_file(&copy).expect("it was written");
    assert!(LIBRARY.set(handle).is_ok(), "this process has a driver");
}

/// A function of the library. `None` if it has none of that name.
///
/// # Safety
/// `F` is the type of a pointer to that function.
pub unsafe fn find<F: Copy>(name: &str) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let library = std::ptr::with_exposed_provenance_mut(*LIBRARY.get_or_init(|| load(&path())));
    let name = CString::new(name).expect("names have no zero");
    // SAFETY: the library stays loaded, and the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: as the caller says; the sizes are equal.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}

/// Calls a function of `src/control.rs`, or of the driver, by its name.
macro_rules! call {
    ($name:ident($($argument:expr => $type:ty),*) $(-> $result:ty)?) => {{
        static FOUND: std::sync::OnceLock<unsafe extern "C" fn($($type),*) $(-> $result)?> = std::sync::OnceLock::new();
        let function = FOUND.get_or_init(|| {
            // SAFETY: the library declares it so.
            let found = unsafe { $crate::client::find(stringify!($name)) };
            found.unwrap_or_else(|| panic!("the stand-in has no {}", stringify!($name)))
        });
        // SAFETY: the arguments are what the function asks for.
        unsafe { function($($argument),*) }
    }};
}
pub(crate) use call;

fn text(text: &str) -> CString {
    CString::new(text).expect("it has no zero")
}

impl Standin {
    /// Has the stand-in for itself, as in a new process. Commands run in an order that the seed
    /// chooses, at a pace from 1 to 256: of 256 calls so many run a command more.
    pub fn begin(seed: u64, pace: u64) -> Standin {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        call!(standin_reset(seed => u64, pace => u64));
        Standin { _turn: turn }
    }

    /// As [`Standin::begin`], but nothing runs unless a test says so.
    pub fn by_hand() -> Standin {
        Standin::begin(1, 0)
    }

    /// Everything is as in a new process once more.
    pub fn again(&self, seed: u64, pace: u64) {
        call!(standin_reset(seed => u64, pace => u64));
    }

    pub fn pace(&self, pace: u64) {
        call!(standin_pace(pace => u64));
    }

    /// So many commands run at a time, and as many times more seldom.
    pub fn burst(&self, burst: u64) {
        call!(standin_burst(burst => u64));
    }

    pub fn version(&self, version: i32) {
        call!(standin_version(version => i32));
    }

    pub fn devices(&self, count: usize) {
        call!(standin_devices(count => usize));
    }

    /// The address of a device on the PCI bus.
    pub fn address(&self, device: usize, address: &str) {
        call!(standin_address(device => usize, text(address).as_ptr() => *const c_char));
    }

    /// The `nth` call from now of a function (of any, if it is `*`) fails.
    pub fn fail(&self, function: &str, nth: u64, error: i32) {
        fail(&text(function), nth, error);
    }

    /// As [`Standin::fail`]; and the device of the calling thread's context is lost by that error.
    pub fn fail_for_good(&self, function: &str, nth: u64, error: i32) {
        let function = text(function);
        call!(standin_fail(function.as_ptr() => *const c_char, nth => u64, error => i32, true => bool));
    }

    /// A device is lost, now.
    pub fn lose(&self, device: usize, error: i32) {
        call!(standin_lose(device => usize, error => i32));
    }

    /// Lets a stream run so many commands; returns how many it could not run.
    pub fn step(&self, stream: *mut c_void, commands: usize) -> usize {
        call!(standin_step(stream => *mut c_void, commands => usize) -> usize)
    }

    /// Runs everything that can run.
    pub fn run_all(&self) {
        call!(standin_run_all());
    }

    /// Queues an access to a cell, which has a number for reports.
    pub fn access(&self, stream: *mut c_void, cell: u64, write: bool, label: u64) {
        let code = call!(standin_access(stream => *mut c_void, cell => u64, write => bool, label => u64) -> i32);
        assert_eq!(code, 0);
    }

    /// The host accesses a cell, now.
    pub fn host_access(&self, cell: u64, write: bool, label: u64) {
        call!(standin_host_access(cell => u64, write => bool, label => u64));
    }

    /// Queues a function. It returns 0, or the error by which the device is lost. It may call
    /// [`touch`] and [`memory`], and nothing else of the driver. One that never runs is leaked.
    pub fn queue(&self, stream: *mut c_void, body: impl FnOnce() -> i32 + Send + 'static) {
        assert_eq!(queue(stream, body), 0);
    }

    /// Plants a fault of the driver: one at each so many-th occasion, none at 0.
    pub fn plant(&self, fault: Fault, every: u64) {
        call!(standin_plant(fault as usize => usize, every => u64));
    }

    /// How many of the planted faults were made.
    pub fn planted(&self) -> u64 {
        call!(standin_planted() -> u64)
    }

    /// From now on one call in so many of a function (of any, if it is `*`) pauses at its end, for
    /// up to so many microseconds.
    pub fn pauses(&self, function: &str, one_in: u64, micros: u64, seed: u64) {
        let function = text(function);
        call!(standin_pauses(function.as_ptr() => *const c_char, one_in => u64, micros => u64, seed => u64));
    }

    /// How often a function was called; of all, if it is `*`.
    pub fn calls(&self, function: &str) -> u64 {
        call!(standin_calls(text(function).as_ptr() => *const c_char) -> u64)
    }

    /// The functions that were called, each with how often.
    pub fn called(&self) -> Vec<(String, u64)> {
        let mut name = [0; 100];
        let read = |index: usize, to: &mut [u8]| call!(standin_called(index => usize, to.as_mut_ptr() => *mut u8, to.len() => usize) -> usize);
        let count = read(usize::MAX, &mut name);
        let one = |index| {
            read(index, &mut name);
            let name = CStr::from_bytes_until_nul(&name).expect("it ends with a zero").to_string_lossy().into_owned();
            (name.clone(), self.calls(&name))
        };
        (0..count).map(one).collect()
    }

    /// Unordered accesses and misuse, in words.
    pub fn reports(&self) -> Vec<String> {
        let read = |index: usize, to: &mut [u8]| call!(standin_report(index => usize, to.as_mut_ptr() => *mut u8, to.len() => usize) -> usize);
        let mut said = [0; 300];
        let count = read(usize::MAX, &mut said);
        let one = |index| {
            read(index, &mut said);
            CStr::from_bytes_until_nul(&said).expect("it ends with a zero").to_string_lossy().into_owned()
        };
        (0..count).map(one).collect()
    }

    /// A number that two runs share if they ran the same commands in the same order.
    pub fn trace(&self) -> u64 {
        call!(standin_trace() -> u64)
    }

    pub fn count(&self, what: Count) -> usize {
        call!(standin_count(what as usize => usize) -> usize)
    }

    /// How often the primary context of a device is retained.
    pub fn retained(&self, device: usize) -> usize {
        call!(standin_count(16 + device => usize) -> usize)
    }

    pub fn stream(&self, stream: *mut c_void) -> Made {
        let mut made = Made { device: 0, flags: 0, priority: 0 };
        let (device, flags, priority) = (&raw mut made.device, &raw mut made.flags, &raw mut made.priority);
        let is_there = call!(standin_stream(
            stream => *mut c_void, device => *mut usize, flags => *mut u32, priority => *mut i32
        ) -> bool);
        assert!(is_there, "there is no such stream");
        made
    }

    /// The flags that an event was made with.
    pub fn event_flags(&self, event: *mut c_void) -> u32 {
        call!(standin_event(event => *mut c_void) -> u32)
    }
}

/// Queues a function on a stream: [`Standin::queue`], for threads that do not have the stand-in.
/// Returns the driver's code.
pub fn queue(stream: *mut c_void, body: impl FnOnce() -> i32 + Send + 'static) -> i32 {
    unsafe extern "C" fn run(word: *mut c_void) -> i32 {
        // SAFETY: `queue` has made it of this, and it is run once.
        let body = unsafe { Box::from_raw(word.cast::<Box<dyn FnOnce() -> i32 + Send>>()) };
        body()
    }
    type Run = unsafe extern "C" fn(*mut c_void) -> i32;
    let body: Box<dyn FnOnce() -> i32 + Send> = Box::new(body);
    let word = Box::into_raw(Box::new(body)).cast::<c_void>();
    call!(standin_queue(stream => *mut c_void, run => Run, word => *mut c_void) -> i32)
}

/// Queues a function that may be captured, and run again and again. It is never dropped.
pub fn queue_again(stream: *mut c_void, body: impl Fn() -> i32 + Send + Sync + 'static) -> i32 {
    unsafe extern "C" fn run(word: *mut c_void) -> i32 {
        // SAFETY: `queue_again` has made it of this, and it is leaked.
        let body = unsafe { &*word.cast::<Box<dyn Fn() -> i32 + Send + Sync>>() };
        body()
    }
    type Run = unsafe extern "C" fn(*mut c_void) -> i32;
    let body: Box<dyn Fn() -> i32 + Send + Sync> = Box::new(body);
    let word = Box::into_raw(Box::new(body)).cast::<c_void>();
    call!(standin_queue(stream => *mut c_void, run => Run, word => *mut c_void) -> i32)
}

/// The host accesses memory, now. Null if it may not.
pub fn host_memory(at: u64, bytes: usize, write: bool, label: u64) -> *mut u8 {
    call!(standin_host_memory(at => u64, bytes => usize, write => bool, label => u64) -> *mut u8)
}

/// As [`Standin::fail`], for code that has no [`Standin`].
pub fn fail(function: &CStr, nth: u64, error: i32) {
    call!(standin_fail(function.as_ptr() => *const c_char, nth => u64, error => i32, false => bool));
}

/// Inside a queued function, a kernel or a host function: it accesses a cell.
pub fn touch(cell: u64, write: bool, label: u64) {
    call!(standin_touch(cell => u64, write => bool, label => u64));
}

/// Inside a queued function, a kernel or a host function: it accesses memory. Null if it may not.
pub fn memory(at: u64, bytes: usize, write: bool, label: u64) -> *mut u8 {
    call!(standin_memory(at => u64, bytes => usize, write => bool, label => u64) -> *mut u8)
}

/// The context that is current on this thread.
pub fn current() -> *mut c_void {
    let mut context = std::ptr::null_mut();
    assert_eq!(call!(cuCtxGetCurrent(&raw mut context => *mut *mut c_void) -> i32), 0);
    context
}
