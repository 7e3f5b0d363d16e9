//! The table of variables: slots that never move, found by index, reused with a new generation.

use super::chain::Chain;
use crate::error::Failure;
use crate::mutants::mutate;
use crate::sync::{lay_out, AtomicPtr, AtomicU32, AtomicU64, Ordering::*, MODELLED};
use std::alloc::{alloc, dealloc, handle_alloc_error, Layout};
use std::ptr::null_mut;
use std::sync::Arc;

/// Slots of the first chunk; each further chunk has twice as many.
const FIRST: u32 = if MODELLED { 2 } else { 64 };
const CHUNKS: usize = 26;
const NONE: u32 = u32::MAX;

/// Everything about one variable.
#[repr(C, align(128))]
pub struct Slot {
    /// First, so that an access finds its slot by its chain.
    pub chain: Chain,
    /// Writes completed. Stored by the running write only.
    version: AtomicU64,
    /// The failure that the last write left, an owned `Arc`. Changed by running writes only, read by running accesses.
    mark: AtomicPtr<Failure>,
    /// The next slot of the free or the retired list.
    next: AtomicU32,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(std::mem::size_of::<Slot>() == 128);
const _: () = assert!(std::mem::offset_of!(Slot, chain) == 0);

impl Slot {
    /// The slot that a chain belongs to.
    ///
    /// # Safety
    /// `chain` is the chain of a slot of a living table.
    #[inline]
    pub unsafe fn of<'a>(chain: *const Chain) -> &'a Slot {
        // SAFETY: the chain is the first field, and the pointer was derived from the slot. Slots are shared: every field is
        // atomic or never written after the chunk is made.
        unsafe { &*chain.cast::<Slot>() }
    }

    /// The number of writes completed.
    pub fn version(&self) -> u64 {
        // Acquire: who sees a version also sees what was written up to it.
        self.version.load(Acquire)
    }

    /// Steps the version. Only for the running write, which has the variable to itself: no read-modify-write is needed.
    #[inline]
    pub fn step_version(&self) {
        self.version.store(self.version.load(Relaxed) + 1, mutate!("version-stored-relaxed": Relaxed, Release));
    }

    /// The failure that the variable is marked with, taken or not. Only for an access that runs: no write can replace it meanwhile.
    #[inline]
    pub fn mark(&self) -> Option<Arc<Failure>> {
        let mark = self.mark.load(Acquire);
        if mark.is_null() {
            return None;
        }
        // SAFETY: the slot owns one count, which only a running write gives up, and we run.
        unsafe {
            Arc::increment_strong_count(mark);
            Some(Arc::from_raw(mark))
        }
    }

    /// Whether the variable carries any mark, live or taken.
    #[inline]
    pub fn is_marked(&self) -> bool {
        !self.mark.load(Acquire).is_null()
    }

    /// Replaces the mark. Only for the running write.
    pub fn set_mark(&self, failure: Option<Arc<Failure>>) {
        let new = failure.map_or(null_mut(), |failure| Arc::into_raw(failure).cast_mut());
        let old = self.mark.swap(new, AcqRel);
        if !old.is_null() {
            // SAFETY: the slot owned one count of it, and the swap made it ours.
            drop(unsafe { Arc::from_raw(old) });
        }
    }
}

/// The slots of one engine.
pub struct Table {
    chunks: [AtomicPtr<Slot>; CHUNKS],
    /// Slots ever handed out.
    used: AtomicU32,
    /// Slots free for reuse: index in the low half, a count that rules out ABA in the high half.
    free: AtomicU64,
    /// Slots of deleted variables that a thread may still be looking at: a stack that is taken whole.
    retired: AtomicU32,
}

fn place(index: u32) -> (usize, usize) {
    let number = u64::from(index) + u64::from(FIRST);
    let chunk = number.ilog2() - FIRST.ilog2();
    (chunk as usize, (number - (u64::from(FIRST) << chunk)) as usize)
}

fn layout(chunk: usize) -> Layout {
    // The largest chunk has 2^31 slots of 128 bytes, which fits an isize.
    Layout::array::<Slot>((FIRST as usize) << chunk).expect("a chunk of slots fits the address space")
}

impl Table {
    pub fn new() -> Table {
        Table {
            chunks: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
            used: AtomicU32::new(0),
            free: AtomicU64::new(u64::from(NONE)),
            retired: AtomicU32::new(NONE),
        }
    }

