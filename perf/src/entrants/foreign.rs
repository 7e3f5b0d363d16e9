//! Peers that are shared libraries with the face of `perf/peers/peer.h`; `scripts/peers.sh` builds
//! them.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::path::PathBuf;

use libloading::{Library, Symbol};

use super::{Runner, Shared};
use crate::program::{small, Layout, Program};

const ABI: u32 = 2;
/// Room for a line that says what went wrong.
const LINE: usize = 256;

/// `struct peer`.
#[repr(C)]
struct Peer {
    abi: u32,
    version: extern "C" fn() -> *const c_char,
    start: extern "C" fn(*const c_char, u32, *mut c_char, usize) -> *mut c_void,
    prepare: extern "C" fn(*mut c_void, *const Layout, *mut c_char, usize) -> c_int,
    run: extern "C" fn(*mut c_void),
    push: Option<extern "C" fn(*mut c_void, u64, u64)>,
    wait: Option<extern "C" fn(*mut c_void)>,
    stop: extern "C" fn(*mut c_void),
}

/// An engine in a shared library.
pub struct Foreign {
    peer: &'static Peer,
    engine: *mut c_void,
}

/// Where the peers are: `PEERS`, or `target/peers` of the repository.
pub fn directory() -> PathBuf {
    match std::env::var_os("PEERS") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/peers"),
    }
}

/// Calls `fill` with room for a line, and returns what it wrote there.
fn with_line<T>(fill: impl FnOnce(*mut c_char, usize) -> T) -> (T, String) {
    let mut line = [0_u8; LINE];
    let result = fill(line.as_mut_ptr().cast(), LINE);
    let end = line.iter().position(|byte| *byte == 0).unwrap_or(LINE);
    (result, String::from_utf8_lossy(&line[..end]).into_owned())
}

/// Where the library is.
pub fn find(library: &str) -> Result<PathBuf, String> {
    let path = directory().join(format!("{library}.so"));
    match path.exists() {
        true => Ok(path),
        false => Err(format!("{library} is not built: run scripts/peers.sh {library}")),
    }
}

impl Foreign {
    pub fn start(library: &str, mode: &str, threads: usize) -> Result<Foreign, String> {
        let path = find(library)?;
        // SAFETY: the library was built by scripts/peers.sh from perf/peers; its initialisers are
        // those of a peer, made to be loaded by any program.
        let loaded = unsafe { Library::new(&path) }.map_err(|error| format!("{}: {error}", path.display()))?;
        // Threads of a peer may outlive its engine, so its code must stay.
        let loaded = Box::leak(Box::new(loaded));
        // SAFETY: every peer defines the function so.
        let face: Symbol<'_, extern "C" fn() -> *const Peer> =
            unsafe { loaded.get(b"seriatim_peer") }.map_err(|error| error.to_string())?;
        // SAFETY: it returns a static structure.
        let peer: &'static Peer = unsafe { &*face() };
        if peer.abi != ABI {
            return Err(format!("{library} is of another build: run scripts/peers.sh again"));
        }
        let mode = CString::new(mode).map_err(|error| error.to_string())?;
        let (engine, line) = with_line(|line, room| (peer.start)(mode.as_ptr(), small(threads), line, room));
        if engine.is_null() {
            return Err(line);
        }
        Ok(Foreign { peer, engine })
    }
}

impl Runner for Foreign {
    fn prepare(&mut self, program: &'static Program) -> Result<(), String> {
        let (outcome, line) = with_line(|line, room| (self.peer.prepare)(self.engine, program.layout(), line, room));
        match outcome {
            0 => Ok(()),
            _ => Err(line),
        }
    }

    fn run(&mut self) {
        (self.peer.run)(self.engine);
    }

    fn version(&self) -> String {
        // SAFETY: a peer returns static text that ends in a zero.
        unsafe { CStr::from_ptr((self.peer.version)()) }.to_string_lossy().into_owned()
    }

    fn shared(&self) -> Option<&(dyn Shared + '_)> {
        (self.peer.push.is_some() && self.peer.wait.is_some()).then_some(self)
    }
}

// SAFETY: between two calls that need `&mut self`, only `push` and `wait` are called, which any
// thread may call at any time.
unsafe impl Sync for Foreign {}

impl Shared for Foreign {
    fn push_part(&self, part: usize, parts: usize) {
        let push = self.peer.push.expect("a peer that several threads push to");
        push(self.engine, part as u64, parts as u64);
    }

    fn wait(&self) {
        let wait = self.peer.wait.expect("a peer that several threads push to");
        wait(self.engine);
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        (self.peer.stop)(self.engine);
    }
}
