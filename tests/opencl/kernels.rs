//! What operations do to cells of words: kernels for the device, and the same for the processor.

use crate::backend::Driver;
use crate::library::{made, Object};
use std::ffi::CStr;

pub const WORDS: usize = 64;

/// The words of a cell.
pub type Values = [u32; WORDS];

/// The factors of `blend`.
pub type Factors = [u32; 3];

/// The kernels. Memory is volatile, so that every round reads and writes it: if two run at the same
/// time on one cell, the values show it. Neither commutes with itself or the other.
pub const SOURCE: &str = "
    __kernel void blend(__global volatile uint *y, __global const volatile uint *x,
                        uint a, uint b, uint c, uint rounds) {
        for (uint round = 0; round < rounds; round++)
            for (uint i = 0; i < 64; i++) y[i] = a * y[i] + b * x[i] + c;
    }
    __kernel void look(__global volatile uint *found, __global const volatile uint *x, uint rounds) {
        uint sum = found[0];
        for (uint round = 0; round < rounds; round++)
            for (uint i = 0; i < 64; i++) sum = sum * 69069u + x[i];
        found[0] = sum;
    }";

/// What the kernel `blend` does.
pub fn blend(y: &mut Values, x: &Values, [a, b, c]: Factors, rounds: u32) {
    let once = |y: u32, x: u32| a.wrapping_mul(y).wrapping_add(b.wrapping_mul(x)).wrapping_add(c);
    for _ in 0..rounds {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = once(*y, *x));
    }
}

/// What the kernel `blend` does if `y` and `x` are one cell.
pub fn blend_alone(y: &mut Values, [a, b, c]: Factors, rounds: u32) {
    blend(y, &[0; WORDS], [a.wrapping_add(b), 0, c], rounds);
}

/// What the kernel `look` does: more of the sum of what was looked at before.
pub fn look(sum: u32, x: &Values, rounds: u32) -> u32 {
    (0..rounds).flat_map(|_| x).fold(sum, |sum, x| sum.wrapping_mul(69069).wrapping_add(*x))
}

/// The kernels of a stream: one thread at a time gives them their arguments.
pub struct Kernels {
    pub blend: Object,
    pub look: Object,
}

impl Kernels {
    pub fn new(driver: &Driver) -> Result<Kernels, String> {
        let kernel = |name: &CStr| {
            made("clCreateKernel", |code| {
                // SAFETY: the program is built, and has kernels of these names.
                unsafe { (driver.library.call.create_kernel)(driver.program, name.as_ptr(), code) }
            })
        };
        Ok(Kernels { blend: kernel(c"blend")?, look: kernel(c"look")? })
    }

    pub fn release(&self, driver: &Driver) {
        for kernel in [self.blend, self.look] {
            // SAFETY: the kernels are ours, and nobody uses them any more.
            unsafe { (driver.library.call.release_kernel)(kernel) };
        }
    }
}
