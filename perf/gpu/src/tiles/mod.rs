//! Operations on tiles of a matrix, as a device has them: [`TileOps`].

mod processor;
#[cfg(feature = "cuda")]
mod queued;
#[cfg(feature = "cuda")]
mod vendor;

pub use processor::Processor;
#[cfg(feature = "cuda")]
pub use queued::Queued;
#[cfg(feature = "cuda")]
pub use vendor::Vendor;

use seriatim::gpu::{RawMemory, RawStream};
use seriatim::RunContext;

/// A rectangle of numbers in memory of a device, column after column, `right` numbers apart.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    pub at: RawMemory,
    pub rows: usize,
    pub columns: usize,
    pub right: usize,
}

impl Matrix {
    /// One whose columns follow each other without a gap.
    pub fn whole(at: RawMemory, rows: usize, columns: usize) -> Matrix {
        Matrix { at, rows, columns, right: rows }
    }
}

/// Where an operation is queued: a stream, and the engine's operation, if it is one, whose worker
/// keeps the library's handles.
#[derive(Clone, Copy, Debug)]
pub struct On<'a> {
    pub stream: RawStream,
    pub run: Option<&'a RunContext<'a>>,
}

impl On<'_> {
    /// A stream that is not the engine's.
    pub fn by_hand(stream: RawStream) -> On<'static> {
        On { stream, run: None }
    }
}

/// A product's operand: the matrix, and whether it is transposed.
pub type Operand = (Matrix, bool);

/// Where a factorisation works and says how it went.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    /// So many numbers as [`TileOps::scratch`] asks for.
    pub work: RawMemory,
    pub length: usize,
    /// A number of 32 bits, which is then 0 unless the matrix is not positive definite.
    pub info: RawMemory,
}

/// The operations of a tiled Cholesky and of the solves with its factor. Each is queued on a stream
/// and done when the stream is.
///
/// # Safety of the methods
/// The matrices are of the device that is current; until the stream is done, the caller has them
/// for itself, or at least what is only read for reading; those of an operation fit each other, and
/// what is changed shares no element with what is read.
pub trait TileOps: Send + Sync + 'static {
    /// Whose they are.
    fn name(&self) -> String;

    /// How many numbers the factorisation of a matrix of `n` rows needs beside it.
    ///
    /// # Errors
    /// What the library says.
    fn scratch(&self, n: usize) -> Result<usize, String>;

    /// A = L Lᵀ: L is left in the lower half. What is in the upper half afterwards means nothing.
    ///
    /// # Safety
    /// Those of the trait.
    ///
    /// # Errors
    /// What the library says.
    unsafe fn potrf(&self, on: On<'_>, a: Matrix, scratch: Scratch) -> Result<(), String>;

    /// A becomes A L⁻ᵀ, of the lower half of `l`.
    ///
    /// # Safety
    /// Those of the trait.
    ///
    /// # Errors
    /// What the library says.
    unsafe fn trsm(&self, on: On<'_>, l: Matrix, a: Matrix) -> Result<(), String>;

    /// A −= L Lᵀ, of which only the lower half counts.
    ///
    /// # Safety
    /// Those of the trait.
    ///
    /// # Errors
    /// What the library says.
    unsafe fn syrk(&self, on: On<'_>, l: Matrix, a: Matrix) -> Result<(), String>;

    /// C becomes `alpha` A B + `beta` C. If `beta` is 0, C is not read.
    ///
    /// # Safety
    /// Those of the trait.
    ///
    /// # Errors
    /// What the library says.
    unsafe fn gemm(&self, on: On<'_>, alpha: f64, a: Operand, b: Operand, beta: f64, c: Matrix) -> Result<(), String>;

    /// Y becomes L⁻¹ Y, or L⁻ᵀ Y, of the lower half of `l`.
    ///
    /// # Safety
    /// Those of the trait.
    ///
    /// # Errors
    /// What the library says.
    unsafe fn solve(&self, on: On<'_>, l: Matrix, transposed: bool, y: Matrix) -> Result<(), String>;
}
