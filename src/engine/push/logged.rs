//! Pushing an operation that any worker may run: it goes into a worker's log, without a look at
//! other operations.
//!
//! Used by `push/mod.rs` and `api/operator.rs`, on the pusher. It takes operations with priority 0,
//! for context CPU 0 and the ordinary workers, on variables that the pusher owns: closures of both
//! kinds, and replays of graphs that have nothing to do elsewhere. A similar rule for enlisted
//! operations is `is_for_any_worker` in `push/journal.rs`.
//!
//! Other priorities are excluded because a log keeps the order of pushes, whatever their
//! priorities. An enlisted operation with another priority stays out of the logs, and one with a
//! priority above 0 also urges its predecessors (`logged` in `engine/ticket_host.rs`).
//!
//! The block is the pusher's until the commit, though waits may park on its word before. From the
//! commit on any thread may take it, and another pusher may log it too (`finish` in
//! `engine/ticket_host.rs`). While a push fills a block it says so in `ThreadCache::fills`, which
//! `diagnose.rs` reads.

use crate::device::Context;
use crate::engine::backpressure::take_room;
use crate::engine::claims::ClaimSource;
use crate::engine::core::Core;
use crate::engine::inline::fast_path::Tried;
use crate::engine::push::acquire::{acquire_all, adopt};
use crate::engine::push::journal::journal;
use crate::engine::ready_list::ReadyList;
use crate::engine::request::{Claim, Request};
use crate::operation::access::Mode;
use crate::operation::block::{self, Block, FLAG_GRAPH, PENDING};
use crate::operation::closure::Vtable;
use crate::operation::erased_closure::ErasedClosure;
use crate::operation::layout::{class_for, Layout, USUAL};
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::platform::asymmetric_fence::light;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::owner::Push;
use crate::tickets::run;
use crate::tickets::word::{Word, FREE, PUSHED, TAKEN};
use crate::variable::handle::Variable;
use crate::worker::group::Group;
use std::ptr::null_mut;
use std::sync::Arc;

/// Pushes an operation if it is of the kind above and the engine is in no special state. If it is
/// [pushed](Tried::Ran), it is in a log.
///
/// `store` puts the closure into its storage in the block, of `size` bytes.
#[inline]
pub fn push(
    core: &Arc<Core>,
    request: &Request,
    claims: &impl ClaimSource,
    body: &'static Vtable,
    size: usize,
    store: impl FnOnce(*mut u8),
) -> Tried {
    let plain = is_plain(request);
    let Some(group) = core.workers.as_ref().filter(|_| plain && request.context == Context::cpu(0)) else {
        return Tried::NotNow;
    };
    let class = class_for(claims.count(), size, false, Layout::Plain);
    if class > USUAL {
        return Tried::NotNow;
    }
    let kind = (request.property, request.name, request.flags);
    counted(core, || push_of_class(core, group, class, kind, claims, body, store))
}

#[inline]
fn is_plain(request: &Request) -> bool {
    request.flags & !FLAG_GRAPH == 0 && request.priority == 0 && request.property.is_ordinary()
}

/// The size class of the block of an operation on `count` variables with a closure of `size` bytes,
/// if [`push`] takes such operations, and else `None`: for an operator, once for all its pushes.
pub fn class_of(request: &Request, count: usize, size: usize) -> Option<u8> {
    let class = class_for(count, size, false, Layout::Plain);
    (is_plain(request) && request.context == Context::cpu(0) && class <= USUAL).then_some(class)
}

/// Like [`push`], but for an operation of an operator, whose class is known.
///
/// # Safety
/// `class` is what [`class_of`] says of an operation with so many claims and a closure of this
/// size.
#[inline]
pub unsafe fn push_known(
    core: &Arc<Core>,
    class: u8,
    (property, name): (Property, Name),
    claims: &impl ClaimSource,
    body: &'static Vtable,
    store: impl FnOnce(*mut u8),
) -> Tried {
    let Some(group) = core.workers.as_ref() else { return Tried::NotNow };
    counted(core, || push_of_class(core, group, class, (property, name, 0), claims, body, store))
}

/// Calls `push`, which says whether it has put the operation into a log. If the engine has a bound,
/// the operation is counted in before. If there is no room, it is not pushed.
#[inline(always)]
fn counted(core: &Core, push: impl FnOnce() -> bool) -> Tried {
    if core.settings.bound > 0 && !take_room(core) {
        return Tried::NotNow;
    }
    if push() {
        Tried::Ran
    } else if core.settings.bound > 0 {
        Tried::Counted
    } else {
        Tried::NotNow
    }
}

