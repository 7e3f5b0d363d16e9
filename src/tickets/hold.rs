//! Holds: of the operations that commute on a variable one runs at a time, in any order.
//!
//! Tickets let all operations of a phase that commutes come at once (`phases.rs`). A thread that is
//! about to run one of them takes the [`VariableHold`] of each variable on which it commutes
//! ([`take_all`]), and gives them back when the operation has ended ([`give_all_back`]). Used by
//! `src/engine/holds.rs`, on these threads. The hold lies in the variable's slot
//! (`src/variable/slot.rs`), and `src/variable/table.rs` finds it.
//!
//! # The protocol
//! A hold is free or held, and has a stack of operations that are parked there. Holds are taken in
//! the order of variables. If one is held already, the thread gives back those that it has, and
//! parks the operation on that one: no operation waits while it holds anything, and no thread spins
//! or waits. Who gives a hold back frees it, and calls *one* of the parked: that operation is ready
//! again, and starts over. Meanwhile any other may take the hold.
//!
//! - *None is forgotten.* If operations are parked, the hold is held, or one that was called is
//!   under way. The called one takes the hold, or finds it held, and parks again; or another hold
//!   is in its way, and then it *passes the call on* before it parks there: it takes the free hold
//!   and gives it back, which calls the next. Parking is one exchange, which succeeds only while
//!   the hold is held; so who gives it back finds it.
//! - *One comes on.* A try fails only at a hold that another operation has. Of all that are being
//!   tried for, look at the highest: who takes it runs, since it has the lower ones.
//! - *No one is passed over for ever.* The parked are called in the order in which they have
//!   parked. One that is called may find the hold taken by one that came at that moment, and parks
//!   at the end.
//! - *An operation sees what those before it did.* A take acquires what giving back releases.
//!
//! `Block::tested` says, once all tickets have come, where an operation was parked; `Block::link`
//! links those that are parked.

use crate::operation::access::Mode;
use crate::operation::block::Block;
use crate::sync::{AtomicPtr, Ordering::*};
use std::ptr::null_mut;

/// In the word of a hold, whose blocks lie on multiples of 128: an operation has it.
const HELD: usize = 1;

/// Who commutes on a variable now, and who waits for that. All zeros: nobody.
pub struct VariableHold {
    /// [`HELD`], and the operation that has parked last; the others follow it.
    word: AtomicPtr<Block>,
    /// Those that have parked before, the first one first. Used by who has the hold, alone.
    waiting: AtomicPtr<Block>,
}

/// The holds of an engine's variables, by number.
pub trait Holds {
    fn variable_hold(&self, variable: u32) -> &VariableHold;
}

fn is_held(word: *mut Block) -> bool {
    word.addr() & HELD != 0
}

/// The operation that has parked last, or null.
fn top(word: *mut Block) -> *mut Block {
    word.map_addr(|address| address & !HELD)
}

fn held(block: *mut Block) -> *mut Block {
    block.map_addr(|address| address | HELD)
}

impl VariableHold {
    pub fn new() -> VariableHold {
        VariableHold { word: AtomicPtr::new(null_mut()), waiting: AtomicPtr::new(null_mut()) }
    }

