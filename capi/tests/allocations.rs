//! In steady state an asynchronous push of C allocates nothing, on whatever thread it is completed.

mod common;

use common::*;
use seriatim_c::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::SeqCst};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

unsafe extern "C-unwind" fn at_once(
    _: *mut c_void,
    _: *const SeriatimRunContext<'_>,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: used once.
    ok(unsafe { seriatim_completion_complete(completion) });
}

/// The completion for the other thread.
static LEFT: AtomicPtr<SeriatimCompletion> = AtomicPtr::new(null_mut());

unsafe extern "C-unwind" fn leave(
    _: *mut c_void,
    _: *const SeriatimRunContext<'_>,
    completion: *mut SeriatimCompletion,
) {
    LEFT.store(completion, SeqCst);
}

/// The least number of allocations that so many pushes of the function took, of several tries.
fn allocations(engine: &Engine, function: SeriatimAsyncFunction) -> u64 {
    let variable = engine.variable();
    let tries = (0..8).map(|_| {
        let before = ALLOCATIONS.load(SeqCst);
        for _ in 0..2_000 {
            // SAFETY: the engine lives, and the function uses no argument.
            ok(unsafe { seriatim_push_async(engine.0, &writing(&variable), function, null_mut(), None) });
            while !LEFT.load(SeqCst).is_null() {
                std::thread::yield_now();
            }
        }
        ok(engine.wait());
        ALLOCATIONS.load(SeqCst) - before
    });
    tries.min().expect("several tries")
}

#[test]
fn none_in_steady_state() {
    let engine = Engine::of_kind("naive");
    // For sanitizers the epochs give their memory back after every few blocks.
    let allowed = if cfg!(crossbeam_sanitize) { 100 } else { 0 };
    let inside = allocations(&engine, Some(at_once));
    assert!(inside <= allowed, "{inside} allocations in 2,000 operations that end inside their function");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                let left = LEFT.load(SeqCst);
                if left.is_null() {
                    std::thread::yield_now();
                    continue;
                }
                // SAFETY: used once.
                ok(unsafe { seriatim_completion_complete(left) });
                LEFT.store(null_mut(), SeqCst);
            }
        });
        let elsewhere = allocations(&engine, Some(leave));
        over.store(true, SeqCst);
        // The engine's epochs allocate now and then where two threads come and go.
        assert!(elsewhere < 200, "{elsewhere} allocations in 2,000 operations that another thread completes");
    });
}
