//! Failures that nobody has waited for when their engine ends: whom they are told.

#![forbid(unsafe_code)]

use crate::engine::core::{Core, ABANDONED};
use crate::error::{Error, ErrorKind, Fault};
use crate::sync::Ordering::Acquire;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// Errors that are told one by one; of the rest only how many they are.
const MOST: usize = 16;

type Hook = dyn Fn(&Error) + Send + Sync;

/// What is called for an error that nobody has waited for. The default prints it.
#[derive(Clone, Default)]
pub struct OnError(Option<Arc<Hook>>);

// A panic of the hook is caught, and it is only ever called.
impl UnwindSafe for OnError {}
impl RefUnwindSafe for OnError {}

impl OnError {
    pub fn new(hook: impl Fn(&Error) + Send + Sync + 'static) -> OnError {
        OnError(Some(Arc::new(hook)))
    }

    /// A panic of the hook has nobody to go to.
    fn call(&self, engine: u32, error: &Error) {
        let tell = || match &self.0 {
            Some(hook) => hook(error),
            None => eprintln!("seriatim engine {engine}: nobody waited for this error: {error}"),
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

impl Core {
    /// Tells what has failed without anybody learning of it. Nothing is in flight, and nobody can
    /// wait any more.
    pub fn report_failures(&self) {
        // The failures of a child of a fork are its parent's.
        if self.state.load(Acquire) & ABANDONED != 0 {
            return;
        }
        let (errors, counted) = self.failures.take_all_live();
        errors.iter().take(MOST).for_each(|error| self.on_error.call(self.memory.id, error));
        let more = errors.len().saturating_sub(MOST) + counted;
        if more > 0 {
            let text = format!("{more} more operations failed, and nobody waited for them");
            self.on_error.call(self.memory.id, &Error::new(ErrorKind::OperationFailed, text));
        }
    }
}
