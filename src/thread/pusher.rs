//! A thread's side of pushing: its record, its rings of blocks, its journal. They belong to its
//! cache, so the next thread that adopts the cache goes on with them.
//!
//! Used by the push code (`engine/push/`, `engine/inline/fast_path.rs`), and for `pusher` by the
//! waits and by `api/prepare.rs`, on the context's own thread. The cache (`pool/thread_cache.rs`)
//! has the fields. Other threads read the record and close its eras, by the protocol in
//! `tickets/owner/`, and read the journal's logs (`tickets/journals.rs`). The rings and the kept
//! word are the thread's alone.

use crate::operation::block::Block;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::journals::Journal;
use crate::tickets::owner::{Pusher, Record};
use crate::tickets::ring::NextBlock;
use crate::tickets::word::{Word, TAKEN};

impl ThreadContext {
    /// The thread's [`Pusher`]. No user code may run while it is there.
    #[inline]
    pub fn pusher(&self) -> Pusher<'_> {
        let mut record = self.cache().record.get();
        if record.is_null() {
            record = self.new_record();
        }
        // SAFETY: records live as long as the memory. One thread at a time has a cache, and so its
        // record, and each owner of the cache comes after the one before.
        unsafe { (*record).pusher() }
    }

    /// Gives the thread a new record. The record that it has, if any, is used up.
    #[cold]
    pub fn new_record(&self) -> *const Record {
        let record: *const Record = self.memory.records.add(Record::new);
        self.cache().record.set(record);
        record
    }

    /// The thread's journal, made by `make` if there is none.
    #[inline]
    pub fn journal<'a>(&self, make: impl FnOnce() -> &'a Journal) -> &'a Journal {
        let cache = self.cache();
        if cache.journal.get().is_null() {
            cache.journal.set(make());
        }
        // SAFETY: journals live as long as their group. An engine has only one group that logs.
        unsafe { &*cache.journal.get() }
    }

    /// Returns a free block of `class`, renewed for `count` accesses, and the tag of this use.
    /// `class` is the largest usual one at most. The block comes from a ring of the thread, if the
    /// ring has one.
    #[inline(always)]
    pub fn allocate_from_ring(&self, count: u32, class: u8) -> (*mut Block, u64) {
        let cache = self.cache();
        // SAFETY: the ring is this thread's, and the caller holds no address that it read from a
        // tail.
        unsafe {
            let ring = (*cache.rings.get()).of(class);
            let (block, tag, ringed) = match ring.next(2 + usize::from(class)) {
                NextBlock::Block(block, tag) => (block, tag, true),
                NextBlock::Grow => {
                    let block = self.allocate(ring.class);
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

    /// A reference for an operation that runs inside its push. Other operations may park on its
    /// word, which is taken. The rest of the block is unused.
    ///
    /// As long as no other thread is given the reference, it serves one operation after the other.
    /// It may then stand beside variables as their last write, which does no harm: a thread that
    /// finds it there finds that all writes are counted, and does not park.
    ///
    /// # Safety
    /// The caller holds no address that it read from a tail.
    #[inline]
    pub unsafe fn take_word(&self) -> Word {
        let kept = self.cache().kept.replace(Word::NONE);
        if kept == Word::NONE {
            // SAFETY: the caller's contract.
            unsafe { self.lay_in_word() }
        } else {
            kept
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn lay_in_word(&self) -> Word {
        // SAFETY: the caller's contract. The block was just allocated, so it is ours.
        unsafe {
            let block = self.allocate(0);
            // The block starts without links, whatever it was used for before.
            Block::renew(block, 0, false);
            Block::set_inside(block);
            ThreadContext::renew_word(block)
        }
    }

    /// A new reference to the block, with the next tag.
    ///
    /// # Safety
    /// The block is the caller's, and no operation parks there.
    pub unsafe fn renew_word(block: *mut Block) -> Word {
        // SAFETY: the memory of a block stays a block as long as the engine.
        let word = unsafe { &*Block::word(block) };
        let tag = Word(word.load(Relaxed)).tag().wrapping_add(1);
        // Release: the same as for enlisted operations, although there is nothing else here to
        // find.
        word.store(Word::fresh(tag, TAKEN).0, Release);
        Word::refers(block, tag)
    }

    /// Keeps a reference of [`ThreadContext::take_word`] for the next operation.
    ///
    /// # Safety
    /// The reference came from [`ThreadContext::take_word`] or [`ThreadContext::renew_word`], and
    /// no other thread was given it.
    #[inline(always)]
    pub unsafe fn keep_word(&self, word: Word) {
        let other = self.cache().kept.replace(word);
        if other != Word::NONE {
            // SAFETY: the other reference was left by an operation that was pushed from inside this
            // one, and no other thread was given it.
            unsafe { self.retire_word(other) };
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn retire_word(&self, word: Word) {
        // SAFETY: the block is ours, and no other thread was given the reference.
        unsafe { self.retire(word.block()) };
    }
}
