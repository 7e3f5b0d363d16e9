//! Code that depends on the processor or on the operating system. The rest of the crate calls it,
//! on any thread. Only `asymmetric_fence.rs` and `tsc.rs` have a state that changes.

pub mod affinity;
pub mod asymmetric_fence;
pub mod cache_line;
pub mod futex;
pub mod low_memory;
pub mod scheduling;
pub mod standard_error;
pub mod tsc;
