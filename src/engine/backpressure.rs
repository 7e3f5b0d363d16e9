//! The bound on operations in flight: an operation is counted in before it is pushed, and waits for
//! room if there is none. Used by `push/mod.rs` (`push_enlisted`) and `push/logged.rs`, on the
//! pusher, if the engine has a bound and the operation is no wait; by `complete.rs` and
//! `execute.rs` at its end, and by `gpu/watch.rs` at the end of what was queued on a device. What
//! finds no room at once is enlisted, so the rules for that are in one place.
//!
//! A push has a [`Permit`] from when it is counted in until it has succeeded. One that no log takes
//! is enlisted with the same permit. So a pusher that has found room keeps it, and nobody is told
//! of room that is not there. If the push is refused, the permit is given back.
//!
//! A push that might wait for its own thread goes beyond the bound: inside an operation, in a
//! waker, and on a thread of an engine outside of operations, as in a hook.
//!
//! No state here: the count is `Core::in_flight`, which any thread may change. The thread that ends
//! an operation counts it out. `gpu/call.rs` counts in each operation of a graph that it queues on
//! a device. `fork.rs` clears the count in the child.

use crate::engine::core::Core;
use crate::engine::nesting::{is_kept_outside, may_help};
use crate::engine::settings::WhenFull;
use crate::engine::wait::waker_list::calls_wakers;
use crate::error::{Error, ErrorKind};
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use std::sync::Arc;

/// Says that an operation that is being pushed is counted in. Dropped, it counts the operation out.
/// The push forgets it when it has succeeded: then the end of the operation counts it out.
#[must_use]
pub struct Permit<'a>(&'a Core);

impl<'a> Permit<'a> {
    /// The permit of an operation that [`take_room`] has counted in.
    pub fn of_counted(core: &'a Core) -> Permit<'a> {
        Permit(core)
    }

    /// Counts an operation in. If there is no room, does what [`WhenFull`] says. A push that must
    /// not wait, and one that may go `beyond` the bound, is counted in at once.
    #[cold]
    pub fn make(core: &'a Arc<Core>, local: &ThreadContext, beyond: bool) -> Result<Permit<'a>, Error> {
        make_room(core, local, beyond).map(|()| Permit(core))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        give_room_back(self.0, 1);
    }
}

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

fn make_room(core: &Arc<Core>, local: &ThreadContext, beyond: bool) -> Result<(), Error> {
    let enter = || take_room(core);
    if enter() {
        return Ok(());
    }
    if local.depth.get() > 0 || beyond || is_kept_outside(core) || calls_wakers() {
        // A push inside an operation that waited for room could wait for that operation, and a
        // destructor, a hook or a waker for what its own thread does next.
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

/// Gives back the room of so many operations, which have ended or were not pushed.
#[cold]
#[inline(never)]
pub fn give_room_back(core: &Core, operations: usize) {
    core.in_flight.fetch_sub(operations, AcqRel);
    core.below_bound.notify(|| true);
}
