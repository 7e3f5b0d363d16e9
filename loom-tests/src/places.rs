//! One pusher that needs no other: it counts the uses of each variable, and gives operations their
//! tickets.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering::*};
use seriatim::internals::access::Ticket;
use seriatim::internals::access::{Access, Mode};
use seriatim::internals::block::Block;
use seriatim::internals::tickets::run::Start;
use seriatim::internals::tickets::word::Word;
#[cfg(shuttle)]
use shuttle::sync::atomic::{AtomicU64, Ordering::*};
use std::collections::HashMap;

/// What was pushed to each variable.
#[derive(Default)]
pub struct Places(HashMap<u32, Start>);

impl Places {
    /// Nothing was pushed.
    pub fn new() -> Places {
        Places::default()
    }

    /// Gives the accesses of an operation their tickets, and says at which stage it is.
    ///
    /// # Safety
    /// The operation is fresh and the caller's: accesses and closure are written.
    pub unsafe fn enlist(&mut self, block: *mut Block, tag: u64, stage: u64) -> Word {
        let this = Word::refers(block, tag);
        // SAFETY: no other thread knows it yet.
        unsafe {
            for index in 0..(*block).count {
                let access = Block::access(block, index);
                let (variable, mode) = ((*access).variable, (*access).mode());
                let none = Start { ticket: Ticket { writes: 0, reads: 0 }, last: Word::NONE };
                let place = self.0.entry(variable).or_insert(none);
                access.write(Access::new(variable, index, mode, place.ticket));
                Block::before(block, index).write(AtomicU64::new(place.last.0));
                if mode == Mode::Read {
                    place.ticket.reads += 1;
                } else {
                    place.ticket.writes += 1;
                    place.last = this;
                }
            }
            // Release: a thread that parks on it or takes it finds the rest.
            (*Block::word(block)).store(Word::fresh(tag, stage).0, Release);
        }
        this
    }
}
