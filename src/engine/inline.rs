//! Running an operation inside its push, on loans: without a block, without an access, and without enlisting.
//!
//! If every variable is idle the operation would be granted everything at once, and if its thread is to run it anyway, nobody else has
//! to know it: it borrows its variables ([`loan`](crate::variable::loan)), runs from the stack, and gives them back. Whoever comes
//! meanwhile lines up behind the loans. If the variables are at home, as they are while nothing else is done to them, no pin is needed; else it ends before the
//! call: an access that is lent is not spent, so its block stays, and the call may push and allocate. Whatever is out of the ordinary
//! goes the long way in [`push`](super::push): then nothing has happened here.

use super::claims::Source;
use super::core::{Core, FAILED};
use super::found::Found;
use super::inside::{self, enter, leave};
use super::push::{Claim, Request};
use super::variable::Variable;
use crate::array_vec::{ArrayVec, Fill};
use crate::error::{Fault, Stamp};
use crate::mutants::{mutant, mutate};
use crate::operation::block::{Block, NOTE_GRAPH};
use crate::operation::context::RunContext;
use crate::operation::current::{within, Current, May};
use crate::pool::local::Local;
use crate::pool::reclaim::{Epoch, Reclaim};
use crate::pool::running::MOST_USES;
use crate::sync::{Ordering::*, MODELLED};
use crate::variable::access::Mode;
use crate::variable::home::Errand;
use crate::variable::loan::Loan;
use crate::variable::table::Slot;
use std::ptr::null_mut;
use std::sync::Arc;

type Guard = <Epoch as Reclaim>::Guard;

/// A variable that an operation has borrowed while it is being pushed.
#[derive(Clone, Copy)]
struct Borrowing<'a> {
    slot: &'a Slot,
    loan: Loan,
    reads: bool,
}

/// The variables that an operation has while it runs inside its push.
pub trait Held {
    /// The state of the thread that runs it.
    fn local(&self) -> &Local;
    /// Each variable, and whether it is only read.
    fn uses(&self) -> impl ExactSizeIterator<Item = (&Slot, bool)>;
    /// Gives the variables back; writes step their versions if `steps`. Returns what has become
    /// ready, in a list. Once.
    fn give_back(&self, core: &Core, steps: bool) -> *mut Block;
}

/// An operation that runs inside its push.
struct Inside<'a, H: Held> {
    held: &'a H,
    name: &'static str,
}

impl<H: Held> Current for Inside<'_, H> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn may(&self, engine: u32, index: u32) -> Option<May> {
        if self.held.local().memory.id != engine {
            return None;
        }
        let found = self.held.uses().find(|(slot, _)| slot.chain.tag.index() == index);
        Some(May::of(found.map(|(_, reads)| !reads)))
    }

    fn generation(&self, index: u32) -> u32 {
        // SAFETY: the operation has declared a variable of this index.
        unsafe { self.held.local().memory.table.generation(index) }
    }
}

/// All of them.
pub struct Loans<'a> {
    local: &'a Local,
    held: ArrayVec<Borrowing<'a>, MOST_USES>,
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
    let local = loans.local;
    if inside::is_deep() {
        return Borrowed::NotNow;
    }
    // Whoever stops the engine sets a flag, passes a heavy fence, and waits until as many operations are complete as were pushed. Either that one sees the
    // count, or we see the flag, before anything is borrowed: so nothing is when the process forks. The fence is that of `alone`.
    mutate!("borrowed-before-it-is-counted": (), local.count_pushed());
    let alone = local.alone();
    let mut guard = None;
    if core.state.load(Relaxed) & !FAILED != 0 {
        drop(alone);
        abandon(core, local, loans, guard);
        return Borrowed::NotNow;
    }
    let mut refusal = Borrowed::Busy;
    let mut fill = loans.held.fill();
    // Inlined: a call for each variable would be a fourth of what an operation takes.
    let mut all = claims.all(
        #[inline(always)]
        |claim| borrow_one(core, local, &mut fill, claim, alone.is_some(), &mut guard, &mut refusal),
    );
    fill.end();
    drop(alone);
    // Relaxed: a failure on one of the variables was noted in the state before that variable could become idle.
    let failed = mutate!("loans-in-spite-of-the-state": false, core.state.load(Relaxed) & FAILED != 0);
    if failed && loans.held.iter().any(|held| held.slot.is_marked()) {
        (all, refusal) = (false, Borrowed::NotNow);
    }
    if mutant("borrowed-before-it-is-counted") {
        local.count_pushed();
    }
    if !all {
        abandon(core, local, loans, guard);
        return refusal;
    }
    Borrowed::All
}

