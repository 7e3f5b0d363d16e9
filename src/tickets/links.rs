//! What an operation on common variables has beside its tickets: how far it is linked, what comes
//! behind each of its accesses, and how long its block is needed. It lies behind the tickets, where
//! only such operations have it.

use crate::operation::access::Access;
use crate::operation::block::Block;
use crate::operation::layout::{CLOSURE_ALIGN, LINKS};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, MODELLED};
use crate::tickets::word::Word;
use std::mem::{align_of, size_of};
use std::ptr::null_mut;

/// The head. Behind it come the successors: an `AtomicPtr<Access>` for each access that is linked.
#[repr(C, align(8))]
pub struct Links {
    /// Accesses that helpers know to be linked. What is linked already may be more.
    linked: AtomicU32,
    /// Whether all are, and the operation was given to those who run it. A word of its own, so that
    /// the pusher notes all of it by one store.
    done: AtomicU32,
    /// Why the block is not free: the operation has not ended, and for each access that is linked,
    /// a tail has not left it.
    uses: AtomicU32,
    /// Accesses that are linked: the first ones.
    count: u32,
}

const _: () = assert!(size_of::<Links>() == LINKS || MODELLED && size_of::<Links>() < LINKS);
// Behind any number of words, and before as many successors.
const _: () = assert!(align_of::<Links>() <= CLOSURE_ALIGN);
const _: () = assert!(size_of::<AtomicU64>() % align_of::<Links>() == 0);
const _: () = assert!(size_of::<Links>() % align_of::<AtomicPtr<Access>>() == 0);
const _: () = assert!(size_of::<AtomicPtr<Access>>() <= size_of::<AtomicU64>());

impl Links {
    /// Those of an operation that nobody knows yet, whose first `count` accesses will be linked.
    ///
    /// # Safety
    /// The block is ours and has room for them behind its tickets; its header is renewed.
    pub unsafe fn renew(block: *mut Block, count: u32) {
        // SAFETY: ours, with room.
        unsafe {
            Block::set_linked(block);
            Links::of(block).cast_mut().write(Links {
                linked: AtomicU32::new(0),
                done: AtomicU32::new(0),
                uses: AtomicU32::new(count + 1),
                count,
            });
            for index in 0..count {
                Block::before(block, index).write(AtomicU64::new(Word::NONE.0));
                Links::next(block, index).cast_mut().write(AtomicPtr::new(null_mut()));
            }
        }
    }

    /// The links of an operation that has some.
    #[inline]
    unsafe fn of(block: *mut Block) -> *const Links {
        // SAFETY: a place inside the block.
        unsafe { Block::links(block).cast() }
    }

    /// Where the access behind access `index` is noted.
    ///
    /// # Safety
    /// The operation has links, and more than `index`; the block is held.
    #[inline]
    pub unsafe fn next(block: *mut Block, index: u32) -> *const AtomicPtr<Access> {
        // SAFETY: a place inside the block.
        unsafe { Links::of(block).add(1).cast::<AtomicPtr<Access>>().add(index as usize) }
    }

    /// Accesses that are linked.
    ///
    /// # Safety
    /// As [`Links::next`].
    #[inline]
    pub unsafe fn count(block: *mut Block) -> u32 {
        // SAFETY: held.
        unsafe { (*Links::of(block)).count }
    }

    /// Whether all accesses are linked and the operation was given to those who run it.
    ///
    /// # Safety
    /// As [`Links::next`].
    #[inline]
    pub unsafe fn is_done(block: *mut Block) -> bool {
        // SAFETY: held. Acquire: the tickets, for a pusher that others have helped.
        unsafe { (*Links::of(block)).done.load(Acquire) != 0 }
    }

    /// Notes that.
    ///
    /// # Safety
    /// As [`Links::next`].
    #[inline]
    pub unsafe fn set_done(block: *mut Block) {
        // SAFETY: held. Release: see `is_done`.
        unsafe { (*Links::of(block)).done.store(1, Release) }
    }

    /// How many accesses are known to be linked.
    ///
    /// # Safety
    /// As [`Links::next`].
    #[inline]
    pub unsafe fn progress(block: *mut Block) -> u32 {
        // SAFETY: held.
        unsafe {
            if Links::is_done(block) {
                return Links::count(block);
            }
            // Acquire: the tickets up to there, for who logs the operation.
            (*Links::of(block)).linked.load(Acquire)
        }
    }

    /// Notes that access `index` is linked.
    ///
    /// # Safety
    /// As [`Links::next`].
    pub unsafe fn advance(block: *mut Block, index: u32) {
        // SAFETY: held. A store, though a helper that is late may take back what others have noted:
        // who links an access again finds it at the tail, which stays there until the operation is
        // done. Release: see `progress`.
        unsafe { (*Links::of(block)).linked.store(index + 1, Release) }
    }

    /// Notes that the variable of access `index` was deleted before it was linked: it follows
    /// itself. Says whether the caller was the first.
    ///
    /// # Safety
    /// As [`Links::next`].
    pub unsafe fn make_void(block: *mut Block, index: u32) -> bool {
        // SAFETY: held.
        unsafe {
            // Relaxed (both): who runs the operation has it from somebody who has been here, or has
            // seen that somebody was: `advance`, `set_done`.
            Block::set_voided(block);
            let this = Block::access(block, index);
            (*Links::next(block, index)).compare_exchange(null_mut(), this, Relaxed, Relaxed).is_ok()
        }
    }

    /// Whether [`Links::make_void`] was called, of an operation that is in a log.
    ///
    /// # Safety
    /// The operation is the caller's, and has links.
    pub unsafe fn are_void(block: *mut Block, index: u32) -> bool {
        // SAFETY: ours.
        unsafe {
            index < Links::count(block) && (*Links::next(block, index)).load(Relaxed) == Block::access(block, index)
        }
    }

    /// One use of the block is over; says whether it was the last.
    ///
    /// # Safety
    /// As [`Links::next`]; the caller owes this use.
    pub unsafe fn release(block: *mut Block) -> bool {
        // Release: what was done with the block; acquire: for who uses it again.
        // SAFETY: held by the use that ends.
        let uses = unsafe { (*Links::of(block)).uses.fetch_sub(1, AcqRel) };
        assert!(!MODELLED || uses > 0, "a use of a block ended twice");
        uses == 1
    }
}
