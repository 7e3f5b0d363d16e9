//! Waiting: for one variable ([`for_var`]), for everything ([`for_all`]), for the result of an
//! operation ([`for_outcome`]), with and without a deadline; and for an access that the waiting
//! thread then keeps ([`hold`]); for the children of a scope ([`for_scope`]). Futures wait without
//! a thread: see `engine/future/`.
//!
//! Used by `api/` and `scope/`, by `engine/lifecycle.rs` to drain, and by `engine/backpressure.rs`
//! at a bound. `engine/core.rs` has the wait lists, which `engine/fork.rs` locks.

pub mod crosswise;
mod event;
pub mod for_all;
pub mod for_outcome;
pub mod for_scope;
pub mod for_var;
pub mod handover;
pub mod held_list;
pub mod hold;
mod pull;
pub mod reply;
pub mod wait_list;
pub mod waker_list;
