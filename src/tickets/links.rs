//! Links: the extra state of every enlisted operation. For its accesses to common variables it says
//! how far they are linked, and which access comes behind each. For the whole operation it says how
//! long the block is needed.
//!
//! Used by `linking.rs`, `common.rs`, `run.rs`, `phases.rs`, `end_phased.rs` and
//! `src/engine/complete.rs`, and by `src/engine/push/enlist.rs`, which writes it for a new
//! operation. Then any thread may change it, by atomics: one that helps to link the operation, that
//! moves a tail past it, or that ends it. It lies behind the tickets in the block. An operation
//! that a quick push puts into a log has no links. `behind` and `MOST_ACCESSES` in
//! `src/operation/layout.rs` reckon with its size.

use crate::operation::access::Access;
use crate::operation::block::Block;
use crate::operation::layout::{CLOSURE_ALIGN, LINKS};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, MODELLED};
use crate::tickets::word::Word;
use std::mem::{align_of, size_of};
use std::ptr::null_mut;

/// The fixed part. Behind it come the successors: an `AtomicPtr<Access>` for each linked access.
#[repr(C, align(8))]
pub struct Links {
    /// The number of accesses that helpers know to be linked. More may be linked already.
    linked: AtomicU32,
    /// Not 0 once all accesses are linked and the operation was passed to `Commons::logged`. The
    /// pusher sets this field by one store, and need not write `linked`.
    done: AtomicU32,
    /// The block is kept while this is above 0. It counts one until the operation has ended, and
    /// one for each linked access until the tail of its variable no longer points to it.
    uses: AtomicU32,
    /// The number of accesses to link, which are the first ones.
    count: u32,
}

const _: () = assert!(size_of::<Links>() == LINKS || MODELLED && size_of::<Links>() < LINKS);
// The links lie behind any number of words, and before as many successors.
const _: () = assert!(align_of::<Links>() <= CLOSURE_ALIGN);
const _: () = assert!(size_of::<AtomicU64>() % align_of::<Links>() == 0);
const _: () = assert!(size_of::<Links>() % align_of::<AtomicPtr<Access>>() == 0);
const _: () = assert!(size_of::<AtomicPtr<Access>>() <= size_of::<AtomicU64>());

impl Links {
    /// Writes the links of an operation that no other thread knows yet, whose first `count`
    /// accesses will be linked.
    ///
    /// # Safety
    /// The block is the caller's and has room for the links behind its tickets; its header is
    /// renewed.
    pub unsafe fn renew(block: *mut Block, count: u32) {
        // SAFETY: the block is the caller's, with room.
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

    /// The field in which the access behind access `index` is noted.
    ///
    /// # Safety
    /// The operation has links, and more than `index`; the caller keeps the block from being used
    /// again.
    #[inline]
    pub unsafe fn next(block: *mut Block, index: u32) -> *const AtomicPtr<Access> {
        // SAFETY: a place inside the block.
        unsafe { Links::of(block).add(1).cast::<AtomicPtr<Access>>().add(index as usize) }
    }

    /// The number of accesses to link.
    ///
    /// # Safety
    /// As [`Links::next`].
    #[inline]
    pub unsafe fn count(block: *mut Block) -> u32 {
        // SAFETY: held.
        unsafe { (*Links::of(block)).count }
    }

    /// Whether all accesses are linked and the operation was logged.
    ///
    /// # Safety
    /// As [`Links::next`].
    #[inline]
    pub unsafe fn is_done(block: *mut Block) -> bool {
        // SAFETY: held. Acquire: pairs with `set_done`, for the tickets, if helpers have linked the
        // caller's operation.
        unsafe { (*Links::of(block)).done.load(Acquire) != 0 }
    }

    /// Notes that all accesses are linked and the operation was logged.
    ///
    /// # Safety
    /// As [`Links::next`].
    #[inline]
    pub unsafe fn set_done(block: *mut Block) {
        // SAFETY: held. Release: pairs with `is_done`.
        unsafe { (*Links::of(block)).done.store(1, Release) }
    }

    /// The number of accesses that are known to be linked.
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
            // Acquire: pairs with `advance`, for the tickets up to there, which the thread that
            // logs the operation needs.
            (*Links::of(block)).linked.load(Acquire)
        }
    }

    /// Notes that access `index` is linked.
    ///
    /// # Safety
    /// As [`Links::next`].
    pub unsafe fn advance(block: *mut Block, index: u32) {
        // A plain store is enough. A late helper may set the number back: then another thread tries
        // to link an access again, finds it at the tail, where it stays until the operation is
        // done, and does nothing. Release: pairs with `progress`.
        // SAFETY: the caller keeps the block from being used again.
        unsafe { (*Links::of(block)).linked.store(index + 1, Release) }
    }

    /// Notes that the variable of access `index` was deleted before the access was linked: the
    /// access is made its own successor. Returns whether the caller was the first to do so.
    ///
    /// # Safety
    /// As [`Links::next`].
    pub unsafe fn make_void(block: *mut Block, index: u32) -> bool {
        // SAFETY: held.
        unsafe {
            // Relaxed (both): the thread that runs the operation receives it from another thread.
            // That thread has run this function itself, or has seen by `advance` or `set_done` that
            // one has.
            Block::set_voided(block);
            let this = Block::access(block, index);
            (*Links::next(block, index)).compare_exchange(null_mut(), this, Relaxed, Relaxed).is_ok()
        }
    }

    /// Whether [`Links::make_void`] was called for access `index`. Final once the operation is in a
    /// log.
    ///
    /// # Safety
    /// The operation is the caller's, and has links.
    pub unsafe fn are_void(block: *mut Block, index: u32) -> bool {
        // SAFETY: the operation is the caller's.
        unsafe {
            index < Links::count(block) && (*Links::next(block, index)).load(Relaxed) == Block::access(block, index)
        }
    }

    /// Ends one use of the block; returns whether it was the last.
    ///
    /// # Safety
    /// As [`Links::next`]; the caller owes this use.
    pub unsafe fn release(block: *mut Block) -> bool {
        // Release: what was done with the block. Acquire: the same of the other uses, for the
        // thread that uses the block again.
        // SAFETY: held by the use that ends.
        let uses = unsafe { (*Links::of(block)).uses.fetch_sub(1, AcqRel) };
        assert!(!MODELLED || uses > 0, "a use of a block ended twice");
        uses == 1
    }
}
