//! Operations that run inside their push: how they run there ([`fast_path`]), and whether that pays
//! ([`policy`]).
//!
//! Both are used by `push/mod.rs` and `api/operator.rs`. The policy is also used by
//! `engine/execute.rs`, which measures closures, by `api/operation.rs`, `api/pipeline.rs` and
//! `api/prepare.rs`, and by `engine/core.rs`, which has one for each engine. Its parts are
//! [`opinion`], what is known of closures of one key, and [`attention`], which calls a thread
//! measures.

pub mod attention;
pub mod fast_path;
pub mod opinion;
pub mod policy;
