//! The operations on the processor, in plain Rust: those of `digits/`.

use super::{Matrix, On, Operand, Scratch, TileOps};
use digits::tile::{product, Part, PartMut};
use digits::triangle;

/// Does each operation before the call returns.
#[derive(Clone, Copy, Debug)]
pub struct Processor;

/// # Safety
/// Nobody changes the matrix for `'a`.
unsafe fn part<'a>(a: Matrix) -> Part<'a> {
    // SAFETY: by the contract.
    unsafe { Part::from_raw(a.at.raw().cast(), a.rows, a.columns, a.right) }
}

/// # Safety
/// Nobody else uses the matrix for `'a`.
unsafe fn part_mut<'a>(a: Matrix) -> PartMut<'a> {
    // SAFETY: by the contract.
    unsafe { PartMut::from_raw(a.at.raw().cast(), a.rows, a.columns, a.right) }
}

// SAFETY (of every block below): the caller has the matrices for itself, as the trait says.
impl TileOps for Processor {
    fn name(&self) -> String {
        "plain Rust on the processor".to_owned()
    }

    fn scratch(&self, _: usize) -> Result<usize, String> {
        Ok(0)
    }

    unsafe fn potrf(&self, _: On<'_>, a: Matrix, scratch: Scratch) -> Result<(), String> {
        // SAFETY: as above.
        let outcome = triangle::cholesky(unsafe { part_mut(a) });
        // SAFETY: as above.
        unsafe { scratch.info.raw().cast::<i32>().write(i32::from(outcome.is_err())) };
        Ok(())
    }

    unsafe fn trsm(&self, _: On<'_>, l: Matrix, a: Matrix) -> Result<(), String> {
        // SAFETY: as above.
        unsafe { triangle::divide(part(l), part_mut(a)) };
        Ok(())
    }

    unsafe fn syrk(&self, _: On<'_>, l: Matrix, a: Matrix) -> Result<(), String> {
        // SAFETY: as above.
        unsafe { triangle::subtract_square(part(l), part_mut(a)) };
        Ok(())
    }

    unsafe fn gemm(&self, _: On<'_>, alpha: f64, a: Operand, b: Operand, beta: f64, c: Matrix) -> Result<(), String> {
        let operand = |(matrix, transposed)| {
            // SAFETY: as above.
            let part = unsafe { part(matrix) };
            if transposed {
                part.transposed()
            } else {
                part
            }
        };
        // SAFETY: as above.
        product(alpha, operand(a), operand(b), beta, unsafe { part_mut(c) });
        Ok(())
    }

    unsafe fn solve(&self, _: On<'_>, l: Matrix, transposed: bool, y: Matrix) -> Result<(), String> {
        // SAFETY: as above.
        let (l, y) = unsafe { (part(l), part_mut(y)) };
        match transposed {
            false => triangle::solve(l, y),
            true => triangle::solve_transposed(l, y),
        }
        Ok(())
    }
}
