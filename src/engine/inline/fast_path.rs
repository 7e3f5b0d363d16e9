//! Running an operation inside its push: without a block for it, and without a log.
//!
//! If its tickets have come and its thread is to run it anyway, it runs from the stack. Its push is
//! committed *before* its body, which may push to the same variables. If nobody has been given a
//! ticket when it ends, the push is withdrawn: nothing is counted, and nobody can have parked on
//! it.

use crate::engine::claims::Source;
use crate::engine::core::{Core, FAILED};
use crate::engine::nesting::{self, enter, is_deep, leave};
use crate::engine::push::acquire::{acquire_all, adopt, is_common};
use crate::engine::ready_list::ReadyList;
use crate::engine::request::{Claim, Request};
use crate::error::{Fault, Stamp};
use crate::operation::access::Mode;
use crate::operation::block::{Block, FLAG_GRAPH};
use crate::operation::context::RunContext;
use crate::operation::current::{within, Current, May};
use crate::operation::inline_run::SHOWN;
use crate::platform::asymmetric_fence::light;
use crate::sync::{Ordering::*, MODELLED};
use crate::thread::context::ThreadContext;
use crate::tickets::owner::{AtOnce, Counted};
use crate::tickets::run::{count_read, give_back, Progress};
use crate::tickets::word::Word;
use crate::util::array_vec::ArrayVec;
use crate::variable::slot::Slot;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;

/// The most variables of an operation that [`run`] runs. The frame of each push has room for so
/// many.
pub const FEW: usize = SHOWN;
/// The most of one that [`run_wide`] runs.
pub const MANY: usize = 256;

/// What has come of a try.
#[must_use]
pub enum Tried {
    /// The operation has run.
    Ran,
    /// Not all tickets have come. Nothing has changed.
    Busy,
    /// It has to go the long way for other reasons. Nothing has changed.
    NotNow,
}

/// One variable of an operation that runs inside its push.
#[derive(Clone, Copy)]
struct InlineUse<'a> {
    slot: &'a Slot,
    mode: Mode,
    counted: Counted<'a>,
}

/// All of them.
struct InlineUses<'a, const MOST: usize> {
    local: &'a ThreadContext,
    uses: ArrayVec<InlineUse<'a>, MOST>,
    /// What others park on, if the operation writes and is not over. It is nowhere else.
    this: Cell<Word>,
    /// Its push, once it is committed, if it has variables.
    committed: Option<AtOnce<'a>>,
}

/// An operation that runs inside its push.
struct Inside<'a> {
    local: &'a ThreadContext,
    uses: &'a [InlineUse<'a>],
    name: &'static str,
}

impl Current for Inside<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn may(&self, engine: u32, index: u32) -> Option<May> {
        if self.local.memory.id != engine {
            return None;
        }
        let found = self.uses.iter().find(|used| used.slot.index() == index);
        Some(May::of(found.map(|used| used.mode != Mode::Read)))
    }

    fn generation(&self, index: u32) -> u32 {
        // SAFETY: the operation has declared a variable of this index.
        unsafe { self.local.memory.table.generation(index) }
    }
}

