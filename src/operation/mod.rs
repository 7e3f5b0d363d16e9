//! Operations. Pushes make them (`src/engine/push/`), and `src/engine/execute.rs` runs them.
//!
//! - What an operation is: `name.rs`, `property.rs`. Until when it may start: `cancel_token.rs`,
//!   `start_limits.rs`.
//! - Its block: `block.rs`, `header.rs`, `flags.rs`, `layout.rs`, `access.rs`. One that runs inside
//!   its push has none; `inline_run.rs` shows it all the same.
//! - Its closure: `closure.rs`, `async_closure.rs`, `erased_closure.rs`; `context.rs` is what the
//!   closure is told.
//! - What the running code may do: `completion.rs`, `current.rs`.

pub mod access;
pub mod async_closure;
pub mod block;
pub mod cancel_token;
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
pub mod start_limits;
