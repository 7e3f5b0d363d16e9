//! Kernels: pure functions on slices, which know nobody.
//!
//! `unary.rs`, `leaky.rs` and `binary.rs` have functions of numbers with their derivatives,
//! `tree.rs` sums in a fixed order, `extreme.rs` the greatest and the least, `gemm.rs` products of
//! matrices, `tiny.rs` small ones, `bias.rs` what is added behind them, `softmax.rs` rows of
//! probabilities, `centre.rs` rows around their means, `convolve.rs` convolutions, and `pool.rs`
//! windows of images. `rows.rs` copies short rows. `convert.rs` changes the types of elements.
//! `simd.rs` chooses instructions, and `math.rs` has the functions of one number for its loops.

pub(crate) mod bias;
pub(crate) mod binary;
pub(crate) mod centre;
pub(crate) mod convert;
pub(crate) mod convolve;
pub(crate) mod extreme;
pub(crate) mod gemm;
pub(crate) mod leaky;
pub(crate) mod math;
pub(crate) mod pool;
pub(crate) mod rows;
pub(crate) mod simd;
pub(crate) mod softmax;
pub(crate) mod tiny;
pub(crate) mod tree;
pub(crate) mod unary;
