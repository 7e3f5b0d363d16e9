//! Loops that are compiled a second time for AVX2 and FMA, and run so where the processor has both.
//!
//! Used by the kernels beside this file. Which version runs is a function of the processor alone,
//! so a kernel has the same bits each time on one machine.

use num_traits::Float;

/// Loops of a kernel with what they work on. `run` is marked `#[inline(always)]`, and so is what it
/// calls, as each version compiles all of it.
pub(crate) trait Loops {
    /// Runs the loops; `FMA` says that a product and a sum are one instruction.
    fn run<const FMA: bool>(self);
}

/// Runs loops in the faster version that the processor has.
pub(crate) fn run(loops: impl Loops) {
    #[cfg(target_arch = "x86_64")]
    {
        /// # Safety
        /// The processor has AVX2 and FMA.
        #[target_feature(enable = "avx2,fma")]
        unsafe fn with_avx2(loops: impl Loops) {
            loops.run::<true>();
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has both.
            unsafe { with_avx2(loops) };
            return;
        }
    }
    loops.run::<false>();
}

/// `a b + sum`, rounded once with `FMA` and else twice.
#[inline(always)]
pub(crate) fn fused<T: Float, const FMA: bool>(a: T, b: T, sum: T) -> T {
    if FMA {
        a.mul_add(b, sum)
    } else {
        a * b + sum
    }
}
