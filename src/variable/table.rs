//! The table of variables: slots that never move, found by index, reused with a new generation.

use crate::sync::{AtomicU32, AtomicU64, Ordering::*};
use crate::tickets::common::Common;
use crate::tickets::run::{Progress, Variables};
use crate::util::bucket_array::{BucketArray, Vacant, FIRST};
use crate::util::work_counter;
use crate::variable::slot::Slot;
use std::alloc::{handle_alloc_error, Layout};

const NONE: u32 = u32::MAX;

/// The slots of one engine.
pub struct Table {
    slots: BucketArray<Slot>,
    /// What variables need that several threads push to.
    commons: BucketArray<Common>,
    /// Slots ever handed out.
    used: AtomicU32,
    /// Slots free for reuse: index in the low half, a count that rules out ABA in the high half.
    free: AtomicU64,
    /// Slots of deleted variables that a thread may still be looking at: a stack that is taken
    /// whole. Its first slot is in the low half, its last in the high half, so that it becomes part
    /// of the free list in one step.
    retired: AtomicU64,
}

/// The count of a free list's word, one further, in its half.
#[inline]
fn counted(head: u64) -> u64 {
    (head >> 32).wrapping_add(1) << 32
}

impl Variables for Table {
    #[inline]
    fn progress(&self, variable: u32) -> &Progress {
        // SAFETY: the push of every operation of this engine has resolved its variables.
        unsafe { self.at(variable) }.progress()
    }
}

/// The variables, of which a write steps the version with its end.
pub struct Stepping<'a>(pub &'a Table);

impl Variables for Stepping<'_> {
    #[inline]
    fn progress(&self, variable: u32) -> &Progress {
        self.0.progress(variable)
    }

    #[inline]
    fn count_write(&self, variable: u32, before: u32) {
        // SAFETY: as there.
        let slot = unsafe { self.0.at(variable) };
        slot.step_version();
        slot.progress().count_write(before);
    }
}

/// Slots of deleted variables, linked from the first to the last.
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

// SAFETY: zeros are a variable that is not common; it needs no destructor.
unsafe impl Vacant for Common {
    const NAME: &'static str = "common";

    fn vacant() -> Common {
        Common::default()
    }
}

// SAFETY: a slot of zeros is one of no variable, without version and mark; the table drops marks
// itself.
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

    /// The slot of `index`, if there ever was one.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index)
    }

    /// The slot of an index that was given out.
    ///
    /// # Safety
    /// The index comes from this table.
    #[inline]
    pub unsafe fn at(&self, index: u32) -> &Slot {
        // SAFETY: passed on.
        unsafe { self.slots.at(index) }
    }

    /// What a variable needs that several threads push to; none if there is none such near it.
    #[inline]
    pub fn common(&self, index: u32) -> Option<&Common> {
        self.commons.get(index)
    }

    /// The same, which is made if need be.
    pub fn add_common(&self, index: u32) -> &Common {
        // No more of them than of slots.
        self.commons.get_or_add(index).unwrap_or_else(|| handle_alloc_error(Layout::new::<Common>()))
    }

    /// The generation that the slot has now.
    ///
    /// # Safety
    /// As [`Table::at`].
    pub unsafe fn generation(&self, index: u32) -> u32 {
        // SAFETY: passed on. Relaxed: who asks runs an operation on the slot's variable, and so
        // came after its birth.
        unsafe { self.at(index) }.generation.load(Relaxed)
    }

    /// A slot for a new variable: a free one, or one that was never used.
    pub fn take(&self) -> &Slot {
        self.pop_free().unwrap_or_else(|| self.extend())
    }

    /// A slot that was used before.
    pub fn pop_free(&self) -> Option<&Slot> {
        let mut head = self.free.load(Acquire);
        loop {
            let index = head as u32;
            if index == NONE {
                return None;
            }
            let slot = self.get(index)?;
            let next = counted(head) | u64::from(slot.next.load(Relaxed));
            // AcqRel: the slot comes to us as its last user left it. The count in the high half
            // makes the exchange fail if the slot was taken and given back since the load.
            match self.free.compare_exchange(head, next, AcqRel, Acquire) {
                Ok(_) => return Some(slot),
                Err(now) => head = now,
            }
        }
    }

    fn extend(&self) -> &Slot {
        let index = self.used.fetch_add(1, Relaxed);
        // Half a terabyte of slots later there is none.
        let slot = self.slots.get_or_add(index).filter(|_| index < NONE - FIRST);
        let slot = slot.unwrap_or_else(|| handle_alloc_error(Layout::new::<Slot>()));
        slot.set_index(index);
        slot
    }

    /// Makes the slot that of a new variable, and returns its generation.
    ///
    /// # Safety
    /// The slot comes from [`Table::take`] and no thread looks at it.
    pub unsafe fn open(&self, slot: &Slot) -> u32 {
        slot.renew();
        if let Some(common) = self.common(slot.index()) {
            // SAFETY: its deletion has closed it, and all threads are gone that were pinned then.
            unsafe { common.renew() };
        }
        let generation = &slot.generation;
        let next = generation.load(Relaxed).wrapping_add(1);
        // Release: who finds the generation finds the rest.
        generation.store(next, Release);
        next
    }

    /// Notes that the slot's variable is gone, for [`Table::take_retired`]. A slot whose
    /// generations are used up is not used again: in the next one the first handles of all would be
    /// valid again.
    pub fn retire(&self, slot: &Slot) {
        slot.set_mark(None);
        // Relaxed: the deletion that runs has stepped it in its push.
        if slot.generation.load(Relaxed) == 0 {
            return;
        }
        let index = slot.index();
        let mut head = self.retired.load(Relaxed);
        loop {
            let Retired { first, last } = Retired::of(head);
            slot.next.store(first, Relaxed);
            let retired = Retired { first: index, last: if first == NONE { index } else { last } };
            // Release: who takes the slots finds them closed and linked. ABA does no harm: the word
            // says all that the exchange relies on.
            match self.retired.compare_exchange(head, retired.word(), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all retired slots.
    pub fn take_retired(&self) -> Option<Retired> {
        if self.retired.load(Relaxed) as u32 == NONE {
            return None;
        }
        // Acquire: pairs with the releases of `retire`, which form one release sequence.
        let retired = Retired::of(self.retired.swap(u64::from(NONE), Acquire));
        (retired.first != NONE).then_some(retired)
    }

    /// Makes retired slots free for reuse: one step, however many there are.
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
            // Release: the slots as their deletions left them, and their links. Acquire: keeps what
            // was released before us.
            match self.free.compare_exchange(head, new, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // The mark is the only thing that a slot owns.
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
