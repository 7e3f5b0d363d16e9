//! Running an operation inside its push, on tickets: without a block for it, and without a log.
//!
//! If its tickets have come and its thread is to run it anyway, it runs from the stack. It is
//! counted on its variables *before* its body, which may push to them. If nobody has been given a
//! ticket when it ends, nobody can have parked on it, and its word need not be freed.

use super::acquire::{acquire_all, adopt};
use super::claims::Source;
use super::core::{Core, FAILED};
use super::found::Found;
use super::inline::{self, Borrowed, Held};
use super::inside::is_deep;
use super::push::{Claim, Request};
use crate::array_vec::ArrayVec;
use crate::error::Fault;
use crate::fences::light;
use crate::mutants::mutate;
use crate::operation::block::Block;
use crate::operation::context::RunContext;
use crate::pool::local::Local;
use crate::pool::running::MOST_USES;
use crate::sync::Ordering::*;
use crate::tickets::owner::{AtOnce, Committed};
use crate::tickets::run::{count_read, give_back, Progress, Ticket};
use crate::tickets::word::Word;
use crate::variable::access::{Mode, Sink};
use crate::variable::table::Slot;
use std::cell::Cell;
use std::sync::Arc;

/// One variable of an operation that runs inside its push.
#[derive(Clone, Copy)]
struct Use<'a> {
    slot: &'a Slot,
    mode: Mode,
    /// Writes that were pushed before.
    writes: u32,
}

/// All of them.
struct Uses<'a> {
    local: &'a Local,
    uses: ArrayVec<Use<'a>, MOST_USES>,
    /// What others park on, if the operation writes and is not over. It is nowhere else.
    this: Cell<Word>,
    committed: Option<Committed>,
}

