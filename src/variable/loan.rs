//! Loans: an idle variable is lent to an operation that runs inside its push, and needs no block and no access of its own.
//!
//! The last access of an idle variable has all its flags and no next. A loan takes some of them back by one compare-exchange, so that it
//! looks like an access that is still running; whoever comes meanwhile is linked behind it. The end of the loan gives the flags back and
//! does what the completion of the last of two accesses would do. `README.md` beside this file has the argument ("Loans").

use super::access::{Access, Mode, Sink};
use super::chain::Chain;
use super::propagate::{send, spend, Own};
use super::state::{State, IDLE, LENT_TO_READ, LENT_TO_WRITE, READABLE, WRITABLE};
use crate::mutants::mutate;
use crate::sync::Ordering::*;

/// A variable that is lent. It must be given back: whoever comes after waits for that.
#[must_use = "a loan must be given back"]
#[derive(Clone, Copy)]
pub struct Loan {
    /// The variable's last access when it was lent.
    access: *mut Access,
    /// The flags that it has meanwhile.
    lent: usize,
}

impl Chain {
    /// Lends the variable if it is idle and its last access is its own: nothing was ever enlisted on it, or it has come home since. That access lies in the chain and
    /// stays there. So the caller need not hold anything; but he has to look afterwards whether the variable is still the one that he means, since without a pin the
    /// chain may have become that of another. One load and one compare-exchange; if the caller is `alone`, a load and a store.
    #[inline]
    pub fn lend_at_home(&self, writes: bool, alone: bool) -> Option<Loan> {
        // If this word is idle its access is the last one: whoever is linked behind it gives it an address, which stays until it comes home, lent.
        // Acquire: what others did before the caller was alone.
        if self.birth.state.load(Acquire) != IDLE {
            return None;
        }
        let lent = lent_to(writes);
        if alone {
            // Release, though nothing rests on it: who looks at this later has waited for the end of the moment, which is a release.
            self.birth.state.store(lent, Release);
            return Some(Loan { access: (&raw const self.birth).cast_mut(), lent });
        }
        // Acquire: as in `lend`; and the generation that the chain was opened with, or a later one.
        let order = mutate!("lent-relaxed": Relaxed, Acquire);
        let taken = self.birth.state.compare_exchange(IDLE, lent, order, Relaxed);
        taken.ok().map(|_| Loan { access: (&raw const self.birth).cast_mut(), lent })
    }

    /// Lends the variable if it is idle: nothing is pending on it, and it is not lent. One load and one compare-exchange, or two
    /// if a worker has used it last.
    ///
    /// # Safety
    /// The caller holds the chain's blocks during the call (not until the end of the loan: an access that is lent is not spent), and
    /// `mode` is not [`Mode::Delete`].
    #[inline]
    pub unsafe fn lend(&self, mode: Mode) -> Option<Loan> {
        // SAFETY: the caller holds the block that the tail leads to.
        unsafe {
            // Acquire: the access behind the address.
            let access = self.tail.load(Acquire);
            let lent = lent_to(mode != Mode::Read);
            // Acquire: what the operations before have done. Nothing of ours is to be released yet, and what they have released stays so:
            // a read-modify-write goes on with their release sequence. If it succeeds, the access is the last one: it has no next.
            let order = mutate!("lent-relaxed": Relaxed, Acquire);
            match (*access).state.compare_exchange(IDLE, lent, order, Relaxed) {
                Ok(_) => Some(Loan { access, lent }),
                Err(now) => lend_after_worker(access, State(now), lent),
            }
        }
    }
}

impl Chain {
    /// Whether the last access lies in a block, and is idle.
    ///
    /// # Safety
    /// The caller holds the chain's blocks.
    pub unsafe fn is_away_and_idle(&self) -> bool {
        let tail = self.tail.load(Acquire);
        // SAFETY: the caller holds the block that the tail leads to.
        tail.cast_const() != &raw const self.birth && State(unsafe { (*tail).state.load(Relaxed) }).is_idle()
    }

