//! `CancelToken`: whether the operations of a group may still start. Programs make it and cancel
//! it, on any thread. `start_limits.rs` asks it on the thread that is about to call a closure. It
//! belongs to no engine, and knows none of its operations.

#![forbid(unsafe_code)]

use crate::sync::{AtomicBool, Ordering::*};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// Cancels a group of operations: those that are pushed with this token, on any engine. Clones are
/// one token.
///
/// An operation whose turn comes after [`cancel`](CancelToken::cancel) is skipped, like one that
/// depends on a failed operation. Its closure is dropped without being called. The operation fails
/// with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled): the variables that it changes are
/// marked, so operations that use them are skipped too, also those outside of the group, until a
/// wait takes the error.
///
/// A cancelled operation keeps its place: it is skipped when its turn comes, and what follows on
/// its variables comes after it. What has started goes on to its end. An operation of a GPU has
/// started when its closure was called, which queues its work. A closure that runs for long may ask
/// [`is_cancelled`](CancelToken::is_cancelled) itself.
///
/// [`OperationBuilder::token`](crate::OperationBuilder::token) puts an operation into the group.
/// [`StartLimits`](crate::StartLimits) lists the other ways. An operation without a token costs
/// what it did; one with a token counts a handle, and asks once, before its closure is called.
///
/// ```
/// use seriatim::{CancelToken, Engine, ErrorKind};
/// let engine = Engine::new()?;
/// let [x, y] = [engine.new_variable(), engine.new_variable()];
/// let token = CancelToken::new();
/// token.cancel();
/// engine.op("load").write(x).token(&token).push(|_| unreachable!("it is skipped"))?;
/// engine.op("use").read(x).write(y).push(|_| unreachable!("so is what depends on it"))?;
/// let error = engine.wait_for_var(y).unwrap_err();
/// assert_eq!((error.kind(), error.operation()), (ErrorKind::Cancelled, Some("load")));
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "a token cancels only what is pushed with it"]
#[derive(Clone)]
pub struct CancelToken(Arc<CancelFlag>);

/// On lines of its own: threads that ask do not wait for those that count handles.
#[repr(align(128))]
struct CancelFlag(AtomicBool);

impl CancelToken {
    /// A token that is not cancelled. Allocates once.
    ///
    /// ```
    /// assert!(!seriatim::CancelToken::new().is_cancelled());
    /// ```
    pub fn new() -> CancelToken {
        CancelToken(Arc::new(CancelFlag(AtomicBool::new(false))))
    }

    /// Cancels what has not started, for good: a token is not used again. One store, whatever the
    /// size of the group; nobody is woken, and nothing is taken out of a queue. A second call
    /// changes nothing.
    ///
    /// An operation that starts on another thread at this moment may still run. What the calling
    /// thread pushes later with this token is skipped. What it did before is seen by the
    /// destructors of the closures that are skipped.
    ///
    /// ```
    /// let token = seriatim::CancelToken::new();
    /// let clone = token.clone();
    /// token.cancel();
    /// assert!(clone.is_cancelled());
    /// ```
    pub fn cancel(&self) {
        // Release: pairs with the acquire in `is_cancelled`.
        self.0 .0.store(true, Release);
    }

    /// Whether [`cancel`](CancelToken::cancel) was called, on any thread. One load.
    ///
    /// ```
    /// use seriatim::{CancelToken, Engine};
    /// let engine = Engine::new()?;
    /// let token = CancelToken::new();
    /// let asked = token.clone();
    /// engine.op("search").token(&token).push(move |_| {
    ///     while !asked.is_cancelled() { /* one step more */ }
    /// })?;
    /// token.cancel();
    /// let _ = engine.wait_for_all(); // an error only if it had not started
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the release in `cancel`, for what the canceller did before.
        self.0 .0.load(Acquire)
    }
}

impl Default for CancelToken {
    fn default() -> CancelToken {
        CancelToken::new()
    }
}

// It is one flag, which no call leaves half changed.
impl UnwindSafe for CancelToken {}
impl RefUnwindSafe for CancelToken {}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_cancelled() { "CancelToken(cancelled)" } else { "CancelToken" })
    }
}
