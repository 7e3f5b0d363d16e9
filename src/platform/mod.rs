//! What depends on the processor and on the system.

pub mod affinity;
pub mod asymmetric_fence;
pub mod cache_line;
pub mod low_memory;
pub mod tsc;
