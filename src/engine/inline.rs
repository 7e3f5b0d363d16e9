//! Running an operation inside its push, on loans: without a block, without an access, and without enlisting.
//!
//! If every variable is idle the operation would be granted everything at once, and if its thread is to run it anyway, nobody else has
//! to know it: it borrows its variables ([`loan`](crate::variable::loan)), runs from the stack, and gives them back. Whoever comes
//! meanwhile lines up behind the loans. The pin ends before the call: an access that is lent is not spent, so its block stays, and the
//! call may push and allocate. Whatever is out of the ordinary goes the long way in [`push`](super::push): then nothing has
//! happened here.

use super::claims::Source;
use super::core::{Core, Found, Lends, FAILED, NESTED};
use super::inside::{enter, leave};
use super::naive;
use super::push::{resolve, Claim, Request};
use crate::error::{Fault, Stamp};
use crate::mutants::mutate;
use crate::operation::block::NOTE_GRAPH;
use crate::operation::context::RunContext;
use crate::pool::local::Local;
use crate::pool::reclaim::{Epoch, Reclaim};
use crate::pool::running::MOST_USES;
use crate::sync::{Ordering::*, MODELLED};
use crate::variable::access::Mode;
use crate::variable::loan::Loan;
use crate::variable::table::Slot;
use std::mem::MaybeUninit;
use std::sync::Arc;

type Guard = <Epoch as Reclaim>::Guard;

/// A variable that an operation has borrowed while it is being pushed.
#[derive(Clone, Copy)]
struct Held<'a> {
    slot: &'a Slot,
    loan: Loan,
    reads: bool,
}

/// All of them.
pub struct Loans<'a> {
    held: [MaybeUninit<Held<'a>>; MOST_USES],
    count: usize,
}

/// What came of borrowing the variables of an operation.
#[must_use]
pub enum Borrowed {
    /// All of them: [`run`] must follow.
    All,
    /// One of them was not idle. Nothing has changed.
    Busy,
    /// The operation has to be enlisted for other reasons. Nothing has changed.
    NotNow,
}

/// Borrows all variables of an operation that is being pushed, if they are idle.
#[inline]
pub fn borrow<'a>(core: &'a Arc<Core>, claims: &impl Source, loans: &mut Loans<'a>) -> Borrowed {
    let local = core.local();
    if local.depth.get() >= NESTED || core.state.load(Relaxed) & !FAILED != 0 {
        return Borrowed::NotNow;
    }
    let guard = local.pin();
    let mut refusal = Borrowed::Busy;
    // Inlined: a call for each variable would be a fourth of what an operation takes.
    let mut all = claims.all(
        #[inline(always)]
        // SAFETY: pinned; deletions are not for loans.
        |claim| unsafe { loans.borrow(core, claim, &mut refusal) },
    );
    // Relaxed: a failure on one of the variables was noted in the state before that variable could become idle. And, as in
    // `push::enlist`, whoever stops the engine sets the flag and then waits until all earlier pins are gone.
    let state = mutate!("loans-in-spite-of-the-state": 0, core.state.load(Relaxed));
    if state != 0 && (state != FAILED || loans.held().iter().any(|held| held.slot.is_marked())) {
        (all, refusal) = (false, Borrowed::NotNow);
    }
    if !all {
        abandon(core, local, loans, guard);
        return refusal;
    }
    local.count_pushed();
    Borrowed::All
}

/// Runs the operation for which `loans` were borrowed just now. `call` does not unwind.
#[inline]
pub fn run(
    core: &Arc<Core>,
    request: &Request,
    loans: &Loans<'_>,
    call: impl FnOnce(&RunContext<'_>) -> Result<(), Fault>,
) {
    let local = core.local();
    // The naive engine's queue of what becomes ready; the others have workers for that.
    let outermost = core.lends == Lends::Always && !local.draining.replace(true);
    let name = request.name.as_str();
    let graph = request.notes & NOTE_GRAPH != 0;
    let sequence = local.next_sequence();
    let visible = !MODELLED && local.depth.get() == 0;
    if visible {
        let uses = loans.held().iter().map(|held| (held.slot.chain.tag.index(), held.reads));
        local.home().running.begin(sequence, name, uses);
    }
    let run = RunContext {
        context: request.context,
        name,
        worker: None,
        nested_threads: core.settings.nested_threads,
        inherited: None,
        graph: 0,
        pushed: graph.then(|| (Stamp::new(local.home().number, sequence), 0)),
    };
    enter(local);
    let outcome = call(&run);
    leave(local);
    if visible {
        local.home().running.end();
    }
    if let Err(fault) = outcome {
        mark(core, loans, fault, name, sequence);
    }
    let mut found = Found::new(local);
    for held in loans.held() {
        if !held.reads && !graph {
            held.slot.step_version();
        }
        // SAFETY: borrowed above, and given back once.
        unsafe { held.loan.give_back(&mut found) };
    }
    local.count_completed();
    // SAFETY: ready, and ours.
    unsafe {
        if !found.first.is_null() {
            core.hand_out(local, found.first, None);
        }
        if outermost && !local.first.get().is_null() {
            naive::drain(core, local);
            return;
        }
    }
    if outermost {
        local.draining.set(false);
    }
    core.settle(local);
}

/// Gives back what was borrowed in vain.
#[cold]
#[inline(never)]
fn abandon(core: &Arc<Core>, local: &Local, loans: &Loans<'_>, guard: Guard) {
    let mut found = Found::new(local);
    for held in loans.held() {
        // SAFETY: borrowed, and given back once.
        unsafe { held.loan.give_back(&mut found) };
    }
    drop(guard);
    if !found.first.is_null() {
        // SAFETY: ready, and ours.
        unsafe { core.hand_out(local, found.first, None) };
        core.settle(local);
    }
}

/// Marks what a failed operation changes.
#[cold]
#[inline(never)]
fn mark(core: &Core, loans: &Loans<'_>, fault: Fault, name: &'static str, sequence: u64) {
    let failure = core.record(fault, name, sequence);
    for held in loans.held().iter().filter(|held| !held.reads) {
        held.slot.set_mark(Some(Arc::clone(&failure)));
    }
}

impl<'a> Loans<'a> {
    #[inline]
    pub fn none() -> Loans<'a> {
        Loans { held: [const { MaybeUninit::uninit() }; MOST_USES], count: 0 }
    }

    /// Borrows one more variable, if it can be had and there is a place for it.
    ///
    /// # Safety
    /// The caller is pinned, and does not delete.
    #[inline(always)]
    unsafe fn borrow(&mut self, core: &'a Core, claim: Claim, refusal: &mut Borrowed) -> bool {
        let reads = claim.mode == Mode::Read;
        // What cannot be used is for the long way to explain. A repeat is taken to be busy.
        let (Some(place), Ok(slot)) = (self.held.get_mut(self.count), resolve(core, claim.variable)) else {
            *refusal = Borrowed::NotNow;
            return false;
        };
        // SAFETY: by the contract.
        let Some(loan) = (unsafe { slot.chain.lend(claim.mode) }) else { return false };
        place.write(Held { slot, loan, reads });
        self.count += 1;
        true
    }

    #[inline]
    fn held(&self) -> &[Held<'a>] {
        // SAFETY: `borrow` has written the first `count`, which are no more than there are.
        unsafe { std::slice::from_raw_parts(self.held.as_ptr().cast(), self.count) }
    }
}
