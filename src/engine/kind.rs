//! The settings that are one of a few names: the kind of engine, the idle policy of its workers,
//! and what a push does at the bound.
//!
//! Used by `settings.rs`, which has them, and through it by most of the engine. No state here.

#![forbid(unsafe_code)]

use crate::engine::setting_values::bad;
use crate::error::Error;
pub use crate::worker::group::IdlePolicy;
use std::fmt;
use std::str::FromStr;

/// Which of the three engines runs the operations.
///
/// ```
/// use seriatim::Kind;
/// assert_eq!("per-device".parse::<Kind>()?, Kind::PerDevice);
/// assert_eq!(Kind::Naive.to_string(), "naive");
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Kind {
    /// The pushing thread runs each operation at once; no threads. For tests, and quick in its own
    /// right.
    ///
    /// A call also runs what its operation makes ready: 32 operations, or what fits into 20 µs.
    /// After that it leaves the rest to another thread that is inside a push to busy variables, if
    /// there is one: that makes 128 operations of others at most. If there is none, it runs all
    /// that is left, without a bound. So a push may run operations that other threads have pushed:
    /// hold no lock in it that an operation takes.
    Naive,
    /// One shared queue for all workers, and one I/O worker.
    Pooled,
    /// Pinned workers with a queue each, a pool for prioritised operations, and one I/O worker.
    #[default]
    PerDevice,
}

/// What a push does when as many operations are in flight as the bound allows.
///
/// ```
/// use seriatim::{Engine, ErrorKind, WhenFull};
/// let engine = Engine::builder().bound(1).when_full(WhenFull::WouldBlock).build()?;
/// let (wake, alarm) = std::sync::mpsc::channel::<()>();
/// engine.op("slow").push(move |_| { let _ = alarm.recv(); })?;
/// assert_eq!(engine.op("more").push(|_| ()).unwrap_err().kind(), ErrorKind::EngineFull);
/// drop(wake);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// Wait until there is room.
    #[default]
    Block,
    /// Run ready operations until there is room; wait if there are none.
    Help,
    /// Return an error of kind [`EngineFull`](crate::ErrorKind::EngineFull).
    WouldBlock,
}

macro_rules! named_values {
    ($type:ident, $setting:literal, $($value:ident = $name:literal),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($type::$value => $name),+ })
            }
        }
        impl FromStr for $type {
            type Err = Error;
            fn from_str(value: &str) -> Result<$type, Error> {
                match value {
                    $($name => Ok($type::$value),)+
                    _ => Err(bad($setting, value, [$($name),+].join(", ").as_str())),
                }
            }
        }
    };
}

named_values!(Kind, "the engine", Naive = "naive", Pooled = "pooled", PerDevice = "per-device");
named_values!(IdlePolicy, "the idle policy", Spin = "spin", SpinThenPark = "spin-then-park", Park = "park");
named_values!(WhenFull, "what to do when full", Block = "block", Help = "help", WouldBlock = "would-block");
