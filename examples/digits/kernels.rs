//! What an operation does to its tiles.
//!
//! Every function here runs on one thread: `faer` is built without its thread pool, so that [`Par::Seq`] is the only
//! choice there is, and all parallelism in this example is the engine's.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, Mat, Par};

use crate::data::{Block, CLASSES};

/// A dense block of numbers, column after column.
pub type Tile = Mat<f64>;

/// The γ of the kernel `exp(-γ‖a-b‖²)`.
const GAMMA: f64 = 0.3;
/// The ridge: what is added on the diagonal.
const LAMBDA: f64 = 0.01;

/// Fills `out` with the Gaussian kernel between every image of `a` (rows) and every image of `b` (columns).
///
/// ‖a-b‖² is had as ‖a‖² + ‖b‖² − 2 a·b. Pixels are sixteenths, so these sums are exact and lose nothing to rounding.
pub fn gaussian(a: &Block, b: &Block, out: &mut Tile) {
    matmul(&mut *out, Accum::Replace, &a.pixels, b.pixels.transpose(), -2.0, Par::Seq);
    for (column, norm) in b.norms.iter().enumerate() {
        for (value, own) in out.col_as_slice_mut(column).iter_mut().zip(&a.norms) {
            *value = (-GAMMA * (own + norm + *value)).exp();
        }
    }
}

/// Adds the ridge to a tile on the diagonal.
pub fn add_ridge(out: &mut Tile) {
    out.diagonal_mut().column_vector_mut().iter_mut().for_each(|value| *value += LAMBDA);
}

/// The right-hand sides: a column for each digit, +1 where the image shows it and −1 where it does not.
pub fn targets(block: &Block, out: &mut Tile) {
    for digit in 0..CLASSES {
        for (value, &label) in out.col_as_slice_mut(digit).iter_mut().zip(&block.labels) {
            *value = if usize::from(label) == digit { 1.0 } else { -1.0 };
        }
    }
}

/// POTRF, the Cholesky factor of one tile: A = L Lᵀ, with L left in the lower half and zeros in the upper.
///
/// # Errors
/// When the tile is not positive definite.
pub fn potrf(a: &mut Tile) -> Result<(), String> {
    let size = a.nrows();
    let mut scratch = MemBuffer::new(cholesky_in_place_scratch::<f64>(size, Par::Seq, Default::default()));
    cholesky_in_place(a.as_mut(), Default::default(), Par::Seq, MemStack::new(&mut scratch), Default::default())
        .map_err(|_| "the kernel matrix is not positive definite".to_owned())?;
    for column in 1..size {
        a.col_as_slice_mut(column)[..column].fill(0.0);
    }
    Ok(())
}

/// TRSM, a triangular solve with a whole tile: A becomes A L⁻ᵀ.
pub fn trsm(l: &Tile, a: &mut Tile) {
    solve_lower_triangular_in_place(l.as_ref(), a.transpose_mut(), Par::Seq);
}

/// SYRK, the symmetric update of a tile on the diagonal: A −= L Lᵀ, of which only the lower half is worked out.
pub fn syrk(l: &Tile, a: &mut Tile) {
    use BlockStructure::{Rectangular, TriangularLower};
    triangular::matmul(a, TriangularLower, Accum::Add, l, Rectangular, l.transpose(), Rectangular, -1.0, Par::Seq);
}

/// GEMM, the general update: A −= L Mᵀ.
pub fn gemm(l: &Tile, m: &Tile, a: &mut Tile) {
    matmul(a, Accum::Add, l, m.transpose(), -1.0, Par::Seq);
}

/// One step of the forward solve: Y becomes L⁻¹ Y.
pub fn forward(l: &Tile, y: &mut Tile) {
    solve_lower_triangular_in_place(l.as_ref(), y.as_mut(), Par::Seq);
}

/// One step of the backward solve: Y becomes L⁻ᵀ Y.
pub fn backward(l: &Tile, y: &mut Tile) {
    solve_upper_triangular_in_place(l.transpose(), y.as_mut(), Par::Seq);
}

/// What a solved block row takes from one below it: Y −= L X.
pub fn forward_update(l: &Tile, x: &Tile, y: &mut Tile) {
    matmul(y, Accum::Add, l, x, -1.0, Par::Seq);
}

/// What a solved block row takes from one above it: Y −= Lᵀ X.
pub fn backward_update(l: &Tile, x: &Tile, y: &mut Tile) {
    matmul(y, Accum::Add, l.transpose(), x, -1.0, Par::Seq);
}

/// Adds one block's share to the scores of the test images, or begins them with the first block's.
pub fn score(kernel: &Tile, weights: &Tile, first: bool, scores: &mut Tile) {
    let accumulate = if first { Accum::Replace } else { Accum::Add };
    matmul(scores, accumulate, kernel, weights, 1.0, Par::Seq);
}

/// The digit with the highest score for each image, kept as a column of numbers so that every variable of this
/// example guards the same kind of value.
pub fn classify(scores: &Tile, guesses: &mut Tile) {
    for row in 0..scores.nrows() {
        let better = |best: usize, digit: usize| {
            if scores[(row, digit)] > scores[(row, best)] {
                digit
            } else {
                best
            }
        };
        guesses[(row, 0)] = (0..CLASSES).fold(0, better) as f64;
    }
}
