//! Stops, starts and closes an engine. [`stop`] and [`start`] are called by `src/api/control.rs`,
//! [`close`] when the last handle is dropped (`src/api/engine.rs`): on the calling thread, or, if
//! that is inside an operation or an engine's own, on a thread for that. `fork.rs` takes the same
//! steps for all engines at once, on the forking thread.
//!
//! No state here: the lock is `Core::life`, which keeps stops and starts apart, the flags are in
//! `Core::state`, and `Memory::closed` says that the engine has ended. The thread that ends what is
//! in flight wakes the thread that stops (`Core::quiescence`).
//!
//! A stop has four steps:
//!
//! 1. The flag `STOPPED` (`state.rs`) refuses pushes, except those of closures that still run.
//! 2. Every push that had not seen the flag is let through. A push that enlists is pinned, and
//!    [`let_pushes_through`] waits for the pin. A push without a pin had counted its operation as
//!    pushed before it looked at the flag, so the operation is in flight.
//! 3. What is in flight completes, and closures that run on after their completion return.
//! 4. The threads end.
//!
//! A start brings the threads back.

use crate::engine::core::Core;
use crate::engine::gpu::admit;
use crate::engine::nesting::{is_kept_outside, refuse_inside};
use crate::engine::push::admission::cut_off;
use crate::engine::wait::{for_all, held_list};
use crate::error::{Error, ErrorKind};
use crate::operation::closure::drop_quietly;
use crate::platform::asymmetric_fence::heavy;
use crate::platform::standard_error::tell;
use crate::sync::{thread, AtomicBool, MutexGuard, Ordering::*};
use crate::thread::context::ThreadContext;
use crate::variable::names;
use std::sync::Arc;

/// The most errors that are told one by one; the others are only counted.
const MOST_TOLD: usize = 16;

/// Stops the engine; does nothing if it is stopped.
pub fn stop(core: &Arc<Core>) -> Result<(), Error> {
    refuse_inside(core, "stop")?;
    held_list::refuse_any(core, "stop the engine")?;
    core.dispatch.before_waiting(core);
    // In the child of a fork the lock may be held by a thread that is gone.
    if !core.state.load(Acquire).is_abandoned() {
        let kept = stop_alone(core);
        // Without the lock, since their destructors may call the engine.
        kept.into_iter().for_each(drop_quietly);
    }
    Ok(())
}

/// Stops the engine if it runs, while no other thread stops or starts it. Returns what the engine
/// has kept until now, for the caller to drop.
fn stop_alone(core: &Arc<Core>) -> Vec<Box<dyn Send>> {
    let life = core.life.lock();
    if core.state.load(Acquire).is_stopped() {
        return Vec::new();
    }
    stop_holding(core, &life);
    core.gpus.let_go()
}

/// Stops an engine that runs. `_life` is the lock that keeps other stops and starts out.
fn stop_holding(core: &Arc<Core>, _life: &MutexGuard<'_, ()>) {
    core.state.stop();
    // Heavy side of the asymmetric fence; the light side is in the pushes without a pin,
    // `inline/fast_path.rs` and `push/logged.rs`.
    heavy();
    let_pushes_through(core);
    for_all::drain(core);
    // A closure whose operation was completed early may still push. Those pushes are let through as
    // well.
    core.quiescence.wait(None, || core.is_deserted(), || ());
    end_threads(core);
}

/// Ends the threads of an engine that is stopped and in which nothing is in flight. Also called by
/// `fork.rs`, which has locks: what [`Gpus::hold`](crate::engine::gpu::devices::Gpus::hold) has
/// kept stays until the program stops the engine.
pub fn end_threads(core: &Core) {
    core.dispatch.stop();
    admit::stop(core);
    core.say(|| "stopped".to_owned());
}

/// Waits until nothing is in flight and no closure runs, in an engine that takes no pushes; `false`
/// if the deadline comes first. Called by `fork.rs`.
#[cfg(all(unix, not(any(loom, shuttle))))]
pub fn ends_by(core: &Core, deadline: Option<std::time::Instant>) -> bool {
    core.quiescence.wait(deadline, || core.is_quiescent() && core.is_deserted(), || ())
}

