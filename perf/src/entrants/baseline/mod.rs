//! The opponent: MXNet's `ThreadedEnginePerDevice`, written again in Rust.
//!
//! A comparison needs the original on the same machine, in the same process, under the same bodies
//! and the same allocator. MXNet's own library is a peer too, but an optional download built by
//! another compiler years ago; this one is always there, and whatever is measured against it is a
//! difference of design.
//!
//! # What is taken from the original
//! Its sources are `src/engine/threaded_engine.{h,cc}`, `threaded_engine_perdevice.cc` and dmlc's
//! `concurrency.h`. The algorithms are the same, step for step; no code is.
//!
//! | here | there |
//! |---|---|
//! | `variable` | `ThreadedVar` and `VersionedVarBlock`: one mutex a variable around a linked list of waiting operations that ends in an empty block; a count of running readers that a granted write sets to −1 |
//! | `operation` | `OprBlock` and `ThreadedOpr`: a wait count that starts one above the number of variables, so that the pusher's own share keeps the operation from starting half enlisted |
//! | `queue` | `ConcurrentBlockingQueue`: mutex, condition variable and a count of sleepers, so that a push wakes nobody when nobody sleeps; first in first out, or a heap |
//! | `engine` | `ThreadedEngine`: a count of pending operations, lowered under one mutex for the whole engine, whose condition variable serves both waits; a wait for a variable is a pushed read |
//!
//! The heap allocations are those of the original too: the operation, its two lists of variables,
//! its closure, the block in flight, and one block for every place in a variable's list. A reusable
//! operation allocates only the last two.
//!
//! # What differs
//! For one pusher no difference adds work. Most save some, so the opponent is rather faster than it
//! was:
//!
//! - Mutexes and condition variables are parking_lot's. Measured in the same sitting, the engine
//!   was up to 30 % faster with them than with the standard library's, and nowhere slower with one
//!   worker.
//! - Blocks come from the allocator; the original takes them from four pools of free lists, each
//!   behind a mutex of its own. Measured both ways, the two were within a tenth of each other, and
//!   neither was ahead on every workload.
//! - No errors, profiling, GPU queues, bulk mode or deletion of a single variable, and so none of
//!   the checks for them. A body that panics ends the process, as an unknown exception does there.
//! - The queue of a device is a field, not an array looked up through a counted pointer.
//! - Operations belong to their engine until it is dropped, so nothing counts the uses of a
//!   reusable one.
//! - Of threads that push operations with several variables each has its turn, as under the lock of
//!   the original's front ends. The entrant sees to that when there are several; one pays nothing.
//! - Variables live as long as the process. The original's pool does not return its pages either.
//! - Handles know their engine, and a push checks them: one comparison, on a line that the push
//!   locks anyway. It keeps a handle in the wrong engine from being undefined behaviour.

mod engine;
mod operation;
mod queue;
mod variable;

pub use engine::{Engine, Operator};
pub use queue::Order;
pub use variable::Var;
