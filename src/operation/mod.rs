//! Operations: their blocks (`block.rs`, `header.rs`, `layout.rs`, `access.rs`), their closures
//! (`closure.rs`, `context.rs`), and what the running code may do (`completion.rs`, `current.rs`).

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
