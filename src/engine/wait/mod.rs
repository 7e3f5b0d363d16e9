//! Waiting: for one variable, for everything, with and without a deadline.

mod event;
pub mod for_all;
pub mod for_var;
mod pull;
pub mod wait_list;
