//! The names that programs give to variables, for texts: one table for all engines of the process.
//!
//! `variable/handle.rs` shows them, so that each error that tells of a variable names it;
//! `engine/diagnose.rs` and `api/control.rs` (for profiles) ask for them too, and `api/engine.rs`
//! gives them. All on any thread, under a lock that operations do not come by: only a text takes
//! it, and not even that if no variable was ever named. `engine/lifecycle.rs` forgets those of an
//! engine that ends, and `engine/fork.rs` holds the lock around a fork.
//!
//! A place in an engine's table of variables has one name, that of the variable that was last named
//! there. So the names take no more memory than the table, however many variables come and go.

#![forbid(unsafe_code)]

use crate::sync::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Mutex;

/// By engine and index: which of the variables of this index has the name, and the name.
pub type VariableNames = Option<HashMap<(u32, u32), (u32, &'static str)>>;
pub static VARIABLE_NAMES: Mutex<VariableNames> = Mutex::new(None);

/// Whether there was ever a name.
static ANY: AtomicBool = AtomicBool::new(false);

/// Which of the variables of one index it is: the same number for the generation in which it lives,
/// and for that in which it is deleted.
pub fn ordinal(generation: u32) -> u32 {
    generation.wrapping_sub(1) >> 1
}

/// Names a variable. A second name replaces the first.
pub fn set((engine, index): (u32, u32), generation: u32, name: &'static str) {
    let mut names = lock::of_static(&VARIABLE_NAMES);
    names.get_or_insert_default().insert((engine, index), (ordinal(generation), name));
    // Relaxed: a thread that is told of the name is told after this.
    ANY.store(true, Relaxed);
}

/// The name of a variable, if it has one. That of a deleted one is there until its place is given
/// to another variable with a name.
pub fn get((engine, index): (u32, u32), ordinal: u32) -> Option<&'static str> {
    if !ANY.load(Relaxed) {
        return None;
    }
    let names = lock::of_static(&VARIABLE_NAMES);
    let (of, name) = *names.as_ref()?.get(&(engine, index))?;
    (of == ordinal).then_some(name)
}

/// The names of an engine's variables, by index and [`ordinal`].
pub fn of_engine(engine: u32) -> BTreeMap<(u32, u32), &'static str> {
    if !ANY.load(Relaxed) {
        return BTreeMap::new();
    }
    let names = lock::of_static(&VARIABLE_NAMES);
    let own = names.iter().flatten().filter(|((of, _), _)| *of == engine);
    own.map(|((_, index), (ordinal, name))| ((*index, *ordinal), *name)).collect()
}

/// Forgets the names of an engine's variables.
pub fn forget(engine: u32) {
    if !ANY.load(Relaxed) {
        return;
    }
    if let Some(names) = &mut *lock::of_static(&VARIABLE_NAMES) {
        names.retain(|(of, _), _| *of != engine);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_variable_alive_or_deleted() {
        // Engines count from 1 on, and no test makes so many.
        let place = (u32::MAX, 7);
        assert_eq!(get(place, ordinal(3)), None);
        set(place, 3, "x");
        assert_eq!((get(place, ordinal(3)), get(place, ordinal(4))), (Some("x"), Some("x")));
        assert_eq!((get(place, ordinal(1)), get(place, ordinal(5))), (None, None));
        assert_eq!((get((u32::MAX, 8), 1), get((u32::MAX - 1, 7), 1)), (None, None));
        set(place, 5, "y");
        assert_eq!((get(place, ordinal(3)), get(place, ordinal(5))), (None, Some("y")));
        forget(u32::MAX - 1);
        assert_eq!(of_engine(u32::MAX), [((7, 2), "y")].into());
        assert_eq!(get(place, ordinal(5)), Some("y"));
        forget(u32::MAX);
        assert_eq!(get(place, ordinal(5)), None);
    }

    #[test]
    fn the_last_generation_has_a_number_of_its_own() {
        assert_eq!((ordinal(1), ordinal(2), ordinal(3)), (0, 0, 1));
        assert_eq!((ordinal(u32::MAX), ordinal(0)), (u32::MAX >> 1, u32::MAX >> 1));
    }
}
