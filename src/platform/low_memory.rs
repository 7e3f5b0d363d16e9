//! Allocation of memory at low addresses, which fit the words of the protocol
//! ([`Word`](crate::tickets::word::Word)); and of low memory that the system keeps in memory
//! (`mlock`). Used by `util/bucket_array.rs` for variables, by `pool/slabs.rs` and `pool/locked.rs`
//! for blocks, by `tickets/word.rs`, and by `engine/settings.rs`, which asks what the system can.
//! `engine/fork.rs` has the blocks locked again in a child. Any thread may call it. Nothing is kept
//! here: the caller keeps a [`Low`], and gives it back.
//!
//! On x86-64 low addresses are those below 2⁴⁸. Allocators stay below them by themselves, since
//! Linux gives nothing above 2⁴⁷ to a program that does not ask for it. If a program does ask, on a
//! machine with five levels of page tables, the memory is mapped here instead. The check is made
//! once for each slab and once for each bucket.
//!
//! macOS and Windows give programs addresses below 2⁴⁷, on x86-64 and on 64-bit Arm, so the
//! allocator's memory fits there as well. If it does not fit, and the system has no `mmap`, the
//! program ends as it does when memory runs out.

use std::alloc::{alloc, alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::io;
use std::ptr::null_mut;

/// The most bits of a low address.
pub const ADDRESS_BITS: u32 = 48;

/// Returns whether memory up to this address is low.
fn is_low(highest: usize) -> bool {
    highest as u64 >> ADDRESS_BITS == 0
}

/// Whether memory can be locked on this system.
pub const LOCKS: bool = cfg!(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))));

/// Memory of some layout, and where it came from.
#[derive(Clone, Copy)]
pub struct Low {
    pub start: *mut u8,
    /// Whether it came from the system, and not from the allocator.
    mapped: bool,
}

impl Low {
    /// Allocates memory, all zeros if asked for. Ends the program if there is none, as any
    /// allocation does.
    pub fn allocate(layout: Layout, zeroed: bool) -> Low {
        Low::allocate_where(layout, zeroed, |start| is_low(start.addr() + layout.size() - 1))
    }

    /// Allocates pages of their own, and has the system keep them in memory: all are there when
    /// this returns. If the system refuses to keep them, its error comes with the memory, which can
    /// be used all the same.
    pub fn allocate_locked(layout: Layout) -> (Low, io::Result<()>) {
        let start = map(layout.size());
        if start.is_null() || !is_low(start.addr() + layout.size() - 1) {
            handle_alloc_error(layout);
        }
        // SAFETY: the pages were mapped just now.
        let locked = unsafe { lock(start, layout.size()) };
        (Low { start, mapped: true }, locked)
    }

    /// Has the system keep the memory again, for the child of a `fork`: it inherits no locks, and
    /// shares the pages with its parent until it writes to them. This makes them its own.
    ///
    /// # Safety
    /// The memory comes from [`Low::allocate_locked`] with this layout, and was not freed.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub unsafe fn lock_again(self, layout: Layout) -> io::Result<()> {
        // SAFETY: the pages come from `map`, by the contract.
        unsafe { lock(self.start, layout.size()) }
    }

    fn allocate_where(layout: Layout, zeroed: bool, fits: impl Fn(*mut u8) -> bool) -> Low {
        // SAFETY: the layout is that of a slab or a bucket, whose size is not 0.
        let start = unsafe {
            if zeroed {
                alloc_zeroed(layout)
            } else {
                alloc(layout)
            }
        };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        if fits(start) {
            return Low { start, mapped: false };
        }
        // SAFETY: the memory was just allocated with this layout.
        unsafe { dealloc(start, layout) };
        let start = map(layout.size());
        if start.is_null() || !fits(start) {
            handle_alloc_error(layout);
        }
        Low { start, mapped: true }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The memory comes from [`Low::allocate`] or [`Low::allocate_locked`], with this layout. It is
    /// freed once, and no thread uses it again.
    pub unsafe fn free(self, layout: Layout) {
        // SAFETY: by the contract. `mapped` says which of the two it came from: pages of `map` with
        // this size, which need not be whole ones, or memory of the allocator with this layout.
        unsafe {
            if self.mapped {
                unmap(self.start, layout.size());
            } else {
                dealloc(self.start, layout);
            }
        }
    }
}

/// Returns pages of the system, which are zero; null if there are none. Without a hint Linux puts
/// them below 2⁴⁷.
#[cfg(unix)]
fn map(size: usize) -> *mut u8 {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at a place of the system's choice.
    let start = unsafe { libc::mmap(null_mut(), size, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        null_mut()
    } else {
        start.cast()
    }
}

/// # Safety
/// The pages come from [`map`] with this size, and no thread uses them again.
#[cfg(unix)]
unsafe fn unmap(start: *mut u8, size: usize) {
    // SAFETY: passed on.
    unsafe { libc::munmap(start.cast(), size) };
}

/// # Safety
/// The pages come from [`map`]. They are unlocked when they are unmapped.
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))))]
unsafe fn lock(start: *mut u8, size: usize) -> io::Result<()> {
    // SAFETY: by the contract. Locking changes nothing that a program reads.
    match unsafe { libc::mlock(start.cast(), size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// As above.
#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation)))))]
unsafe fn lock(_: *mut u8, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is no other memory than the allocator's here: see the file's header.
#[cfg(not(unix))]
fn map(_: usize) -> *mut u8 {
    null_mut()
}

/// # Safety
/// Never called: nothing was mapped.
#[cfg(not(unix))]
unsafe fn unmap(_: *mut u8, _: usize) {}

#[cfg(all(test, unix, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_lies_too_high_is_not_used() {
        for zeroed in [false, true] {
            let layout = Layout::from_size_align(100_000, 128).unwrap();
            // The first address is refused, as if the allocator had chosen one that is too high.
            let refused = Cell::new(null_mut());
            let low = Low::allocate_where(layout, zeroed, |start| !refused.replace(start).is_null());
            assert!(low.mapped && low.start.addr() % 4096 == 0 && is_low(low.start.addr()));
            // SAFETY: allocated just now.
            unsafe {
                assert!((0..layout.size()).all(|offset| *low.start.add(offset) == 0));
                low.start.write_bytes(1, layout.size());
                low.free(layout);
            }
            let usual = Low::allocate(layout, zeroed);
            assert!(!usual.mapped);
            // SAFETY: as above.
            unsafe { usual.free(layout) };
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn words_have_room_for_48_bits() {
        assert!(is_low((1 << 48) - 1) && !is_low(1 << 48));
    }
}
