//! Operations: their blocks (`block.rs`, `flags.rs`, `header.rs`, `layout.rs`, `access.rs`), their
//! closures (`closure.rs`, `async_closure.rs`, `erased_closure.rs`, `context.rs`), what the running
//! code may do (`completion.rs`, `current.rs`), what is seen of one that has no block
//! (`inline_run.rs`), and what an operation is (`name.rs`, `property.rs`). Pushes make them
//! (`src/engine/push/`), and `src/engine/execute.rs` runs them.

pub mod access;
pub mod async_closure;
pub mod block;
pub mod closure;
pub mod completion;
pub mod context;
pub mod current;
pub mod erased_closure;
pub mod flags;
pub mod header;
pub mod inline_run;
pub mod layout;
pub mod name;
pub mod property;
