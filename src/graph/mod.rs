//! Graphs: operations whose dependencies are resolved once, to be run many times.
//!
//! [`edges`] turns what operations use into who waits for whom; [`partition`] deals the operations
//! to lanes, one a thread; [`plan`] joins neighbours in a lane into segments, with counters and
//! successor lists; [`lanes`] is the protocol by which threads run the segments. Nothing here knows
//! the engine: it sees [`lanes::Host`].
//!
//! Within a lane segments follow each other on one thread, at the cost of a plain counter. Only an
//! edge between lanes costs a read-modify-write and a cache line that moves, which is how programs
//! on message passing do it; the plan keeps such edges few, because an operation goes to the lane
//! of those it waits for, as far as the lanes stay even.

pub mod edges;
pub mod lanes;
mod own;
pub mod partition;
pub mod plan;
mod spread;
