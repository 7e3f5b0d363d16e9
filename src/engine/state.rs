//! The state word of an engine: its flags, and how many threads look at pending operations.
//!
//! Any thread reads it as a [`StateSnapshot`]. The flags change by the named transitions of
//! [`EngineState`] alone, each of which is one read-modify-write:
//!
//! - `lifecycle.rs` and `fork.rs` stop an engine and let it go on, and `fork.rs` has the flags of a
//!   fork;
//! - `src/api/control.rs` tells of the shutdown, and turns profiling on and off;
//! - `gpu/admit.rs` notes that a device is used;
//! - `execute.rs` and `gpu/loss.rs` note a failure, on the thread on which something fails;
//! - `diagnose.rs` counts the threads that look at pending operations. `fork.rs` forgets them in
//!   the child.
//!
//! The transitions are SeqCst, since stopping and pushing are a store-buffering pair: a push counts
//! itself and reads the state, and a stop sets the flag and reads the counts. Two are weaker. A
//! failure is noted before its operation ends, whose end publishes it; a look ends with a release
//! that pairs with the acquire load in `push/logged.rs`.

use crate::sync::{AtomicU32, Ordering, Ordering::*};

/// The engine is stopped: pushes are refused.
const STOPPED: u32 = 1;
/// The process is about to end: only deletions still run their functions.
const SHUTDOWN: u32 = 1 << 1;
/// The profiler records named operations. The quick ways of a push refuse meanwhile, so every push
/// is enlisted.
const PROFILING: u32 = 1 << 2;
/// Some operation has failed: from now on operations look at the marks of their variables.
const FAILED: u32 = 1 << 3;
/// A `fork` is under way. If it has stopped the engine, [`YIELDING`] is set as well, and a push
/// that is refused tries again until the fork is over.
const FORKING: u32 = 1 << 4;
/// The process is the child of a `fork` that caught the engine in the middle of something: the
/// engine stays stopped.
const ABANDONED: u32 = 1 << 5;
/// A `fork` waits for what is in flight. Operations of other engines may still push here, as the
/// operations that the fork waits for may depend on them.
const YIELDING: u32 = 1 << 6;
/// A device has been used: operations look at the tickets of their variables, and the quick ways of
/// a push refuse. Never cleared.
const DEVICES_USED: u32 = 1 << 7;
/// A `fork` is about to happen, or looks whether what is in flight ends without more: not even what
/// [`YIELDING`] lets in is taken.
const SEALED: u32 = 1 << 8;
/// The bits from here up count the threads that look at pending operations (`diagnose.rs`). While
/// there are any, no block of a ring is used again.
const LOOKS_UNDER_WAY: u32 = 1 << 9;

/// The state word of an engine.
pub struct EngineState(AtomicU32);

/// What the word said at one time.
#[derive(Clone, Copy)]
pub struct StateSnapshot(u32);

impl EngineState {
    pub fn new() -> EngineState {
        EngineState(AtomicU32::new(0))
    }

    #[inline]
    pub fn load(&self, order: Ordering) -> StateSnapshot {
        StateSnapshot(self.0.load(order))
    }

    /// From now on pushes are refused.
    pub fn stop(&self) {
        self.0.fetch_or(STOPPED, SeqCst);
    }

    /// The engine takes pushes again.
    pub fn go_on(&self) {
        self.0.fetch_and(!STOPPED, SeqCst);
    }

    pub fn shut_down(&self) {
        self.0.fetch_or(SHUTDOWN, SeqCst);
    }

    pub fn start_profiling(&self) {
        self.0.fetch_or(PROFILING, SeqCst);
    }

    pub fn stop_profiling(&self) {
        self.0.fetch_and(!PROFILING, SeqCst);
    }

    /// Some operation has failed.
    pub fn fail(&self) {
        // Release: the end of the failed operation publishes the flag, so operations behind it see
        // the flag by relaxed loads.
        self.0.fetch_or(FAILED, Release);
    }

    /// A device is used from now on.
    pub fn use_devices(&self) {
        self.0.fetch_or(DEVICES_USED, SeqCst);
    }

