//! Is the answer right?

use crate::data::TEST_ROWS;
use crate::job::{Job, SerialTiles};
use crate::kernels;
use crate::tile::Tile;

/// How many test images the reference implementation reads right.
pub const REFERENCE_RIGHT: usize = 286;
/// The backward error of a sound Cholesky is a small multiple of the rounding unit, 1.1e-16.
const RESIDUAL_LIMIT: f64 = 1e-14;

/// What the last run with the engine came to.
#[derive(Debug)]
pub struct Verdict {
    /// Test images read right.
    pub right: usize,
    /// ‖A − L Lᵀ‖ / ‖A‖, Frobenius norms.
    pub residual: f64,
    /// Tiles that differ from the plain run's in any bit.
    pub differing: usize,
}

impl Verdict {
    /// # Errors
    /// One line on the first thing that is not as it should be.
    pub fn check(&self) -> Result<(), String> {
        if self.differing > 0 {
            return Err(format!(
                "{} tiles differ from those of the plain run: operations ran out of order",
                self.differing
            ));
        }
        if self.residual.is_nan() || self.residual > RESIDUAL_LIMIT {
            return Err(format!(
                "the residual is {:.1e}, {RESIDUAL_LIMIT:.0e} at the most was expected",
                self.residual
            ));
        }
        if self.right != REFERENCE_RIGHT {
            return Err(format!(
                "{} of {TEST_ROWS} right where the reference has {REFERENCE_RIGHT}; is --data the file that comes with \
                 this example?",
                self.right
            ));
        }
        Ok(())
    }
}

/// Looks at what the last run with the engine left in its tiles, and at the plain run's.
///
/// # Errors
/// When a tile is still in use, which it is not after a wait.
pub fn verdict(job: &Job, serial: &SerialTiles) -> Result<Verdict, seriatim::Error> {
    let mut differing = 0;
    for slot in 0..job.plan.slots() {
        differing += usize::from(!same_bits(&*job.tile(slot)?, serial.tile(slot)));
    }
    Ok(Verdict { right: right(job)?, residual: residual(job)?, differing })
}

fn same_bits(a: &Tile, b: &Tile) -> bool {
    let bits = |tile: &Tile| -> Vec<u64> { tile.values().iter().map(|value| value.to_bits()).collect() };
    (a.rows(), a.columns()) == (b.rows(), b.columns()) && bits(a) == bits(b)
}

fn right(job: &Job) -> Result<usize, seriatim::Error> {
    let mut right = 0;
    for (test, block) in job.inputs.test.iter().enumerate() {
        let guesses = job.tile(job.plan.guesses(test))?;
        let pairs = guesses.column(0).iter().zip(&block.labels);
        right += pairs.filter(|&(&guess, &label)| guess == f64::from(label)).count();
    }
    Ok(right)
}

/// The factor overwrote the kernel matrix, so each of its tiles is built once more and the product
/// taken out of it.
fn residual(job: &Job) -> Result<f64, seriatim::Error> {
    let plan = &job.plan;
    let (mut left_over, mut whole) = (0.0, 0.0);
    for row in 0..plan.fit {
        for column in 0..=row {
            let (a, b) = (&job.inputs.fit[row], &job.inputs.fit[column]);
            let mut tile = Tile::zeros(a.labels.len(), b.labels.len());
            kernels::gaussian(a, b, &mut tile);
            if row == column {
                kernels::add_ridge(&mut tile);
            }
            // A tile below the diagonal stands for its mirror image too.
            let weight = if row == column { 1.0 } else { 2.0 };
            whole += weight * tile.squared_norm();
            for step in 0..=column {
                let (l, m) = (job.tile(plan.lower(row, step))?, job.tile(plan.lower(column, step))?);
                kernels::gemm(&l, &m, &mut tile);
            }
            left_over += weight * tile.squared_norm();
        }
    }
    Ok((left_over / whole).sqrt())
}
