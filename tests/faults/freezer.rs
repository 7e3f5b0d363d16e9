//! Threads that lose their core in the middle of anything: a signal reaches a thread at whatever
//! instruction it is, and its handler does not return until the test says so. Not after a time but
//! after progress: so a machine under load makes a test slow, and only a thread that others wait
//! for makes it fail.
//!
//! Two places are spared, because a thread that stops there holds a lock that is not, or not
//! wrongly, in others' way: the system's allocator, and the few locks that `tests/locks.rs` lists
//! as off the path.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::sync::atomic::{compiler_fence, AtomicBool, AtomicU8, AtomicUsize, Ordering::*};
use std::sync::Once;
use std::time::{Duration, Instant};

thread_local! {
    /// Inside the allocator.
    static ALLOCATES: AtomicBool = const { AtomicBool::new(false) };
    /// How many locks had been taken when this thread entered the section in which it may be
    /// frozen, plus one; 0 outside of one.
    static SECTION: AtomicUsize = const { AtomicUsize::new(0) };
}

const NO_LOCKS: usize = usize::MAX;

/// The system's allocator, which says when a thread is inside it.
struct Marked;

#[global_allocator]
static MARKED: Marked = Marked;

fn marked<T>(inner: impl FnOnce() -> T) -> T {
    // A thread that is ending has no such place any more, and is not frozen.
    let mark = |value| ALLOCATES.try_with(|allocates| allocates.store(value, Relaxed)).unwrap_or(());
    mark(true);
    compiler_fence(SeqCst);
    let result = inner();
    compiler_fence(SeqCst);
    mark(false);
    result
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Marked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        marked(|| unsafe { System.alloc(layout) })
    }

    // Else what is large would be filled with zeros, page by page.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        marked(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        marked(|| unsafe { System.dealloc(place, layout) });
    }
}

/// What the signal found.
const ASKED: u8 = 1;
const DECLINED: u8 = 2;
const FROZEN: u8 = 3;
const RETURNED: u8 = 4;

static ANSWER: AtomicU8 = AtomicU8::new(0);
static RELEASED: AtomicBool = AtomicBool::new(false);
/// The instruction at which the last one was frozen.
static PLACE: AtomicUsize = AtomicUsize::new(0);

fn signal() -> i32 {
    libc::SIGRTMIN() + 1
}

extern "C" fn handle(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    match may_be_frozen() {
        true => stay_frozen(context),
        false => ANSWER.store(DECLINED, SeqCst),
    }
}

/// Whether the calling thread is at a place where it may be frozen. For handlers.
pub fn may_be_frozen() -> bool {
    let section = SECTION.try_with(|section| section.load(Relaxed)).unwrap_or(0);
    let allocates = ALLOCATES.try_with(|allocates| allocates.load(Relaxed)).unwrap_or(true);
    let may_hold_lock = section != NO_LOCKS && section != seriatim::testing::locks_taken() + 1;
    section != 0 && !allocates && !may_hold_lock
}

/// Keeps the calling thread in its handler until it is released. It does only what a handler may
/// do: atomics, and to sleep.
pub fn stay_frozen(context: *mut c_void) {
    // SAFETY: the system passes the context of the thread; `errno` is the thread's own.
    let (place, error) = unsafe { (instruction(context), *libc::__errno_location()) };
    PLACE.store(place, SeqCst);
    ANSWER.store(FROZEN, SeqCst);
    while !RELEASED.load(SeqCst) {
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
        // SAFETY: the struct is valid, and a handler may sleep.
        unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
    ANSWER.store(RETURNED, SeqCst);
}

/// The instruction that a signal interrupted.
unsafe fn instruction(context: *mut c_void) -> usize {
    // SAFETY: the caller's word.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as usize
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = context;
        0
    }
}

/// A thread that can be frozen.
#[derive(Clone, Copy)]
pub struct Target(libc::pthread_t);

/// The calling thread, which may be frozen inside its sections, or anywhere from now on if it never
/// holds a lock.
pub fn this_thread(anywhere: bool) -> Target {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: zeroes are a valid action, and the handler does only what handlers may do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            assert_eq!(libc::sigaction(signal(), &action, std::ptr::null_mut()), 0);
        }
    });
    if anywhere {
        SECTION.with(|section| section.store(NO_LOCKS, Relaxed));
    }
    // SAFETY: asks for the calling thread.
    Target(unsafe { libc::pthread_self() })
}

/// Runs something that the calling thread may be frozen in the middle of, as long as it has taken
/// no lock in there.
pub fn section<T>(inner: impl FnOnce() -> T) -> T {
    SECTION.with(|section| section.store(seriatim::testing::locks_taken() + 1, Relaxed));
    compiler_fence(SeqCst);
    let result = inner();
    compiler_fence(SeqCst);
    SECTION.with(|section| section.store(0, Relaxed));
    result
}

/// Whether some thread is frozen now.
pub fn is_one_frozen() -> bool {
    ANSWER.load(SeqCst) == FROZEN
}

/// A frozen thread; thawed when this goes.
pub struct Frozen {
    /// The instruction at which it stands.
    pub place: usize,
}

/// Says that a thread is to be frozen: by [`freeze`], or at the instruction that it waits for
/// itself.
pub fn ask() {
    RELEASED.store(false, SeqCst);
    ANSWER.store(ASKED, SeqCst);
}

/// The thread that is frozen, if one is.
pub fn frozen() -> Option<Frozen> {
    is_one_frozen().then(|| Frozen { place: PLACE.load(SeqCst) })
}

/// Freezes a thread if it is at a place where that may be. One at a time.
pub fn freeze(target: Target) -> Option<Frozen> {
    ask();
    // SAFETY: the tests join the thread only later.
    assert_eq!(unsafe { libc::pthread_kill(target.0, signal()) }, 0);
    answer_other_than(ASKED);
    frozen()
}

fn answer_other_than(before: u8) -> u8 {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match ANSWER.load(SeqCst) {
            answer if answer == before => assert!(Instant::now() < deadline, "the thread does not take the signal"),
            answer => return answer,
        }
        std::thread::yield_now();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        RELEASED.store(true, SeqCst);
        answer_other_than(FROZEN);
    }
}
