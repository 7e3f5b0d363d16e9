//! Arrays: what they are, how they are made, and how operations reach their elements.
//!
//! `runtime.rs` has what arrays live on, `chunk.rs` the memory that views share, `view.rs` how they
//! show it, `array.rs` the array itself, and `ending.rs` its end. `create.rs` and `transfer.rs`
//! have its methods that need no operator, `frame.rs` what goes with an operation of it,
//! `access.rs` what the operation sees, `place.rs` where that lies, `pieces.rs` what workers see
//! that share an operation, and `cursor.rs` how its elements are walked over. `parameter.rs` has
//! numbers that operations read, `seeding.rs` seeds of random numbers, `profiled.rs` what is
//! recorded of single calls, and `capturing.rs` what a thread captures. `placing.rs` knows in which
//! contexts arrays can be, `device_copy.rs` copies between the processor and devices, and
//! `device_blob.rs` is what an operation of a device sees of an array.

pub(crate) mod access;
pub(crate) mod array;
pub(crate) mod capturing;
mod chunk;
mod create;
pub(crate) mod cursor;
mod device_blob;
pub(crate) mod device_copy;
mod ending;
pub(crate) mod frame;
pub(crate) mod parameter;
pub(crate) mod pieces;
mod place;
pub(crate) mod placing;
pub(crate) mod profiled;
pub(crate) mod runtime;
mod seeding;
mod transfer;
mod view;
