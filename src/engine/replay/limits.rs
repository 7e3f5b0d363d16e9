//! The limits of a replay: until when its operations may start.
//!
//! `api/graph.rs` has them, `replay/mod.rs` writes them when the replay begins, and
//! `replay/node_call.rs` asks before it calls an operation, on any thread that runs a lane.
//! `replay/program.rs` has the place, which belongs to one thread while no replay is under way, and
//! is read by all runners until the next one.
//!
//! A replay is as if all of its operations were pushed in a row. So the token is looked at before
//! each of them, and one that has started goes on. The deadline is that of the replay: it is
//! looked at when the replay begins, and then all may start, or none.
//!
//! Only a replay with limits looks at them: [`LIMITED`] in the time of its push sends each
//! operation to `node_call.rs`, as a replay that is profiled does.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::operation::start_limits::StartLimits;

/// Set in `Replay::pushed` if the replay has limits. No time reaches it.
pub const LIMITED: u64 = 1 << 63;

/// The limits of the last replay that had some.
#[derive(Default)]
pub struct ReplayLimits {
    limits: StartLimits,
    /// Why no operation may start, found when the replay began.
    refused: Option<Error>,
}

impl ReplayLimits {
    /// Those of a replay that begins now.
    pub fn begin(limits: StartLimits) -> ReplayLimits {
        ReplayLimits { refused: limits.refusal(), limits }
    }

    /// Why an operation may not start now, if so.
    pub fn refusal(&self) -> Option<Error> {
        self.refused.clone().or_else(|| self.limits.cancellation())
    }
}
