//! Makes variables the pusher's own before it pushes to them: when it first uses them, or after
//! another thread has owned them.
//!
//! [`acquire`] is called by `push/enlist.rs`; [`adopt`] and [`acquire_all`] by the two ways that
//! need owned variables, `push/logged.rs` and `inline/fast_path.rs`. The protocol is in
//! `tickets/owner/handover.rs`. No state here. What changes is the pusher's record, the owner of
//! the variable (`tickets/owner/number.rs`), and the era of the last owner, whose last push this
//! thread finishes.

use crate::engine::claims::ClaimSource;
use crate::engine::core::Core;
use crate::engine::ready_list::ReadyList;
use crate::engine::request::Claim;
use crate::engine::resolve::resolve;
use crate::engine::ticket_host::{Destinations, TicketHost};
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::owner::Acquired;
use crate::variable::handle::Variable;
use std::sync::Arc;

/// Whether the variable is common: several threads push to it, and none owns it.
#[inline]
pub fn is_common(core: &Core, variable: u32) -> bool {
    core.memory.table.common(variable).is_some_and(|common| common.is_open())
}

/// Makes a variable the thread's own, or shared if it is only read, unless it is common or becomes
/// common. Like [`Pusher::acquire`](crate::tickets::owner::Pusher::acquire), but it also takes a
/// variable that the thread owns already, and gets a new record when the old one is used up.
/// `failed`: a commit of this push has failed before.
#[inline]
pub fn acquire(local: &ThreadContext, claim: &Claim, failed: bool, host: &TicketHost<'_, '_>) -> Acquired {
    if is_common(host.core, claim.variable.index) {
        return Acquired::Common;
    }
    if local.pusher().owns(claim.variable.index, claim.variable.generation, claim.mode) {
        return Acquired::Owned;
    }
    take(local, claim, failed, host)
}

/// Like [`acquire`], but for a variable that the thread does not own.
#[cold]
#[inline(never)]
fn take(local: &ThreadContext, Claim { variable, mode }: &Claim, failed: bool, host: &TicketHost<'_, '_>) -> Acquired {
    loop {
        match local.pusher().acquire((variable.index, variable.generation), *mode, failed, host) {
            Acquired::UsedUp => _ = local.new_record(),
            other => return other,
        }
    }
}

/// Makes a variable that nobody has pushed to yet the thread's own, also in the middle of a push;
/// says whether it did. Without this, the first push to each new variable would start again, and
/// cost twice as much.
#[cold]
#[inline(never)]
pub fn adopt(core: &Core, local: &ThreadContext, variable: Variable) -> bool {
    if !variable.may_be_of(core.memory.id) {
        return false;
    }
    let Some(slot) = core.memory.table.get(variable.index) else { return false };
    let _pin = local.pin();
    // Acquire: like in `resolve`, pairs with the release of the variable's birth.
    if slot.generation.load(Acquire) != variable.generation {
        return false;
    }
    let whole = std::ptr::from_ref(slot).cast();
    let of_slot = (slot.owner(), slot.progress(), slot.version());
    local.pusher().adopt((variable.index, variable.generation), of_slot, whole)
}

