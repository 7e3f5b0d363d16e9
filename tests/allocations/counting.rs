//! Counting what work costs: allocations, locks, futex calls.

#[cfg(target_os = "linux")]
#[path = "../common/syscalls.rs"]
mod syscalls;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

/// The threads of the engine, and whatever else the test did not start.
const ENGINE: usize = 0;
/// The threads that push.
const PUSHERS: usize = 1;

thread_local! {
    static GROUP: Cell<usize> = const { Cell::new(ENGINE) };
}

static ALLOCATIONS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// The bytes that are allocated now.
static LIVE: AtomicIsize = AtomicIsize::new(0);
static FUTEX_CALLS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Counts what the calling thread does from now on as a pusher's.
pub fn this_thread_pushes() {
    GROUP.set(PUSHERS);
}

fn count(counters: &[AtomicUsize; 2]) {
    let group = GROUP.try_with(Cell::get).unwrap_or(ENGINE);
    counters[group].fetch_add(1, Relaxed);
}

struct Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS);
        LIVE.fetch_add(layout.size() as isize, Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS);
        LIVE.fetch_add(layout.size() as isize, Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(&ALLOCATIONS);
        LIVE.fetch_add(size as isize - layout.size() as isize, Relaxed);
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Calls that make every running thread of the process pass a fence.
#[cfg(target_os = "linux")]
static MEMBARRIERS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Called for each system call that the C library is asked for by number.
#[cfg(target_os = "linux")]
fn called(number: libc::c_long, _: usize) {
    match number {
        libc::SYS_futex => count(&FUTEX_CALLS),
        libc::SYS_membarrier => count(&MEMBARRIERS),
        _ => {}
    }
}

/// The calls of `membarrier` by threads that push, and by all threads.
#[cfg(target_os = "linux")]
pub fn membarriers() -> [usize; 2] {
    let [engine, pushers] = [ENGINE, PUSHERS].map(|group| MEMBARRIERS[group].load(SeqCst));
    [pushers, engine + pushers]
}

/// Costs so far, or of some work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Allocations of the threads that push.
    pub pushers: usize,
    /// Allocations of all others.
    pub engine: usize,
    pub locks: usize,
    pub futex: usize,
}

impl Costs {
    pub fn no_allocation(self) -> bool {
        self.pushers + self.engine == 0
    }

    pub fn no_allocation_no_lock(self) -> bool {
        self.no_allocation() && self.locks == 0
    }

    pub fn nothing(self) -> bool {
        self.no_allocation_no_lock() && self.futex == 0
    }
}

/// The bytes that are allocated now.
pub fn live() -> isize {
    LIVE.load(SeqCst)
}

pub fn costs() -> Costs {
    let load = |counters: &[AtomicUsize; 2], group: usize| counters[group].load(SeqCst);
    Costs {
        pushers: load(&ALLOCATIONS, PUSHERS),
        engine: load(&ALLOCATIONS, ENGINE),
        locks: seriatim::testing::locks_taken(),
        futex: load(&FUTEX_CALLS, PUSHERS) + load(&FUTEX_CALLS, ENGINE),
    }
}

/// Since other costs.
impl std::ops::Sub for Costs {
    type Output = Costs;

    fn sub(self, before: Costs) -> Costs {
        Costs {
            pushers: self.pushers - before.pushers,
            engine: self.engine - before.engine,
            locks: self.locks - before.locks,
            futex: self.futex - before.futex,
        }
    }
}

/// What `work` costs.
pub fn cost(work: impl FnOnce()) -> Costs {
    let before = costs();
    work();
    costs() - before
}

/// When to give up what is counted again and again, since something may still grow: after so many
/// tries, or sooner where each takes long.
pub struct Patience {
    began: Instant,
    tries: usize,
}

impl Patience {
    pub fn new() -> Patience {
        Patience { began: Instant::now(), tries: 0 }
    }

    /// Whether it is at an end, after one more try.
    pub fn ends(&mut self) -> bool {
        self.tries += 1;
        self.tries >= 30 || self.tries >= 6 && self.began.elapsed() > Duration::from_secs(40)
    }
}

/// What `work` costs when nothing is left to grow: with several workers it takes a while until each
/// of their rows has held the most that it will ever hold, and until each thread has once had a row
/// of every other in its hands when it lost its core. Both end: a row grows by doubling, and a
/// worker has one row for each other thread at most (`Queue::lend`). What an operation costs in
/// itself shows every time.
pub fn least_cost(is_enough: fn(Costs) -> bool, mut work: impl FnMut()) -> Costs {
    let mut patience = Patience::new();
    loop {
        let costs = cost(&mut work);
        if is_enough(costs) || patience.ends() {
            return costs;
        }
    }
}
