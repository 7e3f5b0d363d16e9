//! The operations by the vendor's libraries, cuBLAS and cuSOLVER, which are loaded when a program
//! asks for them.
//!
//! Every symbol is looked up before it is called, so a library that is missing, or too old, is an
//! error that says so. The interfaces used have been the same since CUDA 8.

use super::{Matrix, On, Operand, Scratch, TileOps};
use libloading::Library;
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

type Handle = *mut c_void;
type Stream = *mut c_void;

/// A table of a library's functions, each of which returns a code.
macro_rules! table {
    ($(#[$text:meta])* $name:ident { $($field:ident: $symbol:literal ($($argument:ty),*);)* }) => {
        $(#[$text])*
        struct $name {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            _library: Library,
        }

        impl $name {
            /// The first of the files that is there.
            fn load(files: &[&str]) -> Result<$name, String> {
                let library = open(files)?;
                Ok($name {
                    // SAFETY: the library's documentation has these arguments for that symbol.
                    $($field: *unsafe { library.get($symbol.as_bytes()) }
                        .map_err(|error| format!("{} has no {}: {error}", files[0], $symbol))?,)*
                    _library: library,
                })
            }
        }
    };
}

table! {
    /// cuBLAS.
    Blas {
        create: "cublasCreate_v2" (*mut Handle);
        destroy: "cublasDestroy_v2" (Handle);
        set_stream: "cublasSetStream_v2" (Handle, Stream);
        gemm: "cublasDgemm_v2" (
            Handle, c_int, c_int, c_int, c_int, c_int, *const f64, *const f64, c_int, *const f64, c_int, *const f64,
            *mut f64, c_int
        );
        syrk: "cublasDsyrk_v2" (
            Handle, c_int, c_int, c_int, c_int, *const f64, *const f64, c_int, *const f64, *mut f64, c_int
        );
        trsm: "cublasDtrsm_v2" (
            Handle, c_int, c_int, c_int, c_int, c_int, c_int, *const f64, *const f64, c_int, *mut f64, c_int
        );
    }
}

table! {
    /// cuSOLVER.
    Solver {
        create: "cusolverDnCreate" (*mut Handle);
        destroy: "cusolverDnDestroy" (Handle);
        set_stream: "cusolverDnSetStream" (Handle, Stream);
        room: "cusolverDnDpotrf_bufferSize" (Handle, c_int, c_int, *mut f64, c_int, *mut c_int);
        potrf: "cusolverDnDpotrf" (Handle, c_int, c_int, *mut f64, c_int, *mut f64, c_int, *mut c_int);
    }
}

/// Opens the first of the files that is there.
fn open(files: &[&str]) -> Result<Library, String> {
    let mut said = String::new();
    for file in files {
        // SAFETY: the libraries' initialisers are those that every program has which uses them.
        match unsafe { Library::new(file) } {
            Ok(library) => return Ok(library),
            Err(error) => said = error.to_string(),
        }
    }
    Err(format!("{} is not to be had ({said})", files.join(", ")))
}

const NO: c_int = 0;
const TRANSPOSED: c_int = 1;
const LEFT: c_int = 0;
const RIGHT: c_int = 1;
const LOWER: c_int = 0;
const NON_UNIT: c_int = 0;

/// The two libraries.
struct Libraries {
    blas: Blas,
    solver: Solver,
}

/// The handles of one stream. A library's workspace belongs to a handle, so no two streams share
/// one.
struct Handles {
    blas: Handle,
    solver: Handle,
    of: Arc<Libraries>,
}

impl Handles {
    fn make(of: &Arc<Libraries>, stream: Option<Stream>) -> Result<Handles, String> {
        let mut handles = Handles { blas: null_mut(), solver: null_mut(), of: Arc::clone(of) };
        // SAFETY: the place is ours.
        checked("cublasCreate", unsafe { (of.blas.create)(&mut handles.blas) })?;
        // SAFETY: the place is ours.
        checked("cusolverDnCreate", unsafe { (of.solver.create)(&mut handles.solver) })?;
        if let Some(stream) = stream {
            // SAFETY: the handle was just made, and the stream is the caller's.
            checked("cublasSetStream", unsafe { (of.blas.set_stream)(handles.blas, stream) })?;
            // SAFETY: as above.
            checked("cusolverDnSetStream", unsafe { (of.solver.set_stream)(handles.solver, stream) })?;
        }
        Ok(handles)
    }
}

/// On the thread that has made them, with the device current. What becomes of it is of no use.
impl Drop for Handles {
    fn drop(&mut self) {
        if !self.solver.is_null() {
            // SAFETY: the library has made it, and nobody else has it.
            unsafe { (self.of.solver.destroy)(self.solver) };
        }
        if !self.blas.is_null() {
            // SAFETY: as above.
            unsafe { (self.of.blas.destroy)(self.blas) };
        }
    }
}

/// Handles for streams that are not the engine's, which live as long as the process: the device
/// need not be current where this is dropped.
struct ByHand(HashMap<usize, ManuallyDrop<Handles>>);

// SAFETY: handles may be used on any thread, by one at a time.
unsafe impl Send for ByHand {}

/// The libraries, and handles for each stream: those of the engine's workers are kept by these
/// ([`RunContext::with_handle_of`](seriatim::RunContext::with_handle_of)), so no lock is waited
/// for.
pub struct Vendor {
    libraries: Arc<Libraries>,
    by_hand: Mutex<ByHand>,
}

fn checked(call: &str, code: c_int) -> Result<(), String> {
    match code {
        0 => Ok(()),
        code => Err(format!("{call} returned {code}")),
    }
}

/// A size as the libraries have it.
fn int(size: usize) -> Result<c_int, String> {
    c_int::try_from(size).map_err(|_| format!("{size} is too large for the vendor's library"))
}

fn read(a: Matrix) -> *const f64 {
    a.at.raw().cast()
}

fn changed(a: Matrix) -> *mut f64 {
    a.at.raw().cast()
}

impl Vendor {
    /// Loads the libraries. The device is current.
    ///
    /// # Errors
    /// Which is not there.
    pub fn load() -> Result<Vendor, String> {
        let blas = Blas::load(&["libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"])?;
        let solver = Solver::load(&["libcusolver.so.12", "libcusolver.so.11", "libcusolver.so.10", "libcusolver.so"])?;
        let libraries = Arc::new(Libraries { blas, solver });
        let vendor = Vendor { libraries, by_hand: Mutex::new(ByHand(HashMap::new())) };
        // Made here, so that a library that does not go with the driver is found here.
        vendor.with_own(null_mut(), |_| Ok(()))?;
        Ok(vendor)
    }

    /// Calls `call` with the handles of a stream.
    fn with<R>(&self, on: On<'_>, call: impl FnOnce(&Handles) -> Result<R, String>) -> Result<R, String> {
        let stream = on.stream.raw();
        let Some(run) = on.run else { return self.with_own(stream, call) };
        let make = || Handles::make(&self.libraries, Some(stream));
        let called = run.with_handle_of(stream.addr(), make, |handles: &mut Handles| call(handles));
        called.map_err(|error| error.to_string())?
    }

    /// The same without an operation of the engine.
    fn with_own<R>(&self, stream: Stream, call: impl FnOnce(&Handles) -> Result<R, String>) -> Result<R, String> {
        let mut known = self.by_hand.lock().unwrap_or_else(PoisonError::into_inner);
        let handles = match known.0.entry(stream.addr()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let made = Handles::make(&self.libraries, (!stream.is_null()).then_some(stream))?;
                free.insert(ManuallyDrop::new(made))
            }
        };
        call(handles)
    }

    /// A triangular solve: B becomes op(L)⁻¹ B, or B op(L)⁻¹.
    ///
    /// # Safety
    /// That of [`TileOps`].
    unsafe fn divided(&self, on: On<'_>, side: c_int, transposed: c_int, l: Matrix, b: Matrix) -> Result<(), String> {
        let (rows, columns, of_l, of_b) = (int(b.rows)?, int(b.columns)?, int(l.right)?, int(b.right)?);
        self.with(on, |handles| {
            let (one, blas) = (1.0, handles.blas);
            // SAFETY: by the contract.
            let code = unsafe {
                let (l, b) = (read(l), changed(b));
                (self.libraries.blas.trsm)(
                    blas, side, LOWER, transposed, NON_UNIT, rows, columns, &one, l, of_l, b, of_b,
                )
            };
            checked("cublasDtrsm", code)
        })
    }
}

impl TileOps for Vendor {
    fn name(&self) -> String {
        "cuBLAS and cuSOLVER".to_owned()
    }

    fn scratch(&self, n: usize) -> Result<usize, String> {
        let (n, mut length) = (int(n)?, 0);
        self.with_own(null_mut(), |handles| {
            // SAFETY: the matrix is not looked at, and the place is ours.
            let code = unsafe { (self.libraries.solver.room)(handles.solver, LOWER, n, null_mut(), n, &mut length) };
            checked("cusolverDnDpotrf_bufferSize", code)
        })?;
        Ok(length as usize)
    }

    unsafe fn potrf(&self, on: On<'_>, a: Matrix, scratch: Scratch) -> Result<(), String> {
        let (n, right, length) = (int(a.rows)?, int(a.right)?, int(scratch.length)?);
        let (work, info) = (scratch.work.raw().cast(), scratch.info.raw().cast());
        self.with(on, |handles| {
            let (solver, a) = (handles.solver, changed(a));
            // SAFETY: by the contract.
            let code = unsafe { (self.libraries.solver.potrf)(solver, LOWER, n, a, right, work, length, info) };
            checked("cusolverDnDpotrf", code)
        })
    }

    unsafe fn trsm(&self, on: On<'_>, l: Matrix, a: Matrix) -> Result<(), String> {
        // SAFETY: by the contract.
        unsafe { self.divided(on, RIGHT, TRANSPOSED, l, a) }
    }

    unsafe fn syrk(&self, on: On<'_>, l: Matrix, a: Matrix) -> Result<(), String> {
        let (n, k, of_l, of_a) = (int(a.rows)?, int(l.columns)?, int(l.right)?, int(a.right)?);
        self.with(on, |handles| {
            let (minus, one, blas) = (-1.0, 1.0, handles.blas);
            // SAFETY: by the contract.
            let code = unsafe {
                (self.libraries.blas.syrk)(blas, LOWER, NO, n, k, &minus, read(l), of_l, &one, changed(a), of_a)
            };
            checked("cublasDsyrk", code)
        })
    }

    unsafe fn gemm(&self, on: On<'_>, alpha: f64, a: Operand, b: Operand, beta: f64, c: Matrix) -> Result<(), String> {
        let (rows, columns) = (int(c.rows)?, int(c.columns)?);
        let inner = int(if a.1 { a.0.rows } else { a.0.columns })?;
        let (of_a, of_b, of_c) = (int(a.0.right)?, int(b.0.right)?, int(c.right)?);
        let op = |(_, transposed): Operand| if transposed { TRANSPOSED } else { NO };
        self.with(on, |handles| {
            let (op_a, op_b, a, b, c) = (op(a), op(b), read(a.0), read(b.0), changed(c));
            // SAFETY: by the contract.
            let code = unsafe {
                (self.libraries.blas.gemm)(
                    handles.blas,
                    op_a,
                    op_b,
                    rows,
                    columns,
                    inner,
                    &alpha,
                    a,
                    of_a,
                    b,
                    of_b,
                    &beta,
                    c,
                    of_c,
                )
            };
            checked("cublasDgemm", code)
        })
    }

    unsafe fn solve(&self, on: On<'_>, l: Matrix, transposed: bool, y: Matrix) -> Result<(), String> {
        // SAFETY: by the contract.
        unsafe { self.divided(on, LEFT, if transposed { TRANSPOSED } else { NO }, l, y) }
    }
}

#[cfg(test)]
mod tests {
    use super::{open, Blas, Solver, Vendor};

    const NOWHERE: &str = "libcublas-that-is-nowhere.so";
    /// A library that every program has.
    const OTHER: &str = "libc.so.6";

    #[test]
    fn a_library_that_is_missing_or_lacks_a_function_is_named() {
        for said in [Blas::load(&[NOWHERE]).err(), Solver::load(&[NOWHERE]).err()] {
            assert!(said.as_ref().is_some_and(|said| said.starts_with(NOWHERE) && said.contains("is not to be had")));
        }
        for (said, lacks) in [
            (Blas::load(&[OTHER]).err(), "libc.so.6 has no cublasCreate_v2"),
            (Solver::load(&[OTHER]).err(), "libc.so.6 has no cusolverDnCreate"),
        ] {
            assert!(said.as_ref().is_some_and(|said| said.starts_with(lacks)), "{said:?}");
        }
    }

    #[test]
    fn the_first_library_that_is_there_is_taken() {
        assert!(open(&[NOWHERE, OTHER]).is_ok());
        let said = open(&[NOWHERE, "libnor-this.so"]).err().unwrap();
        assert!(said.contains(NOWHERE) && said.contains("libnor-this.so"), "{said}");
    }

    /// On a machine that has them the table tells whether they work.
    #[test]
    fn where_there_is_no_cublas_loading_says_so() {
        if open(&["libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"]).is_ok() {
            return;
        }
        let said = Vendor::load().err().expect("there is none");
        assert!(said.contains("libcublas.so.12") && said.contains("is not to be had"), "{said}");
    }
}