    /// The slot of `index`, if there ever was one.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Slot> {
        let (chunk, offset) = place(index);
        // Acquire: pairs with the release that published the chunk, after its slots were written.
        let slots = self.chunks.get(chunk)?.load(Acquire);
        if slots.is_null() {
            return None;
        }
        // SAFETY: `place` keeps the offset inside the chunk, and chunks live as long as the table.
        Some(unsafe { &*slots.add(offset) })
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
            let next = (head >> 32).wrapping_add(1) << 32 | u64::from(slot.next.load(Relaxed));
            // AcqRel: the slot comes to us as its last user left it. The count in the high half makes the exchange fail if the
            // slot was taken and given back since the load.
            match self.free.compare_exchange(head, next, AcqRel, Acquire) {
                Ok(_) => return Some(slot),
                Err(now) => head = now,
            }
        }
    }

    fn extend(&self) -> &Slot {
        let index = self.used.fetch_add(1, Relaxed);
        let (chunk, offset) = place(index);
        if index >= NONE - FIRST || chunk >= CHUNKS {
            // Half a terabyte of slots later.
            handle_alloc_error(Layout::new::<Slot>());
        }
        let mut slots = self.chunks[chunk].load(Acquire);
        if slots.is_null() {
            slots = self.add_chunk(chunk);
        }
        // SAFETY: as in `get`.
        unsafe { &*slots.add(offset) }
    }

    #[cold]
    fn add_chunk(&self, chunk: usize) -> *mut Slot {
        let layout = layout(chunk);
        // SAFETY: the layout is not empty.
        let slots = unsafe { alloc(layout) }.cast::<Slot>();
        if slots.is_null() {
            handle_alloc_error(layout);
        }
        lay_out(slots, layout.size(), std::mem::size_of::<Slot>(), "variable");
        let count = FIRST << chunk;
        for offset in 0..count {
            // SAFETY: inside the fresh allocation.
            unsafe {
                slots.add(offset as usize).write(Slot {
                    chain: Chain::closed((count - FIRST).wrapping_add(offset)),
                    version: AtomicU64::new(0),
                    mark: AtomicPtr::new(null_mut()),
                    next: AtomicU32::new(NONE),
                });
            }
        }
        // Release: the slots are written before they can be found.
        match self.chunks[chunk].compare_exchange(null_mut(), slots, AcqRel, Acquire) {
            Ok(_) => slots,
            Err(other) => {
                // Another thread was quicker. SAFETY: ours, and nobody has seen it.
                unsafe { dealloc(slots.cast(), layout) };
                other
            }
        }
    }

    /// Makes the slot that of a new variable, and returns its generation.
    ///
    /// # Safety
    /// The slot comes from [`Table::take`] and no thread looks at it.
    pub unsafe fn open(slot: &Slot) -> u32 {
        slot.version.store(0, Relaxed);
        // SAFETY: slots do not move, and this one is nobody else's.
        unsafe { Chain::open(&slot.chain) };
        let generation = &slot.chain.tag.generation;
        let next = mutate!("generation-used-again": generation.load(Relaxed).wrapping_sub(1) | 1, generation.load(Relaxed).wrapping_add(1));
        // Release: who finds the generation finds the chain open.
        generation.store(next, Release);
        next
    }

    /// Notes that the slot's variable is gone, for [`Table::take_retired`].
    pub fn retire(&self, slot: &Slot) {
        slot.set_mark(None);
        let mut head = self.retired.load(Relaxed);
        loop {
            slot.next.store(head, Relaxed);
            match self.retired.compare_exchange(head, slot.chain.tag.index, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all retired slots, as the index of the first.
    pub fn take_retired(&self) -> Option<u32> {
        if self.retired.load(Relaxed) == NONE {
            return None;
        }
        // Acquire: pairs with the releases of `retire`.
        let first = self.retired.swap(NONE, Acquire);
        (first != NONE).then_some(first)
    }

    /// Makes the slots from `first` on free for reuse.
    ///
    /// # Safety
    /// They come from [`Table::take_retired`], and no thread looks at them any more.
    pub unsafe fn release(&self, first: u32) {
        let mut index = first;
        while let Some(slot) = (index != NONE).then(|| self.get(index)).flatten() {
            let following = slot.next.load(Relaxed);
            let mut head = self.free.load(Relaxed);
            loop {
                slot.next.store(head as u32, Relaxed);
                let new = (head >> 32).wrapping_add(1) << 32 | u64::from(index);
                match self.free.compare_exchange(head, new, AcqRel, Relaxed) {
                    Ok(_) => break,
                    Err(now) => head = now,
                }
            }
            index = following;
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for (chunk, slots) in self.chunks.iter().enumerate() {
            let slots = slots.load(Acquire);
            if slots.is_null() {
                continue;
            }
            for offset in 0..(FIRST as usize) << chunk {
                // SAFETY: inside the chunk. The mark is the only thing that a slot owns.
                unsafe { (*slots.add(offset)).set_mark(None) };
            }
            // SAFETY: allocated by `add_chunk` with the same layout.
            unsafe { dealloc(slots.cast(), layout(chunk)) };
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
            assert_eq!(table.take().chain.tag.index, index);
        }
        assert_eq!(place(63), (0, 63));
        assert_eq!(place(64), (1, 0));
        assert_eq!(place(191), (1, 127));
        assert_eq!(place(192), (2, 0));
        assert!(table.get(1 << 20).is_none());
    }

    #[test]
    fn released_slots_come_back_with_a_new_generation() {
        let table = Table::new();
        let slot = table.take();
        // SAFETY: one thread.
        let first = unsafe { Table::open(slot) };
        assert_eq!(first % 2, 1);
        slot.chain.tag.generation.store(first + 1, Relaxed);
        table.retire(slot);
        let retired = table.take_retired().expect("one slot was retired");
        // SAFETY: one thread.
        unsafe { table.release(retired) };
        let again = table.take();
        assert_eq!(again.chain.tag.index, 0);
        // SAFETY: one thread.
        assert_eq!(unsafe { Table::open(again) }, first + 2);
    }
}
