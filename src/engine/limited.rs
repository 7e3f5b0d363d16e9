//! Closures that are called only if their operation may still start: what a push with limits
//! (`operation/start_limits.rs`) makes of the program's closure.
//!
//! `api/limited_builder.rs`, `api/listed.rs` and `api/operator.rs` push them like any closure. The
//! thread that has the operation asks, where it would call the closure: so the operation has its
//! variables, and each way of a push and of an end has the same rule without a line for it. One
//! that may not start fails with an error of its own, by which `execute.rs`, `complete.rs` and
//! `failures.rs` do what they do for any failure. Replays have `replay/limits.rs`, and futures
//! `future/limited.rs`.

#![forbid(unsafe_code)]

use crate::engine::inline::policy::InlinePolicy;
use crate::error::Source;
use crate::operation::async_closure::AsyncFunction;
use crate::operation::closure::drop_quietly;
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::start_limits::StartLimits;

/// Calls a closure by `call`, if its operation may start; else drops it, and returns the error of
/// the operation.
#[inline]
pub fn start<F, T>(limits: StartLimits, closure: F, call: impl FnOnce(F) -> Result<T, Source>) -> Result<T, Source> {
    match limits.refusal() {
        None => {
            // The closure may run for long, and need not keep the token meanwhile.
            drop(limits);
            call(closure)
        }
        Some(error) => {
            drop_quietly(closure);
            InlinePolicy::forget_call();
            Err(error.into())
        }
    }
}

/// The closure of an asynchronous operation with limits. Its cost is learned as without them.
pub struct Limited<G> {
    pub limits: StartLimits,
    pub function: G,
}

impl<G: AsyncFunction> AsyncFunction for Limited<G> {
    #[inline]
    fn key(&self) -> u64 {
        self.function.key()
    }

    #[inline]
    fn start(self, run: &RunContext<'_>, completion: Completion) {
        let Limited { limits, function } = self;
        match limits.refusal() {
            None => {
                drop(limits);
                function.start(run, completion);
            }
            Some(error) => {
                drop_quietly(function);
                completion.fail(error);
                InlinePolicy::forget_call();
            }
        }
    }
}
