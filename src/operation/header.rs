//! Packed fields of a block's header: size class and cache, property and context, name, stage of
//! life.
//!
//! The owner of a block writes them: the pool (`src/thread/context.rs`, `src/pool/`), then the push
//! (`src/engine/push/`; for graphs `src/engine/replay/`), then the thread that runs the operation.
//! Only the stage is atomic: a pusher may still set it when another thread owns the block
//! (`leave_assembly`). `src/engine/diagnose.rs` reads blocks of other threads during a `Look`, when
//! the stage says that they are in use.

use crate::device::{Context, Device, DEVICES};
use crate::operation::block::{Block, ASSEMBLED, FLAG_PROFILED, PENDING};
use crate::operation::layout::CLASSES;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::Ordering;

/// The lowest bits of a block's `origin` hold its size class. The number of the cache is above.
const CLASS_BITS: u32 = 5;
/// The lowest bits of a block's `destination` hold the property, then the kind of device. The
/// device's number is above.
const PROPERTY_BITS: u32 = 4;
const DEVICE_BITS: u32 = 2;

const _: () = assert!(Property::ALL.len() <= 1 << PROPERTY_BITS && DEVICES <= 1 << (16 - PROPERTY_BITS - DEVICE_BITS));
const _: () = assert!(CLASSES <= 1 << CLASS_BITS);

/// The most caches: a block has no more bits for their number. This is more than systems have
/// threads.
pub const MOST_CACHES: u32 = 1 << (32 - CLASS_BITS);

/// The context that [`Block::set_kind`] has packed.
#[cold]
fn context_of(packed: u16) -> Context {
    let device = match packed & ((1 << DEVICE_BITS) - 1) {
        0 => Device::Cpu,
        1 => Device::CpuPinned,
        _ => Device::Gpu,
    };
    Context::new(device, u32::from(packed >> DEVICE_BITS))
}

impl Block {
    /// The block's size class.
    ///
    /// # Safety
    /// `this` points to a block that the caller owns, and that does not hold the number of a
    /// magazine.
    #[inline]
    pub unsafe fn class(this: *mut Block) -> u8 {
        // SAFETY: the caller owns the block.
        unsafe { ((*this).origin & ((1 << CLASS_BITS) - 1)) as u8 }
    }

    /// The number of the thread cache that the block returns to.
    ///
    /// # Safety
    /// As [`Block::class`].
    #[inline]
    pub unsafe fn cache(this: *mut Block) -> u32 {
        // SAFETY: the caller owns the block.
        unsafe { (*this).origin >> CLASS_BITS }
    }

    /// Stores the number of the cache and the size class. `cache` is below [`MOST_CACHES`].
    ///
    /// # Safety
    /// `this` points to a block that the caller owns, of this class.
    #[inline]
    pub unsafe fn set_origin(this: *mut Block, cache: u32, class: u8) {
        // SAFETY: the caller owns the block.
        unsafe { (*this).origin = cache << CLASS_BITS | u32::from(class) }
    }

    /// Stores the number of blocks of a magazine in its first block, in place of the origin.
    ///
    /// # Safety
    /// `this` points to a free block that the caller owns.
    #[inline]
    pub unsafe fn set_number(this: *mut Block, blocks: u32) {
        // SAFETY: the caller owns the block.
        unsafe { (*this).origin = blocks }
    }

    /// The number of blocks that [`Block::set_number`] stored.
    ///
    /// # Safety
    /// As [`Block::set_number`].
    #[inline]
    pub unsafe fn number(this: *mut Block) -> u32 {
        // SAFETY: the caller owns the block.
        unsafe { (*this).origin }
    }

    /// The property: what kind of work the operation is.
    ///
    /// # Safety
    /// `this` points to an operation.
    #[inline]
    pub unsafe fn property(this: *mut Block) -> Property {
        // SAFETY: an operation: `set_kind` has written it, with the number of a property.
        unsafe { std::mem::transmute((*this).destination as u8 & ((1 << PROPERTY_BITS) - 1)) }
    }

