//! The table of variables: slots that never move, found by index, reused with a new generation.

use super::chain::Chain;
use super::home::Home;
use crate::error::{Failure, Stamp};
use crate::mutants::mutate;
use crate::steps;
use crate::sync::{lay_out, AtomicPtr, AtomicU32, AtomicU64, Ordering::*, MODELLED};
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ptr::null_mut;
use std::sync::Arc;

/// Slots of the first chunk; each further chunk has twice as many.
const FIRST: u32 = if MODELLED { 2 } else { 64 };
const CHUNKS: usize = 26;
const NONE: u32 = u32::MAX;
/// The alignment of chunks, as far as the allocator knows: that of `malloc`.
const ALIGN: usize = 16;

/// Everything about one variable: a line for those who push, and one for those who run.
#[repr(C, align(128))]
pub struct Slot {
    pub chain: Chain,
    /// When the last access may be the chain's own again.
    pub home: Home,
    ran: Ran,
}

/// What the operations that have run leave: on a line of its own, so that they do not take the tail's line from those who push.
#[repr(C, align(64))]
struct Ran {
    /// Writes completed. Stored by the running write only.
    version: AtomicU64,
    /// The failure that the last write left, an owned `Arc`. Changed by running writes only, read by running accesses.
    mark: AtomicPtr<Failure>,
    /// The next slot of the free or the retired list.
    next: AtomicU32,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(std::mem::size_of::<Slot>() == 128);

impl Slot {
    /// A slot of no variable.
    fn unused() -> Slot {
        Slot {
            chain: Chain::closed(),
            home: Home::new(),
            ran: Ran { version: AtomicU64::new(0), mark: AtomicPtr::new(null_mut()), next: AtomicU32::new(0) },
        }
    }

    /// The number of writes completed.
    pub fn version(&self) -> u64 {
        // Acquire: who sees a version also sees what was written up to it.
        self.ran.version.load(Acquire)
    }

    /// Steps the version. Only for the running write, which has the variable to itself: no read-modify-write is needed.
    #[inline]
    pub fn step_version(&self) {
        self.ran.version.store(self.ran.version.load(Relaxed) + 1, mutate!("version-stored-relaxed": Relaxed, Release));
    }

    /// As so many steps of the version.
    pub fn advance_version(&self, writes: u64) {
        self.ran.version.store(self.ran.version.load(Relaxed) + writes, Release);
    }

    /// The failure that the variable is marked with, taken or not. Only for an access that runs: no write can replace it meanwhile.
    #[inline]
    pub fn mark(&self) -> Option<Arc<Failure>> {
        let mark = self.ran.mark.load(Acquire);
        if mark.is_null() {
            return None;
        }
        // SAFETY: the slot owns one count, which only a running write gives up, and we run.
        unsafe {
            Arc::increment_strong_count(mark);
            Some(Arc::from_raw(mark))
        }
    }

    /// The failure that keeps what was pushed at `stamp` from running. As [`Slot::mark`].
    #[inline]
    pub fn failure_for(&self, stamp: Stamp) -> Option<Arc<Failure>> {
        self.mark().filter(|failure| failure.concerns(stamp))
    }

    /// Leaves what a write ends with: its failure, or no mark. Only for the running write.
    #[inline]
    pub fn leave(&self, failure: Option<&Arc<Failure>>) {
        if failure.is_some() || self.is_marked() {
            self.set_mark(failure.cloned());
        }
    }

    /// Whether the variable carries any mark, live or taken.
    #[inline]
    pub fn is_marked(&self) -> bool {
        !self.ran.mark.load(Acquire).is_null()
    }

