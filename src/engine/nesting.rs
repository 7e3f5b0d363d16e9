//! How many operations a thread is inside of: of one engine (`ThreadContext::depth`), and of all
//! engines together (`count` in `operation/current.rs`). Also the queues of naive engines that the
//! thread owes, and runs when it is out of all operations.
//!
//! [`enter`] and [`leave`] surround every call of user code of an operation: in `execute.rs`,
//! `inline/fast_path.rs`, `push/enlist.rs`, `replay/mod.rs`, `replay/guided.rs`, `replay/part.rs`,
//! `gpu/call.rs` and `gpu/entered.rs`; and by [`inside`] the destructors of errors. All of it is
//! the calling thread's own: no other thread touches it.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::error::{Error, ErrorKind, Failure};
use crate::operation::current::count;
use crate::sync::thread_local;
use crate::thread::context::ThreadContext;
use crate::thread::kept;
use crate::variable::slot::Slot;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// How deep operations run inside the pushes of other operations, to spare the stack: counted on
/// one thread, over all engines. A deeper operation is queued: by a naive engine until the
/// outermost one has returned, by the other engines for a worker.
pub const NESTED: u32 = 32;

/// Flag in the count over all engines: the thread owes a queue, which is in [`OWED`].
const OWES: u32 = 1 << 30;
/// Flag in the same count: the thread is running the queues that it owed.
const PAYS: u32 = 1 << 31;

thread_local! {
    /// Naive engines whose queues this thread has still to run.
    static OWED: RefCell<Vec<Arc<Core>>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread enters user code of an operation; [`leave`] is the counterpart.
#[inline]
pub fn enter(local: &ThreadContext) {
    local.depth.set(local.depth.get() + 1);
    count(|inside| inside.set(inside.get() + 1));
}

/// The calling thread leaves user code that it has [entered](enter).
#[inline]
pub fn leave(local: &ThreadContext) {
    local.depth.set(local.depth.get() - 1);
    count(|inside| inside.set(inside.get() - 1));
}

/// Does what may drop errors of the program, whose destructors are user code of the operation that
/// fails or ends.
#[inline]
pub fn inside<T>(local: &ThreadContext, what: impl FnOnce() -> T) -> T {
    enter(local);
    let outcome = what();
    leave(local);
    outcome
}

/// Leaves a failure on a variable, or takes away what is there, [inside](inside) the operation.
#[cold]
#[inline(never)]
pub fn mark_inside(local: &ThreadContext, slot: &Slot, failure: Option<&Arc<Failure>>) {
    inside(local, || slot.leave(failure));
}

/// Whether the calling thread is inside as many operations as may run inside each other.
#[inline]
pub fn is_deep() -> bool {
    count(Cell::get) & !(OWES | PAYS) >= NESTED
}

/// Whether the calling thread may run operations while it waits: only if it is inside no operation,
/// of whatever engine. The outer one could not end before the operations that it ran.
pub fn may_help() -> bool {
    count(Cell::get) & !(OWES | PAYS) == 0
}

/// Has [`pay`] run the calling thread's queue for a naive engine. `false`: the thread is about to
/// end, and can owe nothing any more.
#[cold]
pub fn owe(core: &Arc<Core>) -> bool {
    let owed = OWED.try_with(|owed| owed.borrow_mut().push(Arc::clone(core))).is_ok();
    count(|inside| inside.set(inside.get() | if owed { OWES } else { 0 }));
    owed
}

/// Called by a thread that has ended an operation of the engine of `local`: if it is inside no
/// operation now, it runs the queues that it owes.
#[inline]
pub fn pay(local: &ThreadContext) {
    if count(Cell::get) == OWES {
        pay_all(local);
    }
}

/// Runs the queues that the thread owes: operations that were pushed inside the operation that has
/// just ended. Meanwhile the thread counts as inside an operation of the engine of `local`. So they
/// may not wait for that engine: what they push to it may lie in the queue of this thread, which
/// runs that only afterwards.
#[cold]
#[inline(never)]
fn pay_all(local: &ThreadContext) {
    local.depth.set(local.depth.get() + 1);
    while count(Cell::get) & OWES != 0 {
        count(|inside| inside.set(PAYS));
        let owed = OWED.try_with(RefCell::take).unwrap_or_default();
        for core in owed {
            core.dispatch.drain(&core, core.local());
        }
    }
    count(|inside| inside.set(inside.get() & !PAYS));
    local.depth.set(local.depth.get() - 1);
}

/// Whether the calling thread is one that an engine keeps, and is inside none of its operations: in
/// a hook, in a waker that it calls, in the destructor of a thread-local. What stops that engine
/// waits for the end of such a thread, and not for what it does: so the thread may wait for no stop
/// of `core`, which may be that of the same fork.
#[cold]
pub fn is_kept_outside(core: &Core) -> bool {
    kept::is_kept_by(core.memory.id) && !core.is_inside() || kept::is_kept() && may_help()
}

/// Refuses a call (a stop, a start, a preparation) that would wait for the operation that the
/// thread is inside of, or for the thread itself.
pub fn refuse_inside(core: &Core, what: &str) -> Result<(), Error> {
    let message = if core.is_inside() {
        format!("an operation cannot {what} its own engine, which would wait for it")
    } else if kept::is_kept_by(core.memory.id) {
        format!("a thread of an engine, as in a hook or a waker, cannot {what} it: another thread can")
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::WaitInsideOperation, message))
}

/// Refuses a wait inside an operation of the same engine: it could wait for that very operation.
pub fn refuse_wait_inside(core: &Core) -> Result<(), Error> {
    if !core.is_inside() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::WaitInsideOperation,
        "an operation cannot wait for its own engine: push what should follow as another operation",
    ))
}
