//! An operation inside its push: how it runs there ([`fast_path`]), and whether that pays
//! ([`policy`]).

pub mod fast_path;
pub mod policy;
