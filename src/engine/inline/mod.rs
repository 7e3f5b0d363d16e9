//! Operations that run inside their push: how they run there ([`fast_path`]), and whether that pays
//! ([`policy`]). Both are used by `push/mod.rs` and by `api/operator.rs`; the policy also by
//! `engine/execute.rs`, which measures closures. The policy's parts are [`opinion`], what is known
//! of closures of one key, and [`attention`], which calls a thread measures.

pub mod attention;
pub mod fast_path;
pub mod opinion;
pub mod policy;
