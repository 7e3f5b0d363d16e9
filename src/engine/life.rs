//! The life of an engine: stop and start, and the end.
//!
//! Stopping: 1. pushes are refused, but for those of closures that still run; 2. every push that had not seen the refusal is let
//! through (those that pin; what is borrowed without a pin was counted before, and is in flight); 3. what is in flight completes, and closures that run on after their completion return; 4. the threads end. Starting brings the threads back.

use super::core::{Core, ABANDONED, STOPPED};
use super::wait;
use crate::error::{Error, ErrorKind};
use crate::fences::heavy;
use crate::mutants::mutate;
use crate::pool::local::Local;
use crate::sync::{thread, AtomicBool, MutexGuard, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Stops the engine; does nothing if it is stopped.
pub fn stop(core: &Arc<Core>) -> Result<(), Error> {
    refuse_inside(core, "stop")?;
    // In a child of a fork the lock may be that of a thread that is gone.
    if core.state.load(Acquire) & ABANDONED == 0 {
        let life = core.life.lock();
        if core.state.load(Acquire) & STOPPED == 0 {
            stop_holding(core, &life, None);
        }
    }
    Ok(())
}

/// Stops the engine, or leaves it as it was if what is in flight does not end in time; says which. If it is stopped already, this makes
/// sure that nobody still waits by an operation of its own. `_life` shows that no other stop or start is under way.
pub fn stop_holding(core: &Arc<Core>, _life: &MutexGuard<'_, ()>, patience: Option<Duration>) -> bool {
    let was_stopped = core.state.fetch_or(STOPPED, SeqCst) & STOPPED != 0;
    // Against the one in `Local::alone`, for those who borrow without a pin.
    heavy();
    mutate!("pushes-not-let-through": (), let_pushes_through(core));
    let deadline = patience.map(|patience| Instant::now() + patience);
    // A closure whose operation was completed early may still push: it is let through as well.
    if !wait::drain(core, patience)
        || mutate!("closures-not-waited-for": false, !core.quiescence.wait(deadline, || core.is_deserted(), || ()))
    {
        if !was_stopped {
            core.state.fetch_and(!STOPPED, SeqCst);
        }
        return false;
    }
    if !was_stopped {
        core.dispatch.stop();
        core.say(|| "stopped".to_owned());
    }
    true
}

/// Starts the engine again; does nothing if it runs.
pub fn start(core: &Arc<Core>) -> Result<(), Error> {
    refuse_inside(core, "start")?;
    if core.state.load(Acquire) & ABANDONED != 0 {
        return Err(Error::new(
            ErrorKind::Stopped,
            "the process was forked while the engine could not be stopped, and its threads are gone: make another",
        ));
    }
    let life = core.life.lock();
    start_holding(core, &life)
}

/// As [`start`], for a caller that has taken the lock.
pub fn start_holding(core: &Arc<Core>, _life: &MutexGuard<'_, ()>) -> Result<(), Error> {
    if core.state.load(Acquire) & STOPPED != 0 {
        core.dispatch.start(core)?;
        core.state.fetch_and(!STOPPED, SeqCst);
        core.say(|| "started".to_owned());
    }
    Ok(())
}

fn refuse_inside(core: &Core, what: &str) -> Result<(), Error> {
    if !core.is_inside() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::WaitInsideOperation,
        format!("an operation cannot {what} its own engine, which would wait for it"),
    ))
}

/// Rounds of collecting after which the reclaimer has called what was deferred, if nobody was pinned.
const ROUNDS: usize = 4;

/// Returns when every push that may have missed a change of the engine's state has finished enlisting: those pushes were
/// pinned, and the reclaimer says when all pins of that time are gone.
fn let_pushes_through(core: &Arc<Core>) {
    let through = Arc::new(AtomicBool::new(false));
    let signal = Arc::clone(&through);
    let local = core.local();
    // SAFETY: nothing is made reusable; the call only sets a flag.
    unsafe { local.defer(move || signal.store(true, Release)) };
    loop {
        // As many rounds as the epochs take when nobody is pinned.
        (0..ROUNDS).for_each(|_| local.pin().flush());
        if through.load(Acquire) {
            return;
        }
        thread::yield_now();
    }
}

/// The end of an engine, when its last handle is gone: drains and joins. Inside an operation, where that would wait for itself, a
/// thread of its own does it.
pub fn close(core: &Arc<Core>) {
    if core.is_inside() {
        let own = Arc::clone(core);
        let closer = thread::Builder::new().name("seriatim-close".to_owned());
        // Should the system refuse the thread, the workers run what is in flight and then wait for ever: nothing is lost but them.
        let _ = closer.spawn(move || close(&own));
        return;
    }
    let _ = stop(core);
    core.memory.closed.store(true, Release);
    Local::end_stray(&core.memory);
    core.say(|| "closed".to_owned());
}
