//! What a thread of an engine with tickets pushes with: its record, its ring of blocks, its logs. They
//! are its home's, so that the next thread that has the home goes on with them.

use super::local::Local;
use crate::operation::block::Block;
use crate::sync::Ordering::*;
use crate::tickets::journals::Journal;
use crate::tickets::owner::{Pusher, Record};
use crate::tickets::ring::{self, Next};
use crate::tickets::word::Word;
use crate::variable::access::Node;

impl Local {
    /// What the thread pushes with. Nothing of the user's may run while it is there.
    #[inline]
    pub fn pusher(&self) -> Pusher<'_> {
        let mut record = self.home().record.get();
        if record.is_null() {
            record = self.new_record();
        }
        // SAFETY: records live as long as the memory. One thread at a time has a home, and so its record;
        // each comes after the one before.
        unsafe { (*record).pusher() }
    }

    /// Gives the thread another record: the one that it has, if any, is used up.
    #[cold]
    pub fn new_record(&self) -> *const Record {
        let record: *const Record = self.memory.records.add(Record::new);
        self.home().record.set(record);
        record
    }

    /// The thread's journal.
    #[inline]
    pub fn journal<'a>(&self, make: impl FnOnce() -> &'a Journal) -> &'a Journal {
        let home = self.home();
        if home.journal.get().is_null() {
            home.journal.set(make());
        }
        // SAFETY: journals live as long as their group, of which an engine has one that logs.
        unsafe { &*home.journal.get() }
    }

    /// A free block with room for so many bytes of `class`, and the tag of its use; its node is new.
    #[inline]
    pub fn allocate_ticketed(&self, count: u32, class: u8) -> (*mut Block, u64) {
        let home = self.home();
        // SAFETY: the ring is this thread's. The caller holds no address from a tail.
        unsafe {
            let ring = &mut *home.ring.get();
            let next = if class <= ring::CLASS { ring.next(2 + usize::from(class)) } else { Next::Full };
            let (block, tag, ringed) = match next {
                Next::Block(block, tag) => (block, tag, true),
                Next::Grow => {
                    let block = self.allocate(ring::CLASS);
                    (block, ring.add(block), true)
                }
                Next::Full => {
                    let block = self.allocate(class);
                    let tag = Word((*Block::word(block)).load(Relaxed)).tag().wrapping_add(1);
                    (block, tag, false)
                }
            };
            Node::renew(block.cast(), count, ringed);
            (block, tag)
        }
    }
}
