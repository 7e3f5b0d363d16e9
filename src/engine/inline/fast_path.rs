//! Running an operation inside its push, on the pusher's stack: without a block and without a log.
//!
//! Used by `engine/push/mod.rs`, `api/operator.rs` and `api/runs_inside.rs`, on the pusher: there
//! [`FEW`] and [`MANY`] choose between [`run`] and [`run_wide`]. `push/logged.rs` takes the same
//! steps for operations that go to a worker: claim the variables, adopt new ones, else acquire all
//! and claim again.
//!
//! An operation runs here if its pusher is to run it anyway and all its tickets have come. Its push
//! is committed *before* its body is called, because the body may push to the same variables. If no
//! other operation has been given a ticket by the time the body returns, the push is withdrawn:
//! then nothing is counted on the variables, and nothing can have parked on the operation. Else the
//! push stands, and the operation ends like any other (`InlineUses::count`).
//!
//! All that it holds lies on the pusher's stack. Other threads may take its variables meanwhile
//! (the commit decides: `tickets/owner/`), park on its word, and look at `ThreadCache::running`.

use crate::engine::claims::ClaimSource;
use crate::engine::core::Core;
use crate::engine::nesting::{self, enter, inside, is_deep, leave};
use crate::engine::push::acquire::{acquire_all, adopt, is_common};
use crate::engine::ready_list::ReadyList;
use crate::engine::request::{Claim, Request};
use crate::error::{Fault, Stamp};
use crate::operation::access::Mode;
use crate::operation::block::{Block, FLAG_GRAPH};
use crate::operation::context::RunContext;
use crate::operation::current::{within, Current, May};
use crate::platform::asymmetric_fence::light;
use crate::sync::{Ordering::*, MODELLED};
use crate::thread::context::ThreadContext;
use crate::tickets::owner::{AtOnce, Committed, Counted};
use crate::tickets::run::{count_read, give_back, Progress};
use crate::tickets::word::Word;
use crate::util::array_vec::ArrayVec;
use crate::util::bucket_array::Location;
use crate::variable::handle::Variable;
use crate::variable::slot::Slot;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;

/// The most variables of an operation that [`run`] runs. The stack frame of each push has room for
/// this many.
pub const FEW: usize = 8;
/// The most variables of an operation that [`run_wide`] runs.
pub const MANY: usize = 256;

/// The result of a try to push an operation one of the quick ways.
#[must_use]
pub enum Tried {
    /// The operation has run, or was logged: it is pushed.
    Ran,
    /// Not all tickets have come. Nothing has changed; the caller enlists the operation.
    Busy,
    /// The operation has to be enlisted for another reason. Nothing has changed.
    NotNow,
    /// As `NotNow`, but it is counted in under the bound, and the caller has its permit.
    Counted,
}

/// One variable of an operation that runs inside its push.
#[derive(Clone, Copy)]
struct InlineUse<'a> {
    slot: &'a Slot,
    mode: Mode,
    counted: Counted<'a>,
}

/// The variables of an operation that runs inside its push, and the state of that push.
struct InlineUses<'a, const MOST: usize> {
    local: &'a ThreadContext,
    uses: ArrayVec<InlineUse<'a>, MOST>,
    /// The word on which other operations park, if the operation writes and has not ended. The
    /// reference is kept nowhere else.
    this: Cell<Word>,
    /// The push, once it is committed; `None` for an operation without variables.
    committed: Option<Committed<'a>>,
}

