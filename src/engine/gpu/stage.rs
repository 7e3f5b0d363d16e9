//! The two ends of an operation that has to be called: its pusher, and its closure.
//!
//! If the closure of a pushed operation is dropped without a call, the end that comes second finds
//! out. A push that is refused drops the closure as well, and tells nothing. Used by `foreign.rs`.
//! Two threads touch it, each once at most: the pusher, and the thread that drops the closure,
//! mostly a worker of the device.

use crate::sync::{AtomicU8, Ordering::*};

const PUSHING: u8 = 0;
const PUSHED: u8 = 1;
const DROPPED: u8 = 2;

/// What has become of the operation.
pub struct Stage(AtomicU8);

impl Stage {
    /// It is being pushed.
    pub fn new() -> Stage {
        Stage(AtomicU8::new(PUSHING))
    }

    /// Says that the operation was pushed. Returns whether its closure had been dropped.
    pub fn pushed(&self) -> bool {
        // The two swaps have one order, and the second finds what the first has put there. Acquire:
        // the pusher asks next whether the engine stops, and has to know of a stop for which the
        // closure was dropped.
        self.0.swap(PUSHED, Acquire) == DROPPED
    }

    /// Says that the closure is dropped without a call. Returns whether the operation was pushed.
    pub fn dropped(&self) -> bool {
        // Release: as above. The thread that drops the closure knows itself whether the engine
        // stops.
        self.0.swap(DROPPED, Release) == PUSHED
    }
}
