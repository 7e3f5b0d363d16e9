//! An asymmetric pair of fences. The [`light`] side costs nothing, and is for threads that look
//! often whether another thread waits. The [`heavy`] side is for threads that are about to sleep,
//! or to change a state that rarely changes. The state is one static of the process, `STATE`. Every
//! light fence reads it. [`prepare`] sets it, on the thread that makes an engine. A heavy fence
//! changes it if the system's call is lost.
//!
//! Both sides write something and then read what the other has written, and one of them must see
//! the other's. Two sequentially consistent fences do that, but then threads that end operations
//! would pay for one at each operation. On Linux, [`heavy`] has the system make every running
//! thread of the process pass a full fence (`membarrier`, Desnoyers 2010; the technique is that of
//! user-space RCU). So [`light`] only has to keep the compiler from changing the order. Without
//! this call, both are ordinary fences.
//!
//! The pairs, light side first: `WaitList::notify` and `WaitList::wait`
//! (`engine/wait/wait_list.rs`); pushes without a pin (`engine/push/logged.rs`,
//! `engine/inline/fast_path.rs`) and the threads that stop, fork or look at an engine
//! (`engine/lifecycle.rs`, `engine/fork.rs`, `engine/diagnose.rs`); wake-ups in `worker/group.rs`
//! and `worker/wake.rs`, and sleeps in `worker/idle.rs` and `worker/help.rs`; commits of a push
//! (`tickets/owner/pusher.rs`) and the end of an era (`tickets/owner/handover.rs`,
//! `tickets/owner/sharing.rs`); what a thread holds (`tickets/hazards.rs`) and the thread that uses
//! spent blocks again (`pool/beside_epoch.rs`). `sync/loom_fences.rs` is the model of the pair.
//!
//! # If the call is lost
//!
//! A filter for system calls that is installed later can refuse the call. Then all threads pass
//! ordinary fences from that time on; but a thread that has not seen this yet may just pass a light
//! one. So the thread that finds out does once, without the call, what the call did: a visitor
//! thread runs on every core that the process may use, tried by number. On any other core no thread
//! of the process can be, and a thread that gets there meanwhile was switched out.
//!
//! Call *t* a thread that was between its write and its read when the state changed. The visitor
//! runs on the core of *t* only when *t* has been switched out there; or *t* was switched out
//! before, and moved, or did not run. A switch is a full fence (`schedule()` in the kernel's
//! `memory-barriers.txt`, "implicit kernel memory barriers"). So when the visit is over, there are
//! two cases. Either the thread that found out sees what *t* has written; or *t* made its write
//! after the switch, and then *t* sees the new state and passes an ordinary fence.
//!
//! This is the third way of Dice, Huang and Yang, *Asymmetric Dekker Synchronization* (2001). Their
//! first way, taking a page's rights away, is no fence where the processor broadcasts the change by
//! itself (ARM; AMD's `INVLPGB`, which Linux uses from 6.14 on). A process that has put its threads
//! into different sets of cores by threaded control groups must not lose the call.
//!
//! If the system refuses to make the visitor or to move it, nothing is left that fences other
//! threads. A wake-up might then be lost, and nobody would know. So the process ends: a line on
//! standard error names what the system refuses, and the thread aborts. A filter must allow one of
//! the two calls, or be there before the first engine: [`prepare`] tries the call, and where it
//! fails all threads pass ordinary fences from the start.

use crate::sync::{fence, Ordering::SeqCst};

/// The light side: stands between a write and a read, on a path that runs all the time.
#[inline(always)]
pub fn light() {
    if asymmetric::is_on() {
        asymmetric::light();
    } else {
        ordinary();
    }
}

/// The light side without the call. A function that is cold, so that the code of the usual way
/// stays in one piece, without a jump around this fence.
#[cold]
#[inline(always)]
fn ordinary() {
    fence(SeqCst);
}

/// The heavy side: stands between a write and a read of a thread that is about to sleep. It takes
/// about a microsecond.
#[cold]
pub fn heavy() {
    fence(SeqCst);
    asymmetric::fence_everywhere();
    fence(SeqCst);
}

