//! The stages of an operation, as its block has them, and its flags.
//!
//! A pusher sets the flags of a request (`src/engine/request.rs`), and they stay as they are in the
//! block. Most of the engine reads them, through `block.rs`. No state here.

#![forbid(unsafe_code)]

/// Stage: the block is in a pool or being filled.
pub const BLANK: u8 = 0;
/// Stage: pushed, and not yet running.
pub const PENDING: u8 = 1;
/// Stage: running, or waiting for its asynchronous completion.
pub const RUNNING: u8 = 2;
/// Stage: all is written but the accesses, which may be written again.
pub const ASSEMBLED: u8 = 3;

/// A wait: runs on the thread that finds it ready, whichever that is, and is not skipped.
pub const FLAG_WAIT: u16 = 1;
/// The operation deletes its variable.
pub const FLAG_DELETE: u16 = 1 << 1;
/// The operation was pushed while the profiler was on.
pub const FLAG_PROFILED: u16 = 1 << 2;
/// The closure is short, so the pusher runs the operation if it is ready at once.
pub const FLAG_SHORT: u16 = 1 << 3;
/// The operation runs a graph, which handles marks and versions itself.
pub const FLAG_GRAPH: u16 = 1 << 4;
/// In a request only: parts of the operation run where copies do, or where prioritised operations
/// do.
pub const FLAG_COPIES: u16 = 1 << 5;
pub const FLAG_PRIORITISED: u16 = 1 << 6;
/// In a request only: the push does not wait for room, since it is part of a destructor.
pub const FLAG_BEYOND: u16 = 1 << 7;
/// The operation is queued on a device, by one of the device's workers.
pub const FLAG_GPU: u16 = 1 << 8;
/// The operation runs whatever devices have still to do with its variables: it runs a graph whose
/// own operations look at that, or changes what devices never see.
pub const FLAG_UNLOOKED: u16 = 1 << 9;
/// The operation has no place under the bound: it is one of a graph, which has a place as a whole,
/// or the child of a scope.
pub const FLAG_PLACELESS: u16 = 1 << 10;
/// The operation is the child of a scope that is inside an operation: when it is ready it goes to
/// that scope's list (`src/engine/scope/`), whose address its closure begins with.
pub const FLAG_SCOPED: u16 = 1 << 11;
/// A wait that is shown among what is pending, since others may be behind it: a thread holds its
/// access (`src/engine/wait/hold.rs`).
pub const FLAG_HELD: u16 = 1 << 13;
/// The operation uses a commutative variable in phases (`src/tickets/phases.rs`): it commutes or
/// reads there. In a request: it commutes.
pub const FLAG_PHASED: u16 = 1 << 12;
