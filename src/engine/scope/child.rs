//! The closure of a child, with the state of its scope, and the functions that run or drop it: what
//! those of `operation/closure.rs` do, and the end of the child.
//!
//! Used by `scope/open.rs`, and by `scope/help.rs` for invitations. The functions are called where
//! closures are: on the thread that has the operation.

use crate::engine::scope::innermost;
use crate::engine::scope::state::ScopeState;
use crate::error::{Failure, Fault, HearsFailure};
use crate::operation::closure::{catch, drop_quietly, is_inline, take, Cost, IntoOutcome, Run, Vtable};
use crate::operation::context::RunContext;
use std::marker::PhantomData;
use std::mem::forget;
use std::sync::Arc;

/// A closure of a scope. The state comes first: `scope/offer.rs` reads it without the type.
#[repr(C)]
pub struct ScopeChild<F> {
    state: Arc<ScopeState>,
    closure: F,
}

impl<F> ScopeChild<F> {
    /// A child that is counted from now on.
    pub fn new(state: &Arc<ScopeState>, closure: F) -> ScopeChild<F> {
        state.add_child();
        ScopeChild { state: Arc::clone(state), closure }
    }

    /// Whether a block has room for it. Any other closure goes into a box first.
    pub const fn fits() -> bool {
        is_inline::<Self>()
    }

    /// The functions for it.
    pub fn vtable<R>(&self) -> &'static Vtable
    where
        F: FnOnce(&RunContext<'_>) -> R + Send,
        R: IntoOutcome,
    {
        ChildBody::<F, R>::VTABLE
    }
}

struct ChildBody<F, R>(PhantomData<(F, R)>);

impl<F, R> ChildBody<F, R>
where
    F: FnOnce(&RunContext<'_>) -> R + Send,
    R: IntoOutcome,
{
    const VTABLE: &'static Vtable = &Vtable { run: Run::Sync(Self::run), discard: Self::discard, cost: Cost::Unknown };

    unsafe fn run(storage: *mut u8, run: &RunContext<'_>) -> Result<(), Fault> {
        // SAFETY: the vtable belongs to the type that was stored.
        let ScopeChild { state, closure } = unsafe { take::<ScopeChild<F>>(storage) };
        let end = ChildEnd(state);
        // The closure, and all that it has borrowed, is gone when this returns.
        match catch(|| closure(run).into_outcome()) {
            Ok(()) => Ok(()),
            Err(fault) => Err(fault.heard_by(Box::new(end))),
        }
    }

    unsafe fn discard(storage: *mut u8, failure: Option<&Arc<Failure>>) {
        // SAFETY: the vtable belongs to the type that was stored.
        let ScopeChild { state, closure } = unsafe { take::<ScopeChild<F>>(storage) };
        if state.is_gone() {
            // What it has borrowed is gone, too.
            return forget(closure);
        }
        let end = ChildEnd(state);
        drop_quietly(closure);
        match failure {
            Some(failure) => end.0.hear(failure),
            None => end.0.count_uncalled(true),
        }
    }
}

/// The end of a child, when this is dropped. A failure is heard before that.
struct ChildEnd(Arc<ScopeState>);

impl HearsFailure for ChildEnd {
    fn hear(self: Box<Self>, failure: &Arc<Failure>) {
        self.0.hear(failure);
    }
}

impl Drop for ChildEnd {
    fn drop(&mut self) {
        // From here on the thread is inside no child of the scope, which may be over.
        innermost::leave(&self.0);
        self.0.end_child();
    }
}
