//! What an operation does to its tiles.
//!
//! Every function here runs on one thread: all parallelism of this program is the engine's.

use crate::data::{Block, CLASSES};
use crate::lanes;
use crate::tile::{product, Tile};
use crate::triangle;

/// The γ of the kernel `exp(-γ‖a-b‖²)`.
const GAMMA: f64 = 0.3;
/// The ridge: what is added on the diagonal.
const LAMBDA: f64 = 0.01;

/// Fills `out` with the Gaussian kernel between every image of `a` (rows) and every image of `b`
/// (columns).
///
/// ‖a-b‖² is had as ‖a‖² + ‖b‖² − 2 a·b. Pixels are sixteenths, so these sums are exact and lose
/// nothing to rounding.
pub fn gaussian(a: &Block, b: &Block, out: &mut Tile) {
    product(-2.0, a.pixels.part(), b.pixels.part().transposed(), 0.0, out.part_mut());
    for (column, &norm) in b.norms.iter().enumerate() {
        lanes::gaussian(out.column_mut(column), &a.norms, norm, GAMMA);
    }
}

/// Adds the ridge to a tile on the diagonal.
pub fn add_ridge(out: &mut Tile) {
    for place in 0..out.rows() {
        out[(place, place)] += LAMBDA;
    }
}

/// The right-hand sides: a column for each digit, +1 where the image shows it and −1 where it does
/// not.
pub fn targets(block: &Block, out: &mut Tile) {
    for digit in 0..CLASSES {
        for (value, &label) in out.column_mut(digit).iter_mut().zip(&block.labels) {
            *value = if usize::from(label) == digit { 1.0 } else { -1.0 };
        }
    }
}

/// POTRF, the Cholesky factor of one tile: A = L Lᵀ, with L left in the lower half and zeros in the
/// upper.
///
/// # Errors
/// When the tile is not positive definite.
pub fn potrf(a: &mut Tile) -> Result<(), String> {
    triangle::cholesky(a.part_mut())?;
    for column in 1..a.columns() {
        a.column_mut(column)[..column].fill(0.0);
    }
    Ok(())
}

/// TRSM, a triangular solve with a whole tile: A becomes A L⁻ᵀ.
pub fn trsm(l: &Tile, a: &mut Tile) {
    triangle::divide(l.part(), a.part_mut());
}

/// SYRK, the symmetric update of a tile on the diagonal: A −= L Lᵀ, of which only the lower half
/// counts.
pub fn syrk(l: &Tile, a: &mut Tile) {
    triangle::subtract_square(l.part(), a.part_mut());
}

/// GEMM, the general update: A −= L Mᵀ.
pub fn gemm(l: &Tile, m: &Tile, a: &mut Tile) {
    product(-1.0, l.part(), m.part().transposed(), 1.0, a.part_mut());
}

/// One step of the forward solve: Y becomes L⁻¹ Y.
pub fn forward(l: &Tile, y: &mut Tile) {
    triangle::solve(l.part(), y.part_mut());
}

/// One step of the backward solve: Y becomes L⁻ᵀ Y.
pub fn backward(l: &Tile, y: &mut Tile) {
    triangle::solve_transposed(l.part(), y.part_mut());
}

/// What a solved block row takes from one below it: Y −= L X.
pub fn forward_update(l: &Tile, x: &Tile, y: &mut Tile) {
    product(-1.0, l.part(), x.part(), 1.0, y.part_mut());
}

/// What a solved block row takes from one above it: Y −= Lᵀ X.
pub fn backward_update(l: &Tile, x: &Tile, y: &mut Tile) {
    product(-1.0, l.part().transposed(), x.part(), 1.0, y.part_mut());
}

/// Adds one block's share to the scores of the test images, or begins them with the first block's.
pub fn score(kernel: &Tile, weights: &Tile, first: bool, scores: &mut Tile) {
    let keep = if first { 0.0 } else { 1.0 };
    product(1.0, kernel.part(), weights.part(), keep, scores.part_mut());
}

/// The digit with the highest score for each image, kept as a column of numbers so that every
/// variable of this example guards the same kind of value.
pub fn classify(scores: &Tile, guesses: &mut Tile) {
    for row in 0..scores.rows() {
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
