//! Waiting: for one variable ([`for_var`]), for everything ([`for_all`]), with and without a
//! deadline.
//!
//! Used by `api/`, and by `engine/lifecycle.rs` to drain. `engine/core.rs` has the wait lists,
//! which `engine/fork.rs` locks.

mod event;
pub mod for_all;
pub mod for_var;
mod pull;
pub mod reply;
pub mod wait_list;
