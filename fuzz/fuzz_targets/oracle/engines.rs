//! Engines that stay alive from input to input.

use crate::program::Shape;
use seriatim::{Engine, IdlePolicy, Kind, WhenFull};
use std::sync::Mutex;

/// What makes engines differ.
type Key = (Kind, usize, IdlePolicy, bool, usize, WhenFull);

static ENGINES: Mutex<Vec<(Key, Engine)>> = Mutex::new(Vec::new());

/// An engine of this shape: a new one, which ends with its last handle, or the one that earlier
/// inputs of the shape have used.
pub fn engine(shape: &Shape, fresh: bool) -> Engine {
    if fresh {
        return shape.engine();
    }
    let key = (shape.kind, shape.workers, shape.idle, shape.waiters_help, shape.bound, shape.when_full);
    let mut engines = ENGINES.lock().expect("making an engine does not panic");
    if let Some((_, engine)) = engines.iter().find(|(other, _)| *other == key) {
        return engine.clone();
    }
    let engine = shape.engine();
    engines.push((key, engine.clone()));
    engine
}
