//! Enlisting: the lock-free protocol of a variable, up to the point where something changes; `propagate.rs` has what follows.
//! `README.md` beside this file explains it step by step; the numbers in the comments are its steps.
//!
//! All pointers are raw on purpose: accesses are shared between threads through their atomic `state` only, and a
//! reference to a block would claim more than any one thread may.

use super::access::{Access, Mode, Node, Sink, CANCELLED};
use super::propagate::{grant, send, send_readable, spend, Own};
use super::state::{Change, State, COMPLETE, READABLE, VOID, WRITABLE};
use crate::line::{fetch_now, fetch_to_write};
use crate::mutants::{mutant, mutate};
use crate::sync::{AtomicPtr, AtomicU32, Ordering::*};
use std::ptr::null_mut;

pub use super::propagate::complete;

/// A variable's queue: a chain of accesses from the oldest unspent one to `tail`.
#[repr(C)]
pub struct Chain {
    /// The last access enlisted (or one before it, while a linker has not yet swung it). Never null.
    pub(super) tail: AtomicPtr<Access>,
    /// Whose chain it is. Not used by the protocol: it lies here because every push reads it along with the tail.
    pub tag: Tag,
    /// The access that the variable is born with, complete from the start.
    pub(super) birth: Access,
    /// Where the tail rests once the variable is deleted: void. A place of its own, because a late swing away from the birth access
    /// would still find it if the tail went back there.
    grave: Access,
}

/// The identity of a variable.
pub struct Tag {
    /// Odd while the variable lives; one more for every birth and deletion.
    pub generation: AtomicU32,
    /// The place in the table, by which all operations order their accesses. Written by the first birth, before the generation.
    pub index: AtomicU32,
}

impl Tag {
    /// The place in the table, for who has seen that the variable lives.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index.load(Relaxed)
    }
}

/// What [`enlist`] found.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enlisted {
    /// Every access was satisfied at once: the caller runs the operation.
    Ready,
    /// The operation will come out of some thread's [`Sink::ready`].
    Waiting,
    /// As `Ready`, but a variable was deleted meanwhile: complete the operation without running it.
    Cancelled,
    /// As `Waiting`, but a variable was deleted meanwhile.
    CancelledWaiting,
}

impl Chain {
    /// A chain that is not in use: [`Chain::open`] comes first. All its bytes are zero.
    pub fn closed() -> Chain {
        Chain {
            tail: AtomicPtr::new(null_mut()),
            tag: Tag { generation: AtomicU32::new(0), index: AtomicU32::new(0) },
            birth: Access::of_chain(),
            grave: Access::of_chain(),
        }
    }

    /// Makes the chain that of a new variable.
    ///
    /// # Safety
    /// `this` stays where it is for as long as the variable lives, and no other thread uses the chain, but for loans that look afterwards whose it is.
    pub unsafe fn open(this: *const Chain) {
        // SAFETY: exclusive by the contract; `birth` lies inside `*this`, and only its atomic word is written.
        unsafe {
            let birth = &raw const (*this).birth;
            // Release: who is lent it knows that the generation before is over.
            (*birth).state.store(READABLE | WRITABLE | COMPLETE, Release);
            (*this).grave.state.store(READABLE | WRITABLE | COMPLETE | VOID, Relaxed);
            // Release: with the acquire loads of `tail`, whoever finds the chain finds its birth access initialised.
            (*this).tail.store(birth.cast_mut(), Release);
        }
    }

    /// Whether no write is pending: the last access is a read that may run, or a write that has.
    ///
    /// # Safety
    /// The caller holds the chain's blocks (a pin of the epoch, or no other thread recycles).
    pub unsafe fn is_quiet(&self) -> bool {
        // SAFETY: the caller's pin keeps the block behind `tail`.
        unsafe {
            // Acquire (both): pairs with the releases that linked and completed the access, so that what the last
            // write did is visible to the caller.
            let tail = self.tail.load(Acquire);
            let state = State((*tail).state.load(Acquire));
            state.has(if (*tail).mode() == Mode::Read { READABLE } else { COMPLETE })
        }
    }

    /// Closes the chain after the operation that deletes its variable has run: whoever arrives from now on finds it void.
    ///
    /// # Safety
    /// `deletion` is the [`Mode::Delete`] access of this chain, and its operation has run and is not yet complete.
    pub unsafe fn close<S: Sink>(&self, deletion: *mut Node, sink: &mut S) {
        // A deletion is never followed by another access, so nobody swings the tail away from it, and late swings from earlier
        // accesses fail: a plain store will do. Release: whoever reads the tail finds the grave void.
        let rest = mutate!("tail-rests-on-the-birth-access": {
            self.birth.state.store(READABLE | WRITABLE | COMPLETE | VOID, Relaxed);
            &raw const self.birth
        }, &raw const self.grave);
        self.tail.store(rest.cast_mut(), Release);
        sink.spent(deletion);
    }

