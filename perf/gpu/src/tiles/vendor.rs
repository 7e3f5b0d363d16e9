//! The operations by the vendor's libraries, cuBLAS and cuSOLVER, which are loaded when a program
//! asks for them.
//!
//! Every symbol is looked up before it is called, so a library that is missing, or too old, is an
//! error that says so. The interfaces used have been the same since CUDA 8.

use super::{Matrix, On, Operand, Scratch, TileOps};
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

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

/// The handles of one stream. A library's workspace belongs to a handle, so no two streams share
/// one.
#[derive(Clone, Copy)]
struct Handles {
    blas: Handle,
    solver: Handle,
}

impl Handles {
    fn make(blas: &Blas, solver: &Solver) -> Result<Handles, String> {
        let mut handles = Handles { blas: null_mut(), solver: null_mut() };
        // SAFETY: the place is ours.
        checked("cublasCreate", unsafe { (blas.create)(&mut handles.blas) })?;
        // SAFETY: the place is ours.
        checked("cusolverDnCreate", unsafe { (solver.create)(&mut handles.solver) })?;
        Ok(handles)
    }
}

/// The libraries, and handles for each stream of each worker. A worker uses its own alone, so no
/// lock is ever waited for. Handles live as long as the process.
pub struct Vendor {
    blas: Blas,
    solver: Solver,
    /// What questions of sizes go by.
    asked: Handles,
    workers: Box<[Mutex<HashMap<usize, Handles>>]>,
}

// SAFETY: handles may be used on any thread, by one at a time; those of a worker lie in a lock.
unsafe impl Send for Vendor {}
// SAFETY: as above.
unsafe impl Sync for Vendor {}

/// As many workers as a device can have.
const WORKERS: usize = 16;

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
        // Made here, so that a library that does not go with the driver is found here.
        let asked = Handles::make(&blas, &solver)?;
        Ok(Vendor { blas, solver, asked, workers: (0..WORKERS).map(|_| Mutex::default()).collect() })
    }

    /// Calls `call` with the handles of a stream.
    fn with<R>(&self, on: On, call: impl FnOnce(Handles) -> Result<R, String>) -> Result<R, String> {
        let worker = self.workers.get(on.worker).ok_or("there are too many workers")?;
        let mut known = worker.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = on.stream.raw();
        let handles = match known.get(&stream.addr()) {
            Some(handles) => *handles,
            None => {
                let handles = Handles::make(&self.blas, &self.solver)?;
                // SAFETY: the handle was just made, and the stream is the caller's.
                checked("cublasSetStream", unsafe { (self.blas.set_stream)(handles.blas, stream) })?;
                // SAFETY: as above.
                checked("cusolverDnSetStream", unsafe { (self.solver.set_stream)(handles.solver, stream) })?;
                known.insert(stream.addr(), handles);
                handles
            }
        };
        call(handles)
    }

    /// A triangular solve: B becomes op(L)⁻¹ B, or B op(L)⁻¹.
    ///
    /// # Safety
    /// That of [`TileOps`].
    unsafe fn divided(&self, on: On, side: c_int, transposed: c_int, l: Matrix, b: Matrix) -> Result<(), String> {
        let (rows, columns, of_l, of_b) = (int(b.rows)?, int(b.columns)?, int(l.right)?, int(b.right)?);
        self.with(on, |handles| {
            let (one, blas) = (1.0, handles.blas);
            // SAFETY: by the contract.
            let code = unsafe {
                let (l, b) = (read(l), changed(b));
                (self.blas.trsm)(blas, side, LOWER, transposed, NON_UNIT, rows, columns, &one, l, of_l, b, of_b)
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
        // SAFETY: the matrix is not looked at, and the place is ours.
        let code = unsafe { (self.solver.room)(self.asked.solver, LOWER, n, null_mut(), n, &mut length) };
        checked("cusolverDnDpotrf_bufferSize", code)?;
        Ok(length as usize)
    }

    unsafe fn potrf(&self, on: On, a: Matrix, scratch: Scratch) -> Result<(), String> {
        let (n, right, length) = (int(a.rows)?, int(a.right)?, int(scratch.length)?);
        let (work, info) = (scratch.work.raw().cast(), scratch.info.raw().cast());
        self.with(on, |handles| {
            let (solver, a) = (handles.solver, changed(a));
            // SAFETY: by the contract.
            let code = unsafe { (self.solver.potrf)(solver, LOWER, n, a, right, work, length, info) };
            checked("cusolverDnDpotrf", code)
        })
    }

    unsafe fn trsm(&self, on: On, l: Matrix, a: Matrix) -> Result<(), String> {
        // SAFETY: by the contract.
        unsafe { self.divided(on, RIGHT, TRANSPOSED, l, a) }
    }

    unsafe fn syrk(&self, on: On, l: Matrix, a: Matrix) -> Result<(), String> {
        let (n, k, of_l, of_a) = (int(a.rows)?, int(l.columns)?, int(l.right)?, int(a.right)?);
        self.with(on, |handles| {
            let (minus, one, blas) = (-1.0, 1.0, handles.blas);
            // SAFETY: by the contract.
            let code =
                unsafe { (self.blas.syrk)(blas, LOWER, NO, n, k, &minus, read(l), of_l, &one, changed(a), of_a) };
            checked("cublasDsyrk", code)
        })
    }

    unsafe fn gemm(&self, on: On, alpha: f64, a: Operand, b: Operand, beta: f64, c: Matrix) -> Result<(), String> {
        let (rows, columns) = (int(c.rows)?, int(c.columns)?);
        let inner = int(if a.1 { a.0.rows } else { a.0.columns })?;
        let (of_a, of_b, of_c) = (int(a.0.right)?, int(b.0.right)?, int(c.right)?);
        let op = |(_, transposed): Operand| if transposed { TRANSPOSED } else { NO };
        self.with(on, |handles| {
            let (op_a, op_b, a, b, c) = (op(a), op(b), read(a.0), read(b.0), changed(c));
            // SAFETY: by the contract.
            let code = unsafe {
                (self.blas.gemm)(
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

    unsafe fn solve(&self, on: On, l: Matrix, transposed: bool, y: Matrix) -> Result<(), String> {
        // SAFETY: by the contract.
        unsafe { self.divided(on, LEFT, if transposed { TRANSPOSED } else { NO }, l, y) }
    }
}
