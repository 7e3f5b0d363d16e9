//! How seriatim is measured, and against whom: the workloads, the runners of this engine and of its
//! peers, the granularity after Task Bench, the latencies. The benches of the main package and the
//! driver of this one share it.

pub mod arguments;
pub mod busy;
pub mod counts;
pub mod entrants;
pub mod latency;
pub mod machine;
pub mod metg;
mod peak;
pub mod program;
pub mod pushers;
pub mod record;
pub mod replays;
pub mod suite;
pub mod throughput;
pub mod versions;
pub mod workloads;