    /// The context: where the operation runs.
    ///
    /// # Safety
    /// `this` points to an operation.
    #[inline]
    pub unsafe fn context(this: *mut Block) -> Context {
        // SAFETY: an operation: it was written.
        match unsafe { (*this).destination } >> PROPERTY_BITS {
            0 => Context::cpu(0),
            special => context_of(special),
        }
    }

    /// Stores the property and the context. The number of the device is below [`DEVICES`].
    ///
    /// # Safety
    /// `this` points to a block that the caller owns.
    #[inline]
    pub unsafe fn set_kind(this: *mut Block, property: Property, context: Context) {
        let device = (context.id() as u16) << DEVICE_BITS | context.device() as u16;
        // SAFETY: the caller owns the block.
        unsafe { (*this).destination = device << PROPERTY_BITS | property as u16 };
    }

    /// The operation's name.
    ///
    /// # Safety
    /// `this` points to a block that the caller owns.
    #[inline]
    pub unsafe fn name(this: *mut Block) -> &'static str {
        // SAFETY: pointer and length are of one `set_name` (or of `initialise`, and empty); names
        // are static.
        unsafe {
            let text = std::slice::from_raw_parts((*this).name, usize::from((*this).name_length));
            std::str::from_utf8_unchecked(text)
        }
    }

    /// Stores the name.
    ///
    /// # Safety
    /// `this` points to a block that the caller owns.
    #[inline]
    pub unsafe fn set_name(this: *mut Block, name: Name) {
        let (text, length) = name.parts();
        // SAFETY: the caller owns the block.
        unsafe { ((*this).name, (*this).name_length) = (text, length) }
    }

    /// Stores the stage of the operation's life, for the thread that draws the pending graph
    /// (`src/engine/diagnose.rs`).
    ///
    /// # Safety
    /// `this` points to a block that the caller owns.
    #[inline]
    pub unsafe fn enter(this: *mut Block, lifecycle: u8) {
        // SAFETY: the caller owns the block. Release: pairs with the acquire in
        // `src/engine/diagnose.rs`; a thread that reads PENDING also reads the header that was
        // written before.
        unsafe { (*this).lifecycle.store(lifecycle, Ordering::Release) }
    }

    /// Changes the stage of an assembled operation to pending. Does nothing if another thread has
    /// already run it further.
    ///
    /// # Safety
    /// `this` points to a block that is held, whose operation was pushed.
    pub unsafe fn leave_assembly(this: *mut Block) {
        // SAFETY: held. Release: as in `enter`.
        let lifecycle = unsafe { &(*this).lifecycle };
        let _ = lifecycle.compare_exchange(ASSEMBLED, PENDING, Ordering::Release, Ordering::Relaxed);
    }

    /// When an operation was pushed, if it is profiled; else 0.
    ///
    /// # Safety
    /// `this` points to an operation that the caller owns.
    pub unsafe fn pushed_at(this: *mut Block) -> u64 {
        // SAFETY: by the contract. A profiled operation has times.
        unsafe {
            if (*this).flags & FLAG_PROFILED != 0 {
                (*Block::times(this)).push
            } else {
                0
            }
        }
    }

    /// Stores the worker on which an asynchronous operation started, for its end.
    ///
    /// # Safety
    /// `this` points to a running operation that the caller owns.
    pub unsafe fn keep_worker(this: *mut Block, worker: Option<usize>) {
        let place = worker.map_or(0, |worker| worker + 1);
        // SAFETY: the caller owns the block; the link is not used while an operation runs.
        unsafe { (*this).link = std::ptr::without_provenance_mut(place) };
    }

    /// The worker that [`Block::keep_worker`] stored.
    ///
    /// # Safety
    /// As [`Block::keep_worker`], which was called for this operation.
    pub unsafe fn kept_worker(this: *mut Block) -> Option<usize> {
        // SAFETY: the caller owns the block.
        unsafe { (*this).link.addr() }.checked_sub(1)
    }
}
