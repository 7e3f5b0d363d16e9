//! A future that is an operation with limits: it is asked before each poll whether it may go on.
//!
//! `api/limited_builder.rs` pushes it as it would push the future (`task.rs`). The thread that
//! polls it asks. A cancelled future is ready at once, with an error: so the task drops it, and the
//! operation fails. Cancelling wakes nobody: a future that waits is dropped when it is woken next.

use crate::engine::inline::policy::InlinePolicy;
use crate::error::Source;
use crate::operation::closure::IntoOutcome;
use crate::operation::start_limits::StartLimits;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future with the limits of its operation, of which the deadline is for the first poll.
pub struct LimitedFuture<F> {
    limits: StartLimits,
    is_started: bool,
    future: F,
}

impl<F> LimitedFuture<F> {
    pub fn new(limits: StartLimits, future: F) -> LimitedFuture<F> {
        LimitedFuture { limits, is_started: false, future }
    }
}

impl<F> Future for LimitedFuture<F>
where
    F: Future,
    F::Output: IntoOutcome,
{
    type Output = Result<(), Source>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out of it below.
        let this = unsafe { self.get_unchecked_mut() };
        let refusal = match std::mem::replace(&mut this.is_started, true) {
            false => this.limits.refusal(),
            true => this.limits.cancellation(),
        };
        match refusal {
            None => {
                // SAFETY: it is pinned as a part of this, which has no `Drop`, and is `Unpin` only
                // if the future is.
                let future = unsafe { Pin::new_unchecked(&mut this.future) };
                future.poll(context).map(IntoOutcome::into_outcome)
            }
            Some(error) => {
                InlinePolicy::forget_call();
                Poll::Ready(Err(error.into()))
            }
        }
    }
}
