//! The module `seriatim._seriatim`: what `python/seriatim/` is made of.
//!
//! An engine of the library finds out which operations are ready. Threads of Python, the *runners*
//! of `runner.rs`, call their functions. Between them lies the queue of `queue.rs`.
//!
//! The rule that keeps the GIL and the engine from waiting for each other has four sentences:
//!
//! 1. A thread calls the engine only while it is attached to the interpreter. The engine is a naive
//!    one: it has no threads, and none of its calls waits for another thread's.
//! 2. What the engine calls is `Ready::start` of `operation.rs` alone, which queues and returns.
//!    Functions of the program are called by runners, outside of all calls of the engine.
//! 3. A thread that waits detaches, and runs nothing of the program's meanwhile. Inside an
//!    operation a wait for the same engine is an error, since it would hold a runner.
//! 4. No lock of this crate is held while Python is called, or a thread attaches or detaches.
//!
//! So a thread that has the GIL goes on without others, and gives it up after a bounded slice.
//! Destructors and callbacks of the program may run inside of a call of the engine (when the last
//! reference to a function goes). They may push, which the library allows there, and not wait (3).
//!
//! On free-threaded Python attaching is no lock, and the same rule holds.

mod bell;
mod ends;
mod engine;
mod errors;
mod failure;
mod graph;
mod held;
mod operation;
mod pending;
mod queue;
mod resource;
mod runner;
mod shared;
mod token;

/// The module. Programs import `seriatim`, which has these names and those of its Python files.
#[pyo3::pymodule(gil_used = false)]
mod _seriatim {
    #[pymodule_export]
    use crate::ends::{_at_exit, _forked};
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::graph::{Capture, Graph};
    #[pymodule_export]
    use crate::held::Held;
    #[pymodule_export]
    use crate::pending::Pending;
    #[pymodule_export]
    use crate::resource::Resource;
    #[pymodule_export]
    use crate::runner::Runner;
    #[pymodule_export]
    use crate::token::CancelToken;
}