/// Puts an operation into a log; says whether it did.
#[inline(always)]
fn push_of_class(
    core: &Arc<Core>,
    group: &Arc<Group>,
    class: u8,
    (property, name, flags): (Property, Name, u16),
    claims: &impl ClaimSource,
    body: &'static Vtable,
    store: impl FnOnce(*mut u8),
) -> bool {
    if !group.is_started() {
        return false;
    }
    let count = claims.count();
    let local = core.local();
    // Counted before the flags are looked at: a thread that stops the engine then either waits for
    // this operation, or this thread sees its flag. The same holds for `fills` and a thread that
    // looks at what is pending (`diagnose::Look`).
    local.count_pushed();
    let filling = Filling::begin(local);
    // Light side of the asymmetric fence; the heavy sides are in `lifecycle::stop_holding`, in
    // `fork::let_pushes_through`, and in `diagnose::Look::begin`.
    light();
    // Acquire: pairs with the release that ends a `diagnose::Look`, so that it has read each block
    // before the block is used again here.
    if !core.state.load(Acquire).lets_quick_pushes_in() {
        return abandon(core, local, null_mut());
    }
    // SAFETY: the block is ours until the push is committed. Its class has room for all accesses
    // and the closure.
    unsafe {
        let (mut block, mut tag) = local.allocate_from_ring(count as u32, class);
        let mut push = local.pusher().push(block, Word::refers(block, tag), 0);
        if !claim_all(core, local, &mut push, claims) {
            drop(push);
            let acquired = claims.as_named(|claims| claim_acquired(core, &filling, (block, tag), class, claims));
            let Some(again) = acquired else { return abandon(core, local, null_mut()) };
            (block, tag, push) = again;
        }
        Block::set_kind(block, property, Context::cpu(0));
        Block::set_name(block, name);
        (*block).flags = flags;
        (*block).priority = 0;
        (*block).body = body;
        (*block).sequence = local.next_sequence();
        store(Block::closure(block, Layout::Plain));
        Block::enter(block, PENDING);
        // Release: a thread that takes the operation finds all of the block written.
        (*Block::word(block)).store(Word::fresh(tag, PUSHED).0, Release);
        let journal = journal(group, local);
        // `claim_all` has written so many accesses, and before the commit only tickets change.
        let worker = journal.place(std::slice::from_raw_parts(Block::access(block, 0), count));
        if count > 0 && !push.commit() {
            // The drop takes back the claims, and needs the block for that.
            drop(push);
            return abandon(core, local, give_back(core, local, block, tag));
        }
        group.log(journal, worker, Word::refers(block, tag));
    }
    true
}

/// Makes an operation without variables for a scope, in a block of the ring, and puts it into no
/// log: it is ready, and the caller's. `None` if its closure is too large or the engine is in a
/// special state; then nothing has happened. Called by `push/mod.rs`.
pub fn fill_free(core: &Arc<Core>, request: &Request, closure: &mut ErasedClosure<'_>) -> Option<*mut Block> {
    let class = class_for(0, closure.size(), false, Layout::Plain);
    let local = core.local();
    if class > USUAL {
        return None;
    }
    // The same steps as in `push_of_class`, which says why they are in this order.
    local.count_pushed();
    let _filling = Filling::begin(local);
    light();
    if !core.state.load(Acquire).lets_quick_pushes_in() {
        abandon(core, local, null_mut());
        return None;
    }
    let (block, tag) = local.allocate_from_ring(0, class);
    // SAFETY: the block is ours until it is given away. Its class has room for the closure.
    unsafe {
        Block::set_kind(block, request.property, Context::cpu(0));
        Block::set_name(block, request.name);
        (*block).flags = request.flags;
        (*block).priority = 0;
        (*block).body = closure.body;
        (*block).sequence = local.next_sequence();
        closure.store(Block::closure(block, Layout::Plain));
        Block::enter(block, PENDING);
        // Relaxed: no other thread refers to the block yet.
        (*Block::word(block)).store(Word::fresh(tag, TAKEN).0, Relaxed);
    }
    Some(block)
}

/// While this lives, the thread may be filling a block of its ring: `diagnose::Look` waits for
/// that.
struct Filling<'a>(&'a ThreadContext);

