//! The engine: what all its threads share, and the way of an operation from its push to its end.
//!
//! [`core`] is what its threads share, [`state`] its flags. [`push`] gives an operation its tickets
//! and hands it over, or [`inline`] runs it inside its push. [`dispatch`] has the three ways to run
//! operations. [`execute`] runs one, [`complete`] ends it, [`wait`] waits, [`replay`] runs captured
//! graphs. [`future`] has results of operations, and waits that hold no thread. [`scope`] has
//! operations that borrow, and nested parallelism. [`gpu`] has all that concerns devices.
//!
//! The subfolders are of one layer with the files here: they import each other, without a circle.
//! A new subfolder gets a line here and in ARCHITECTURE.md. `tests/structure.rs` finds it by
//! itself.
//!
//! What a push is given: [`request`], [`claims`], [`draft`] (where a builder collects both),
//! [`resolve`] (from a handle to its slot). What it goes through: [`backpressure`], [`ticket_host`]
//! (how `tickets/` sees the engine). Around a closure: [`declared`] (what it may borrow),
//! [`limited`] (whether it may still start), [`nesting`] (how many operations a thread is inside
//! of), [`ready_list`], [`failures`], [`on_error`], [`thread_hooks`]. The engine as a whole:
//! [`settings`] (and [`setting_values`], [`kind`]), [`lifecycle`] (stop and start), [`diagnose`]
//! (what is pending), [`stats`] (its numbers). `publish` tells other processes of those. `fork` has
//! the handlers around a fork of the process; no model has them.

pub mod backpressure;
pub mod claims;
pub mod complete;
pub mod core;
pub mod declared;
pub mod diagnose;
pub mod dispatch;
pub mod draft;
pub mod execute;
pub mod failures;
#[cfg(all(unix, not(any(loom, shuttle))))]
pub mod fork;
pub mod future;
pub mod gpu;
pub mod holds;
pub mod inline;
pub mod kind;
pub mod lifecycle;
pub mod limited;
pub mod nesting;
pub mod on_error;
#[cfg(unix)]
pub mod publish;
pub mod push;
pub mod ready_list;
pub mod replay;
pub mod request;
pub mod resolve;
pub mod scope;
pub mod setting_values;
pub mod settings;
pub mod state;
pub mod stats;
pub mod thread_hooks;
pub mod ticket_host;
pub mod wait;
pub mod worker_host;
