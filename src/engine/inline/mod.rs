//! Operations that run inside their push: how they run there ([`fast_path`]), or start there if
//! they are asynchronous ([`asynchronous`]), and whether that pays ([`policy`]).
//!
//! Path and policy are used by `push/mod.rs` and `api/operator.rs`. The policy is also used by
//! `engine/execute.rs`, which measures closures, by `api/keyed_builder.rs`, `api/pipeline.rs` and
//! `api/prepare.rs`, and by `engine/core.rs`, which has one for each engine. Its parts are
//! [`opinion`], what is known of closures of one key, and [`attention`], which calls a thread
//! measures. Asynchronous operations come by `engine/ticket_host.rs`, `dispatch/pooled.rs`,
//! `dispatch/per_device.rs` and `engine/execute.rs`.

pub mod asynchronous;
pub mod attention;
pub mod fast_path;
pub mod opinion;
pub mod policy;
