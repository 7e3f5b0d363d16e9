//! Tests of `enlist.rs`.

use super::*;
use crate::engine::future::cell::promise;
use crate::operation::access::Mode;
use crate::operation::async_closure::async_vtable;
use crate::operation::closure::sync_vtable;
use crate::operation::context::RunContext;
use crate::operation::erased_closure::erase;
use crate::operation::name::Name;
use crate::{Completion, Context, Engine, Kind, Property};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::channel;
use std::task::{Wake, Waker};
use std::time::Duration;

fn naive() -> Engine {
    Engine::builder().kind(Kind::Naive).build().unwrap()
}

/// The block of an operation that does nothing, for a push to one variable.
fn fill_one(engine: &Engine) -> (*mut Block, u64) {
    let (core, local) = (engine.core(), engine.core().local());
    let body = |_: &RunContext<'_>| ();
    let (request, of) = (Request::named(Name::default()), (1, Layout::Linked, false));
    let filled = erase(sync_vtable(&body), body, |body| {
        // SAFETY: nothing was read from a tail, and the block has room for the closure.
        unsafe { fill(core, local, &request, of, body) }
    });
    local.count_pushed();
    filled
}

/// Whether an operation has parked on the word of a block.
fn has_parked(block: *mut Block) -> bool {
    // SAFETY: blocks stay blocks for as long as their engine.
    !Word(unsafe { (*Block::word(block)).load(Relaxed) }).block().is_null()
}

/// Another thread takes the variable before the push commits. A wait that had found the push
/// before that parks on it, and the push starts over.
#[test]
fn who_parks_on_a_push_that_starts_over_comes_back() {
    // An engine that has forgotten an operation does not end, so a failure leaves it.
    let engine = ManuallyDrop::new(naive());
    let (x, core, local) = (engine.new_variable(), engine.core(), engine.core().local());
    let push = || engine.op("").writes([x]).push(|_| ()).unwrap();
    push();
    let claims = [Claim { variable: x, mode: Mode::Write }];
    let (block, tag) = fill_one(&engine);
    let linking = Linking { local, claims: &claims, block, tag };
    let mut found = ReadyList::new(local);
    let this = Word::refers(block, tag);
    let host = TicketHost::new(Destinations::new(core, local, &mut found).of_push(this, false), false);
    let has_returned = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&has_returned);
    let back = move |_: &RunContext<'_>| own.store(true, Relaxed);
    let pin = local.pin();
    // SAFETY: the block is ours, and is run once.
    unsafe {
        assert!(matches!(linking.sort_out(&host, false), Ok(0)));
        std::thread::scope(|scope| _ = scope.spawn(push).join());
        assert_eq!(linking.commit(0), Some(false), "the other thread has the variable");
        let request = Request::named(Name::default());
        let parked = erase(sync_vtable(&back), back, |back| park_wait(core, &request, this, back));
        assert_eq!(parked.ok(), Some(true));
        while linking.commit(0) != Some(true) {
            assert!(matches!(linking.sort_out(&host, true), Ok(0)));
        }
        assert!(has_parked(block), "a wait is forgotten");
        let mut destinations = host.into_destinations();
        destinations.logged(this);
        assert!(destinations.own_is_ready);
        drop(pin);
        core.execute(local, block, None);
    }
    engine.wait_for_all().unwrap();
    assert!(has_returned.load(Relaxed));
    drop(ManuallyDrop::into_inner(engine));
}

/// A wait has parked on a push that is given up. It goes on to wait for the write before, and
/// parks there once.
#[test]
fn a_wait_behind_a_push_that_is_given_up_parks_once_more() {
    let engine = naive();
    let (x, core, local) = (engine.new_variable(), engine.core(), engine.core().local());
    let (send, completions) = channel::<Completion>();
    engine.op("").writes([x]).push_async(move |_, completion| send.send(completion).unwrap()).unwrap();
    let held = completions.recv().unwrap();
    let (block, tag) = fill_one(&engine);
    let pushed = || core.memory.tally().1;
    let waits = |count| {
        while pushed() < count {
            std::thread::sleep(Duration::from_micros(200))
        }
    };
    let before = pushed();
    std::thread::scope(|scope| {
        let mut pusher = local.pusher();
        // SAFETY: the block is ours, and is given up once.
        let mut push = unsafe { pusher.push(block, Word::refers(block, tag), 0) };
        assert!(push.claim(x.index, x.generation, Mode::Write));
        // SAFETY: as above; all of it is written.
        unsafe { announce(block, tag) };
        let waiter = scope.spawn(|| engine.wait_for_var(x).unwrap());
        while !has_parked(block) {
            std::thread::sleep(Duration::from_micros(200));
        }
        drop(push);
        let mut found = ReadyList::new(local);
        // SAFETY: as above. What has parked is ours.
        unsafe {
            give_back(block, &core.memory.table, &mut |ready| found.ready(ready));
            Block::enter(block, BLANK);
            local.retire(block);
            local.count_completed();
            core.hand_out(local, found.first);
        }
        waits(before + 2);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(pushed(), before + 2, "it parks again and again");
        assert!(!waiter.is_finished(), "the first write has not ended");
        held.complete();
        waiter.join().unwrap();
    });
    engine.wait_for_all().unwrap();
}

