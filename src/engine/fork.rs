//! `fork`: threads do not survive it, so the engines are stopped before it and started again in the parent and in the child.
//!
//! Pushes of other threads wait meanwhile. An engine that cannot be stopped, because the forking thread is inside one of its
//! operations or owes it a completion, goes on in the parent, and in the child it refuses pushes.

use super::core::{Core, FORKING, STOPPED};
use super::life::{start, stop_within};
use crate::lock;
use crate::sync::Ordering::*;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, Once, Weak};
use std::time::Duration;

/// Every living engine.
static ENGINES: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());

/// How long a fork waits for what is in flight.
const PATIENCE: Duration = Duration::from_secs(1);

thread_local! {
    /// The engines that this thread has stopped for the fork that it is in.
    static HELD: RefCell<Vec<Arc<Core>>> = const { RefCell::new(Vec::new()) };
    static RUNNING: RefCell<Vec<Arc<Core>>> = const { RefCell::new(Vec::new()) };
    /// Held throughout, so that the child does not inherit a lock of a thread that is gone.
    static LIST: RefCell<Option<MutexGuard<'static, Vec<Weak<Core>>>>> = const { RefCell::new(None) };
}

/// Enters an engine into the list of those that are stopped around a `fork`.
pub fn register(core: &Arc<Core>) {
    static ONCE: Once = Once::new();
    let mut engines = lock::of_static(&ENGINES);
    engines.retain(|engine| engine.strong_count() > 0);
    engines.push(Arc::downgrade(core));
    drop(engines);
    // SAFETY: the handlers are plain functions that live as long as the program and do not unwind.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
    });
}

extern "C" fn before() {
    let list = lock::of_static(&ENGINES);
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
