//! The operations that a thread is inside of, and what each has declared: for the check of every borrow of a [`Data`](crate::Data).

use crate::sync::thread_local;
use std::cell::Cell;
use std::ptr::null;

/// An operation whose closure is being called.
pub trait Current {
    fn name(&self) -> &'static str;
    /// What it may do to the variable of this index of this engine.
    fn may(&self, engine: u32, index: u32) -> May;
}

/// What an operation may do to a variable, by what it has declared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum May {
    /// It is another engine's operation.
    NotSay,
    Nothing,
    Read,
    Change,
}

impl May {
    /// From whether a variable was declared, and if so whether to change it.
    #[inline]
    pub fn of(declared: Option<bool>) -> May {
        match declared {
            None => May::Nothing,
            Some(false) => May::Read,
            Some(true) => May::Change,
        }
    }
}

/// Lies on the stack of [`within`], for as long as that runs.
struct Frame<'a> {
    current: &'a dyn Current,
    outer: *const Frame<'static>,
}

thread_local! {
    static INNERMOST: Cell<*const Frame<'static>> = const { Cell::new(null()) };
}

/// Calls `call` inside of an operation. `call` does not unwind.
#[inline(always)]
pub fn within<R>(current: &dyn Current, call: impl FnOnce() -> R) -> R {
    let outer = INNERMOST.with(Cell::get);
    let frame = Frame { current, outer };
    INNERMOST.with(|innermost| innermost.set((&raw const frame).cast()));
    let value = call();
    INNERMOST.with(|innermost| innermost.set(outer));
    value
}

/// What the calling thread may do to a variable: outside all operations of its engine, anything; inside, what the innermost of them
/// has declared.
#[inline]
pub fn may(engine: u32, index: u32) -> May {
    let mut frame = INNERMOST.with(Cell::get);
    // SAFETY: each frame lies on this thread's stack until its `within` has put back the one outside of it, which is after the
    // call that leads here.
    while let Some(this) = unsafe { frame.as_ref() } {
        let may = this.current.may(engine, index);
        if may != May::NotSay {
            return may;
        }
        frame = this.outer;
    }
    May::Change
}

/// The name of the operation by which [`may`] says no.
#[cold]
pub fn name(engine: u32, index: u32) -> &'static str {
    let mut frame = INNERMOST.with(Cell::get);
    // SAFETY: as above.
    while let Some(this) = unsafe { frame.as_ref() } {
        if this.current.may(engine, index) != May::NotSay {
            return this.current.name();
        }
        frame = this.outer;
    }
    ""
}
