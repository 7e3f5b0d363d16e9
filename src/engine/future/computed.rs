//! An operation with a result: its closure, and the promise of what it returns.
//!
//! `api/pending.rs` pushes them, in one of the ways of `engine/push/`. Wherever such a closure
//! runs, or is dropped, the functions here are called: on the thread that has the operation. They
//! do what those of `operation/closure.rs` do, and keep the promise. A failure of the operation is
//! kept by `engine/failures.rs`, which tells the promise of it.

use crate::engine::future::cell::{Outcome, Promise};
use crate::error::{Failure, Fault, Source};
use crate::operation::closure::{drop_quietly, take, type_key, Cost, Run, Vtable};
use crate::operation::context::RunContext;
use crate::util::spans;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

/// A closure with the promise of its result.
pub struct Computed<F, T: Send> {
    pub closure: F,
    pub promise: Promise<T>,
}

impl<F: 'static, T: Send + 'static> Computed<F, T> {
    /// The functions for this closure.
    pub fn vtable<E>(&self) -> &'static Vtable
    where
        F: FnOnce(&RunContext<'_>) -> Result<T, E> + Send + 'static,
        E: Into<Source>,
    {
        const { &Vtable { run: Run::Sync(Self::run::<E>), discard: Self::discard, cost: Cost::Learned(Self::key) } }
    }

    unsafe fn run<E>(storage: *mut u8, run: &RunContext<'_>) -> Result<(), Fault>
    where
        F: FnOnce(&RunContext<'_>) -> Result<T, E>,
        E: Into<Source>,
    {
        // SAFETY: the vtable belongs to the type that was stored.
        let Computed { closure, promise } = unsafe { take::<Self>(storage) };
        // The error's conversion and its `Display` are user code as well.
        let call = || {
            let _span = spans::call(run.name);
            closure(run).map_err(|error| Fault::failed(error.into()))
        };
        let fault = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(value)) => {
                promise.keep(Outcome::Value(value));
                return Ok(());
            }
            Ok(Err(fault)) => fault,
            Err(payload) => Fault::panicked(payload),
        };
        Err(fault.heard_by(Box::new(promise)))
    }

    unsafe fn discard(storage: *mut u8, failure: Option<&Arc<Failure>>) {
        // SAFETY: the vtable belongs to the type that was stored.
        let Computed { closure, promise } = unsafe { take::<Self>(storage) };
        drop_quietly(closure);
        match failure {
            Some(failure) => promise.keep(Outcome::Failed(Arc::clone(failure), None)),
            None => drop(promise),
        }
    }

    fn key(_: *const u8) -> u64 {
        type_key::<F>()
    }
}