    /// Replaces the mark. Only for the running write.
    pub fn set_mark(&self, failure: Option<Arc<Failure>>) {
        let new = failure.map_or(null_mut(), |failure| Arc::into_raw(failure).cast_mut());
        let old = self.ran.mark.swap(new, AcqRel);
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
    /// Slots of deleted variables that a thread may still be looking at: a stack that is taken whole. Its first slot is in the low half,
    /// its last in the high half, so that it becomes part of the free list in one step.
    retired: AtomicU64,
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

#[inline(always)]
fn place(index: u32) -> (usize, usize) {
    let number = u64::from(index) + u64::from(FIRST);
    let chunk = number.ilog2() - FIRST.ilog2();
    (chunk as usize, (number - (u64::from(FIRST) << chunk)) as usize)
}

/// A chunk with room before it for where its allocation starts: an alignment that the allocator has at hand lets it give out pages that are
/// zero already, however many, and the slots are touched when they are first used.
fn layout(chunk: usize) -> Layout {
    // The largest chunk has 2^31 slots of 128 bytes, which fits an isize.
    let slots = Layout::array::<Slot>((FIRST as usize) << chunk).expect("a chunk of slots fits the address space");
    Layout::from_size_align(slots.size() + std::mem::align_of::<Slot>(), ALIGN).expect("it still does with a slot more")
}

/// Slots that were never used. Outside models they are zeros, which is what a closed chain with an index of 0 is, without version and mark.
fn allocate_chunk(chunk: usize) -> *mut Slot {
    let layout = layout(chunk);
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        handle_alloc_error(layout);
    }
    // Past the start by `ALIGN` to the alignment of a slot, so that there is room for a pointer.
    let gap = std::mem::align_of::<Slot>() - start.addr() % std::mem::align_of::<Slot>();
    // SAFETY: the layout has room for the gap, which is a multiple of `ALIGN`, more than 0, and the chunk behind it.
    unsafe {
        let slots = start.add(gap).cast::<Slot>();
        slots.cast::<*mut u8>().sub(1).write(start);
        if MODELLED {
            (0..(FIRST as usize) << chunk).for_each(|offset| slots.add(offset).write(Slot::unused()));
        }
        slots
    }
}

/// # Safety
/// It comes from [`allocate_chunk`], and nobody uses it again.
unsafe fn free_chunk(slots: *mut Slot, chunk: usize) {
    // SAFETY: the pointer was left there, and belongs to an allocation with this layout.
    unsafe { dealloc(slots.cast::<*mut u8>().sub(1).read(), layout(chunk)) }
}

impl Table {
    pub fn new() -> Table {
        Table {
            chunks: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
            used: AtomicU32::new(0),
            free: AtomicU64::new(u64::from(NONE)),
            retired: AtomicU64::new(u64::from(NONE)),
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

    /// The slot of an index that was given out.
    ///
    /// # Safety
    /// The index comes from this table.
    #[inline]
    pub unsafe fn at(&self, index: u32) -> &Slot {
        let (chunk, offset) = place(index);
        // SAFETY: the slot was given out, so its chunk was published; see `get`. Whoever knows the index has heard of it from there.
        unsafe { &*self.chunks.get_unchecked(chunk).load(Acquire).add(offset) }
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
            let next = (head >> 32).wrapping_add(1) << 32 | u64::from(slot.ran.next.load(Relaxed));
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
        let slot = unsafe { &*slots.add(offset) };
        // Relaxed: nobody asks for it who has not seen a generation that the slot's first variable has released.
        slot.chain.tag.index.store(index, Relaxed);
        slot
    }

    #[cold]
    fn add_chunk(&self, chunk: usize) -> *mut Slot {
        let slots = allocate_chunk(chunk);
        lay_out(
            slots,
            ((FIRST as usize) << chunk) * std::mem::size_of::<Slot>(),
            std::mem::size_of::<Slot>(),
            "variable",
        );
        // Release: the slots are written before they can be found.
        match self.chunks[chunk].compare_exchange(null_mut(), slots, AcqRel, Acquire) {
            Ok(_) => slots,
            Err(other) => {
                // SAFETY: another thread was quicker; this one is ours, and nobody has seen it.
                unsafe { free_chunk(slots, chunk) };
                other
            }
        }
    }

    /// Makes the slot that of a new variable, and returns its generation.
    ///
    /// # Safety
    /// The slot comes from [`Table::take`] and no thread looks at it.
    pub unsafe fn open(slot: &Slot) -> u32 {
        slot.ran.version.store(0, Relaxed);
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
        let index = slot.chain.tag.index();
        let mut head = self.retired.load(Relaxed);
        loop {
            let Retired { first, last } = Retired::of(head);
            slot.ran.next.store(first, Relaxed);
            let retired = Retired { first: index, last: if first == NONE { index } else { last } };
            // Release: who takes the slots finds them closed and linked. ABA does no harm: the word says all that the exchange relies on.
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
    /// They come from [`Table::take_retired`], are released once, and no thread looks at them any more.
    pub unsafe fn release(&self, retired: Retired) {
        let Some(last) = self.get(retired.last) else { return };
        steps::count(1);
        let mut head = self.free.load(Relaxed);
        loop {
            last.ran.next.store(head as u32, Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | u64::from(retired.first);
            // Release: the slots as their deletions left them, and their links. Acquire: keeps what was released before us.
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
        for (chunk, slots) in self.chunks.iter().enumerate() {
            let slots = slots.load(Acquire);
            if !slots.is_null() {
                // SAFETY: made by `add_chunk`, and nobody is left.
                unsafe { free_chunk(slots, chunk) };
            }
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
            assert_eq!(table.take().chain.tag.index(), index);
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
        let open_one = |_| {
            let slot = table.take();
            // SAFETY: taken just now, and there is one thread.
            (slot.chain.tag.index(), unsafe { Table::open(slot) })
        };
        let open = |count: usize| -> Vec<(u32, u32)> { (0..count).map(open_one).collect() };
        let first = open(5);
        for rows in [[0..2, 2..5], [0..4, 4..5], [0..1, 1..5]] {
            // Two rows, so that one is put before the other.
            for row in rows {
                for index in row {
                    let slot = table.get(index).unwrap();
                    slot.chain.tag.generation.fetch_add(1, Relaxed);
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
