//! The accesses that the calling thread holds outside of operations, and the waits that it would
//! therefore never come out of.
//!
//! Used by `wait/hold.rs`, which keeps the list, and by `wait/for_all.rs`,
//! `wait/for_var.rs`, `engine/lifecycle.rs` and `scope/open.rs`, which refuse those waits. Each
//! thread has a list of its own: a held access stays on its thread. A held access that is forgotten
//! stays in the list. While the thread sleeps for another access, other threads look at the list:
//! `wait/crosswise.rs` has it then.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::engine::wait::crosswise::{self, conflicts, HeldHere};
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::sync::thread_local;
use crate::variable::handle::Variable;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the calling thread holds, and its numbers among the sleepers of `wait/crosswise.rs`: one
/// for each of its sleeps, the outermost first. An operation that the thread runs while it sleeps
/// may sleep for a guard of another engine.
struct GuardList {
    held: Option<HeldHere>,
    sleeps: Vec<u64>,
}

thread_local! {
    static HERE: RefCell<GuardList> = const { RefCell::new(GuardList { held: None, sleeps: Vec::new() }) };
}

/// Says that the calling thread sleeps for an access while it holds another one. It wakes when this
/// is dropped.
#[must_use]
pub struct Asleep(Option<u64>);

impl Drop for Asleep {
    fn drop(&mut self) {
        let Some(number) = self.0 else { return };
        let _ = HERE.try_with(|here| here.borrow_mut().sleeps.retain(|other| *other != number));
        crosswise::leave(number);
    }
}

/// Looks at the list. A thread that is about to end has none.
fn with_list<T>(look: impl FnOnce(&BTreeMap<(u64, u32), Mode>) -> T) -> Option<T> {
    HERE.try_with(|here| here.borrow().held.as_deref().map(look)).ok().flatten()
}

/// The calling thread holds an access from now on.
pub fn add(variable: Variable, mode: Mode) {
    let _ = HERE.try_with(|here| {
        let mut here = here.borrow_mut();
        Arc::make_mut(here.held.get_or_insert_default()).insert(variable.into_raw(), mode);
    });
}

/// The calling thread is about to let go of an access. If that happens while it sleeps, other
/// threads do not wait for it on account of that access any more.
pub fn remove(variable: Variable) {
    let _ = HERE.try_with(|here| {
        let here = &mut *here.borrow_mut();
        let Some(held) = here.held.as_mut() else { return };
        Arc::make_mut(held).remove(&variable.into_raw());
        if !here.sleeps.is_empty() {
            crosswise::lets_go(&here.sleeps, variable);
        }
    });
}

/// The calling thread has pushed an access, for which it is about to sleep. Refuses that if the
/// thread holds another one, and would wait for itself round a circle of threads.
pub fn sleeps(wanted: Variable, mode: Mode) -> Result<Asleep, Error> {
    let held = HERE.try_with(|here| here.borrow().held.clone()).ok().flatten();
    let Some(held) = held.filter(|held| !held.is_empty()) else { return Ok(Asleep(None)) };
    let number = crosswise::enter(held, wanted, mode)?;
    let _ = HERE.try_with(|here| here.borrow_mut().sleeps.push(number));
    Ok(Asleep(Some(number)))
}

/// Refuses a second access of a variable of which the calling thread holds one: another thread may
/// have pushed a change between the two.
pub fn refuse_second(variable: Variable) -> Result<(), Error> {
    if with_list(|held| held.contains_key(&variable.into_raw())) != Some(true) {
        return Ok(());
    }
    Err(conflict(format!("this thread has a guard of {variable:?} already: use that one, or drop it first")))
}

/// Refuses a wait for a variable, with `Mode::Write` for its reads too, that is behind an access
/// which the calling thread holds.
pub fn refuse_own(variable: Variable, mode: Mode) -> Result<(), Error> {
    if with_list(|held| conflicts(held, variable, mode)) != Some(true) {
        return Ok(());
    }
    Err(conflict(format!("this thread would wait for its own guard of {variable:?}: drop it first")))
}

/// Refuses a call that waits for everything if the calling thread holds an access of the engine.
pub fn refuse_any(core: &Core, what: &str) -> Result<(), Error> {
    let engine = u64::from(core.memory.id) << 32;
    let first = |held: &BTreeMap<(u64, u32), Mode>| {
        let mut held =
            held.range((engine, 0)..).map(|((place, generation), _)| Variable::from_raw((*place, *generation)));
        held.next().filter(|variable| variable.engine == core.memory.id)
    };
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
