//! Graphs: operations whose dependencies are resolved once, to be run many times.
//!
//! [`edges`] turns the variables that operations use into lists of predecessors. [`merge`] puts
//! those together that a device does as one. [`partition`] deals the operations to lanes, one lane
//! for each thread (`threads` in `engine/replay/assemble.rs` says how many). [`plan`] joins
//! neighbours in a lane into segments, with counters and successor lists. [`lanes`] is the protocol
//! by which threads run the segments; `spread` is the part of it in which one thread runs a replay
//! alone. Operations without edges need no lanes: threads share them by a [`guided_loop`]. Nothing
//! here knows the engine: it sees [`lanes::LaneHost`]. `engine/replay/` calls all of this.
//!
//! Within a lane, segments follow each other on one thread, at the cost of a counter that is not
//! shared. Only an edge between lanes costs a read-modify-write and a transfer of a cache line;
//! programs that pass messages between processes have the same two costs. The plan keeps such edges
//! few: an operation goes to the lane of the operations that it waits for, as far as the lanes stay
//! even.

pub mod edges;
mod exclusive;
pub mod guided_loop;
pub mod lanes;
pub mod merge;
pub mod partition;
pub mod plan;
mod spread;
