//! The life of an engine: stop and start, the end, and `fork`.
//!
//! Stopping: 1. pushes are refused, but for those of closures that still run; 2. every push that had not seen the refusal is let
//! through; 3. what is in flight completes, and closures that run on after their completion return; 4. the threads end. Starting brings the threads back.

use super::core::{Core, STOPPED};
use super::wait;
use crate::error::{Error, ErrorKind};
use crate::lock::Lock;
use crate::pool::local::Local;
use crate::sync::{AtomicBool, Ordering::*};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Stops the engine; does nothing if it is stopped.
pub fn stop(core: &Arc<Core>) -> Result<(), Error> {
    refuse_inside(core, "stop")?;
    stop_within(core, None);
    Ok(())
}

/// Stops the engine, or leaves it running if what is in flight does not end in time. Whether it is stopped now by this call.
fn stop_within(core: &Arc<Core>, patience: Option<Duration>) -> bool {
    let _life = core.life.lock();
    if core.state.fetch_or(STOPPED, SeqCst) & STOPPED != 0 {
        return false;
    }
    let_pushes_through(core);
    let deadline = patience.map(|patience| Instant::now() + patience);
    // A closure whose operation was completed early may still push: it is let through as well.
    if !wait::drain(core, patience) || !core.quiescence.wait(deadline, || core.is_deserted()) {
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

/// Returns when every push that may have missed a change of the engine's state has finished enlisting: those pushes were
/// pinned, and the reclaimer says when all pins of that time are gone.
fn let_pushes_through(core: &Arc<Core>) {
    let through = Arc::new(AtomicBool::new(false));
    let signal = Arc::clone(&through);
    let local = core.local();
    // SAFETY: nothing is made reusable; the call only sets a flag.
    unsafe { local.defer(move || signal.store(true, Release)) };
    while !through.load(Acquire) {
        local.pin().flush();
        std::thread::yield_now();
    }
}

/// The end of an engine, when its last handle is gone: drains and joins. Inside an operation, where that would wait for itself, a
/// thread of its own does it.
pub fn close(core: &Arc<Core>) {
    if core.is_inside() {
        let own = Arc::clone(core);
        let closer = std::thread::Builder::new().name("seriatim-close".to_owned());
        // Should the system refuse the thread, the workers run what is in flight and then wait for ever: nothing is lost but them.
        let _ = closer.spawn(move || close(&own));
        return;
    }
    let _ = stop(core);
    core.memory.closed.store(true, Release);
    Local::end_stray(&core.memory);
    core.say(|| "closed".to_owned());
}

/// Every living engine, for `fork`.
static ENGINES: Lock<Vec<Weak<Core>>> = Lock::new(Vec::new());

/// Enters an engine into the list of those that are stopped around a `fork`.
pub fn register(core: &Arc<Core>) {
    let mut engines = ENGINES.lock();
    engines.retain(|engine| engine.strong_count() > 0);
    engines.push(Arc::downgrade(core));
    drop(engines);
    #[cfg(unix)]
    fork::install();
}

#[cfg(unix)]
mod fork {
    //! Threads do not survive a `fork`, so the engines are stopped before it and started again in the parent and in the child.
    //! Pushes of other threads wait meanwhile. An engine that cannot be stopped, because the forking thread is inside one of its
    //! operations or owes it a completion, goes on in the parent, and in the child it refuses pushes.

    use super::super::core::FORKING;
    use super::*;
    use std::cell::RefCell;
    use std::sync::{MutexGuard, Once};

    thread_local! {
        /// The engines that this thread has stopped for the fork that it is in.
        static HELD: RefCell<Vec<Arc<Core>>> = const { RefCell::new(Vec::new()) };
        static RUNNING: RefCell<Vec<Arc<Core>>> = const { RefCell::new(Vec::new()) };
        /// Held throughout, so that the child does not inherit a lock of a thread that is gone.
        static LIST: RefCell<Option<MutexGuard<'static, Vec<Weak<Core>>>>> = const { RefCell::new(None) };
    }

    /// How long a fork waits for what is in flight.
    const PATIENCE: Duration = Duration::from_secs(1);

    pub fn install() {
        static ONCE: Once = Once::new();
        // SAFETY: the handlers are plain functions that live as long as the program and do not unwind.
        ONCE.call_once(|| unsafe {
            libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
        });
    }

    extern "C" fn before() {
        let list = ENGINES.lock();
        let engines: Vec<Arc<Core>> = list.iter().filter_map(Weak::upgrade).collect();
        LIST.set(Some(list));
        for core in engines {
            if core.state.load(Acquire) & STOPPED != 0 {
                continue;
            }
            core.state.fetch_or(FORKING, SeqCst);
            if !core.is_inside() && stop_within(&core, Some(PATIENCE)) {
                HELD.with_borrow_mut(|held| held.push(core));
            } else {
                core.state.fetch_and(!FORKING, SeqCst);
                RUNNING.with_borrow_mut(|running| running.push(core));
            }
        }
    }

    extern "C" fn after_in_parent() {
        LIST.set(None);
        RUNNING.take();
        restart();
    }

    extern "C" fn after_in_child() {
        LIST.set(None);
        // The threads of these are gone in the middle of something.
        for core in RUNNING.take() {
            core.state.fetch_or(STOPPED, SeqCst);
            std::mem::forget(core);
        }
        restart();
    }

    fn restart() {
        for core in HELD.take() {
            // A refusal of threads shows again at the next push, as an error that the caller sees.
            if start(&core).is_err() {
                core.state.fetch_and(!STOPPED, SeqCst);
            }
            core.state.fetch_and(!FORKING, SeqCst);
        }
    }
}
