//! What a thread pushes with: its record, its ring of blocks, its logs. They
//! are its cache's, so that the next thread that has the cache goes on with them.

use crate::operation::block::Block;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::journals::Journal;
use crate::tickets::owner::{Pusher, Record};
use crate::tickets::ring::{self, NextBlock};
use crate::tickets::word::{Word, TAKEN};

impl ThreadContext {
    /// What the thread pushes with. Nothing of the user's may run while it is there.
    #[inline]
    pub fn pusher(&self) -> Pusher<'_> {
        let mut record = self.cache().record.get();
        if record.is_null() {
            record = self.new_record();
        }
        // SAFETY: records live as long as the memory. One thread at a time has a cache, and so its
        // record; each comes after the one before.
        unsafe { (*record).pusher() }
    }

    /// Gives the thread another record: the one that it has, if any, is used up.
    #[cold]
    pub fn new_record(&self) -> *const Record {
        let record: *const Record = self.memory.records.add(Record::new);
        self.cache().record.set(record);
        record
    }

    /// The thread's journal.
    #[inline]
    pub fn journal<'a>(&self, make: impl FnOnce() -> &'a Journal) -> &'a Journal {
        let cache = self.cache();
        if cache.journal.get().is_null() {
            cache.journal.set(make());
        }
        // SAFETY: journals live as long as their group, of which an engine has one that logs.
        unsafe { &*cache.journal.get() }
    }

    /// A free block with room for so many bytes of `class`, and the tag of its use; its node is
    /// new.
    #[inline]
    pub fn allocate_from_ring(&self, count: u32, class: u8) -> (*mut Block, u64) {
        let cache = self.cache();
        // SAFETY: the ring is this thread's. The caller holds no address from a tail.
        unsafe {
            let ring = &mut *cache.ring.get();
            let next = if class <= ring::CLASS { ring.next(2 + usize::from(class)) } else { NextBlock::Full };
            let (block, tag, ringed) = match next {
                NextBlock::Block(block, tag) => (block, tag, true),
                NextBlock::Grow => {
                    let block = self.allocate(ring::CLASS);
                    (block, ring.add(block), true)
                }
                NextBlock::Full => {
                    let block = self.allocate(class);
                    let tag = Word((*Block::word(block)).load(Relaxed)).tag().wrapping_add(1);
                    (block, tag, false)
                }
            };
            Block::renew(block, count, ringed);
            (block, tag)
        }
    }

    /// A reference for an operation that runs inside its push: others may park on its word, which
    /// is taken. All else of the block is unused.
    ///
    /// As long as nobody is given it, it serves one operation after the other. That it then stands
    /// beside variables as their last write does no harm: who finds it there finds that all writes
    /// are counted, and does not park.
    ///
    /// # Safety
    /// As [`ThreadContext::allocate`].
    #[inline]
    pub unsafe fn take_word(&self) -> Word {
        let kept = self.cache().kept.replace(Word::NONE);
        if kept == Word::NONE {
            // SAFETY: passed on.
            unsafe { self.lay_in_word() }
        } else {
            kept
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn lay_in_word(&self) -> Word {
        // SAFETY: passed on. The block is ours.
        unsafe {
            let block = self.allocate(0);
            // It has no links, whatever it was used for before.
            Block::renew(block, 0, false);
            Block::set_inside(block);
            ThreadContext::renew_word(block)
        }
    }

    /// Another reference to the block.
    ///
    /// # Safety
    /// The block is the caller's, and nobody parks there.
    pub unsafe fn renew_word(block: *mut Block) -> Word {
        // SAFETY: blocks stay blocks.
        let word = unsafe { &*Block::word(block) };
        let tag = Word(word.load(Relaxed)).tag().wrapping_add(1);
        // Release: as for what is enlisted, though there is nothing else to find.
        word.store(Word::fresh(tag, TAKEN).0, Release);
        Word::refers(block, tag)
    }

    /// Keeps such a reference for the next operation.
    ///
    /// # Safety
    /// It came from one of these functions, and nobody was given it.
    #[inline(always)]
    pub unsafe fn keep_word(&self, word: Word) {
        let other = self.cache().kept.replace(word);
        if other != Word::NONE {
            // SAFETY: an operation that was pushed from inside has left it.
            unsafe { self.retire_word(other) };
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn retire_word(&self, word: Word) {
        // SAFETY: the block is ours, and nobody was given the reference.
        unsafe { self.retire(word.block()) };
    }
}
