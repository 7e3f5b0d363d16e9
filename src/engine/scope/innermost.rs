//! Which scope the calling thread is inside of: that of the innermost child that it runs.
//!
//! `scope/help.rs` sets it around a child, and `scope/child.rs` takes it back when that child has
//! ended. `scope/open.rs` asks for it, for a scope that is opened there. `THREADS_SCOPE` is each
//! thread's own.

use crate::engine::core::Core;
use crate::engine::scope::state::ScopeState;
use crate::sync::thread_local;
use std::cell::Cell;
use std::ptr::null;
use std::sync::Arc;

thread_local! {
    /// The scope of the innermost child that the thread is inside of, if that is one of a scope
    /// inside an operation; and the number of the engine.
    static THREADS_SCOPE: Cell<(u32, *const ScopeState)> = const { Cell::new((0, null())) };
}

/// The scope of the innermost child that the calling thread is inside of, or null if there is none,
/// or if it is of another engine. It is open, and stays so until that child has ended.
pub fn current(core: &Core) -> *const ScopeState {
    let (engine, scope) = THREADS_SCOPE.with(Cell::get);
    if engine == core.memory.id {
        scope
    } else {
        null()
    }
}

/// Calls `run`, which runs a child of the scope.
pub fn within(core: &Core, scope: &Arc<ScopeState>, run: impl FnOnce()) {
    let outer = THREADS_SCOPE.with(|place| place.replace((core.memory.id, Arc::as_ptr(scope))));
    run();
    THREADS_SCOPE.with(|place| place.set(outer));
}

/// Says that the child has ended that the calling thread is inside of, if it is one of this scope.
/// The scope may be over from then on; what the thread still does for the child, such as to drop
/// its error, may open scopes, which are inside no other.
pub fn leave(scope: &Arc<ScopeState>) {
    let _ = THREADS_SCOPE.try_with(|place| {
        if std::ptr::eq(place.get().1, Arc::as_ptr(scope)) {
            place.set((0, null()));
        }
    });
}
