//! Operations that run inside their push: how they run there ([`fast_path`]), and whether that pays
//! ([`policy`]). Both are used by `push/mod.rs` and by `api/operator.rs`; the policy also by
//! `engine/execute.rs`, which measures closures.

pub mod fast_path;
pub mod policy;
