//! How much memory a call takes at most: an allocator that counts the bytes of the calling thread.
//!
//! Used by `tensor/tests/formats.rs` and by the target `formats` of `fuzz/`. The naive engine runs
//! operations on the thread that pushes them, so theirs are counted too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

pub struct Counting;

thread_local! {
    /// The bytes that the thread has taken and not given back, since it began to count.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // Not there any more at a thread's end.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both are there while one is copied.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

/// What a call returns, and the most bytes that it had at once.
pub fn peak_of<R>(call: impl FnOnce() -> R) -> (R, usize) {
    LIVE.with(|live| live.set(0));
    PEAK.with(|peak| peak.set(0));
    let returned = call();
    (returned, PEAK.with(Cell::get) as usize)
}
