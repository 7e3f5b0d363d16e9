//! What follows from a change of an access: messages along the chain, grants, ends. Completing an operation is such a change.
//!
//! `README.md` beside this file explains it ("What follows from a change").

use super::access::{Access, Mode, Node, Sink, CANCELLED};
use super::state::{Change, State, COMPLETE, READABLE, WRITABLE};
use crate::mutants::{mutant, mutate};
use crate::sync::Ordering::*;
use std::ptr::null_mut;

/// Completes an operation that has run on a worker, or elsewhere: one atomic addition to each access, and what follows from it.
///
/// # Safety
/// The operation has run, the caller owns it, and it gives it up with this call. Versions are stepped before.
#[inline(always)]
pub unsafe fn complete<S: Sink>(node: *mut Node, worker: Option<usize>, sink: &mut S) {
    // SAFETY: the block cannot be spent before its last access is complete, and after the last one it is not touched.
    unsafe {
        let count = (*node).count;
        let mut own = Own::nobody();
        let complete = State::complete_on(worker);
        for index in 0..count {
            let access = Node::access(node, index);
            let mode = (*access).mode();
            // Release: what the operation did is visible to whoever runs because of it. Acquire: what the accesses
            // before it did, to be passed on with our messages.
            // An addition: nobody else sets these bits, and an or that says what was there before takes a loop on x86.
            let old = State((*access).state.fetch_add(complete, mutate!("completion-relaxed": Relaxed, AcqRel)));
            debug_assert!(!old.has(COMPLETE), "an operation completed twice");
            propagate(node, mode, old, old.with(complete), &mut own, sink);
        }
    }
}

/// The pusher's own account of an operation that it is enlisting: grants that it made itself are counted here and
/// subtracted from `wait` in one go.
pub(super) struct Own {
    pub node: *mut Node,
    pub granted: u32,
    pub cancelled: bool,
}

impl Own {
    pub fn nobody() -> Own {
        Own { node: null_mut(), granted: 0, cancelled: false }
    }
}

/// Sends flags to an access and does what follows.
pub(super) unsafe fn send<S: Sink>(access: *mut Access, flags: usize, own: &mut Own, sink: &mut S) {
    // SAFETY: the sender still owes something to the access or pins it. Its mode and node are read first: after the atomic
    // or another thread may recycle it.
    unsafe {
        let mode = (*access).mode();
        let node = Access::node(access);
        let old = State((*access).state.fetch_or(flags, AcqRel));
        propagate(node, mode, old, old.with(flags), own, sink);
    }
}

/// Sends `R` to an access, unless it has had it.
///
/// The one message that nobody waits for: the predecessor, a read that runs, ends without it and sends `R W`. So it may come when
/// the access has long been granted, complete, and the last of a variable that is lent to a write. It must not add `R` then.
pub(super) unsafe fn send_readable<S: Sink>(access: *mut Access, own: &mut Own, sink: &mut S) {
    // SAFETY: as in `send`.
    unsafe {
        let mode = (*access).mode();
        let node = Access::node(access);
        let mut old = State((*access).state.load(Relaxed));
        // `W` never comes without `R`, but for a loan that has taken it back.
        while old.0 & (READABLE | WRITABLE) == 0 {
            match (*access).state.compare_exchange(old.0, old.with(READABLE).0, AcqRel, Relaxed) {
                Ok(_) => return propagate(node, mode, old, old.with(READABLE), own, sink),
                Err(now) => old = State(now),
            }
        }
    }
}

/// Does what follows from the change of an access from `old` to `new`, and from every change that this makes further on.
///
/// The order matters: first the message to the next access, then this access's own grant or end. While they are owed, this
/// access's block cannot be recycled, nor the next one's, which cannot be spent before this one is.
#[inline(always)]
unsafe fn propagate<S: Sink>(
    mut node: *mut Node,
    mut mode: Mode,
    mut old: State,
    mut new: State,
    own: &mut Own,
    sink: &mut S,
) {
    loop {
        let change = Change::of(mode, old, new);
        let next = new.next();
        let mut onward = None;
        if mutant("granted-before-the-message") && change.granted {
            // SAFETY: as below.
            unsafe { grant(node, own, sink) };
        }
        if change.send != 0 {
            // SAFETY: `next` has not had the message that we owe it, so it cannot be spent; its mode and node are read
            // before the atomic or, after which it may be another thread's. AcqRel: passes on what we have seen.
            unsafe {
                let next_mode = (*next).mode();
                let next_node = Access::node(next);
                let next_old = State((*next).state.fetch_or(change.send, mutate!("message-relaxed": Relaxed, AcqRel)));
                onward = Some((next_node, next_mode, next_old, next_old.with(change.send)));
            }
        }
        // SAFETY: a grant or an end that is owed keeps the block of `node`.
        unsafe {
            if change.granted && !mutant("granted-before-the-message") {
                grant(node, own, sink);
            }
            if change.spent {
                spend(node, sink);
            }
        }
        match onward {
            Some(next_change) => (node, mode, old, new) = next_change,
            None => return,
        }
    }
}

/// One access of the operation is satisfied.
#[inline]
pub(super) unsafe fn grant<S: Sink>(node: *mut Node, own: &mut Own, sink: &mut S) {
    if node == own.node {
        own.granted += 1;
        return;
    }
    // SAFETY: the grant is owed, so the operation has not run and its block is alive. AcqRel: release what made the
    // access satisfied to the thread that runs the operation; acquire what the others have released, if that is us.
    unsafe {
        if (*node).wait.fetch_sub(1, mutate!("grant-relaxed": Relaxed, AcqRel)) & !CANCELLED == 1 {
            sink.ready(node);
        }
    }
}

/// One access of the operation is spent.
#[inline]
pub(super) unsafe fn spend<S: Sink>(node: *mut Node, sink: &mut S) {
    if node.is_null() {
        return; // The access that a variable is born with belongs to no block.
    }
    // SAFETY: the end is owed, so the block is alive. AcqRel: everything that was done to the block happens before its reuse.
    unsafe {
        if (*node).count == 1
            || (*node).unspent.fetch_sub(1, mutate!("spent-relaxed": Relaxed, AcqRel))
                == mutate!("spent-with-its-first-access": (*node).count, 1)
        {
            sink.spent(node);
        }
    }
}