    /// Whether the tail leads to this access.
    #[cfg(any(loom, shuttle))]
    pub fn ends_with(&self, access: *mut Access) -> bool {
        self.tail.load(Acquire) == access
    }

    /// Whether the chain is closed and the tail rests.
    #[cfg(any(loom, shuttle))]
    pub fn is_closed(&self) -> bool {
        self.tail.load(Acquire).cast_const() == &raw const self.grave
    }
}

/// Enlists all accesses of an operation and drops the pusher's hold on it (steps 1 to 6).
///
/// # Safety
/// `node` is a fresh operation that no other thread knows; its accesses are initialised in ascending order of their
/// chains' variables, without repeats; the chains are open or closed by [`Chain::close`], and the caller holds their
/// blocks. On `Ready` and `Cancelled` the caller owns the operation; otherwise it must not touch it again.
pub unsafe fn enlist<S: Sink>(node: *mut Node, sink: &mut S) -> Enlisted {
    // SAFETY: `node` is ours until its last access is enlisted and the pusher's hold dropped.
    unsafe {
        let count = (*node).count;
        let mut own = Own { node, granted: 0, cancelled: false };
        // What others have written is fetched all at once, and not one after the other.
        for index in 1..count {
            fetch_to_write((*sink.chain((*Node::access(node, index)).variable)).tail.load(Relaxed));
        }
        for index in 0..count {
            while let Step::Blocked(other) = link(node, index, true, &mut own, sink) {
                help(other, sink);
            }
        }
        // The one store that the pusher makes in place of `count` compare-exchanges. Release, beside the helpers' exchanges, though nothing
        // rests on it: who lines up behind this operation has read it, and who finds it there reads no older value.
        (*node).pushed.store(1, Release);
        let cancelled = own.cancelled;
        if own.granted == count {
            // Every grant was made by this thread: nobody else has or will have a reason to count.
            return if cancelled { Enlisted::Cancelled } else { Enlisted::Ready };
        }
        // AcqRel: release what the pusher wrote into the block to the thread that takes the count to zero; acquire, if
        // that is us, what the completions that granted the other accesses have released.
        let dropped = mutate!("own-grants-not-subtracted": 1, own.granted + 1);
        let old = (*node).wait.fetch_sub(dropped, mutate!("hold-dropped-relaxed": Relaxed, AcqRel));
        let ready = old & !CANCELLED == dropped;
        // A helper that voided an access said so before it advanced, which we have seen, or we saw the void ourselves.
        match (ready, cancelled || old & CANCELLED != 0) {
            (true, false) => Enlisted::Ready,
            (true, true) => Enlisted::Cancelled,
            (false, false) => Enlisted::Waiting,
            (false, true) => Enlisted::CancelledWaiting,
        }
    }
}

enum Step {
    /// The access is enlisted.
    Done,
    /// The operation at the tail is not fully enlisted: help it first.
    Blocked(*mut Node),
}

/// Enlists what is left of another thread's operation (step 3), and first of those that it is blocked by. A loop and not a
/// recursion: after each operation helped it starts over, and what was reached is kept in `progress`.
unsafe fn help<S: Sink>(node: *mut Node, sink: &mut S) {
    // SAFETY: the caller's pin keeps every block that was reachable from a tail since, and a node at a tail is published.
    unsafe {
        let mut own = Own::nobody();
        let mut target = node;
        loop {
            let index = Node::progress(target);
            if index >= (*target).count {
                if target == node {
                    return;
                }
                target = node;
                continue;
            }
            if let Step::Blocked(other) = link(target, index, false, &mut own, sink) {
                target = other;
            }
        }
    }
}

