//! The table of an engine's variables: slots that never move, are found by index, and are reused
//! with a new generation.
//!
//! `api/engine.rs` takes slots for new variables. It also releases retired ones, by a deferred call
//! that may run on any thread. `engine/complete.rs` retires the slot of a deleted variable, on the
//! thread that ends the deletion. `engine/replay/private.rs` retires those of private variables, on
//! the thread that drops the last reference to the graph. Threads that push or end operations add
//! commons. So any thread takes, retires and reads slots, without a lock. `pool/memory.rs` owns the
//! table; the thread that drops that drops the marks. What is in a slot is in `variable/slot.rs`.

use crate::operation::access::Ticket;
use crate::sync::{AtomicU32, AtomicU64, Ordering::*};
use crate::tickets::common::Common;
use crate::tickets::hold::{Holds, VariableHold};
use crate::tickets::run::{Progress, Start, Variables};
use crate::tickets::word::Word;
use crate::util::bucket_array::{BucketArray, Vacant, FIRST};
use crate::util::work_counter;
use crate::variable::slot::Slot;
use std::alloc::{handle_alloc_error, Layout};

const NONE: u32 = u32::MAX;

/// The slots of one engine.
pub struct Table {
    slots: BucketArray<Slot>,
    /// What variables need to which several threads push, by the same index (`tickets/common.rs`).
    commons: BucketArray<Common>,
    /// The number of slots that were ever handed out.
    used: AtomicU32,
    /// The free list, a stack of slots: the first slot's index in the low half, and in the high
    /// half a number that every change steps, which rules out ABA.
    free: AtomicU64,
    /// The retired list, a stack of the slots of deleted variables that a thread may still be
    /// looking at. It is taken as a whole. Its first slot is in the low half and its last in the
    /// high half, so that it becomes part of the free list in one step.
    retired: AtomicU64,
}

/// Returns the high half of a free list's word, stepped by one.
#[inline]
fn counted(head: u64) -> u64 {
    (head >> 32).wrapping_add(1) << 32
}

impl Variables for Table {
    #[inline]
    fn progress(&self, variable: u32) -> &Progress {
        // SAFETY: the push of every operation of this engine has resolved its variables, so the
        // index comes from this table.
        unsafe { self.at(variable) }.progress()
    }
}

impl Holds for Table {
    fn variable_hold(&self, variable: u32) -> &VariableHold {
        // SAFETY: as in `Table::progress` above.
        unsafe { self.at(variable) }.variable_hold()
    }
}

/// The same variables, for ends of writes that also step the version. Used by `engine/execute.rs`;
/// `engine/complete.rs` steps versions by itself.
pub struct Stepping<'a>(pub &'a Table);

impl Variables for Stepping<'_> {
    #[inline]
    fn progress(&self, variable: u32) -> &Progress {
        self.0.progress(variable)
    }

    #[inline]
    fn count_write(&self, variable: u32, before: u32) {
        // SAFETY: as in `Table::progress` above.
        let slot = unsafe { self.0.at(variable) };
        slot.step_version();
        slot.progress().count_write(before);
    }
}

/// A list of retired slots, linked from the first to the last.
#[derive(Clone, Copy)]
pub struct Retired {
    first: u32,
    last: u32,
}

impl Retired {
    fn of(word: u64) -> Retired {
        Retired { first: word as u32, last: (word >> 32) as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.last) << 32 | u64::from(self.first)
    }
}

// SAFETY: a `Common` of zeros is that of a variable that is not common; it needs no destructor.
unsafe impl Vacant for Common {
    const NAME: &'static str = "common";

    fn vacant() -> Common {
        Common::default()
    }
}

// SAFETY: a slot of zeros belongs to no variable, and has no version and no mark. It needs no
// destructor, as the table drops the marks itself.
unsafe impl Vacant for Slot {
    const NAME: &'static str = "variable";

    fn vacant() -> Slot {
        Slot::unused()
    }
}

impl Table {
    pub fn new() -> Table {
        Table {
            slots: BucketArray::new(),
            commons: BucketArray::new(),
            used: AtomicU32::new(0),
            free: AtomicU64::new(u64::from(NONE)),
            retired: AtomicU64::new(u64::from(NONE)),
        }
    }