/// Runs an operation that is being pushed, if all its tickets have come. `call` does not unwind.
#[inline]
pub fn run(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl Source,
    call: impl FnOnce(&RunContext<'_>) -> Result<(), Fault>,
) -> Tried {
    run_as::<FEW>(core, request, claims, call)
}

/// As [`run`], of an operation with more variables. One function for closures of all types.
#[cold]
#[inline(never)]
pub fn run_wide(
    core: &Arc<Core>,
    request: &Request,
    claims: &[Claim],
    call: &mut dyn FnMut(&RunContext<'_>) -> Result<(), Fault>,
) -> Tried {
    run_as::<MANY>(core, request, &claims, call)
}

#[inline(always)]
fn run_as<const MOST: usize>(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl Source,
    call: impl FnOnce(&RunContext<'_>) -> Result<(), Fault>,
) -> Tried {
    let local = core.local();
    if is_deep() {
        return Tried::NotNow;
    }
    // Before the flags are looked at: who stops the engine waits for it, or it sees the flag.
    local.count_pushed();
    // Against the heavy one of who stops the engine.
    light();
    let mut held: InlineUses<'_, MOST> =
        InlineUses { local, uses: ArrayVec::new(), this: Cell::new(Word::NONE), committed: None };
    let mut had = Tried::NotNow;
    if core.state.load(Relaxed) & !FAILED == 0 {
        had = held.claim_all(core, claims);
    }
    if !matches!(had, Tried::Ran) {
        had = held.try_again(core, claims, had);
    }
    if !matches!(had, Tried::Ran) {
        local.count_completed();
        core.settle(local);
        return had;
    }
    held.run(core, request, call);
    had
}

impl<'a, const MOST: usize> InlineUses<'a, MOST> {
    /// Counts the operation on its variables if all tickets have come, so that it can run; else on
    /// none.
    #[inline(always)]
    fn claim_all(&mut self, core: &'a Core, claims: &impl Source) -> Tried {
        let (engine, local) = (core.memory.id, self.local);
        let (mut had, mut this) = (Tried::Busy, Word::NONE);
        let mut fill = self.uses.fill();
        let push = local.pusher().push_at_once();
        let mut all = claims.all(
            #[inline(always)]
            |claim| {
                let (variable, mode) = (claim.variable, claim.mode);
                // What cannot be used is for the long way to explain. A repeat is taken to be busy.
                let (Some(room), true) = (fill.room(), variable.engine == engine) else {
                    had = Tried::NotNow;
                    return false;
                };
                if mode != Mode::Read && this == Word::NONE {
                    // SAFETY: nothing was read from a tail.
                    this = unsafe { local.take_word() };
                }
                // Added in two places, so that the usual one needs nothing in memory.
                if let Some((counted, slot)) = push.claim((variable.index, variable.generation), mode, this, find) {
                    room.add(InlineUse { slot, mode, counted });
                    return true;
                }
                let claimed = claim_new(core, local, push, Claim { variable, mode }, this, &mut had);
                claimed.is_some_and(|(counted, slot)| {
                    room.add(InlineUse { slot, mode, counted });
                    true
                })
            },
        );
        fill.end();
        self.this.set(this);
        // Relaxed: a failure on one of the variables was noted in the state before its ticket came.
        // So not before the tickets are looked at.
        let failed = core.state.load(Relaxed) & FAILED != 0;
        if failed && self.uses.iter().any(|used| used.slot.is_marked()) {
            (all, had) = (false, Tried::NotNow);
        }
        if all {
            // Of no variables there is nothing to commit.
            if self.uses.is_empty() {
                return Tried::Ran;
            }
            if push.commit(this) {
                self.committed = Some(push);
                return Tried::Ran;
            }
            had = Tried::NotNow;
        }
        self.uses.iter().for_each(|used| used.counted.take_back());
        self.keep_word();
        had
    }

    /// As [`InlineUses::claim_all`], after that has failed: if it can make the variables the
    /// thread's own.
    #[cold]
    #[inline(never)]
    fn try_again(&mut self, core: &'a Arc<Core>, claims: &impl Source, had: Tried) -> Tried {
        let may = matches!(had, Tried::NotNow) && core.state.load(Relaxed) & !FAILED == 0;
        if may && acquire_all(core, claims) {
            self.claim_all(core, claims)
        } else {
            had
        }
    }

    /// Runs the operation, which is counted on its variables, and ends it.
    #[inline(always)]
    fn run(&self, core: &Arc<Core>, request: &Request, call: impl FnOnce(&RunContext<'_>) -> Result<(), Fault>) {
        let local = self.local;
        // Of the naive engine's queue of what becomes ready. Others have workers for that.
        let outermost = !local.draining.replace(true);
        let name = request.name.as_str();
        let graph = request.flags & FLAG_GRAPH != 0;
        let sequence = local.next_sequence();
        let visible = !MODELLED && local.depth.get() == 0;
        if visible {
            let uses = self.uses.iter().map(|used| (used.slot.index(), used.mode == Mode::Read));
            local.cache().running.begin(sequence, name, uses);
        }
        let run = RunContext {
            context: request.context,
            name,
            worker: None,
            nested_threads: core.settings.nested_threads,
            inherited: None,
            graph: 0,
            pushed: graph.then(|| (Stamp::new(local.cache().number, sequence), 0)),
        };
        enter(local);
        let outcome = within(&Inside { local, uses: &self.uses, name }, || call(&run));
        leave(local);
        if visible {
            local.cache().running.end();
        }
        if let Err(fault) = outcome {
            mark(core, &self.uses, fault, name, sequence);
        }
        let first = self.end(core, !graph);
        local.count_completed();
        // SAFETY: ready, and ours.
        unsafe {
            if !first.is_null() {
                core.hand_out(local, first);
            }
            if outermost && !local.first.get().is_null() {
                core.dispatch.drain(core, local);
                nesting::pay();
                return;
            }
        }
        if outermost {
            local.draining.set(false);
        }
        core.settle(local);
        nesting::pay();
    }

    /// Ends the operation; writes step the versions if `steps`. Returns what has become ready, in a
    /// list.
    #[inline(always)]
    fn end(&self, core: &Core, steps: bool) -> *mut Block {
        for used in self.uses.iter().filter(|used| steps && used.mode != Mode::Read) {
            used.slot.step_version();
        }
        let Some(push) = self.committed else { return null_mut() };
        if !push.withdraw() {
            return self.count(core);
        }
        self.uses.iter().for_each(|used| used.counted.take_back());
        self.keep_word();
        null_mut()
    }

    /// Counts the operation, whose push stands, on its variables, and frees its word, on which
    /// others may have parked. Returns what has become ready, in a list.
    #[cold]
    #[inline(never)]
    fn count(&self, core: &Core) -> *mut Block {
        let mut found = ReadyList::new(self.local);
        for used in &*self.uses {
            let progress = used.slot.progress();
            if used.mode == Mode::Read {
                // SAFETY: it was counted when it was pushed.
                unsafe { count_read(progress, &core.memory.table, &mut |ready| found.ready(ready)) };
            } else {
                progress.count_write(used.counted.writes_before);
            }
        }
        if self.this.get() != Word::NONE {
            self.free(core, &mut found);
        }
        found.first
    }

    /// Frees the word.
    fn free(&self, core: &Core, found: &mut ReadyList<'_>) {
        let block = self.this.replace(Word::NONE).block();
        // SAFETY: counted, and ours; what comes back is ready. Then nobody parks there.
        unsafe {
            give_back(block, &core.memory.table, &mut |ready| found.ready(ready));
            self.local.keep_word(ThreadContext::renew_word(block));
        }
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

/// The variable of a place.
#[inline(always)]
fn find<'a>(whole: *const ()) -> (&'a Slot, &'a Progress) {
    // SAFETY: a slot of the table, which stays for as long as the engine.
    let slot: &'a Slot = unsafe { &*whole.cast() };
    (slot, slot.progress())
}

/// As [`AtOnce::claim`], after that was refused: if the variable is nobody's yet. Else `had` is
/// what came of it.
#[cold]
#[inline(never)]
fn claim_new<'a>(
    core: &'a Core,
    local: &'a ThreadContext,
    push: AtOnce<'a>,
    Claim { variable, mode }: Claim,
    this: Word,
    had: &mut Tried,
) -> Option<(Counted<'a>, &'a Slot)> {
    if local.pusher().owns(variable.index, variable.generation, mode) {
        // It is busy.
        return None;
    }
    *had = Tried::NotNow;
    if is_common(core, variable.index) || !adopt(core, local, variable) {
        return None;
    }
    push.claim((variable.index, variable.generation), mode, this, find)
}

/// Marks what a failed operation changes.
#[cold]
#[inline(never)]
fn mark(core: &Core, uses: &[InlineUse<'_>], fault: Fault, name: &'static str, sequence: u64) {
    let failure = core.record(fault, name, sequence);
    for used in uses.iter().filter(|used| used.mode != Mode::Read) {
        used.slot.set_mark(Some(Arc::clone(&failure)));
    }
}