/// Enlists access `index` of `node` (steps 1 to 5), for its pusher (`owner`) or as a helper.
unsafe fn link<S: Sink>(node: *mut Node, index: u32, owner: bool, own: &mut Own, sink: &mut S) -> Step {
    // SAFETY: `node` is ours or held by the pin; so is every access that a tail leads to. Of an access only the state is
    // written after it is published.
    unsafe {
        let access = Node::access(node, index);
        let chain = sink.chain((*access).variable);
        let mode = (*access).mode();
        loop {
            // 1. The tail first, `progress` after it. Acquire: the fields of the access it points to.
            let early = mutant("progress-checked-before-the-tail").then(|| Node::progress(node));
            let tail = (*chain).tail.load(mutate!("tail-loaded-relaxed": Relaxed, Acquire));
            fetch_now(tail);
            if early.unwrap_or_else(|| Node::progress(node)) > index {
                return Step::Done;
            }
            // 2.
            if tail == access {
                if !owner && !mutant("linked-by-another-not-noted") {
                    advance(node, index);
                }
                return Step::Done;
            }
            let tail_mode = (*tail).mode();
            let tail_node = Access::node(tail);
            // Acquire: the completion bit brings what the completed operation did.
            let state = State((*tail).state.load(mutate!("state-loaded-relaxed": Relaxed, Acquire)));
            if (tail_mode == Mode::Delete && !mutant("linked-behind-a-deletion")) || state.is_void() {
                void(access, node, own, sink);
                if !owner {
                    advance(node, index);
                }
                return Step::Done;
            }
            // 3. What is complete has run, so it is fully enlisted: its counters need not be fetched.
            let known =
                tail_node.is_null() || mutate!("complete-taken-for-whatever": state.0 != 0, state.has(COMPLETE));
            if mutate!("helping-dropped": false, !known) && Node::progress(tail_node) < (*tail_node).count {
                return Step::Blocked(tail_node);
            }
            // 4. Release: the next access was released to us by its linker, we pass it on. A failure means that another thread
            // swung the tail.
            let next = state.next();
            if !next.is_null() {
                let _ = (*chain).tail.compare_exchange(tail, next, AcqRel, Relaxed);
                continue;
            }
            // 5.
            let flags = mutate!("flags-not-passed-on": 0, state.passed_on(tail_mode, mode));
            // Nobody knows an operation before its first access is linked: its flags may be stored plainly, and if the exchange
            // succeeds they were exact.
            let first = owner && index == 0;
            if first {
                (*access).state.store(flags, Relaxed);
            }
            let linked = state.linked_to(access, mode == Mode::Read);
            // Release: the fields of the new access and its operation. Acquire on success too: the flags of the
            // predecessor are the ones that were loaded above, but the exchange may have read a later, equal word.
            if (*tail)
                .state
                .compare_exchange(state.0, linked.0, mutate!("linked-relaxed": Relaxed, AcqRel), Relaxed)
                .is_err()
            {
                continue;
            }
            // Release: as in 4. It fails when a helper was quicker.
            let _ = (*chain).tail.compare_exchange(tail, access, AcqRel, Relaxed);
            if !owner {
                advance(node, index);
            } else if let Some(worker) = state.ran_on() {
                sink.follows(worker, mode);
            }
            if first {
                own.granted += Change::of(mode, State(0), State(flags)).granted as u32;
            } else if mutate!("readable-sent-late": false, flags == READABLE) {
                send_readable(access, own, sink);
            } else if flags != 0 {
                send(access, flags, own, sink);
            }
            // The other order would do as well: nobody but us has this message for `access`, so until it is sent
            // the access is not granted, and its block stays. The predecessor's is not touched after this.
            if state.has(WRITABLE | COMPLETE) && !mutant("predecessor-not-spent") {
                spend(tail_node, sink);
            }
            return Step::Done;
        }
    }
}

/// Notes that access `index` is enlisted, unless that is known already.
unsafe fn advance(node: *mut Node, index: u32) {
    // SAFETY: the caller holds the block. Release: what was linked up to here; Acquire: keeps the release sequence of
    // earlier helpers.
    unsafe {
        if mutant("helped-by-a-store") {
            return (*node).helped.store(index + 1, Release);
        }
        // An exchange and not a store: a helper that is late must not take back what others have noted since.
        let _ = (*node).helped.compare_exchange(index, index + 1, AcqRel, Relaxed);
    }
}

/// Satisfies an access whose variable is deleted: there is nothing to wait for, and the operation will not run.
#[cold]
unsafe fn void<S: Sink>(access: *mut Access, node: *mut Node, own: &mut Own, sink: &mut S) {
    // SAFETY: the caller holds the block; until the grant below the operation cannot run.
    unsafe {
        // It was never linked, and never will be: there is no address beside the flag.
        let old = State((*access).state.fetch_or(READABLE | WRITABLE | VOID, AcqRel));
        if node == own.node {
            own.cancelled = true;
        }
        if !old.is_void() {
            // Before the grant, so that whoever runs the operation sees it.
            mutate!("cancellation-not-noted": 0, (*node).wait.fetch_or(CANCELLED, AcqRel));
            grant(node, own, sink);
        }
    }
}

/// Makes sure that the tails do not lead to a spent block any more, before its reclamation is deferred: a linker may have
/// linked its successor and not yet swung the tail.
///
/// # Safety
/// The block is spent; `chain` finds the chains of its variables, which the caller holds.
pub unsafe fn detach(node: *mut Node, chain: impl Fn(u32) -> *const Chain) {
    // SAFETY: a spent block has a successor behind each access, or was never linked there (void), or closed its chain.
    unsafe {
        if (*node).is_ticketed() {
            return; // It was in no chain.
        }
        for index in 0..(*node).count {
            let access = Node::access(node, index);
            let next = State((*access).state.load(Acquire)).next();
            let tail = &(*chain((*access).variable)).tail;
            if !mutant("not-detached") && !next.is_null() && tail.load(Relaxed) == access {
                let _ = tail.compare_exchange(access, next, AcqRel, Relaxed);
            }
        }
    }
}
