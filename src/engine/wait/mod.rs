//! Waiting: for one variable ([`for_var`]), for everything ([`for_all`]), with and without a
//! deadline. Called by `api/`, and by `engine/lifecycle.rs` to drain.

mod event;
pub mod for_all;
pub mod for_var;
mod pull;
pub mod reply;
pub mod wait_list;
