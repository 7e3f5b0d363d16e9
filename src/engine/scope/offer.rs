//! What becomes of a child of a scope inside an operation when all its tickets have come: it goes
//! into the list of its scope.
//!
//! [`Core::offer`] is called by `push/mod.rs` for a child that is ready in its push, and by
//! `complete.rs` for one that an end has made ready, on that thread. No state here.

use crate::engine::core::Core;
use crate::engine::scope::state::ScopeState;
use crate::operation::block::Block;
use std::sync::Arc;

impl Core {
    /// Puts a child into the list of its scope, and calls the thread that joins.
    ///
    /// # Safety
    /// The operation has `FLAG_SCOPED`. It is ready, and the caller's to give away.
    #[cold]
    #[inline(never)]
    pub unsafe fn offer(self: &Arc<Self>, block: *mut Block) {
        // SAFETY: the closure of such an operation begins with the state of its scope
        // (`ScopeChild`). As long as the child has not ended the scope is open.
        unsafe {
            let state = Arc::clone(&*Block::closure(block, Block::layout(block)).cast::<Arc<ScopeState>>());
            // Counted as a child of the scope further out while this child still keeps that open.
            let invitation = state.sleeping_outside().map(|outside| self.invitation_to(&outside, &state));
            // From here on the child may end, and the scope with it: only the `Arc` keeps the
            // state.
            state.ready.put(block);
            state.call();
            match invitation {
                Some(invitation) => invitation.send(),
                None => self.show_to_workers(&state),
            }
        }
    }
}
