//! The public face of the crate: engines, how operations are pushed to them and waited for, the
//! values that operations share, and graphs.
//!
//! Each file has one type that users see, or one group of methods of [`engine::Engine`]: [`push`]
//! has those that push, [`control`] those that wait, stop and look, [`stats`] the numbers,
//! [`capture`] those that capture, and [`builder`] those that make engines. The folder [`typed`] has
//! values that operations are lent by type. The modules under `src/engine/` do the work.

pub mod adopted_stream;
pub mod builder;
pub mod capture;
pub mod capture_builder;
pub mod control;
pub mod copy;
pub mod data;
pub mod device_array;
pub mod device_data;
pub mod device_handle;
pub mod engine;
pub mod gpu;
pub mod graph;
pub mod hooks;
pub mod instances;
pub mod keyed_builder;
pub mod limited_builder;
pub mod listed;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod operation;
pub mod operator;
pub mod parameter;
pub mod pending;
pub mod pinned_data;
pub mod pinned_fill;
pub mod pipeline;
pub mod prepare;
pub mod private;
pub mod push;
pub mod push_future;
pub mod run_now;
pub mod runs_inside;
pub mod scope;
pub mod scope_limits;
pub mod stats;
pub mod system;
pub mod typed;
pub mod when;
