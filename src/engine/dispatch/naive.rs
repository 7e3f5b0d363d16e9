//! The naive engine: it has no threads, and the calling thread runs everything.
//!
//! An operation that is ready when it is pushed runs inside the push. One that has to wait, for an
//! asynchronous operation or for another thread, runs on the thread that ends what it waited for.
//! Either way there is a loop and no recursion along dependencies: what an operation makes ready is
//! queued on the thread, and the outermost call runs the queue.
//!
//! Other threads may go on pushing behind what such a call runs. So a call counts the operations
//! that it runs of its queue. After [`SHARE`] of them, or after [`TIME`], it looks before each
//! further one for a thread inside an enlisting push, and leaves the rest to it ([`Handoff`]). Such
//! a push pays for what it adds: before it returns it runs a share of what was left. No thread
//! waits for another. If no other thread is inside such a push, the caller is the only one there
//! is, and runs on.
//!
//! Any thread leaves operations in the one slot of the engine ([`Handoff`]) and takes them from
//! there, by atomic steps. All else is the calling thread's, in its `ThreadContext`: the queue
//! (`first`, `last`), and `draining`, which `complete.rs` and `inline/fast_path.rs` set too.
//! `push/enlist.rs` says that its thread will look, and the push then calls `take_over`. A wait
//! that helps comes through `serve`.

use crate::engine::core::{Core, Dispatch, ReadyCause};
use crate::engine::nesting::{is_deep, may_help, owe};
use crate::error::Error;
use crate::operation::block::Block;
use crate::operation::property::Property;
use crate::platform::tsc::{Reading, Tsc};
use crate::sync::MODELLED;
use crate::thread::context::ThreadContext;
use crate::worker::group::Group;
use crate::worker::handoff::{Handoff, List};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

/// How many operations of its queue a call runs before it looks for another thread to go on, and
/// how long it does so. An operation that is running by then is finished. The docs of `Kind::Naive`
/// give both numbers.
const SHARE: u32 = if MODELLED { 1 } else { 32 };
const TIME: Duration = Duration::from_micros(20);

pub struct Naive {
    handoff: Handoff,
    tsc: Tsc,
}

impl Naive {
    pub fn new() -> Naive {
        Naive { handoff: Handoff::new(), tsc: Tsc::new() }
    }

    /// Leaves the queue to another thread that will look for it, if there is one; says whether
    /// there is something left to run here.
    fn hand_over(&self, local: &ThreadContext) -> bool {
        let list = List { first: local.first.replace(null_mut()), last: local.last.replace(null_mut()) };
        // SAFETY: the queue held them for us.
        let back = unsafe { self.handoff.leave(list, || local.memory.will_somebody_look()) };
        back.is_some_and(|list| {
            // SAFETY: the operations that come back are ours: our own again, or those that another
            // thread had left.
            unsafe { append(local, list) };
            true
        })
    }

    /// Runs a share of the thread's queue.
    fn run_queue(&self, core: &Arc<Core>, local: &ThreadContext) {
        let (mut ran, mut started, mut is_over) = (0, None::<Reading>, false);
        loop {
            let block = local.first.get();
            if block.is_null() {
                break;
            }
            // SAFETY: the queue holds ready operations of this thread.
            unsafe {
                local.first.set((*block).link);
                if local.first.get().is_null() {
                    local.last.set(null_mut());
                }
                core.execute(local, block, None);
            }
            // A thread that is alone runs everything, as no other pushes beside it.
            if local.first.get().is_null() || core.memory.blocks.readers.has_one() {
                continue;
            }
            let mut is_late = || self.tsc.since(*started.get_or_insert_with(|| self.tsc.start())) >= TIME;
            if !is_over {
                ran += 1;
                is_over = ran >= SHARE || is_late();
            }
            if is_over && !self.hand_over(local) {
                break;
            }
        }
        local.draining.set(false);
        core.flush(local);
    }
}

impl Dispatch for Naive {
    fn group(&self, _: Property) -> Option<&Arc<Group>> {
        None
    }

    unsafe fn submit(&self, core: &Arc<Core>, local: &ThreadContext, block: *mut Block, cause: ReadyCause) {
        // SAFETY: ready and ours by the contract.
        unsafe {
            if matches!(cause, ReadyCause::Pushed) && !is_deep() {
                let outermost = !local.draining.replace(true);
                core.execute(local, block, None);
                if outermost {
                    self.drain(core, local);
                } else {
                    // The operation around this one may have been completed already.
                    core.flush(local);
                }
                return;
            }
            (*block).link = null_mut();
            append(local, List { first: block, last: block });
        }
        if !local.draining.replace(true) {
            self.drain(core, local);
        }
    }

    fn drain(&self, core: &Arc<Core>, local: &ThreadContext) {
        // The thread may be too deep in operations of other engines only. Then it owes the queue
        // until it is out of them.
        if !(is_deep() && owe(core)) {
            self.run_queue(core, local);
        }
    }

