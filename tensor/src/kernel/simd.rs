//! Loops that are compiled a second time for AVX2 and FMA, and some a third time for AVX-512, and
//! run so where the processor has it; and floats of 16 bits, for which there is an instruction.
//!
//! Used by the kernels beside this file. Which version runs is a function of the processor alone,
//! so a kernel has the same bits each time on one machine. The versions for AVX2 and AVX-512 have
//! the same bits too: both compute an element by the same operations.

use half::f16;
use half::slice::HalfFloatSliceExt;
use num_traits::Float;

/// Loops of a kernel with what they work on. `run` is marked `#[inline(always)]`, and so is what it
/// calls, as each version compiles all of it.
pub(crate) trait Loops {
    /// Whether they compute much for each element, so that registers of twice the width take half
    /// the time.
    const WIDE: bool = false;

    /// Runs the loops; `FMA` says that a product and a sum are one instruction.
    fn run<const FMA: bool>(self);
}

/// Runs loops in the faster version that the processor has.
pub(crate) fn run<L: Loops>(loops: L) {
    #[cfg(target_arch = "x86_64")]
    {
        /// # Safety
        /// The processor has AVX2 and FMA.
        #[target_feature(enable = "avx2,fma")]
        unsafe fn with_avx2(loops: impl Loops) {
            loops.run::<true>();
        }
        #[cfg(has_avx512)]
        if L::WIDE {
            /// # Safety
            /// The processor has AVX2, FMA and these parts of AVX-512.
            #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn with_avx512(loops: impl Loops) {
                loops.run::<true>();
            }
            if has_avx512() {
                // SAFETY: the processor has them.
                unsafe { with_avx512(loops) };
                return;
            }
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has both.
            unsafe { with_avx2(loops) };
            return;
        }
    }
    loops.run::<false>();
}

/// Whether the processor has the parts of AVX-512 that loops use. VBMI2 is none of them: processors
/// without it lower their frequency for all that runs beside such loops.
#[cfg(all(target_arch = "x86_64", has_avx512))]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
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

/// Elements that an instruction converts together.
#[cfg(target_arch = "x86_64")]
const EIGHT: usize = 8;

/// Narrows to 16 bits, each value to the nearest.
pub(crate) fn to_f16(from: &[f32], out: &mut [f16]) {
    assert_eq!(from.len(), out.len());
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm256_cvtps_ph, _mm256_loadu_ps, _mm_storeu_si128, _MM_FROUND_TO_NEAREST_INT};
        /// # Safety
        /// The processor has AVX and F16C.
        #[target_feature(enable = "avx,f16c")]
        unsafe fn with_f16c(from: &[f32], out: &mut [f16]) {
            for (from, out) in from.chunks_exact(EIGHT).zip(out.chunks_exact_mut(EIGHT)) {
                // SAFETY: both have eight elements, and neither needs to be aligned.
                unsafe {
                    let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
                    _mm_storeu_si128(out.as_mut_ptr().cast(), halves);
                }
            }
        }
        if is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c") {
            let whole = from.len() / EIGHT * EIGHT;
            // SAFETY: the processor has both.
            unsafe { with_f16c(&from[..whole], &mut out[..whole]) };
            // By the same instruction, one by one.
            return out[whole..].convert_from_f32_slice(&from[whole..]);
        }
    }
    out.convert_from_f32_slice(from);
}

/// Widens from 16 bits.
pub(crate) fn from_f16(from: &[f16], out: &mut [f32]) {
    assert_eq!(from.len(), out.len());
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm256_cvtph_ps, _mm256_storeu_ps, _mm_loadu_si128};
        /// # Safety
        /// The processor has AVX and F16C.
        #[target_feature(enable = "avx,f16c")]
        unsafe fn with_f16c(from: &[f16], out: &mut [f32]) {
            for (from, out) in from.chunks_exact(EIGHT).zip(out.chunks_exact_mut(EIGHT)) {
                // SAFETY: both have eight elements, and neither needs to be aligned.
                unsafe {
                    let halves = _mm_loadu_si128(from.as_ptr().cast());
                    _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(halves));
                }
            }
        }
        if is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c") {
            let whole = from.len() / EIGHT * EIGHT;
            // SAFETY: the processor has both.
            unsafe { with_f16c(&from[..whole], &mut out[..whole]) };
            return from[whole..].convert_to_f32_slice(&mut out[whole..]);
        }
    }
    from.convert_to_f32_slice(out);
}