/// Runs an operation that is being pushed, if all its tickets have come. Else nothing has happened.
#[inline]
pub fn run(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl Source,
    call: impl FnOnce(&RunContext<'_>) -> Result<(), Fault>,
) -> Borrowed {
    let local = core.local();
    if is_deep() {
        return Borrowed::NotNow;
    }
    // Before the flags are looked at: who stops the engine waits for it, or it sees the flag.
    local.count_pushed();
    // Against the heavy one of who stops the engine.
    light();
    let mut held = Uses { local, uses: ArrayVec::new(), this: Cell::new(Word::NONE), committed: None };
    let mut had = Borrowed::NotNow;
    if core.state.load(Relaxed) & !FAILED == 0 {
        had = held.claim_all(core, claims);
    }
    if !matches!(had, Borrowed::All) {
        had = held.try_again(core, claims, had);
    }
    if !matches!(had, Borrowed::All) {
        local.count_completed();
        core.settle(local);
        return had;
    }
    inline::run(core, request, &held, call);
    Borrowed::All
}

impl<'a> Uses<'a> {
    /// As [`Uses::claim_all`], after that has failed: if it can make the variables the thread's own.
    #[cold]
    #[inline(never)]
    fn try_again(&mut self, core: &'a Arc<Core>, claims: &impl Source, had: Borrowed) -> Borrowed {
        let may = matches!(had, Borrowed::NotNow) && core.state.load(Relaxed) & !FAILED == 0;
        if may && acquire_all(core, claims) {
            self.claim_all(core, claims)
        } else {
            had
        }
    }

    /// Counts the operation on its variables if all tickets have come; else on none.
    #[inline(always)]
    fn claim_all(&mut self, core: &'a Core, claims: &impl Source) -> Borrowed {
        let memory = &*core.memory;
        let mut had = Borrowed::Busy;
        let mut fill = self.uses.fill();
        let push = self.local.pusher().push_at_once();
        let mut all = claims.all(
            #[inline(always)]
            |claim| {
                let (variable, mode) = (claim.variable, claim.mode);
                // What cannot be used is for the long way to explain. A repeat is taken to be busy.
                let (Some(room), true) = (fill.room(), variable.engine == memory.id) else {
                    had = Borrowed::NotNow;
                    return false;
                };
                if mode != Mode::Read && self.this.get() == Word::NONE {
                    // SAFETY: nothing was read from a tail.
                    self.this.set(unsafe { self.local.take_word() });
                }
                let claimed = push.claim((variable.index, variable.generation), mode, self.this.get(), find);
                let claimed = claimed.or_else(|| claim_new(core, self.local, &push, claim, self.this.get(), &mut had));
                let Some((ticket, slot)) = claimed else { return false };
                room.add(Use { slot, mode, writes: ticket.writes });
                true
            },
        );
        fill.end();
        // Relaxed: a failure on one of the variables was noted in the state before its ticket came. So
        // not before the tickets are looked at.
        let failed = mutate!("at-once-in-spite-of-a-failure": false, core.state.load(Relaxed) & FAILED != 0);
        if failed && self.uses.iter().any(|used| used.slot.is_marked()) {
            (all, had) = (false, Borrowed::NotNow);
        }
        if all {
            // Of no variables there is nothing to commit.
            self.committed = if self.uses.is_empty() { None } else { push.commit(self.this.get()) };
            if self.uses.is_empty() || self.committed.is_some() {
                return Borrowed::All;
            }
            had = Borrowed::NotNow;
        }
        self.uses.iter().for_each(|used| push.take_back(used.slot.chain.tag.index()));
        self.keep_word();
        had
    }

    #[inline]
    fn keep_word(&self) {
        let this = self.this.replace(Word::NONE);
        if this != Word::NONE {
            // SAFETY: nobody was given it.
            unsafe { self.local.keep_word(this) };
        }
    }
}

impl Held for Uses<'_> {
    #[inline]
    fn local(&self) -> &Local {
        self.local
    }

    #[inline]
    fn uses(&self) -> impl ExactSizeIterator<Item = (&Slot, bool)> {
        self.uses.iter().map(|used| (used.slot, used.mode == Mode::Read))
    }

    #[inline]
    fn give_back(&self, core: &Core, steps: bool) -> *mut Block {
        let mut found = Found::new(self.local);
        for used in &*self.uses {
            let progress = used.slot.progress();
            if used.mode == Mode::Read {
                // SAFETY: it was counted when it was pushed.
                unsafe { count_read(progress, &core.memory.table, &mut |ready| found.ready(ready.cast())) };
                continue;
            }
            if steps {
                used.slot.step_version();
            }
            progress.count_write(used.writes);
        }
        let unseen = |committed| mutate!("left-though-seen": true, self.local.pusher().is_last(committed));
        if self.this.get() == Word::NONE || self.committed.is_some_and(unseen) {
            self.keep_word();
        } else {
            self.free(core, &mut found);
        }
        found.first
    }
}

impl Uses<'_> {
    /// Frees the word, on which others may have parked.
    #[cold]
    #[inline(never)]
    fn free(&self, core: &Core, found: &mut Found<'_>) {
        let block = self.this.replace(Word::NONE).block();
        // SAFETY: counted, and ours; what comes back is ready. Then nobody parks there.
        unsafe {
            give_back(block, &core.memory.table, &mut |ready| found.ready(ready.cast()));
            self.local.keep_word(Local::renew_word(block));
        }
    }
}

/// The variable of a place.
#[inline(always)]
fn find<'a>(whole: *const ()) -> (&'a Slot, &'a Progress) {
    // SAFETY: a slot of the table, which stays for as long as the engine.
    let slot: &'a Slot = unsafe { &*whole.cast() };
    (slot, slot.progress())
}

/// As [`AtOnce::claim`], after that was refused: if the variable is nobody's yet. Else `had` is what came
/// of it.
#[cold]
#[inline(never)]
fn claim_new<'a>(
    core: &'a Core,
    local: &Local,
    push: &AtOnce<'_>,
    Claim { variable, mode }: &Claim,
    this: Word,
    had: &mut Borrowed,
) -> Option<(Ticket, &'a Slot)> {
    if local.pusher().owns(variable.index, variable.generation) {
        // It is busy.
        return None;
    }
    *had = Borrowed::NotNow;
    if !adopt(core, local, *variable) {
        return None;
    }
    push.claim((variable.index, variable.generation), *mode, this, find)
}
