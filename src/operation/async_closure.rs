//! Asynchronous closures: the functions that run or drop a stored one, and the key by which an
//! engine learns how long it holds its thread.
//!
//! Used by `src/api/`, `src/engine/replay/private.rs` and `src/engine/wait/hold.rs`, where they are
//! pushed, and by `src/engine/limited.rs`, where they get limits. They are stored, run and dropped
//! as `closure.rs` says. A closure is moved out of its block before it is called, since its block
//! may be another operation's as soon as the completion is used.

use crate::error::Fault;
use crate::operation::closure::{discard, is_inline, take, type_key, Cost, Keyed, Run, Vtable};
use crate::operation::completion::{call, Completion};
use crate::operation::context::RunContext;
use crate::util::spans;
use std::marker::PhantomData;

/// The closure of an asynchronous operation, or what stands for it. No part of the interface that
/// is promised to stay.
#[doc(hidden)]
pub trait AsyncFunction: Send + 'static {
    /// Closures with the same key are taken to hold their threads equally long.
    fn key(&self) -> u64;

    /// Starts the operation, which ends when the completion is used.
    fn start(self, run: &RunContext<'_>, completion: Completion);
}

/// Those of one type have one key.
impl<G: FnOnce(&RunContext<'_>, Completion) + Send + 'static> AsyncFunction for G {
    #[inline]
    fn key(&self) -> u64 {
        type_key::<G>()
    }

    #[inline(always)]
    fn start(self, run: &RunContext<'_>, completion: Completion) {
        self(run, completion);
    }
}

/// Those to which the program gave one key have that.
impl<G: FnOnce(&RunContext<'_>, Completion) + Send + 'static> AsyncFunction for Keyed<G> {
    #[inline]
    fn key(&self) -> u64 {
        self.key
    }

    #[inline(always)]
    fn start(self, run: &RunContext<'_>, completion: Completion) {
        (self.closure)(run, completion);
    }
}

/// The functions for an asynchronous closure of type `G`.
pub struct AsyncBody<G>(PhantomData<G>);

impl<G: AsyncFunction> AsyncBody<G> {
    pub const VTABLE: &'static Vtable =
        &Vtable { run: Run::Async(Self::run), discard: discard::<G>, cost: Cost::Learned(Self::stored_key) };

    unsafe fn run(storage: *mut u8, run: &RunContext<'_>, completion: Completion) -> Result<(), Fault> {
        // SAFETY: the vtable belongs to the type that was stored. The closure is moved out before
        // it is called, because the block may be recycled as soon as the completion is used.
        let closure: G = unsafe { take(storage) };
        call(completion, |completion| {
            let _span = spans::call(run.name);
            closure.start(run, completion);
        })
    }

    unsafe fn stored_key(storage: *const u8) -> u64 {
        // SAFETY: as above; the closure, or a box of it, is there.
        unsafe {
            if const { is_inline::<G>() } {
                (&*storage.cast::<G>()).key()
            } else {
                (**storage.cast::<Box<G>>()).key()
            }
        }
    }
}

/// The functions for an asynchronous closure, with the type taken from a value.
pub fn async_vtable<G: AsyncFunction>(_: &G) -> &'static Vtable {
    AsyncBody::<G>::VTABLE
}
