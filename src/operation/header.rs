//! What the header of a block packs: size class and cache, property and context, name, stage.

use crate::device::{Context, Device, DEVICES};
use crate::operation::block::{Block, ASSEMBLED, PENDING};
use crate::operation::layout::CLASSES;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::Ordering;

/// Bits of a block's `origin` that hold its class. The cache is above.
const CLASS_BITS: u32 = 5;
/// Bits of a block's `room` that hold the property and the device. The device's number is above.
const PROPERTY_BITS: u32 = 3;
const DEVICE_BITS: u32 = 2;

const _: () = assert!(Property::ALL.len() == 1 << PROPERTY_BITS && DEVICES <= 1 << (16 - PROPERTY_BITS - DEVICE_BITS));
const _: () = assert!(CLASSES <= 1 << CLASS_BITS);

/// The most caches, by the room that a block has for their number: more than systems have threads.
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
    /// `this` points to a block of ours that is not packed into a magazine.
    #[inline]
    pub unsafe fn class(this: *mut Block) -> u8 {
        // SAFETY: ours.
        unsafe { ((*this).origin & ((1 << CLASS_BITS) - 1)) as u8 }
    }

    /// The number of the cache that the block returns to.
    ///
    /// # Safety
    /// As [`Block::class`].
    #[inline]
    pub unsafe fn cache(this: *mut Block) -> u32 {
        // SAFETY: ours.
        unsafe { (*this).origin >> CLASS_BITS }
    }

    /// Notes both. `cache` is below [`MOST_CACHES`].
    ///
    /// # Safety
    /// `this` points to a block of ours, of that class.
    #[inline]
    pub unsafe fn set_origin(this: *mut Block, cache: u32, class: u8) {
        // SAFETY: ours.
        unsafe { (*this).origin = cache << CLASS_BITS | u32::from(class) }
    }

    /// For the first block of a magazine: the number of its blocks, in place of the origin.
    ///
    /// # Safety
    /// `this` points to a free block of ours.
    #[inline]
    pub unsafe fn set_number(this: *mut Block, blocks: u32) {
        // SAFETY: ours.
        unsafe { (*this).origin = blocks }
    }

    /// What [`Block::set_number`] noted.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn number(this: *mut Block) -> u32 {
        // SAFETY: ours.
        unsafe { (*this).origin }
    }

    /// What kind of work it is.
    ///
    /// # Safety
    /// `this` points to an operation.
    #[inline]
    pub unsafe fn property(this: *mut Block) -> Property {
        // SAFETY: an operation: it was written.
        let kind = unsafe { (*this).room };
        Property::ALL[usize::from(kind) % Property::ALL.len()]
    }

    /// Where it runs.
    ///
    /// # Safety
    /// `this` points to an operation.
    #[inline]
    pub unsafe fn context(this: *mut Block) -> Context {
        // SAFETY: an operation: it was written.
        match unsafe { (*this).room } >> PROPERTY_BITS {
            0 => Context::cpu(0),
            special => context_of(special),
        }
    }

    /// Notes both. The number of the device is below [`DEVICES`].
    ///
    /// # Safety
    /// `this` points to a block of ours.
    #[inline]
    pub unsafe fn set_kind(this: *mut Block, property: Property, context: Context) {
        let device = (context.id() as u16) << DEVICE_BITS | context.device() as u16;
        // SAFETY: ours.
        unsafe { (*this).room = device << PROPERTY_BITS | property as u16 };
    }

    /// The operation's name.
    ///
    /// # Safety
    /// `this` points to a block of ours.
    #[inline]
    pub unsafe fn name(this: *mut Block) -> &'static str {
        // SAFETY: both are of one `set_name` (or of `initialise`, and empty); names are static.
        unsafe {
            let text = std::slice::from_raw_parts((*this).name, usize::from((*this).name_length));
            std::str::from_utf8_unchecked(text)
        }
    }

    /// Notes the name.
    ///
    /// # Safety
    /// `this` points to a block of ours.
    #[inline]
    pub unsafe fn set_name(this: *mut Block, name: Name) {
        let (text, length) = name.parts();
        // SAFETY: ours.
        unsafe { ((*this).name, (*this).name_length) = (text, length) }
    }

    /// Notes the stage of the operation's life, for the thread that draws the pending graph.
    ///
    /// # Safety
    /// `this` points to a block of ours.
    #[inline]
    pub unsafe fn enter(this: *mut Block, lifecycle: u8) {
        // SAFETY: the block is ours. Release: a thread that reads PENDING also reads the header
        // that was written before.
        unsafe { (*this).lifecycle.store(lifecycle, Ordering::Release) }
    }

    /// Notes that an assembled operation is pending, unless it is further by now.
    ///
    /// # Safety
    /// `this` points to a block that is held, whose operation was pushed.
    pub unsafe fn leave_assembly(this: *mut Block) {
        // SAFETY: held. Release: as in `enter`.
        let lifecycle = unsafe { &(*this).lifecycle };
        let _ = lifecycle.compare_exchange(ASSEMBLED, PENDING, Ordering::Release, Ordering::Relaxed);
    }

    /// Notes on which worker an asynchronous operation started, for its end.
    ///
    /// # Safety
    /// `this` points to a running operation of ours.
    pub unsafe fn keep_worker(this: *mut Block, worker: Option<usize>) {
        let place = worker.map_or(0, |worker| worker + 1);
        // SAFETY: ours; the link is not used while an operation runs.
        unsafe { (*this).link = std::ptr::without_provenance_mut(place) };
    }

    /// What [`Block::keep_worker`] noted.
    ///
    /// # Safety
    /// As there, and it was called.
    pub unsafe fn kept_worker(this: *mut Block) -> Option<usize> {
        // SAFETY: ours.
        unsafe { (*this).link.addr() }.checked_sub(1)
    }
}
