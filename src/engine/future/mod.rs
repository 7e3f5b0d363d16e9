//! Results of operations, and waiting without a thread.
//!
//! [`cell`] is where a result waits for the program, in a block of the pool. [`computed`] is an
//! operation with a result. [`variable`] puts a wait for a variable into push order, whose result
//! is that it is over. [`all`] waits until nothing is in flight. [`task`] is the other direction: a
//! future that is an asynchronous operation, and that workers poll; [`limited`] is one that may be
//! cancelled.
//!
//! Used by `api/`, which has the futures of the program (`api/pending.rs`, `api/when.rs`), and by
//! `wait/for_outcome.rs`, which waits for a result on a thread. Nobody waits for anybody here, and
//! no lock is taken: wakers are called by the thread that ends what was waited for.

pub mod all;
pub mod cell;
pub mod computed;
pub mod limited;
pub mod task;
pub mod variable;
