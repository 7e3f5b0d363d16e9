//! Whether a thread is inside an operation: of one engine, and of any; and what it owes when it is
//! out of all of them.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::error::{Error, ErrorKind};
use crate::operation::current::count;
use crate::sync::thread_local;
use crate::thread::context::ThreadContext;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Operations that push operations that push … run inside each other down to this depth, to spare
/// the stack: on one thread, of whatever engines. Deeper ones are queued: by a naive engine until
/// the outermost has returned, by the others for a worker.
pub const NESTED: u32 = 32;

/// The thread owes something.
const OWES: u32 = 1 << 30;
/// It is running that.
const PAYS: u32 = 1 << 31;

thread_local! {
    /// Naive engines whose queues this thread has still to run.
    static OWED: RefCell<Vec<Arc<Core>>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread enters user code of an operation.
#[inline]
pub fn enter(local: &ThreadContext) {
    local.depth.set(local.depth.get() + 1);
    count(|inside| inside.set(inside.get() + 1));
}

#[inline]
pub fn leave(local: &ThreadContext) {
    local.depth.set(local.depth.get() - 1);
    count(|inside| inside.set(inside.get() - 1));
}

/// Whether the calling thread is inside as many operations as may run inside each other.
#[inline]
pub fn is_deep() -> bool {
    count(Cell::get) & !(OWES | PAYS) >= NESTED
}

/// Whether the calling thread may run operations while it waits: not inside an operation of another
/// engine, which would become part of what they wait for.
pub fn may_help() -> bool {
    count(Cell::get) & !(OWES | PAYS) == 0
}

/// Has [`pay`] run the calling thread's queue for an engine. `false`: the thread ends, and can owe
/// nothing any more.
#[cold]
pub fn owe(core: &Arc<Core>) -> bool {
    let owed = OWED.try_with(|owed| owed.borrow_mut().push(Arc::clone(core))).is_ok();
    count(|inside| inside.set(inside.get() | if owed { OWES } else { 0 }));
    owed
}

/// For a thread that has ended an operation: if it is inside of none now, it runs what it owes.
#[inline]
pub fn pay() {
    if count(Cell::get) == OWES {
        pay_all();
    }
}

#[cold]
#[inline(never)]
fn pay_all() {
    while count(Cell::get) & OWES != 0 {
        count(|inside| inside.set(PAYS));
        let owed = OWED.try_with(RefCell::take).unwrap_or_default();
        for core in owed {
            core.dispatch.drain(&core, core.local());
        }
    }
    count(|inside| inside.set(inside.get() & !PAYS));
}

/// Refuses a call that would wait for the operation that the thread is inside of.
pub fn refuse_inside(core: &Core, what: &str) -> Result<(), Error> {
    if !core.is_inside() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::WaitInsideOperation,
        format!("an operation cannot {what} its own engine, which would wait for it"),
    ))
}

/// A wait inside an operation could wait for that very operation.
pub fn refuse_wait_inside(core: &Core) -> Result<(), Error> {
    if !core.is_inside() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::WaitInsideOperation,
        "an operation cannot wait for its own engine: push what should follow as another operation",
    ))
}