/// Chooses the way: registers the process for the call, and tries it. If the system refuses either,
/// both sides pass ordinary fences for good. The first time takes some milliseconds if the process
/// has other threads already. Before it, the fences are heavier than they need be. Called by
/// `engine/core.rs`.
pub fn prepare() {
    asymmetric::prepare();
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))))]
mod asymmetric {
    use crate::platform::affinity;
    use crate::platform::standard_error::tell;
    use std::io;
    use std::sync::atomic::{fence, AtomicU8, Ordering::*};

    const UNKNOWN: u8 = 0;
    const ON: u8 = 1;
    const OFF: u8 = 2;

    /// Between `ON` and `OFF`: light sides pass ordinary fences, and the visit is not over yet.
    const LEAVING: u8 = 3;

    /// Goes from `UNKNOWN` to `ON` or `OFF`, and from `ON` through `LEAVING` to `OFF`. In all
    /// states but `ON` the light side passes an ordinary fence, which is never too little.
    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline(always)]
    pub fn is_on() -> bool {
        STATE.load(Relaxed) == ON
    }

    #[inline(always)]
    pub fn light() {
        std::sync::atomic::compiler_fence(SeqCst);
    }

    fn call(command: libc::c_int) -> bool {
        // SAFETY: takes three numbers, and changes nothing but the order of memory accesses.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Registers the process for the call, and makes the call.
    fn register() -> bool {
        call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    pub fn prepare() {
        if STATE.load(Relaxed) == UNKNOWN {
            let known = if register() { ON } else { OFF };
            // The exchange succeeds only the first time: a state of `OFF` is final.
            let _ = STATE.compare_exchange(UNKNOWN, known, SeqCst, Relaxed);
        }
    }

    /// Runs a thread of ours on every core that the process may use (see the file's header).
    /// Returns how many cores these are, or the system's reason.
    ///
    /// All numbers are tried, and the number of cores is not asked for. The C library may answer
    /// with the cores of the calling thread, which may be a pinned worker (glibc where `/sys` and
    /// `/proc` are hidden, musl always); and numbers may have gaps.
    #[cold]
    fn visit_every_core() -> io::Result<usize> {
        let visit = || {
            let mut visited = 0;
            for core in 0..affinity::numbers()? {
                visited += usize::from(affinity::visit(core)?);
            }
            // A core that the process may not use does not count, but at least one core must count.
            if visited == 0 {
                return Err(io::Error::other("the process may use no core"));
            }
            Ok(visited)
        };
        let visitor = std::thread::Builder::new().name("seriatim-fence".to_owned()).spawn(visit)?;
        visitor.join().unwrap_or_else(|_| Err(io::Error::other("the visitor has panicked")))
    }

    /// Ends the process: a fence that is not there would lose wake-ups in silence.
    #[cold]
    fn abort(reason: &io::Error) -> ! {
        tell(&format!(
            "seriatim: the system refuses membarrier, which it did not when the first engine was made, and a visit of \
             every core in its place (sched_setaffinity of a new thread: {reason}). No thread can fence another, so the \
             process ends here: let the filter allow one of the two calls, or install it before the first engine"
        ));
        std::process::abort()
    }

    pub fn fence_everywhere() {
        match STATE.load(SeqCst) {
            UNKNOWN | OFF => {}
            // In the child of a `fork` the process may have to register again.
            ON if call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) || register() => {}
            _ => {
                // The process has lost the right to the call since (to a filter that refuses it,
                // and not one that kills for it), or the system its memory. From now on light sides
                // pass ordinary fences; the visit is for threads that have just passed a light one.
                let _ = STATE.compare_exchange(ON, LEAVING, SeqCst, Relaxed);
                fence(SeqCst);
                if let Err(reason) = visit_every_core() {
                    abort(&reason);
                }
                STATE.store(OFF, SeqCst);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::super::*;
        use super::affinity;
        use super::visit_every_core;
        use crate::util::spin::Spin;
        use std::sync::atomic::{compiler_fence, fence, AtomicU32, Ordering::*};
        use std::time::Duration;

        /// Has two sides write, pass a fence, and look. Returns how often neither has seen the
        /// other.
        fn blind(rounds: u32, fences: [fn(); 2]) -> usize {
            let (written, arrived) = ([AtomicU32::new(0), AtomicU32::new(0)], [AtomicU32::new(0), AtomicU32::new(0)]);
            let side = |own: usize| -> Vec<bool> {
                let round = |round: u32| {
                    // Both start at once, as far as they can.
                    arrived[own].store(round, Release);
                    // It gives up its core after a moment, since the other side may need it.
                    let mut spin = Spin::new(Duration::from_micros(20), Duration::MAX);
                    while arrived[1 - own].load(Acquire) < round {
                        spin.pause();
                    }
                    written[own].store(round, Relaxed);
                    fences[own]();
                    written[1 - own].load(Relaxed) >= round
                };
                (1..=rounds).map(round).collect()
            };
            let (seen, others) = std::thread::scope(|scope| {
                let other = scope.spawn(|| side(1));
                (side(0), other.join().expect("it does not panic"))
            });
            seen.iter().zip(&others).filter(|(one, other)| !**one && !**other).count()
        }

        #[test]
        fn of_two_who_write_and_look_one_sees_the_other() {
            prepare();
            assert_eq!(blind(20_000, [heavy, light]), 0, "both sides missed the other");
        }

        #[test]
        fn a_visit_by_a_pinned_thread_reaches_the_cores_of_the_others() {
            let cores = affinity::cores();
            let by_a_pinned_one = || {
                assert!(affinity::pin(cores[0]), "the system refuses");
                visit_every_core()
            };
            let visited = std::thread::scope(|scope| scope.spawn(by_a_pinned_one).join().expect("it does not panic"));
            assert!(visited.as_ref().is_ok_and(|visited| *visited >= cores.len()), "{visited:?} of {cores:?}");
        }

        /// The visit of every core is a fence also when it replaces the call, at the moment when
        /// the call is lost.
        #[test]
        fn a_visit_of_every_core_is_a_fence_for_all() {
            let visit = || {
                fence(SeqCst);
                visit_every_core().expect("the system lets a thread move");
                fence(SeqCst);
            };
            assert_eq!(blind(300, [visit, || compiler_fence(SeqCst)]), 0, "both sides missed the other");
        }
    }
}

#[cfg(loom)]
#[path = "../sync/loom_fences.rs"]
mod asymmetric;
#[cfg(loom)]
pub use asymmetric::begin as begin_model;

/// The fallback where the system has no such call, or none that could be tried: macOS and other
/// systems like Unix, Windows, and the machines that check or simulate the code.
///
/// Both sides pass an ordinary SeqCst fence, so the light side pays for its own. Why that is
/// enough: all SeqCst fences have one order. If a read behind one fence misses a write before
/// another fence, the first fence comes before the second in that order (C++20, [atomics.order],
/// which is Rust's memory model). If both sides missed each other, each fence would come before the
/// other. So one side sees the other, which is all that the users of the pair rely on. In each case
/// both sides pass their fence, and the models find the mistake if either is left out (the mutants
/// named `…-without-a-fence`). Linux takes this way too, in the state `OFF`: engines run in it in
/// `tests/faults/filters.rs`.
///
/// Windows has `FlushProcessWriteBuffers`, which would make the light side free there as well. It
/// is not used as long as no test runs there: a fence that is too weak loses wake-ups, and a fence
/// that is too strong costs nanoseconds.
#[cfg(not(any(loom, all(target_os = "linux", not(any(shuttle, miri, seriatim_simulation))))))]
mod asymmetric {
    #[inline(always)]
    pub fn is_on() -> bool {
        false
    }

    pub fn light() {}

    pub fn prepare() {}

    pub fn fence_everywhere() {}
}
