//! The life of an engine: stop and start, and the end.
//!
//! Stopping: 1. pushes are refused, but for those of closures that still run; 2. every push that had not seen the refusal is let
//! through; 3. what is in flight completes, and closures that run on after their completion return; 4. the threads end. Starting brings the threads back.

use super::core::{Core, STOPPED};
use super::wait;
use crate::error::{Error, ErrorKind};
use crate::mutants::mutate;
use crate::pool::local::Local;
use crate::sync::{thread, AtomicBool, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Stops the engine; does nothing if it is stopped.
pub fn stop(core: &Arc<Core>) -> Result<(), Error> {
    refuse_inside(core, "stop")?;
    stop_within(core, None);
    Ok(())
}

/// Stops the engine, or leaves it running if what is in flight does not end in time. Whether it is stopped now by this call.
pub fn stop_within(core: &Arc<Core>, patience: Option<Duration>) -> bool {
    let _life = core.life.lock();
    if core.state.fetch_or(STOPPED, SeqCst) & STOPPED != 0 {
        return false;
    }
    mutate!("pushes-not-let-through": (), let_pushes_through(core));
    let deadline = patience.map(|patience| Instant::now() + patience);
    // A closure whose operation was completed early may still push: it is let through as well.
    if !wait::drain(core, patience)
        || mutate!("closures-not-waited-for": false, !core.quiescence.wait(deadline, || core.is_deserted()))
    {
        core.state.fetch_and(!STOPPED, SeqCst);
        return false;
    }
    core.dispatch.stop();
    core.say(|| "stopped".to_owned());
    true
}

/// Starts the engine again; does nothing if it runs.
pub fn start(core: &Arc<Core>) -> Result<(), Error> {
    refuse_inside(core, "start")?;
    let _life = core.life.lock();
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