    #[inline]
    fn will_take_over(&self, local: &ThreadContext) -> bool {
        // A push inside an operation would run operations that may have to come after that one. A
        // thread that is alone finds nothing left by others.
        may_help() && !local.draining.get() && !local.memory.blocks.readers.has_one()
    }

    fn take_over(&self, core: &Arc<Core>, local: &ThreadContext) -> bool {
        let Some(list) = self.handoff.look() else { return false };
        // SAFETY: the list was left to us.
        unsafe { append(local, list) };
        local.draining.set(true);
        self.drain(core, local);
        true
    }

    fn before_waiting(&self, core: &Arc<Core>) {
        let local = core.local();
        if local.depth.get() == 0 && !local.first.get().is_null() {
            self.run_queue(core, local);
        }
    }

    fn help(&self, _: &Arc<Core>, _: &mut dyn FnMut() -> bool) -> bool {
        false
    }

    fn catch_up(&self, _: &Arc<Core>) -> bool {
        false
    }

    fn serve(&self, core: &Arc<Core>, _: &mut dyn FnMut() -> bool, done: &mut dyn FnMut() -> bool) {
        while !done() && self.take_over(core, core.local()) {}
    }

    fn start(&self, _: &Arc<Core>) -> Result<(), Error> {
        Ok(())
    }

    fn stop(&self) {}

    fn groups(&self) -> Vec<&Group> {
        Vec::new()
    }
}

/// Queues operations on the thread.
///
/// # Safety
/// They are ready, and ours.
unsafe fn append(local: &ThreadContext, list: List) {
    let last = local.last.replace(list.last);
    if last.is_null() {
        local.first.set(list.first);
    } else {
        // SAFETY: the queue holds it for us.
        unsafe { (*last).link = list.first };
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::api::engine::Engine;
    use crate::engine::settings::Kind;
    use crate::variable::handle::Variable;
    use crate::{Completion, RunContext};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::mpsc::channel;
    use std::sync::Mutex;

    /// Calls `call` while another thread is inside a push, however long that has lost its core
    /// there. Returns how often `x` had been changed when the call returned. The push then goes on.
    fn beside_a_push(engine: &Engine, x: Variable, call: impl FnOnce()) -> u64 {
        let (inside, is_inside) = channel();
        let (goes_on, go_on) = channel();
        let other = std::thread::spawn({
            let engine = engine.clone();
            move || {
                let (core, local) = (engine.core(), engine.core().local());
                drop(local.pin());
                assert!(core.dispatch.will_take_over(local), "it is alone");
                local.say_will_look(true);
                inside.send(()).unwrap();
                go_on.recv().unwrap();
                local.say_will_look(false);
                assert!(core.dispatch.take_over(core, local), "nothing was left");
            }
        });
        is_inside.recv().unwrap();
        call();
        let ran = engine.version(x).unwrap();
        goes_on.send(()).unwrap();
        other.join().unwrap();
        ran
    }

    /// An operation that ends when the completion in the place is used.
    fn push_held(engine: &Engine, x: Variable) -> Arc<Mutex<Option<Completion>>> {
        let place = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&place);
        let start = move |_: &RunContext<'_>, completion| *keep.lock().unwrap() = Some(completion);
        engine.op("held").writes([x]).push_async(start).unwrap();
        place
    }

    #[test]
    fn a_call_leaves_all_but_its_share_to_a_thread_that_is_inside_a_push() {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let x = engine.new_variable();
        let held = push_held(&engine, x);
        (0..1_000).for_each(|_| engine.op("behind").writes([x]).push(|_| ()).unwrap());
        let ran = beside_a_push(&engine, x, || held.lock().unwrap().take().unwrap().complete());
        assert!((2..=u64::from(SHARE) + 1).contains(&ran), "a call has run {ran} operations");
        assert_eq!(engine.version(x).unwrap(), 1_001, "the other one runs the rest, as nobody else is there");
    }

    /// Not a share for each operation that it makes ready.
    #[test]
    fn a_completion_that_makes_many_ready_runs_one_share() {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let x = engine.new_variable();
        let held = push_held(&engine, x);
        let count = Arc::new(AtomicU64::new(0));
        let rows: Vec<Variable> = (0..8).map(|_| engine.new_variable()).collect();
        for y in &rows {
            for _ in 0..100 {
                let count = Arc::clone(&count);
                let body = move |_: &RunContext<'_>| _ = count.fetch_add(1, Relaxed);
                engine.op("behind").reads([x]).writes([*y]).push(body).unwrap();
            }
        }
        let mut ran = 0;
        beside_a_push(&engine, x, || {
            held.lock().unwrap().take().unwrap().complete();
            ran = count.load(Relaxed);
        });
        assert!((1..=u64::from(SHARE)).contains(&ran), "a completion has run {ran} operations");
        assert_eq!(count.load(Relaxed), 800, "not all have run");
    }
}