    /// As [`Chain::lend`], and the variable comes home: its own access is linked behind the last one, lent from the start, and the block of that one is spent.
    ///
    /// # Safety
    /// As there. The last access lies in a block; no other thread can be looking at the variable's own access, but to try a loan without a pin, and none
    /// does this at the same time.
    pub unsafe fn lend_coming_home<S: Sink>(&self, mode: Mode, sink: &mut S) -> Option<Loan> {
        let birth = (&raw const self.birth).cast_mut();
        let lent = lent_to(mode != Mode::Read);
        // SAFETY: the caller holds the block that the tail leads to, and has the variable's own access to himself.
        unsafe {
            let last = self.tail.load(Acquire);
            let state = State((*last).state.load(Acquire));
            if last == birth || !state.is_idle() {
                return None;
            }
            // Not idle, so that no loan without a pin takes it before it is the last.
            self.birth.state.store(mutate!("comes-home-idle": IDLE, lent), Relaxed);
            // As when an access is linked (5): what it deserves, `R W`, is lent already.
            let linked = state.linked_to(birth, false);
            (*last).state.compare_exchange(state.0, linked.0, AcqRel, Relaxed).ok()?;
            let _ = self.tail.compare_exchange(last, birth, AcqRel, Relaxed);
            spend(Access::node(last), sink);
        }
        Some(Loan { access: birth, lent })
    }
}

#[inline]
fn lent_to(writes: bool) -> usize {
    if mutate!("lent-to-a-write-as-to-a-read": false, writes) {
        LENT_TO_WRITE
    } else {
        LENT_TO_READ
    }
}

/// [`Chain::lend`] for a word that is more than the flags: if that is the number of the worker that has used the variable last, it gives way to nobody's.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn lend_after_worker(access: *mut Access, state: State, lent: usize) -> Option<Loan> {
    // Acquire: as there.
    let order = mutate!("lent-after-a-worker-relaxed": Relaxed, Acquire);
    // SAFETY: as above.
    let lends = state.is_idle() && unsafe { (*access).state.compare_exchange(state.0, lent, order, Relaxed) }.is_ok();
    lends.then_some(Loan { access, lent })
}

impl Loan {
    /// Ends a loan by a plain store, if it is one of the chain's own access and nobody is linked behind it: says whether. `before` is called if so. Only for a caller
    /// who is alone.
    #[inline]
    pub fn end_alone(self, chain: &Chain, before: impl FnOnce()) -> bool {
        let at_home = std::ptr::eq(self.access, &raw const chain.birth);
        let is_last = || chain.birth.state.load(Relaxed) == self.lent;
        let ends = at_home && mutate!("given-back-over-a-next": true, is_last());
        if ends {
            before();
            // Release: as above.
            chain.birth.state.store(IDLE, Release);
        }
        ends
    }

    /// Ends the loan: one atomic addition of the flags that were taken back, and what follows from it.
    ///
    /// # Safety
    /// It is the only end of this loan. Versions are stepped before.
    #[inline]
    pub unsafe fn give_back<S: Sink>(self, sink: &mut S) {
        // SAFETY: until the addition below the access is not spent. If it has a next then, it still is not: the message and the end are ours to
        // give, in this order, as in `propagate`. Otherwise it is not touched any more.
        unsafe {
            // Release: what the operation did. Acquire: the access that was linked behind.
            let order = mutate!("loan-ended-relaxed": Relaxed, AcqRel);
            // An addition and not an or: nobody else sets these flags while the access is lent, and where an or has to say what was there before
            // it takes a loop on x86.
            let next = State((*self.access).state.fetch_add(IDLE - self.lent, order)).next();
            if !next.is_null() {
                let node = Access::node(self.access);
                mutate!("nobody-told-of-the-end-of-a-loan": (), send(next, READABLE | WRITABLE, &mut Own::nobody(), sink));
                spend(node, sink);
            }
        }
    }
}