    /// Returns the slot of `index`, if its bucket was made.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index)
    }

    /// Returns the slot of an index that was handed out.
    ///
    /// # Safety
    /// The index comes from this table.
    #[inline]
    pub unsafe fn at(&self, index: u32) -> &Slot {
        // SAFETY: the contract is the same.
        unsafe { self.slots.at(index) }
    }

    /// Returns what a variable needs to which several threads push. `None` if no variable of the
    /// same bucket has needed it yet; otherwise it may be vacant.
    #[inline]
    pub fn common(&self, index: u32) -> Option<&Common> {
        self.commons.get(index)
    }

    /// Returns the same as [`Table::common`], but makes the bucket if it is missing.
    pub fn add_common(&self, index: u32) -> &Common {
        // There are no more of them than slots, and the slot of this index was handed out.
        self.commons.get_or_add(index).unwrap_or_else(|| handle_alloc_error(Layout::new::<Common>()))
    }

    /// Returns the generation that the slot has now.
    ///
    /// # Safety
    /// The contract is that of [`Table::at`].
    pub unsafe fn generation(&self, index: u32) -> u32 {
        // SAFETY: by the contract. Relaxed: the caller runs an operation on the slot's variable, so
        // its push came after the variable's birth.
        unsafe { self.at(index) }.generation.load(Relaxed)
    }

    /// Returns how many slots were ever handed out.
    pub fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Returns a slot for a new variable: a free one, or one that was never used.
    pub fn take(&self) -> &Slot {
        self.pop_free().unwrap_or_else(|| self.extend())
    }

    /// Takes a slot from the free list. `None` if it is empty.
    pub fn pop_free(&self) -> Option<&Slot> {
        let mut head = self.free.load(Acquire);
        loop {
            let index = head as u32;
            if index == NONE {
                return None;
            }
            let slot = self.get(index)?;
            let next = counted(head) | u64::from(slot.next.load(Relaxed));
            // AcqRel: the acquire pairs with the release in `release`, so the slot comes to us as
            // its last user left it. The number in the high half makes the exchange fail if the
            // slot was taken and given back since the load.
            match self.free.compare_exchange(head, next, AcqRel, Acquire) {
                Ok(_) => return Some(slot),
                Err(now) => head = now,
            }
        }
    }

    fn extend(&self) -> &Slot {
        let index = self.used.fetch_add(1, Relaxed);
        // Indices end after half a terabyte of slots.
        let slot = self.slots.get_or_add(index).filter(|_| index < NONE - FIRST);
        let slot = slot.unwrap_or_else(|| handle_alloc_error(Layout::new::<Slot>()));
        slot.set_index(index);
        slot
    }

    /// Makes the slot that of a new variable, and returns its generation. Called by
    /// `api/engine.rs`.
    ///
    /// # Safety
    /// The slot comes from [`Table::take`] or [`Table::pop_free`], and no thread looks at it.
    pub unsafe fn open(&self, slot: &Slot) -> u32 {
        slot.renew();
        if let Some(common) = self.common(slot.index()) {
            // SAFETY: the deletion of the slot's last variable has closed it, and every thread that
            // was pinned then has unpinned since.
            unsafe { common.renew() };
        }
        Table::begin(slot)
    }

    /// Like [`Table::open`], but of a variable on which operations may commute. It is common from
    /// the start, and counting goes on where the slot's last variable has left it.
    ///
    /// # Safety
    /// The contract is that of [`Table::open`].
    pub unsafe fn open_commutative(&self, slot: &Slot) -> u32 {
        slot.renew();
        let common = self.add_common(slot.index());
        // SAFETY: as in `open`.
        unsafe { common.renew() };
        let (writes, reads) = slot.progress().counts();
        common.open(Start { ticket: Ticket { writes, reads }, last: Word::NONE });
        slot.make_commutative();
        Table::begin(slot)
    }

    /// Begins a generation of a slot that was renewed, and returns it.
    #[inline]
    fn begin(slot: &Slot) -> u32 {
        let generation = &slot.generation;
        let next = generation.load(Relaxed).wrapping_add(1);
        // Release: pairs with the acquire in `engine/resolve.rs` and in `engine/push/acquire.rs`,
        // so a thread that finds the generation finds the slot renewed.
        generation.store(next, Release);
        next
    }

    /// Retires the slot of a deleted variable, for [`Table::take_retired`]. Called by
    /// `engine/complete.rs` when the deletion has ended, and by `engine/replay/private.rs` when the
    /// graph of a private variable is gone. A slot whose generations are used up is not used again:
    /// its next generation would be that of its first handles. A slot that a graph has as well is
    /// retired when both have asked for it.
    pub fn retire(&self, slot: &Slot) {
        if slot.is_retired_again() {
            return;
        }
        slot.say_retired();
        slot.set_mark(None);
        // Relaxed: the caller runs the deletion, whose push has stepped the generation, or drops
        // the graph, whose capture has.
        if slot.generation.load(Relaxed) == 0 {
            return;
        }
        let index = slot.index();
        let mut head = self.retired.load(Relaxed);
        loop {
            let Retired { first, last } = Retired::of(head);
            slot.next.store(first, Relaxed);
            let retired = Retired { first: index, last: if first == NONE { index } else { last } };
            // Release: pairs with the acquire in `take_retired`, so the thread that takes the slots
            // finds them closed and linked. ABA is harmless: the word says all that the exchange
            // relies on.
            match self.retired.compare_exchange(head, retired.word(), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all retired slots, `None` if there are none. Another thread may still be looking at
    /// them.
    pub fn take_retired(&self) -> Option<Retired> {
        if self.retired.load(Relaxed) as u32 == NONE {
            return None;
        }
        // Acquire: pairs with the releases of `retire`, which form one release sequence.
        let retired = Retired::of(self.retired.swap(u64::from(NONE), Acquire));
        (retired.first != NONE).then_some(retired)
    }

    /// Makes retired slots free for reuse, in one step, however many there are.
    ///
    /// # Safety
    /// They come from [`Table::take_retired`], are released once, and no thread looks at them any
    /// more.
    pub unsafe fn release(&self, retired: Retired) {
        let Some(last) = self.get(retired.last) else { return };
        work_counter::count(1);
        let mut head = self.free.load(Relaxed);
        loop {
            last.next.store(head as u32, Relaxed);
            let new = counted(head) | u64::from(retired.first);
            // Release: pairs with the acquire in `pop_free`, for the slots as their deletions left
            // them, and for their links. Acquire: keeps the slots that were released before ours.
            match self.free.compare_exchange(head, new, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // The failure mark is the only thing that a slot owns.
        for slot in (0..self.used.load(Acquire)).map_while(|index| self.get(index)) {
            slot.set_mark(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_its_own_place_and_knows_it() {
        let table = Table::new();
        for index in 0..1000 {
            assert_eq!(table.take().index(), index);
        }
        assert!(table.get(1 << 20).is_none());
    }

    #[test]
    fn released_slots_come_back_with_a_new_generation() {
        let table = Table::new();
        let open_one = |_| {
            let slot = table.take();
            // SAFETY: taken just now, and there is one thread.
            (slot.index(), unsafe { table.open(slot) })
        };
        let open = |count: usize| -> Vec<(u32, u32)> { (0..count).map(open_one).collect() };
        let first = open(5);
        for rows in [[0..2, 2..5], [0..4, 4..5], [0..1, 1..5]] {
            // Two rows, so that one is put before the other.
            for row in rows {
                for index in row {
                    let slot = table.get(index).unwrap();
                    slot.generation.fetch_add(1, Relaxed);
                    table.retire(slot);
                }
                let retired = table.take_retired().expect("some were retired");
                // SAFETY: taken just now, and there is one thread.
                unsafe { table.release(retired) };
                assert!(table.take_retired().is_none());
            }
            let mut again = open(5);
            again.sort_unstable();
            assert!(again.iter().zip(&first).all(|(new, old)| new.0 == old.0 && new.1 % 2 == 1 && new.1 > old.1));
        }
        assert_eq!(open(1)[0].0, 5, "no slot was lost or doubled");
    }
}
