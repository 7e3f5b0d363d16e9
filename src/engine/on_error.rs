//! The hook for failures that no wait has taken when their engine ends (`Builder::on_error`).
//! `Core::report_failures` in `lifecycle.rs` calls it, on the thread that closes the engine: the
//! one that drops the last handle, or one that is started for that. The hook does not change.
//! Engines of clones of one builder share it, so several threads may call it at once.
//!
//! `api/builder.rs` takes it. The error carries the name of its operation (`Error::operation`); the
//! last call, which only tells how many more there are, has none.

#![forbid(unsafe_code)]

use crate::error::{Error, Fault};
use crate::platform::standard_error::tell;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

type Hook = dyn Fn(&Error) + Send + Sync;

/// The hook. The default prints the error.
#[derive(Clone, Default)]
pub struct OnError(Option<Arc<Hook>>);

// The hook is only ever called, and a panic of it is caught.
impl UnwindSafe for OnError {}
impl RefUnwindSafe for OnError {}

impl OnError {
    pub fn new(hook: impl Fn(&Error) + Send + Sync + 'static) -> OnError {
        OnError(Some(Arc::new(hook)))
    }

    /// Calls the hook. A panic of the hook is dropped, as there is no caller to report it to.
    pub fn call(&self, engine: u32, error: &Error) {
        let tell = || match &self.0 {
            Some(hook) => hook(error),
            None => tell(&format!("seriatim engine {engine}: nobody waited for this error: {error}")),
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(tell)) {
            drop(Fault::panicked(payload));
        }
    }
}

impl fmt::Debug for OnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a hook" } else { "standard error" })
    }
}
