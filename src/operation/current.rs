//! Current operations: those that the calling thread is inside of, and what each has declared. The
//! code that calls closures notes them (`src/engine/execute.rs`, `src/engine/inline/fast_path.rs`,
//! `src/engine/gpu/call.rs`, `src/engine/replay/`). `src/api/data.rs` reads them, to check every
//! borrow of a [`Data`](crate::Data), and `src/engine/nesting.rs` counts them. Each thread has its
//! own, which no other thread sees.
//!
//! An operation's [`Current`] tells which variables it has declared: see `src/engine/declared.rs`,
//! `src/engine/inline/fast_path.rs`, `src/engine/replay/runner.rs` and
//! `src/engine/replay/device_graph.rs`.

use crate::sync::thread_local;
use std::cell::Cell;
use std::ptr::null;

/// An operation whose closure is being called.
pub trait Current {
    fn name(&self) -> &'static str;
    /// What the operation may do to the variable of this index of this engine; `None` if it is
    /// another engine's operation.
    fn may(&self, engine: u32, index: u32) -> Option<May>;
    /// The generation that the slot of a declared variable has now: the variable's own, or one more
    /// once its deletion is pushed. The slot is not used again before the operation has ended.
    fn generation(&self, index: u32) -> u32;
}

/// What an operation may do to a variable, by what it has declared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum May {
    Nothing,
    Read,
    Change,
}

impl May {
    /// `declared`: `None` if the variable was not declared, else whether it was declared to be
    /// changed.
    #[inline]
    pub fn of(declared: Option<bool>) -> May {
        match declared {
            None => May::Nothing,
            Some(false) => May::Read,
            Some(true) => May::Change,
        }
    }
}

/// An operation that the thread is inside of. It lies on the stack of [`within`] for as long as
/// that runs.
struct Frame<'a> {
    current: &'a dyn Current,
    outer: *const Frame<'static>,
}

thread_local! {
    /// The number of operations that the thread is inside of, with flags of
    /// `src/engine/nesting.rs`; and the innermost operation that has declared something.
    static STACK: (Cell<u32>, Cell<*const Frame<'static>>) = const { (Cell::new(0), Cell::new(null())) };
}

/// Gives `look` the number of operations that the thread is inside of. [`within`] does not change
/// it.
#[inline(always)]
pub fn count<T>(look: impl FnOnce(&Cell<u32>) -> T) -> T {
    STACK.with(|(inside, _)| look(inside))
}

/// Calls `call` inside of an operation. `call` does not unwind.
#[inline(always)]
pub fn within<R>(current: &dyn Current, call: impl FnOnce() -> R) -> R {
    let outer = STACK.with(|(_, innermost)| innermost.get());
    let frame = Frame { current, outer };
    STACK.with(|(_, innermost)| innermost.set((&raw const frame).cast()));
    let value = call();
    STACK.with(|(_, innermost)| innermost.set(outer));
    value
}

/// The first answer of `find`, asked of each operation from the innermost outwards.
#[inline]
fn innermost<T>(find: impl Fn(&dyn Current) -> Option<T>) -> Option<T> {
    let mut frame = STACK.with(|(_, innermost)| innermost.get());
    // SAFETY: each frame lies on this thread's stack until its `within` has put back the outer one,
    // which is after the call that leads here.
    while let Some(this) = unsafe { frame.as_ref() } {
        let found = find(this.current);
        if found.is_some() {
            return found;
        }
        frame = this.outer;
    }
    None
}

/// What the calling thread may do to a variable: anything, if it is inside no operation of the
/// variable's engine; else what the innermost of them has declared. If the variable was deleted and
/// its slot now serves another one, the answer is nothing.
#[inline]
pub fn may(engine: u32, index: u32, generation: u32) -> May {
    let of = |current: &dyn Current| {
        let may = current.may(engine, index)?;
        let other = || current.generation(index).wrapping_sub(generation) > 1;
        Some(if may != May::Nothing && other() { May::Nothing } else { may })
    };
    innermost(of).unwrap_or(May::Change)
}

/// The name of the operation because of which [`may`] refuses.
#[cold]
pub fn name(engine: u32, index: u32) -> &'static str {
    innermost(|current| current.may(engine, index).map(|_| current.name())).unwrap_or_default()
}
