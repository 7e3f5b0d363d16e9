//! Kernels: pure functions on slices, which know nobody.
//!
//! `unary.rs` and `binary.rs` have functions of numbers with their derivatives, `tree.rs` sums in a
//! fixed order, `gemm.rs` products of matrices, and `softmax.rs` rows of probabilities.

pub(crate) mod binary;
pub(crate) mod gemm;
pub(crate) mod softmax;
pub(crate) mod tree;
pub(crate) mod unary;
