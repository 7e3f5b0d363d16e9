//! Resources: random numbers and temporary space, each behind a variable.
//!
//! `philox.rs` has the generator, `distributions.rs`, `lanes.rs` and `rejection.rs` what is drawn
//! from it. `granted.rs` has what operators ask for and get, `manager.rs` and `dealt.rs` which of
//! the resources that is.

mod dealt;
mod distributions;
mod granted;
mod lanes;
pub(crate) mod manager;
mod philox;
mod rejection;

pub use distributions::Distribution;
pub use granted::{Resource, ResourceRequest};
pub use philox::Philox;