impl<'a> Filling<'a> {
    #[inline]
    fn begin(local: &'a ThreadContext) -> Filling<'a> {
        let filling = Filling(local);
        filling.resume();
        filling
    }

    #[inline]
    fn resume(&self) {
        self.0.cache().fills.store(true, Relaxed);
    }

    #[inline]
    fn pause(&self) {
        // Release: pairs with the acquire in `diagnose::Look::begin`, which so finds the block
        // filled.
        self.0.cache().fills.store(false, Release);
    }
}

impl Drop for Filling<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pause();
    }
}

/// Gives each access its ticket; `false` if one cannot get it.
#[inline(always)]
fn claim_all<S: ClaimSource>(core: &Core, local: &ThreadContext, push: &mut Push<'_>, claims: &S) -> bool {
    claims.all(
        #[inline(always)]
        |claim, at| {
            let (variable, mode) = (claim.variable, claim.mode);
            (S::OF_THIS_ENGINE || variable.engine == core.memory.id)
                && (push.claim_at(at, variable.index, variable.generation, mode)
                    || claim_new(core, local, push, (variable.index, variable.generation), mode))
        },
    )
}

/// Makes the variables the thread's own, and claims them all for the operation, in another block.
/// `None` if one of them cannot be had: then the thread has no block.
///
/// What the acquiring hands out may call a waker of the program, which may push. So it finds
/// nothing of this push half done but its count. If the block were kept, the ring would give that
/// to the waker's push as well.
///
/// # Safety
/// The block is the caller's, and its push was dropped. The class is that of the operation. Nothing
/// of it is pushed, so this thread may look at tails.
#[cold]
#[inline(never)]
unsafe fn claim_acquired<'a>(
    core: &Arc<Core>,
    filling: &Filling<'a>,
    (block, tag): (*mut Block, u64),
    class: u8,
    claims: &[Claim],
) -> Option<(*mut Block, u64, Push<'a>)> {
    let local = filling.0;
    // SAFETY: by the contract. The new block is ours as the first one was.
    unsafe {
        let first = give_back(core, local, block, tag);
        debug_assert!(first.is_null(), "no wait parks on an operation that was not announced");
        filling.pause();
        if !acquire_all(core, &claims) {
            return None;
        }
        // As at the begin of the push.
        filling.resume();
        light();
        if !core.state.load(Acquire).lets_quick_pushes_in() {
            return None;
        }
        let (block, tag) = local.allocate_from_ring(claims.len() as u32, class);
        let mut push = local.pusher().push(block, Word::refers(block, tag), 0);
        if claim_all(core, local, &mut push, &claims) {
            return Some((block, tag, push));
        }
        drop(push);
        give_back(core, local, block, tag);
        None
    }
}

/// Claims a variable that [`Push::claim`] has refused, if nobody has pushed to it yet: the thread
/// adopts it. `claim_new` in `inline/fast_path.rs` does the same, and says why the variable comes
/// as two numbers.
#[cold]
#[inline(never)]
fn claim_new(
    core: &Core,
    local: &ThreadContext,
    push: &mut Push<'_>,
    (index, generation): (u32, u32),
    mode: Mode,
) -> bool {
    adopt(core, local, Variable { engine: core.memory.id, index, generation }) && push.claim(index, generation, mode)
}

/// Gives back the block of an operation that is not pushed. Its closure was not stored, or stays
/// the caller's: it is neither called nor dropped here. Returns what has become ready, in a list.
///
/// # Safety
/// The block is the caller's, and its push was dropped.
#[cold]
#[inline(never)]
unsafe fn give_back(core: &Core, local: &ThreadContext, block: *mut Block, tag: u64) -> *mut Block {
    let mut found = ReadyList::new(local);
    // SAFETY: the block is still ours. Its word may not say `PUSHED` yet.
    unsafe {
        Block::enter(block, block::BLANK);
        let ringed = Block::is_ringed(block);
        let now = Word((*Block::word(block)).load(Relaxed));
        if !now.has_tag_of(Word::fresh(tag, FREE)) {
            // Release: for the next use of the block, a round of the ring later.
            (*Block::word(block)).store(Word::fresh(tag, FREE).0, Release);
        } else {
            // A wait may have parked on the word: an operation that comes back is settled again.
            run::give_back(block, &core.memory.table, &mut |ready| found.ready(ready));
        }
        if !ringed {
            local.retire(block);
        }
    }
    found.first
}

