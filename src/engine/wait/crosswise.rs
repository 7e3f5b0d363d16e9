//! Threads that wait for each other's guards: each has one, and wants a value of which the next has
//! one. They would wait for ever, so the last of them is refused.
//!
//! Used by `wait/held_list.rs`, on a thread that has a guard and is about to sleep for another one,
//! and by `engine/fork.rs`. The list is under a lock. A thread without a guard, one whose access
//! comes at once, and one that gives up after some time do not enter it.
//!
//! **Why what is refused would wait for ever.** A thread in the list wants an access that it has
//! pushed and that has not come: if it had come, it would be held, and no access that conflicts
//! with it would be. Of such two the one that is held was pushed first. So a thread that wants what
//! another one holds waits for that one's guard. The thread of that guard is in the list, so it
//! waits as well, and drops no guard meanwhile. (If an operation that it runs while it waits does
//! drop one, the list knows before the access ends.) Such an operation may itself sleep for a guard
//! of another engine. Then the thread is in the list twice, and waits for both.
//!
//! Of two that read, one may have come though its thread has not seen that yet. So they are not
//! taken to wait for each other, also where a change stands between them. Other circles that are
//! not found go through an operation, which waits for one guard and keeps back another; through a
//! guard that an operation takes while its thread sleeps, and keeps; and through waits that are not
//! for guards.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::sync::lock;
use crate::variable::handle::Variable;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The accesses that a thread holds, by variable. Shared while the thread sleeps for another one.
pub type HeldHere = Arc<BTreeMap<(u64, u32), Mode>>;

/// Every thread that has a guard and sleeps for another one. A fork holds the list, and the child
/// empties it: the threads of the parent are not there.
pub static GUARD_SLEEPERS: Mutex<Vec<GuardSleeper>> = Mutex::new(Vec::new());

static NUMBERS: AtomicU64 = AtomicU64::new(0);

pub struct GuardSleeper {
    number: u64,
    held: HeldHere,
    wanted: Variable,
    mode: Mode,
}

/// Whether an access of the variable conflicts with one of these.
pub fn conflicts(held: &BTreeMap<(u64, u32), Mode>, variable: Variable, mode: Mode) -> bool {
    held.get(&variable.into_raw()).is_some_and(|held| *held != Mode::Read || mode != Mode::Read)
}

/// Enters the calling thread: it holds these accesses, and has pushed one to this variable, for
/// which it is about to sleep. Returns its number, for [`leave`].
///
/// # Errors
/// `BorrowConflict` if a thread would wait in a circle. The caller is not entered then, and must
/// give up the access.
pub fn enter(held: HeldHere, wanted: Variable, mode: Mode) -> Result<u64, Error> {
    // The text comes after the lock: it asks for names, whose lock `fork.rs` takes before this one.
    try_enter(held, wanted, mode).map_err(|mine| refusal(wanted, mine))
}

/// As [`enter`]; if it refuses, it returns the variable of which the calling thread has a guard
/// that another one waits for.
fn try_enter(held: HeldHere, wanted: Variable, mode: Mode) -> Result<u64, Variable> {
    let mut list = lock::of_static(&GUARD_SLEEPERS);
    let mut circle = Vec::from([(wanted, mode)]);
    let mut seen = 0;
    while let Some(&(other, mode)) = circle.get(seen) {
        seen += 1;
        for sleeper in list.iter().filter(|sleeper| conflicts(&sleeper.held, other, mode)) {
            if conflicts(&held, sleeper.wanted, sleeper.mode) {
                return Err(sleeper.wanted);
            }
            if !circle.contains(&(sleeper.wanted, sleeper.mode)) {
                circle.push((sleeper.wanted, sleeper.mode));
            }
        }
    }
    // Relaxed: a number of its own, under the lock.
    let number = NUMBERS.fetch_add(1, Relaxed);
    list.push(GuardSleeper { number, held, wanted, mode });
    Ok(number)
}

/// The thread of this number sleeps no more.
pub fn leave(number: u64) {
    lock::of_static(&GUARD_SLEEPERS).retain(|sleeper| sleeper.number != number);
}

/// The thread that sleeps under these numbers is about to let go of an access of the variable.
pub fn lets_go(numbers: &[u64], variable: Variable) {
    let mut list = lock::of_static(&GUARD_SLEEPERS);
    for sleeper in list.iter_mut().filter(|sleeper| numbers.contains(&sleeper.number)) {
        Arc::make_mut(&mut sleeper.held).remove(&variable.into_raw());
    }
}

#[cold]
fn refusal(wanted: Variable, mine: Variable) -> Error {
    let text = format!(
        "a thread that has a guard of {wanted:?} waits for this thread's guard of {mine:?}, or for one of a thread \
         that does: drop the guard first, take guards in one order on all threads, or wait for a limited time"
    );
    Error::new(ErrorKind::BorrowConflict, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables of an engine that no other test has.
    fn variable(number: u64) -> Variable {
        Variable::from_raw((0xffff_fff0 << 32 | number, 1))
    }

    fn holds(accesses: &[(u64, Mode)]) -> HeldHere {
        Arc::new(accesses.iter().map(|&(number, mode)| (variable(number).into_raw(), mode)).collect())
    }

    fn enters(held: &[(u64, Mode)], wanted: u64, mode: Mode) -> Option<u64> {
        match enter(holds(held), variable(wanted), mode) {
            Ok(number) => Some(number),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::BorrowConflict);
                None
            }
        }
    }

    #[test]
    fn circles_of_any_length_are_found() {
        use Mode::{Read, Write};
        let one = enters(&[(1, Write), (7, Read)], 2, Write).unwrap();
        let two = enters(&[(2, Read)], 3, Read).unwrap();
        // A row is none, and one that joins it is none.
        let three = enters(&[(3, Write)], 4, Write).unwrap();
        let beside = enters(&[(9, Write)], 1, Write).unwrap();
        assert_eq!(enters(&[(4, Write)], 1, Read), None, "a circle of four");
        assert_eq!(enters(&[(4, Write)], 7, Write), None, "by what is read");
        assert_eq!(enters(&[(2, Write)], 1, Read), None, "a circle of two");
        // Who reads waits for none who reads.
        let reads = enters(&[(3, Read), (4, Write)], 7, Read).unwrap();
        leave(reads);
        leave(two);
        let four = enters(&[(4, Write)], 1, Read).expect("the circle is broken");
        // One that sleeps twice, as the thread of `one` might, waits on in both sleeps if it lets
        // go of what it holds beside.
        let again = enters(&[(1, Write), (7, Read)], 8, Write).unwrap();
        assert_eq!(enters(&[(8, Read)], 7, Write), None, "by its inner sleep");
        lets_go(&[one, again], variable(7));
        let seven = enters(&[(8, Read)], 7, Write).expect("nobody has a guard of 7 now");
        assert_eq!(enters(&[(8, Read)], 1, Write), None, "of 1 it still has one");
        [again, seven].into_iter().for_each(leave);
        [one, three, four, beside].into_iter().for_each(leave);
    }
}
