//! The processor's operations, queued on streams of the stand-in, which runs them late.

use super::{Matrix, On, Operand, Processor, Scratch, TileOps};
use crate::client;
use seriatim::gpu::RawMemory;

/// Queues each operation as a function, which tells the stand-in what it uses.
#[derive(Clone, Copy, Debug)]
pub struct Queued;

/// What is refused by the stand-in loses the device by this code, as an illegal address does.
const ILLEGAL: i32 = 700;

/// The address on the host of a matrix that a queued function uses.
fn used(a: Matrix, write: bool) -> Option<Matrix> {
    let numbers = if a.columns == 0 { 0 } else { (a.columns - 1) * a.right + a.rows };
    let at = client::memory(a.at.raw().addr() as u64, numbers * 8, write, 0);
    (!at.is_null()).then(|| Matrix { at: RawMemory::new(at.cast()), ..a })
}

fn queue(on: On<'_>, body: impl FnOnce(On<'_>) -> Option<()> + Send + 'static) -> Result<(), String> {
    // The function runs when the operation has returned.
    let stream = on.stream;
    match client::queue(stream.raw(), move || body(On::by_hand(stream)).map_or(ILLEGAL, |()| 0)) {
        0 => Ok(()),
        code => Err(format!("the stand-in refused a function: error {code}")),
    }
}

// SAFETY (of every block below): the caller has the matrices for itself until the stream is done,
// as the trait says, and the stand-in has said where they are.
impl TileOps for Queued {
    fn name(&self) -> String {
        "plain Rust, queued on the stand-in".to_owned()
    }

    fn scratch(&self, _: usize) -> Result<usize, String> {
        Ok(0)
    }

    unsafe fn potrf(&self, on: On<'_>, a: Matrix, scratch: Scratch) -> Result<(), String> {
        queue(on, move |on| {
            let a = used(a, true)?;
            let info = client::memory(scratch.info.raw().addr() as u64, 4, true, 0);
            let scratch = Scratch { info: RawMemory::new(info.cast()), ..scratch };
            // SAFETY: as above.
            (!info.is_null()).then(|| unsafe { Processor.potrf(on, a, scratch) })?.ok()
        })
    }

    unsafe fn trsm(&self, on: On<'_>, l: Matrix, a: Matrix) -> Result<(), String> {
        // SAFETY: as above.
        queue(on, move |on| unsafe { Processor.trsm(on, used(l, false)?, used(a, true)?) }.ok())
    }

    unsafe fn syrk(&self, on: On<'_>, l: Matrix, a: Matrix) -> Result<(), String> {
        // SAFETY: as above.
        queue(on, move |on| unsafe { Processor.syrk(on, used(l, false)?, used(a, true)?) }.ok())
    }

    unsafe fn gemm(&self, on: On<'_>, alpha: f64, a: Operand, b: Operand, beta: f64, c: Matrix) -> Result<(), String> {
        queue(on, move |on| {
            let operand = |(matrix, transposed): Operand| Some((used(matrix, false)?, transposed));
            let (a, b, c) = (operand(a)?, operand(b)?, used(c, true)?);
            // SAFETY: as above.
            unsafe { Processor.gemm(on, alpha, a, b, beta, c) }.ok()
        })
    }

    unsafe fn solve(&self, on: On<'_>, l: Matrix, transposed: bool, y: Matrix) -> Result<(), String> {
        // SAFETY: as above.
        queue(on, move |on| unsafe { Processor.solve(on, used(l, false)?, transposed, used(y, true)?) }.ok())
    }
}
