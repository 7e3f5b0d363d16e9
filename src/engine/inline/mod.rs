//! Operations that run inside their push: how they run there ([`fast_path`]), or start there if
//! they are asynchronous ([`asynchronous`]), and whether that pays ([`policy`]).
//!
//! Path and policy are used by `push/mod.rs` and `api/operator.rs`; the path's bounds and outcomes
//! also by `push/logged.rs` and `api/runs_inside.rs`. The policy is also used by
//! `engine/execute.rs`, which measures closures, by `api/keyed_builder.rs`, `api/pipeline.rs` and
//! `api/prepare.rs`, by `engine/limited.rs` and `engine/future/limited.rs`, and by
//! `engine/core.rs`, which has one for each engine. Its parts are [`cost_key`], which closures are
//! taken to take equally long, [`opinion`], what is known of those of one key, and [`attention`],
//! which calls a thread measures. Asynchronous operations come by `push/enlist.rs`,
//! `dispatch/pooled.rs`, `dispatch/per_device.rs` and `engine/worker_host.rs`.

pub mod asynchronous;
pub mod attention;
pub mod cost_key;
pub mod fast_path;
pub mod opinion;
pub mod policy;