/// An operation that runs inside its push, for checks of what it may use.
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
/// For [`FEW`] variables at most.
#[inline]
pub fn run(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl ClaimSource,
    call: impl FnOnce(&RunContext<'_>) -> Result<(), Fault>,
) -> Tried {
    run_as::<FEW>(core, request, claims, call)
}

/// Like [`run`], but for [`MANY`] variables at most. It is one function for closures of all types.
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
    claims: &impl ClaimSource,
    call: impl FnOnce(&RunContext<'_>) -> Result<(), Fault>,
) -> Tried {
    let local = core.local();
    // Read here, where it need not be loaded anew: `local` has just compared it.
    let engine = core.memory.id;
    if is_deep() {
        return Tried::NotNow;
    }
    // Counted before the flags are looked at: a thread that stops the engine then either waits for
    // this operation, or this thread sees its flag.
    local.count_pushed();
    // Light side of the asymmetric fence; the heavy sides are in `lifecycle::stop_holding` and in
    // `fork::let_pushes_through`.
    light();
    let mut held: InlineUses<'_, MOST> =
        InlineUses { local, uses: ArrayVec::new(), this: Cell::new(Word::NONE), committed: None };
    let mut had = Tried::NotNow;
    if core.state.load(Relaxed).lets_quick_pushes_in() {
        had = held.claim_all(core, engine, claims);
    }
    if !matches!(had, Tried::Ran) {
        had = held.try_again(core, claims, had);
    }
    if !matches!(had, Tried::Ran) {
        core.give_up(local);
        return had;
    }
    held.run(core, request, call);
    had
}

impl<'a, const MOST: usize> InlineUses<'a, MOST> {
    /// Counts the operation on all its variables and commits, if all tickets have come, so that it
    /// can run. Else it is counted on none. `engine`: the number of this one.
    #[inline(always)]
    fn claim_all<S: ClaimSource>(&mut self, core: &'a Core, engine: u32, claims: &S) -> Tried {
        let local = self.local;
        let (mut had, mut this) = (Tried::Busy, Word::NONE);
        let mut fill = self.uses.fill();
        let push = local.pusher().push_at_once();
        let mut all = claims.all(
            #[inline(always)]
            |claim, at| {
                let (variable, mode) = (claim.variable, claim.mode);
                // The enlisted way explains variables that cannot be used. A variable named twice
                // is taken to be busy.
                let (Some(room), true) = (fill.room(), S::OF_THIS_ENGINE || variable.engine == engine) else {
                    had = Tried::NotNow;
                    return false;
                };
                if mode != Mode::Read && this == Word::NONE {
                    // SAFETY: nothing was read from a tail.
                    this = unsafe { local.take_word() };
                }
                // `add` is called in two places, so that the usual one needs nothing in memory.
                if let Some((counted, slot)) = push.claim((at, variable.generation), mode, this, find) {
                    room.add(InlineUse { slot, mode, counted });
                    return true;
                }
                let handle = (variable.index, variable.generation);
                let claimed = claim_new(core, local, push, handle, mode, this, &mut had);
                claimed.is_some_and(|(counted, slot)| {
                    room.add(InlineUse { slot, mode, counted });
                    true
                })
            },
        );
        fill.end();
        self.this.set(this);
        // Relaxed: a failure on one of the variables was noted in the state before its ticket came,
        // and so was the first use of a device. So the state is looked at after the tickets.
        let state = core.state.load(Relaxed);
        if state.asks_for_a_look() && (state.uses_devices() || self.uses.iter().any(|used| used.slot.is_marked())) {
            (all, had) = (false, Tried::NotNow);
        }
        if all {
            // An operation without variables has nothing to commit.
            if self.uses.is_empty() {
                return Tried::Ran;
            }
            self.committed = push.commit(this);
            if self.committed.is_some() {
                return Tried::Ran;
            }
            had = Tried::NotNow;
        }
        self.uses.iter().for_each(|used| used.counted.take_back());
        self.keep_word();
        had
    }

    /// Tries [`InlineUses::claim_all`] once more after it has failed, if the thread can make the
    /// variables its own.
    #[cold]
    #[inline(never)]
    fn try_again(&mut self, core: &'a Arc<Core>, claims: &impl ClaimSource, had: Tried) -> Tried {
        let may = matches!(had, Tried::NotNow) && core.state.load(Relaxed).lets_quick_pushes_in();
        if may && acquire_all(core, claims) {
            self.claim_all(core, core.memory.id, claims)
        } else {
            had
        }
    }

    /// Runs the operation, whose push is committed, and ends it.
    #[inline(always)]
    fn run(&self, core: &Arc<Core>, request: &Request, call: impl FnOnce(&RunContext<'_>) -> Result<(), Fault>) {
        let local = self.local;
        // This concerns the naive engine's queue of operations that become ready; other engines
        // have workers for them.
        let outermost = !local.draining.replace(true);
        let name = request.name.as_str();
        let graph = request.flags & FLAG_GRAPH != 0;
        let sequence = local.next_sequence();
        let visible = !MODELLED && local.depth.get() == 0;
        if visible {
            let used = |place: usize| self.uses.get(place).map(|used| (used.slot.index(), used.mode == Mode::Read));
            local.cache().running.begin(sequence, name, self.uses.len(), used);
        }
        let run = RunContext {
            context: request.context,
            name,
            worker: None,
            nested_threads: core.nested_threads.load(Relaxed),
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
        // SAFETY: the list holds ready operations, which are this thread's.
        unsafe {
            if !first.is_null() {
                core.hand_out(local, first);
            }
            if outermost && !local.first.get().is_null() {
                core.dispatch.drain(core, local);
                nesting::pay(local);
                return;
            }
        }
        if outermost {
            local.draining.set(false);
        }
        core.flush(local);
        nesting::pay(local);
    }

    /// Ends the operation. Its writes step the versions of their variables if `steps`. Returns what
    /// has become ready, in a list.
    #[inline(always)]
    fn end(&self, core: &Core, steps: bool) -> *mut Block {
        for used in self.uses.iter().filter(|used| steps && used.mode != Mode::Read) {
            used.slot.step_version();
        }
        let Some(push) = self.committed else { return null_mut() };
        if !push.withdraw() {
            return self.count(core);
        }
        // The length is looked at each time, so that the loop, which mostly has one round, is not
        // unrolled.
        let mut next = 0;
        while let Some(used) = self.uses.get(next) {
            used.counted.take_back();
            next += 1;
        }
        self.keep_word();
        null_mut()
    }

    /// Counts the operation as ended on its variables, because its push stands, and frees its word,
    /// on which others may have parked. Returns what has become ready, in a list.
    #[cold]
    #[inline(never)]
    fn count(&self, core: &Core) -> *mut Block {
        let mut found = ReadyList::new(self.local);
        for used in &*self.uses {
            let progress = used.slot.progress();
            if used.mode == Mode::Read {
                // SAFETY: the operation was pushed as a read of the variable, and is counted as
                // ended once.
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

    /// Frees the word, and keeps its block with a new tag for the next operation.
    fn free(&self, core: &Core, found: &mut ReadyList<'_>) {
        let block = self.this.replace(Word::NONE).block();
        // SAFETY: the operation has been counted on its variables, and the block is ours. All that
        // comes back is ready. Afterwards nothing parks on the word.
        unsafe {
            give_back(block, &core.memory.table, &mut |ready| found.ready(ready));
            self.local.keep_word(ThreadContext::renew_word(block));
        }
    }

    #[inline]
    fn keep_word(&self) {
        let this = self.this.replace(Word::NONE);
        if this != Word::NONE {
            // SAFETY: no other operation was given a reference to the word.
            unsafe { self.local.keep_word(this) };
        }
    }
}

/// The slot of an owned variable, from the address that its place in the pusher's record keeps.
#[inline(always)]
fn find<'a>(whole: *const ()) -> (&'a Slot, &'a Progress) {
    // SAFETY: the address is that of a slot of the table, which stays as long as the engine.
    let slot: &'a Slot = unsafe { &*whole.cast() };
    (slot, slot.progress())
}

/// Claims a variable that [`AtOnce::claim`] has refused, if nobody has pushed to it yet: the thread
/// adopts it. Else sets `had` to [`Tried::NotNow`], unless the thread owns the variable and so it
/// is only busy. `claim_new` in `push/logged.rs` does the same. The variable, which is of this
/// engine, comes as two numbers: a handle as a whole would be put in memory before each claim.
#[cold]
#[inline(never)]
fn claim_new<'a>(
    core: &'a Core,
    local: &'a ThreadContext,
    push: AtOnce<'a>,
    (index, generation): (u32, u32),
    mode: Mode,
    this: Word,
    had: &mut Tried,
) -> Option<(Counted<'a>, &'a Slot)> {
    if local.pusher().owns(index, generation, mode) {
        // The variable is busy, or named twice.
        return None;
    }
    *had = Tried::NotNow;
    let variable = Variable { engine: core.memory.id, index, generation };
    if is_common(core, index) || !adopt(core, local, variable) {
        return None;
    }
    push.claim((Location::of(index), generation), mode, this, find)
}

/// Marks the variables that a failed operation changes.
#[cold]
#[inline(never)]
fn mark(core: &Core, uses: &[InlineUse<'_>], fault: Fault, name: &'static str, sequence: u64) {
    let failure = core.record(fault, name, sequence);
    let changed = uses.iter().filter(|used| used.mode != Mode::Read);
    // It is dropped in there too: it is the last if it marks nothing and was only counted.
    inside(core.local(), move || changed.for_each(|used| used.slot.leave(Some(&failure))));
}