/// Makes all variables of a push the thread's own, if possible. `true`: the thread owns all of them
/// and something has changed, so it pays to try the push again.
#[cold]
#[inline(never)]
pub fn acquire_all(core: &Arc<Core>, claims: &impl ClaimSource) -> bool {
    if !claims.all(|claim, _| !is_common(core, claim.variable.index)) {
        return false;
    }
    let local = core.local();
    let mut found = ReadyList::new(local);
    let guard = local.pin();
    let host = TicketHost::new(Destinations::new(core, local, &mut found), false);
    let mut changed = false;
    let owns_all = claims.all(|claim, _| {
        if resolve(core, claim.variable).is_err() {
            return false;
        }
        changed |= !local.pusher().owns(claim.variable.index, claim.variable.generation, claim.mode);
        acquire(local, claim, false, &host) == Acquired::Owned
    });
    local.cache().hazards.clear();
    drop(guard);
    if !found.first.is_null() {
        // SAFETY: the list holds ready operations, which are this thread's.
        unsafe { core.hand_out(local, found.first) };
        core.flush(local);
    }
    owns_all && changed
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{Engine, Kind, RunContext};
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use std::sync::Barrier;
    use std::time::Duration;

    /// More waits than changes of hands after which a variable is common.
    #[test]
    fn a_variable_for_which_others_wait_stays_its_pushers() {
        let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(false).build().unwrap();
        let x = engine.new_variable();
        let (begins, begun) = channel();
        let (ends, ended) = channel();
        std::thread::scope(|scope| {
            let theirs = engine.clone();
            scope.spawn(move || {
                for writes in begun {
                    theirs.wait_for_var(x).unwrap();
                    ends.send(theirs.version(x).unwrap() >= writes).unwrap();
                }
            });
            for writes in 1..=20_u64 {
                // Long enough that the other thread is waiting by then.
                let body = |_: &RunContext<'_>| std::thread::sleep(Duration::from_millis(1));
                engine.op("slow").writes([x]).push(body).unwrap();
                begins.send(writes).unwrap();
                assert!(ended.recv().unwrap(), "the wait was over before write {writes}");
            }
            drop(begins);
        });
        assert!(!is_common(engine.core(), x.index), "a wait has taken it");
    }

    /// Has two threads push to a variable, each so often in its turn; says whether it is common in
    /// the end.
    fn becomes_common(kind: Kind, turn: u32) -> bool {
        let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
        let x = engine.new_variable();
        let (mine, theirs) = (Barrier::new(2), Barrier::new(2));
        let push = || (0..turn).for_each(|_| engine.op("step").writes([x]).push(|_| ()).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    mine.wait();
                    push();
                    theirs.wait();
                }
            });
            for _ in 0..TURNS {
                push();
                // Writes are counted when they have ended.
                engine.wait_for_all().unwrap();
                mine.wait();
                theirs.wait();
                engine.wait_for_all().unwrap();
            }
        });
        assert_eq!(engine.version(x).unwrap(), u64::from(2 * TURNS * turn), "{kind}");
        is_common(engine.core(), x.index)
    }

    /// More than the changes of hands after which a variable is common.
    const TURNS: u32 = 20;

    #[test]
    fn a_variable_at_which_threads_take_long_turns_stays_a_pushers() {
        for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
            assert!(becomes_common(kind, 10), "{kind}: it changes hands in every ten pushes");
            assert!(!becomes_common(kind, 1100), "{kind}: it changes hands once in a thousand pushes");
        }
    }

    /// Its owner is back at the variable at once, whenever it was taken.
    #[test]
    fn a_thread_that_pushes_without_a_pause_does_not_keep_others_out() {
        for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
            let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
            let x = engine.new_variable();
            let push = || engine.op("step").writes([x]).push(|_| ()).unwrap();
            let (over, begun) = (AtomicBool::new(false), Barrier::new(2));
            let pushed = std::thread::scope(|scope| {
                let busy = scope.spawn(|| {
                    let mut pushed = 0;
                    while !over.load(Relaxed) {
                        push();
                        pushed += 1;
                        if pushed == 1000 {
                            begun.wait();
                        }
                    }
                    pushed
                });
                begun.wait();
                (0..50).for_each(|_| push());
                over.store(true, Relaxed);
                busy.join().unwrap() + 50
            });
            engine.wait_for_all().unwrap();
            assert_eq!(engine.version(x).unwrap(), pushed, "{kind}");
        }
    }

    #[test]
    fn a_variable_that_several_threads_set_up_is_not_common_for_that() {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let x = engine.new_variable();
        let push = || engine.op("step").writes([x]).push(|_| ()).unwrap();
        for _ in 0..4 {
            std::thread::scope(|scope| _ = scope.spawn(push));
            push();
        }
        assert!(!is_common(engine.core(), x.index));
    }
}
