//! Forks, and the end of the process.
//!
//! Python's own hooks call `_forked` and `_at_exit`. `shared.rs` asks in which process it is.
//!
//! An engine is of the process that made it: in a child of `fork` it has no threads. At the end of
//! the process the ready operations of all engines are run, and what waits for something that will
//! not come is given up. No runner is left when the interpreter goes.

use crate::bell::Bell;
use crate::shared::Shared;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often this process and those that it comes from have been forked off.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The engines of the process.
static ENGINES: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Between two looks at an engine that ends.
const NAP: Duration = Duration::from_millis(2);
/// How long the end of the process waits for threads that wait.
const PATIENCE: Duration = Duration::from_secs(5);

/// A number of this process, by which it is told from its children.
pub fn process() -> u32 {
    FORKS.load(Relaxed)
}

/// Has the end of the process end this engine.
pub fn enter(shared: &Arc<Shared>) {
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    engines.retain(|engine| engine.strong_count() > 0);
    engines.push(Arc::downgrade(shared));
}

/// The process is the child of a fork: the engines that it has are the parent's.
#[pyfunction]
pub fn _forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// The process ends.
#[pyfunction]
pub fn _at_exit(py: Python<'_>) -> PyResult<()> {
    let engines: Vec<_> = {
        let engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
        engines.iter().filter_map(Weak::upgrade).filter(|shared| shared.is_usable()).collect()
    };
    let bell = Bell::default();
    for shared in engines {
        while !(shared.is_idle() || shared.is_over()) {
            bell.wait(py, Some(Instant::now() + NAP), || shared.is_idle())?;
        }
        shared.close();
        let until = Instant::now() + PATIENCE;
        while !shared.is_deserted() && Instant::now() < until {
            bell.wait(py, Some(Instant::now() + NAP), || shared.is_deserted())?;
        }
    }
    Ok(())
}
