//! The accesses that the calling thread holds outside of operations, and the waits that it would
//! therefore never come out of.
//!
//! Used by `wait/hold.rs`, which keeps the list, and by `wait/for_all.rs`, `wait/for_var.rs` and
//! `engine/lifecycle.rs`, which refuse those waits. Each thread has a list of its own: a held
//! access stays on its thread. A held access that is forgotten stays in the list.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::sync::thread_local;
use crate::variable::handle::Variable;
use std::cell::RefCell;

thread_local! {
    static HELD_HERE: RefCell<Vec<(Variable, Mode)>> = const { RefCell::new(Vec::new()) };
}

/// Looks at the list. A thread that is about to end has none.
fn with_list<T>(look: impl FnOnce(&mut Vec<(Variable, Mode)>) -> T) -> Option<T> {
    HELD_HERE.try_with(|held| look(&mut held.borrow_mut())).ok()
}

/// The calling thread holds an access from now on.
pub fn add(variable: Variable, mode: Mode) {
    with_list(|held| held.push((variable, mode)));
}

/// The calling thread has let go of an access.
pub fn remove(variable: Variable) {
    with_list(|held| {
        if let Some(place) = held.iter().position(|(other, _)| *other == variable) {
            held.swap_remove(place);
        }
    });
}

/// Refuses a second access of a variable of which the calling thread holds one: another thread may
/// have pushed a change between the two.
pub fn refuse_second(variable: Variable) -> Result<(), Error> {
    let holds = |held: &mut Vec<(Variable, Mode)>| held.iter().any(|(other, _)| *other == variable);
    if with_list(holds) != Some(true) {
        return Ok(());
    }
    Err(conflict(format!("this thread has a guard of {variable:?} already: use that one, or drop it first")))
}

/// Refuses a wait for a variable, with `Mode::Write` for its reads too, that is behind an access
/// which the calling thread holds.
pub fn refuse_own(variable: Variable, mode: Mode) -> Result<(), Error> {
    let blocks = |held: &mut Vec<(Variable, Mode)>| {
        held.iter().any(|(other, held)| *other == variable && (*held != Mode::Read || mode != Mode::Read))
    };
    if with_list(blocks) != Some(true) {
        return Ok(());
    }
    Err(conflict(format!("this thread would wait for its own guard of {variable:?}: drop it first")))
}

/// Refuses a call that waits for everything if the calling thread holds an access of the engine.
pub fn refuse_any(core: &Core, what: &str) -> Result<(), Error> {
    let engine = core.memory.id;
    let first =
        |held: &mut Vec<(Variable, Mode)>| held.iter().map(|(variable, _)| *variable).find(|v| v.engine == engine);
    match with_list(first).flatten() {
        None => Ok(()),
        Some(variable) => {
            Err(conflict(format!("a thread that has a guard of {variable:?} cannot {what}: drop the guard first")))
        }
    }
}

#[cold]
fn conflict(text: String) -> Error {
    Error::new(ErrorKind::BorrowConflict, text)
}