/// Counts an operation that is not pushed as completed, since it was counted as pushed. `first`:
/// what has become ready, in a list. Returns `false`, what the push returns.
#[cold]
#[inline(never)]
fn abandon(core: &Arc<Core>, local: &ThreadContext, first: *mut Block) -> bool {
    local.count_given_up();
    if !first.is_null() {
        // SAFETY: the list holds ready operations, which are this thread's.
        unsafe { core.hand_out(local, first) };
    }
    core.flush(local);
    false
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use crate::engine::push::acquire::is_common;
    use crate::{Completion, Context, Engine, Kind, Variable, WhenFull};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc::channel;
    use std::sync::Arc;
    use std::task::{Wake, Waker};
    use std::time::Duration;

    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// An engine under a bound, and a variable that no log takes: several threads push to it.
    fn bounded() -> (Engine, Variable) {
        let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(false);
        let engine = engine.bound(1000).when_full(WhenFull::WouldBlock).build().unwrap();
        let x = engine.new_variable();
        let turn = || (0..10).for_each(|_| engine.op("turn").writes([x]).push(|_| ()).unwrap());
        while !is_common(engine.core(), x.index) {
            std::thread::scope(|scope| _ = scope.spawn(turn));
            turn();
            engine.wait_for_all().unwrap();
        }
        (engine, x)
    }

    #[test]
    fn a_push_that_no_log_takes_keeps_its_permit() {
        let (engine, x) = bounded();
        let (send, completions) = channel::<Completion>();
        let hold = move |_: &crate::RunContext<'_>, completion| send.send(completion).unwrap();
        engine.op("held").writes([x]).push_async(hold).unwrap();
        let held = completions.recv().unwrap();
        let step = engine.op("operator").writes([x]).operator(|_| ()).unwrap();
        // A thread that waits for room is told of all room that is given back.
        let (waits, told) = (engine.core().below_bound.join(), Arc::new(Counts(AtomicUsize::new(0))));
        waits.waker.store(&Waker::from(Arc::clone(&told)));
        engine.op("closure").writes([x]).push(|_| ()).unwrap();
        engine.op("asynchronous").writes([x]).push_async(|_, completion: Completion| completion.complete()).unwrap();
        engine.push(&step, Context::cpu(0), 0).unwrap();
        assert_eq!(told.0.load(Relaxed), 0, "a push has given its room back");
        held.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(told.0.load(Relaxed), 1, "an end has not told of its room");
        engine.core().below_bound.leave(&waits);
    }

    /// Closures of every size up to the longest that a block holds, on as many variables as a log
    /// takes.
    #[test]
    fn a_long_closure_keeps_its_bytes_and_leaves_its_neighbours_alone() {
        fn push<const BYTES: usize>(engine: &Engine, variables: &[Variable], number: u8) {
            let bytes = [number; BYTES];
            let body = move |_: &crate::RunContext<'_>| {
                bytes.iter().all(|byte| *byte == number).then_some(()).ok_or("bytes have changed")
            };
            engine.op("long").writes(variables.iter().copied()).push(body).unwrap();
        }
        for count in 0..=9 {
            let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(false).build().unwrap();
            let variables: Vec<Variable> = (0..count).map(|_| engine.new_variable()).collect();
            let (open, gate) = channel::<()>();
            engine.op("gate").push(move |_| _ = gate.recv()).unwrap();
            for number in 0..=255 {
                push::<65>(&engine, &variables, number);
                push::<160>(&engine, &variables, number);
                push::<320>(&engine, &variables, number);
                push::<511>(&engine, &variables, number);
                push::<600>(&engine, &variables, number);
            }
            open.send(()).unwrap();
            let all = engine.wait_for_all_timeout(Duration::from_secs(60));
            assert!(all.is_ok(), "{count} variables: {all:?}");
        }
    }

    /// Closures without bytes: with eight variables a block is full to its end.
    #[test]
    fn operations_that_fill_their_blocks_leave_their_neighbours_alone() {
        const OPERATIONS: u64 = 3000;
        for count in 0..=9 {
            let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(false).build().unwrap();
            let variables: Vec<Variable> = (0..count).map(|_| engine.new_variable()).collect();
            // So that many of them lie side by side, pushed and not run.
            let (open, gate) = channel::<()>();
            engine.op("gate").push(move |_| _ = gate.recv()).unwrap();
            for _ in 0..OPERATIONS {
                engine.op("full").writes(variables.iter().copied()).push(|_| ()).unwrap();
            }
            open.send(()).unwrap();
            let all = engine.wait_for_all_timeout(Duration::from_secs(60));
            assert!(all.is_ok(), "{count} variables: {all:?}");
            for variable in variables {
                assert_eq!(engine.version(variable).unwrap(), OPERATIONS, "{count} variables");
            }
        }
    }
}
