//! Resources: random numbers and temporary space, each behind a variable.
//!
//! `philox.rs` has the generator, `distributions.rs`, `lanes.rs` and `rejection.rs` what is drawn
//! from it, and `manager.rs` what operators ask for and get.

mod distributions;
mod lanes;
pub(crate) mod manager;
mod philox;
mod rejection;

pub use distributions::Distribution;
pub use manager::{Resource, ResourceRequest};
pub use philox::Philox;
