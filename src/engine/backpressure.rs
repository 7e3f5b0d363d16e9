//! The bound on operations in flight: an operation is counted in before it is pushed, and waits for
//! room if there is none. Used by `push/mod.rs` (`push_enlisted`) and `push/logged.rs`, on the
//! pusher, if the engine has a bound and the operation is no wait; by `complete.rs` and
//! `execute.rs` at its end. What finds no room at once is enlisted, so the rules for that are in
//! one place.
//!
//! No state here: the count is `Core::in_flight`, which any thread may change. The thread that ends
//! an operation counts it out; for what is queued on a device the watcher does it
//! (`gpu/watch.rs`). `push/` gives back the place of a push that is refused.
//! `gpu/call.rs` counts in each operation of a graph that it queues on a device. `fork.rs` clears
//! the count in the child.

use crate::engine::core::Core;
use crate::engine::nesting::may_help;
use crate::engine::settings::WhenFull;
use crate::error::{Error, ErrorKind};
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use std::sync::Arc;

/// Counts an operation in, if there is room under the bound; says whether there was.
// Out of line, as is `give_room_back`: most engines have no bound.
#[cold]
#[inline(never)]
pub fn take_room(core: &Core) -> bool {
    let mut now = core.in_flight.load(Relaxed);
    while now < core.settings.bound {
        match core.in_flight.compare_exchange(now, now + 1, AcqRel, Relaxed) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
    }
    false
}

/// Counts an operation in. If there is no room, does what [`WhenFull`] says. A push inside an
/// operation, and one that may go `beyond` the bound, is counted in at once.
#[cold]
pub fn make_room(core: &Arc<Core>, local: &ThreadContext, beyond: bool) -> Result<(), Error> {
    let enter = || take_room(core);
    if enter() {
        return Ok(());
    }
    if local.depth.get() > 0 || beyond {
        // A push inside an operation that waited for room could wait for that operation, and a
        // destructor for what its own thread does next.
        core.in_flight.fetch_add(1, AcqRel);
        return Ok(());
    }
    core.dispatch.before_waiting(core);
    if enter() {
        return Ok(());
    }
    match core.settings.when_full {
        WhenFull::WouldBlock => {
            return Err(Error::new(
                ErrorKind::EngineFull,
                format!(
                    "{} operations are in flight, as many as the bound allows: wait, or raise it",
                    core.settings.bound
                ),
            ));
        }
        WhenFull::Help if may_help() => {
            let mut entered = false;
            while !entered
                && core.dispatch.help(core, &mut || {
                    entered = entered || enter();
                    !entered && !core.is_cut_off()
                })
            {
                entered = entered || enter();
            }
            core.flush(local);
            // In the child of a fork by one of these operations nobody makes room. The push is
            // refused.
            if !entered && core.is_cut_off() {
                core.in_flight.fetch_add(1, AcqRel);
            } else if !entered {
                core.below_bound.wait(None, enter, || core.make_way());
            }
        }
        WhenFull::Block | WhenFull::Help => {
            core.below_bound.wait(None, enter, || core.make_way());
        }
    }
    Ok(())
}

/// Gives back the place of an operation that has ended, or was not pushed.
#[cold]
#[inline(never)]
pub fn give_room_back(core: &Core) {
    core.in_flight.fetch_sub(1, AcqRel);
    core.below_bound.notify(|| true);
}
