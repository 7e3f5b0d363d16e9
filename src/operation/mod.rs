//! Operations: their blocks, their closures, and the handles that end or repeat them.

pub mod access;
pub mod block;
pub mod closure;
pub mod completion;
pub mod context;
pub mod current;
pub mod header;
pub mod inline_run;
pub mod layout;
pub mod name;
pub mod property;