    /// Takes the hold if it is free; says whether it was.
    fn take(&self) -> bool {
        let mut now = self.word.load(Relaxed);
        while !is_held(now) {
            // Acquire: pairs with the releases in `give_back`, so the operation sees what those
            // before it did.
            match self.word.compare_exchange(now, held(now), Acquire, Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// Parks an operation if the hold is held; says whether it was.
    ///
    /// # Safety
    /// The operation is the caller's, and if it is parked not any more.
    unsafe fn park(&self, block: *mut Block) -> bool {
        let mut now = self.word.load(Relaxed);
        while is_held(now) {
            // SAFETY: the operation is the caller's until the exchange.
            unsafe { (*block).link = top(now) };
            // Release: pairs with the acquire in `give_back`; who calls the operation gets it as it
            // is left here.
            match self.word.compare_exchange(now, held(block), Release, Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// Frees the hold, and returns the operation that has parked first, which is called; null if
    /// none is parked.
    ///
    /// # Safety
    /// The hold is the caller's to give back. The operation that is returned is the caller's.
    unsafe fn give_back(&self) -> *mut Block {
        // Relaxed (all of `waiting`): who has the hold is alone there.
        let mut first = self.waiting.load(Relaxed);
        if first.is_null() {
            let alone = held(null_mut());
            // Release: pairs with `take`.
            if self.word.compare_exchange(alone, null_mut(), Release, Relaxed).is_ok() {
                return null_mut();
            }
            // Acquire: pairs with `park`. The release sequences of those exchanges go on past those
            // that take the hold and free it.
            let mut parked = top(self.word.swap(alone, Acquire));
            while !parked.is_null() {
                // SAFETY: all that is parked is who has the hold's.
                unsafe {
                    let before = (*parked).link;
                    (*parked).link = first;
                    (first, parked) = (parked, before);
                }
            }
        }
        // SAFETY: as above; a failed exchange has found a parked operation.
        self.waiting.store(unsafe { (*first).link }, Relaxed);
        let mut now = self.word.load(Relaxed);
        // Release: as above. Lock-free: a further round means that another operation has parked.
        while let Err(other) = self.word.compare_exchange(now, top(now), Release, Relaxed) {
            now = other;
        }
        first
    }

    /// Calls the next of the parked, if the hold is free. If it is not, who has it will.
    ///
    /// # Safety
    /// As [`VariableHold::give_back`].
    unsafe fn pass_on(&self) -> *mut Block {
        if !self.take() {
            return null_mut();
        }
        // SAFETY: taken just now.
        unsafe { self.give_back() }
    }
}

impl Default for VariableHold {
    fn default() -> VariableHold {
        VariableHold::new()
    }
}

/// The hold that access `index` asks for, if it commutes.
unsafe fn hold_of(block: *mut Block, index: u32, holds: &impl Holds) -> Option<&VariableHold> {
    // SAFETY: the operation is the caller's.
    let access = unsafe { &*Block::access(block, index) };
    (access.mode() == Mode::Commute).then(|| holds.variable_hold(access.variable))
}

/// Takes all holds that an operation asks for. `true`: it has them, and the caller runs it.
/// `false`: it is parked, and no longer the caller's. Calls `ready` with each operation that this
/// has called.
///
/// # Safety
/// All tickets of the operation have come, and it is the caller's. It is not voided. Its accesses
/// that commute are in the order of variables.
pub unsafe fn take_all(block: *mut Block, holds: &impl Holds, mut ready: impl FnMut(*mut Block)) -> bool {
    let mut call = |called: *mut Block| {
        if !called.is_null() {
            ready(called);
        }
    };
    // SAFETY: the operation is the caller's until it is parked.
    unsafe {
        let count = (*block).count;
        // Up to `count` it says how many tickets had come when it was last tested.
        let mut called_at = (*block).tested.load(Relaxed).checked_sub(count + 1);
        loop {
            let missing = (0..count).find(|index| hold_of(block, *index, holds).is_some_and(|hold| !hold.take()));
            let Some(missing) = missing else { return true };
            for index in 0..missing {
                if let Some(hold) = hold_of(block, index, holds) {
                    call(hold.give_back());
                }
            }
            if let Some(hold) = called_at.take().filter(|at| *at > missing).and_then(|at| hold_of(block, at, holds)) {
                call(hold.pass_on());
            }
            (*block).tested.store(count + 1 + missing, Relaxed);
            if hold_of(block, missing, holds).is_some_and(|hold| hold.park(block)) {
                return false;
            }
            // Free by now: another operation has come on.
        }
    }
}

/// Gives back all holds of an operation that has ended. Calls `ready` as [`take_all`] does.
///
/// # Safety
/// The operation has them, and its tickets are not counted yet: until they are no variable goes.
pub unsafe fn give_all_back(block: *mut Block, holds: &impl Holds, mut ready: impl FnMut(*mut Block)) {
    // SAFETY: by the contract.
    unsafe {
        for index in 0..(*block).count {
            let called = hold_of(block, index, holds).map_or(null_mut(), |hold| hold.give_back());
            if !called.is_null() {
                ready(called);
            }
        }
    }
}