    /// A look at pending operations begins.
    pub fn begin_look(&self) {
        self.0.fetch_add(LOOKS_UNDER_WAY, SeqCst);
    }

    /// A look at pending operations ends.
    pub fn end_look(&self) {
        // Release: pairs with the acquire of the state in `push/logged.rs`, so the reads of this
        // look come before a block of a ring is used again.
        self.0.fetch_sub(LOOKS_UNDER_WAY, Release);
    }
}

/// For `engine/fork.rs`.
#[cfg(all(unix, not(any(loom, shuttle))))]
impl EngineState {
    /// A fork begins. Stops the engine if it runs, and says so: then the fork lets it go on when it
    /// is over. The caller keeps other stops and starts out.
    #[must_use = "an engine that was stopped for the fork has to go on"]
    pub fn begin_fork(&self) -> bool {
        let runs = !self.load(SeqCst).is_stopped();
        self.0.fetch_or(if runs { STOPPED | FORKING | YIELDING } else { FORKING }, SeqCst);
        runs
    }

    /// The fork is over, or given up. Says nothing of whether the engine is stopped.
    pub fn end_fork(&self) {
        self.0.fetch_and(!(FORKING | YIELDING | SEALED), SeqCst);
    }

    /// The fork is given up, in an engine that was stopped for it: the engine goes on.
    pub fn go_on_without_fork(&self) {
        self.0.fetch_and(!(FORKING | YIELDING | SEALED | STOPPED), SeqCst);
    }

    /// Not even operations of other engines may push now.
    pub fn seal(&self) {
        self.0.fetch_or(SEALED, SeqCst);
    }

    pub fn unseal(&self) {
        self.0.fetch_and(!SEALED, SeqCst);
    }

    /// In the child of a fork that has cut the engine off: it never goes on.
    pub fn abandon(&self) {
        self.0.fetch_or(STOPPED | ABANDONED | SHUTDOWN, SeqCst);
    }

    /// In the child of a fork: the threads that were looking are gone.
    pub fn forget_looks(&self) {
        self.0.fetch_and(LOOKS_UNDER_WAY - 1, SeqCst);
    }
}

impl StateSnapshot {
    /// No flag is set, and no thread looks at pending operations.
    #[inline]
    pub fn is_plain(self) -> bool {
        self.0 == 0
    }

    /// The same, but operations may have failed: the quick ways of a push are open.
    #[inline]
    pub fn lets_quick_pushes_in(self) -> bool {
        self.0 & !FAILED == 0
    }

    /// Operations have to look at their variables before they run: for marks, or for devices.
    #[inline]
    pub fn asks_for_a_look(self) -> bool {
        self.0 & (FAILED | DEVICES_USED) != 0
    }

    /// An operation may be skipped.
    #[inline]
    pub fn may_skip(self) -> bool {
        self.0 & (FAILED | SHUTDOWN) != 0
    }

    #[inline]
    pub fn is_stopped(self) -> bool {
        self.0 & STOPPED != 0
    }

    #[inline]
    pub fn is_shut_down(self) -> bool {
        self.0 & SHUTDOWN != 0
    }

    #[inline]
    pub fn is_profiling(self) -> bool {
        self.0 & PROFILING != 0
    }

    #[inline]
    pub fn has_failed(self) -> bool {
        self.0 & FAILED != 0
    }

    /// A fork is under way, and other engines' operations may push here.
    #[inline]
    pub fn is_yielding(self) -> bool {
        self.0 & YIELDING != 0
    }

    #[inline]
    pub fn is_forking(self) -> bool {
        self.0 & FORKING != 0
    }

    #[inline]
    pub fn is_sealed(self) -> bool {
        self.0 & SEALED != 0
    }

    /// A fork has cut the engine off.
    #[inline]
    pub fn is_abandoned(self) -> bool {
        self.0 & ABANDONED != 0
    }

    #[inline]
    pub fn uses_devices(self) -> bool {
        self.0 & DEVICES_USED != 0
    }
}
