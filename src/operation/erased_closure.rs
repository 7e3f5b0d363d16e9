//! A closure that is being pushed, without its type: so one function pushes closures of all types.
//!
//! [`erase`] makes one, for `src/engine/push/mod.rs`, `src/engine/wait/for_var.rs`,
//! `src/engine/scope/`, `src/api/graph.rs` and `src/api/operator.rs`. It is on the pusher's stack,
//! and no other thread touches it. `src/engine/push/enlist.rs` moves the closure into the
//! operation's block, as `src/api/operator.rs` does. If there are many variables,
//! `src/engine/push/mod.rs` may call it.

use crate::error::Fault;
use crate::operation::closure::{is_inline, CallStored, Vtable};
use crate::operation::context::RunContext;
use std::marker::PhantomData;
use std::mem::{self, size_of, ManuallyDrop};
use std::ptr::null_mut;

/// A closure without its type. It lies with its pusher until [`ErasedClosure::store`] moves it into
/// a block. If it was not moved, the drop drops it, and swallows a panic of its destructor.
pub struct ErasedClosure<'a> {
    pub body: &'static Vtable,
    size: usize,
    /// Null once the closure is moved.
    storage: *mut u8,
    lies: PhantomData<&'a mut u8>,
}

impl ErasedClosure<'_> {
    /// The bytes that [`ErasedClosure::store`] needs.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Where the closure lies, in the form in which it is stored. It still belongs to this.
    #[inline]
    pub fn storage(&self) -> *mut u8 {
        self.storage
    }

    /// Moves the closure into its storage in a block.
    ///
    /// # Safety
    /// `to` is an operation block's closure storage, of at least [`ErasedClosure::size`] bytes, and
    /// empty. The closure was not moved before.
    #[inline]
    pub unsafe fn store(&mut self, to: *mut u8) {
        let from = self.take();
        // The usual sizes need no call.
        // SAFETY: by the contract; a block is no part of its pusher's stack.
        unsafe {
            match self.size {
                0 => {}
                8 => to.copy_from_nonoverlapping(from, 8),
                16 => to.copy_from_nonoverlapping(from, 16),
                24 => to.copy_from_nonoverlapping(from, 24),
                size => to.copy_from_nonoverlapping(from, size),
            }
        }
    }

    /// Calls `push` with the address of the closure. If `push` returns `true`, it has moved the
    /// closure out, and this no longer owns it.
    #[inline]
    pub fn offer(&mut self, push: impl FnOnce(*mut u8) -> bool) -> bool {
        let storage = self.take();
        let is_moved = push(storage);
        if !is_moved {
            self.storage = storage;
        }
        is_moved
    }

    /// Calls a closure whose body is [`Run::Sync`](crate::operation::closure::Run::Sync) with this
    /// function, and so takes it out.
    ///
    /// # Safety
    /// `call` is the function of the body. The closure was not moved before.
    #[inline]
    pub unsafe fn call(&mut self, call: CallStored, run: &RunContext<'_>) -> Result<(), Fault> {
        // SAFETY: the storage holds the closure, by the contract, and is forgotten.
        unsafe { call(self.take(), run) }
    }

    #[inline]
    fn take(&mut self) -> *mut u8 {
        debug_assert!(!self.storage.is_null(), "it was moved before");
        mem::replace(&mut self.storage, null_mut())
    }
}

impl Drop for ErasedClosure<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.storage.is_null() {
            // SAFETY: the closure was not moved, and nothing uses it after this.
            unsafe { (self.body.discard)(self.storage, None) };
        }
    }
}

/// Gives `push` a closure without its type. `body` belongs to the closure.
#[inline]
pub fn erase<F: Send + 'static, T>(
    body: &'static Vtable,
    closure: F,
    push: impl FnOnce(&mut ErasedClosure<'_>) -> T,
) -> T {
    // SAFETY: the closure borrows nothing that could end.
    unsafe { erase_borrowing(body, closure, push) }
}

/// Like [`erase`], for a closure that borrows. Called by `src/engine/scope/open.rs`.
///
/// # Safety
/// The closure is called or dropped before what it borrows ends, on whatever thread.
#[inline(always)]
pub unsafe fn erase_borrowing<F: Send, T>(
    body: &'static Vtable,
    closure: F,
    push: impl FnOnce(&mut ErasedClosure<'_>) -> T,
) -> T {
    // Not dropped here: that is for `ErasedClosure`, or for the block that it was moved into.
    if const { is_inline::<F>() } {
        let mut closure = ManuallyDrop::new(closure);
        let storage = (&raw mut closure).cast();
        let mut erased = ErasedClosure { body, size: size_of::<F>(), storage, lies: PhantomData };
        push(&mut erased)
    } else {
        let mut closure = ManuallyDrop::new(Box::new(closure));
        let storage = (&raw mut closure).cast();
        let mut erased = ErasedClosure { body, size: size_of::<Box<F>>(), storage, lies: PhantomData };
        push(&mut erased)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::operation::closure::sync_vtable;
    use std::sync::Arc;

    /// Small closures and such as are boxed: each is dropped once, by one or the other.
    fn dropped_once<const BYTES: usize>() {
        let held = Arc::new(());
        let closure = || {
            let (own, bytes) = (Arc::clone(&held), [1_u8; BYTES]);
            move |_: &RunContext<'_>| drop((own, bytes))
        };
        let body = sync_vtable(&closure());
        erase(body, closure(), |_| assert_eq!(Arc::strong_count(&held), 2));
        assert_eq!(Arc::strong_count(&held), 1, "it was not stored");
        let mut storage = [0_u128; 64];
        let storage = storage.as_mut_ptr().cast::<u8>();
        // SAFETY: the storage is large enough, and each closure is stored once.
        erase(body, closure(), |closure| unsafe { closure.store(storage) });
        assert_eq!(Arc::strong_count(&held), 2, "it was stored");
        // SAFETY: the closure is there.
        unsafe { (body.discard)(storage, None) };
        erase(body, closure(), |closure| closure.offer(|_| false));
        assert_eq!(Arc::strong_count(&held), 1, "it was offered, and not moved");
        let moved = erase(body, closure(), |closure| {
            let size = closure.size();
            closure.offer(|from| {
                // SAFETY: the storage is large enough, and this is the only copy that is used.
                unsafe { storage.copy_from_nonoverlapping(from, size) };
                true
            })
        });
        assert!(moved && Arc::strong_count(&held) == 2, "it was moved");
        // SAFETY: the closure is there.
        unsafe { (body.discard)(storage, None) };
    }

    #[test]
    fn a_closure_has_one_owner() {
        dropped_once::<1>();
        dropped_once::<100>();
        dropped_once::<600>();
    }
}