/// Starts the engine again; does nothing if it runs.
pub fn start(core: &Arc<Core>) -> Result<(), Error> {
    refuse_inside(core, "start")?;
    if core.state.load(Acquire).is_abandoned() {
        return Err(cut_off());
    }
    let life = core.life.lock();
    start_holding(core, &life)
}

/// Like [`start`], but for a caller that holds the lock already. Also called by `fork.rs`.
pub fn start_holding(core: &Arc<Core>, _life: &MutexGuard<'_, ()>) -> Result<(), Error> {
    if core.state.load(Acquire).is_stopped() {
        core.dispatch.start(core)?;
        core.gpus.start();
        core.state.go_on();
        core.say(|| "started".to_owned());
    }
    Ok(())
}

/// How many rounds of collecting make the reclaimer run a deferred call, if no thread is pinned.
const ROUNDS: usize = 4;

/// Returns when every push that may have missed a change of the engine's state has finished
/// enlisting. Such a push was pinned, and the reclaimer runs a deferred call when all pins of that
/// time are gone. `fork.rs` calls this too.
pub fn let_pushes_through(core: &Arc<Core>) {
    let through = Arc::new(AtomicBool::new(false));
    let signal = Arc::clone(&through);
    let local = core.local();
    // SAFETY: nothing is made reusable; the call only sets a flag.
    unsafe { local.defer(move || signal.store(true, Release)) };
    loop {
        // As many rounds as the epochs take when no thread is pinned.
        (0..ROUNDS).for_each(|_| local.pin().flush());
        if through.load(Acquire) {
            return;
        }
        thread::yield_now();
    }
}

/// Ends an engine whose last handle is gone: drains it and joins its threads. Inside an operation
/// this would wait for the operation itself, and on one of the engine's threads for that thread, so
/// a thread is started for it. Likewise on a thread of another engine outside of operations: a fork
/// that has stopped both would wait for that thread, and the thread for the fork.
pub fn close(core: &Arc<Core>) {
    if core.is_inside() || is_kept_outside(core) {
        warn_of_loss(core);
        let own = Arc::clone(core);
        let closer = thread::Builder::new().name("seriatim-close".to_owned());
        if let Err(said) = closer.spawn(move || close(&own)) {
            // The workers run what is in flight, and then wait for ever.
            tell(&format!(
                "seriatim engine {}: its last handle was dropped inside one of its operations or on a thread of an \
                 engine, and the system refuses the thread that would end it ({said}): its threads stay, and errors of operations that \
                 still run are not told",
                core.memory.id
            ));
            core.report_failures();
        }
        return;
    }
    let _ = stop(core);
    core.report_failures();
    core.memory.closed.store(true, Release);
    names::forget(core.memory.id);
    ThreadContext::end_fallback(&core.memory);
    core.say(|| "closed".to_owned());
}

/// Warns if more is in flight than the operations that this thread is inside of. Called when the
/// last handle is dropped where another thread has to end the engine.
fn warn_of_loss(core: &Core) {
    let (completed, pushed) = core.memory.tally();
    let inside = u64::from(core.local().depth.get());
    if pushed.saturating_sub(completed) > inside {
        tell(&format!(
            "seriatim engine {}: its last handle was dropped inside one of its operations or on a thread of an engine: what is in flight is lost if the process \
             ends first; keep a handle outside, or wait for everything",
            core.memory.id
        ));
    }
}

impl Core {
    /// Tells `on_error` of the failures that no wait has taken. Nothing is in flight, and no thread
    /// can wait any more.
    pub fn report_failures(&self) {
        // In the child of a fork the failures are the parent's.
        if self.state.load(Acquire).is_abandoned() {
            return;
        }
        let (errors, counted) = self.failures.take_all_live();
        errors.iter().take(MOST_TOLD).for_each(|error| self.on_error.call(self.memory.id, error));
        let more = errors.len().saturating_sub(MOST_TOLD) + counted;
        if more > 0 {
            let text = format!("{more} more operations failed, and nobody waited for them");
            self.on_error.call(self.memory.id, &Error::new(ErrorKind::OperationFailed, text));
        }
    }
}