/// Runs an operation that has its variables, and gives them back. `call` does not unwind.
#[inline]
pub fn run(
    core: &Arc<Core>,
    request: &Request,
    held: &impl Held,
    call: impl FnOnce(&RunContext<'_>) -> Result<(), Fault>,
) {
    let local = held.local();
    // Of the naive engine's queue of what becomes ready. Others have workers for that.
    let outermost = !local.draining.replace(true);
    let name = request.name.as_str();
    let graph = request.notes & NOTE_GRAPH != 0;
    let sequence = local.next_sequence();
    let visible = !MODELLED && local.depth.get() == 0;
    if visible {
        let uses = held.uses().map(|(slot, reads)| (slot.chain.tag.index(), reads));
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
    let outcome = within(&Inside { held, name }, || call(&run));
    leave(local);
    if visible {
        local.home().running.end();
    }
    if let Err(fault) = outcome {
        mark(core, held, fault, name, sequence);
    }
    if mutant("loan-counted-before-its-end") {
        local.count_completed();
    }
    let first = held.give_back(core, !graph);
    mutate!("loan-counted-before-its-end": (), local.count_completed());
    // SAFETY: ready, and ours.
    unsafe {
        if !first.is_null() {
            core.hand_out(local, first, None);
        }
        if outermost && !local.first.get().is_null() {
            core.dispatch.drain(core, local);
            inside::pay();
            return;
        }
    }
    if outermost {
        local.draining.set(false);
    }
    core.settle(local);
    inside::pay();
}

/// Borrows one more variable, not to delete it, if it can be had and there is a place for it. Pins the thread if it has to.
#[inline(always)]
fn borrow_one<'a>(
    core: &'a Core,
    local: &Local,
    fill: &mut Fill<'_, Borrowing<'a>, MOST_USES>,
    claim: &Claim,
    alone: bool,
    guard: &mut Option<Guard>,
    refusal: &mut Borrowed,
) -> bool {
    let Claim { variable: Variable { index, generation, .. }, mode } = *claim;
    let reads = mode == Mode::Read;
    // What cannot be used is for the long way to explain. A repeat is taken to be busy.
    let memory = &*core.memory;
    let (Some(room), true) = (fill.room(), claim.variable.may_be_of(memory.id)) else {
        *refusal = Borrowed::NotNow;
        return false;
    };
    let Some(slot) = memory.table.get(index) else {
        *refusal = Borrowed::NotNow;
        return false;
    };
    // Acquire: after the loan, which brings the generation that the chain was opened with. Only after it, though then who pushes to a variable that is gone
    // borrows that one for a moment to which the place belongs now: before it, it would tell no more, since the place can change hands until the loan.
    let is_same = || slot.chain.tag.generation.load(Acquire) == generation;
    let (loan, same) = match slot.chain.lend_at_home(!reads, alone) {
        Some(loan) => (loan, mutate!("lent-whosever-it-is-now": true, is_same())),
        None => match lend_away(local, slot, index, generation, mode, guard) {
            Some(loan) => (loan, true),
            None => return false,
        },
    };
    room.add(Borrowing { slot, loan, reads });
    if !same {
        *refusal = Borrowed::NotNow;
    }
    same
}

/// Gives back what was borrowed in vain, and counts the operation out again.
#[cold]
#[inline(never)]
fn abandon(core: &Arc<Core>, local: &Local, loans: &Loans<'_>, guard: Option<Guard>) {
    let mut found = Found::new(local);
    for held in &*loans.held {
        // SAFETY: borrowed, and given back once.
        unsafe { held.loan.give_back(&mut found) };
    }
    drop(guard);
    local.count_completed();
    if !found.first.is_null() {
        // SAFETY: ready, and ours.
        unsafe { core.hand_out(local, found.first, None) };
    }
    core.settle(local);
}

/// Marks what a failed operation changes.
#[cold]
#[inline(never)]
fn mark(core: &Core, held: &impl Held, fault: Fault, name: &'static str, sequence: u64) {
    let failure = core.record(fault, name, sequence);
    for (slot, _) in held.uses().filter(|(_, reads)| !reads) {
        slot.set_mark(Some(Arc::clone(&failure)));
    }
}

/// Borrows a variable whose last access lies in a block. Pins the thread, if it is not; and brings the variable home now and then.
#[inline(never)]
fn lend_away(
    local: &Local,
    slot: &Slot,
    index: u32,
    generation: u32,
    mode: Mode,
    guard: &mut Option<Guard>,
) -> Option<Loan> {
    if !mutant("borrowed-without-a-pin") {
        guard.get_or_insert_with(|| local.pin());
    }
    // From the pin on, the chain of a variable that lives does not become that of another.
    if slot.chain.tag.generation.load(Acquire) != generation {
        return None;
    }
    // SAFETY: pinned. As for coming home: whoever may have found the variable's own access at the tail was pinned then, before somebody asked; and of
    // two only one is told to come.
    unsafe {
        match slot.home.consider(generation, || slot.chain.is_away_and_idle()) {
            Errand::None => slot.chain.lend(mode),
            Errand::Ask(asked) => {
                let loan = slot.chain.lend(mode);
                local.ask_for_home(index, asked);
                loan
            }
            Errand::Come => {
                let loan = slot.chain.lend_coming_home(mode, &mut Found::new(local));
                match loan {
                    Some(_) => slot.home.came(),
                    None => slot.home.stays(),
                }
                loan
            }
        }
    }
}

impl Held for Loans<'_> {
    #[inline]
    fn local(&self) -> &Local {
        self.local
    }

    #[inline]
    fn uses(&self) -> impl ExactSizeIterator<Item = (&Slot, bool)> {
        self.held.iter().map(|held| (held.slot, held.reads))
    }

    #[inline]
    fn give_back(&self, _: &Core, steps: bool) -> *mut Block {
        let step = |held: &Borrowing| {
            if !held.reads && steps {
                held.slot.step_version();
            }
        };
        let mut left = &self.held[..];
        if let Some(_moment) = self.local.alone() {
            while let [held, rest @ ..] = left {
                if !held.loan.end_alone(&held.slot.chain, || step(held)) {
                    break;
                }
                left = rest;
            }
        }
        if left.is_empty() {
            return null_mut();
        }
        let mut found = Found::new(self.local);
        for held in left {
            step(held);
            // SAFETY: borrowed, and given back once.
            unsafe { held.loan.give_back(&mut found) };
        }
        found.first
    }
}

impl<'a> Loans<'a> {
    #[inline]
    pub fn of(local: &'a Local) -> Loans<'a> {
        Loans { local, held: ArrayVec::new() }
    }
}