/// Between the commit of a push and its way to a worker another thread may run the operation and
/// end it. Its block is held, so it is nobody's, but the pool keeps a list in the place of the
/// body. Here that place has the body of a closure that its pusher would start.
#[test]
fn what_the_block_of_a_push_has_after_the_commit_is_not_looked_at() {
    // As above: a failure leaves the engine.
    let engine = ManuallyDrop::new(Engine::builder().kind(Kind::Pooled).cpu_workers(1).build().unwrap());
    let (x, core, local) = (engine.new_variable(), engine.core(), engine.core().local());
    let (release, held) = channel::<()>();
    engine.op("").push(move |_| held.recv().unwrap()).unwrap();
    let started = |_: &RunContext<'_>, completion: Completion| completion.complete();
    let claims = [Claim { variable: x, mode: Mode::Write }];
    let (block, tag) = fill_one(&engine);
    let linking = Linking { local, claims: &claims, block, tag };
    let mut found = ReadyList::new(local);
    let this = Word::refers(block, tag);
    let host = TicketHost::new(Destinations::new(core, local, &mut found).of_push(this, false), false);
    let pin = local.pin();
    // SAFETY: the block is ours until the only worker comes to it, which is held meanwhile.
    unsafe {
        Block::set_kind(block, Property::Short, Context::cpu(0));
        assert!(matches!(linking.sort_out(&host, false), Ok(0)));
        assert_eq!(linking.commit(0), Some(true));
        Block::leave_assembly(block);
        let mut destinations = host.into_destinations();
        let own = std::mem::replace(&mut (*block).body, async_vtable(&started));
        destinations.logged(this);
        (*block).body = own;
        assert!(!destinations.own_is_ready, "the pusher starts what it did not say it would");
    }
    drop(pin);
    release.send(()).unwrap();
    engine.wait_for_all().unwrap();
    drop(ManuallyDrop::into_inner(engine));
}

/// Pushes when it is woken.
struct Pushes {
    engine: Engine,
    counts: Arc<AtomicUsize>,
    is_mid_push: AtomicBool,
}

impl Wake for Pushes {
    fn wake(self: Arc<Self>) {
        self.is_mid_push.store(self.engine.core().local().cache().fills.load(Relaxed), Relaxed);
        for _ in 0..3 {
            let counts = Arc::clone(&self.counts);
            self.engine.op("woken").push(move |_| _ = counts.fetch_add(1, Relaxed)).unwrap();
        }
    }
}

/// A thread stands still in the push of a wait, all of whose tickets have come. A push of another
/// thread takes the variable, and so ends the wait, which calls a waker of the program.
#[test]
fn a_waker_that_pushes_is_not_called_in_the_middle_of_a_push() {
    // As above: a failure leaves the engine.
    let engine = ManuallyDrop::new(Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().unwrap());
    let (x, core, local) = (engine.new_variable(), engine.core(), engine.core().local());
    engine.op("").writes([x]).push(|_| ()).unwrap();
    engine.wait_for_var(x).unwrap();
    let counts = Arc::new(AtomicUsize::new(0));
    let (engines, own) = (Engine::clone(&engine), Arc::clone(&counts));
    let pushes = Arc::new(Pushes { engine: engines, counts: own, is_mid_push: AtomicBool::new(false) });
    let (promise, awaited) = promise::<()>(core);
    awaited.wake_later(&Waker::from(Arc::clone(&pushes)));
    let keep = move |run: &RunContext<'_>| promise.keep_inherited(run.inherited);
    // SAFETY: nothing was read from a tail, and the block has room for the closure.
    let (block, tag) = erase(sync_vtable(&keep), keep, |keep| unsafe {
        fill(core, local, &Request::wait(), (1, Layout::Linked, false), keep)
    });
    local.count_pushed();
    let claims = [Claim { variable: x, mode: Mode::Read }];
    let linking = Linking { local, claims: &claims, block, tag };
    let mut found = ReadyList::new(local);
    let host =
        TicketHost::new(Destinations::new(core, local, &mut found).of_push(Word::refers(block, tag), false), false);
    let pin = local.pin();
    // SAFETY: the block is ours until the commit.
    unsafe {
        assert!(matches!(linking.sort_out(&host, false), Ok(0)));
        assert_eq!(linking.commit(0), Some(true));
        Block::leave_assembly(block);
    }
    std::thread::scope(|scope| {
        let counts = Arc::clone(&counts);
        let push = || engine.op("outer").writes([x]).push(move |_| _ = counts.fetch_add(10, Relaxed)).unwrap();
        scope.spawn(push).join().unwrap();
    });
    assert!(awaited.is_set(), "the push has not ended the wait");
    assert!(!pushes.is_mid_push.load(Relaxed), "its push fills a block");
    drop(pin);
    engine.wait_for_all().unwrap();
    assert_eq!(counts.load(Relaxed), 13, "each has run once");
    drop(ManuallyDrop::into_inner(engine));
}
