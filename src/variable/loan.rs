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
}

impl Chain {
    /// Lends the variable if it is idle: nothing is pending on it, and it is not lent. One load and one compare-exchange.
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
            let writes = mutate!("lent-to-a-write-as-to-a-read": false, mode != Mode::Read);
            let lent = if writes { LENT_TO_WRITE } else { LENT_TO_READ };
            // Acquire: what the operations before have done. Nothing of ours is to be released yet, and what they have released stays so:
            // a read-modify-write goes on with their release sequence. If it succeeds, the access is the last one: it has no next.
            let order = mutate!("lent-relaxed": Relaxed, Acquire);
            (*access).state.compare_exchange(IDLE, lent, order, Relaxed).ok().map(|_| Loan { access })
        }
    }
}

impl Loan {
    /// Ends the loan: one atomic or, and what follows from it.
    ///
    /// # Safety
    /// It is the only end of this loan. Versions are stepped before.
    #[inline]
    pub unsafe fn give_back<S: Sink>(self, sink: &mut S) {
        // SAFETY: until the or below the access is not spent. If it has a next then, it still is not: the message and the end are ours to
        // give, in this order, as in `propagate`. Otherwise it is not touched any more.
        unsafe {
            let node = Access::node(self.access);
            // Release: what the operation did. Acquire: the access that was linked behind.
            let order = mutate!("loan-ended-relaxed": Relaxed, AcqRel);
            let next = State((*self.access).state.fetch_or(IDLE, order)).next();
            if !next.is_null() {
                mutate!("nobody-told-of-the-end-of-a-loan": (), send(next, READABLE | WRITABLE, &mut Own::nobody(), sink));
                spend(node, sink);
            }
        }
    }
}
