//! A pair of fences of which one costs nothing: for those who look now and then whether somebody
//! waits, against those who are about to sleep.
//!
//! Both sides write something and then read what the other has written, and one of them must see
//! the other's. Two sequentially consistent fences do that; but who ends operations would pay for
//! his at each of them. On Linux, [`heavy`] has the system make every running thread of the process
//! pass a full fence (`membarrier`, Desnoyers 2010; the technique is that of user-space RCU), so
//! that [`light`] only has to keep the compiler from changing the order. Where there is no such
//! call, both are ordinary fences.
//!
//! # If the call is lost
//!
//! A filter for system calls that is installed later can refuse the call. Then everybody passes
//! ordinary fences from that time on; but a thread that has not seen this yet may just pass a light
//! one. So the thread that finds out does once, without the call, what the call did: a thread of
//! ours visits every core that the process may use, tried by number; on another one no thread of
//! the process can be, and one that gets there meanwhile was switched out. Call *t* a thread that
//! was between its write and its read when the state changed. The visitor runs on the core of *t*
//! only when *t* has been switched out there; or *t* was switched out before, and moved, or did not
//! run. A switch is a full fence (`schedule()` in the kernel's `memory-barriers.txt`, "implicit
//! kernel memory barriers"). So when the visit is over, either what *t* has written is seen by the
//! thread that found out, or *t* made that write after the switch; then it sees the new state, and
//! passes an ordinary fence. This is the third way of Dice, Huang and Yang, *Asymmetric Dekker
//! Synchronization* (2001). Their first, taking a page's rights away, fences no longer where the
//! processor broadcasts that by itself (ARM; AMD's `INVLPGB`, which Linux uses from 6.14 on). A
//! process that has put its threads into different sets of cores by threaded control groups must
//! not lose the call.
//!
//! If the filter refuses to move a thread as well, there is nothing left that fences other threads:
//! that is said on standard error, and 10 ms are waited, in which processors of today empty their
//! store buffers many times over. A filter must allow one of the two calls.

use crate::sync::{fence, Ordering::SeqCst};

/// Between a write and a read, on the side that runs all the time.
#[inline(always)]
pub fn light() {
    if asymmetric::is_on() {
        asymmetric::light();
    } else {
        fence(SeqCst);
    }
}

/// Between a write and a read, on the side of a thread that is about to sleep: about a microsecond.
#[cold]
pub fn heavy() {
    fence(SeqCst);
    asymmetric::fence_everywhere();
    fence(SeqCst);
}

/// Finds out what the system can do: a system call, which takes some milliseconds the first time if
/// the process has other threads already. Before it, the fences are heavier than they need be.
pub fn prepare() {
    asymmetric::prepare();
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))))]
mod asymmetric {
    use crate::platform::affinity;
    use std::sync::atomic::{fence, AtomicU8, Ordering::*};
    use std::time::Duration;

    const UNKNOWN: u8 = 0;
    const ON: u8 = 1;
    const OFF: u8 = 2;

    /// On the way from `ON` to `OFF`.
    const LEAVING: u8 = 3;

    /// Goes from `UNKNOWN` to `ON` or `OFF`, and from `ON` by `LEAVING` to `OFF`: ordinary fences
    /// on one side are never too little.
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

    pub fn prepare() {
        if STATE.load(Relaxed) == UNKNOWN {
            let known = if call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) { ON } else { OFF };
            // Only the first time: a state of `OFF` is for good.
            let _ = STATE.compare_exchange(UNKNOWN, known, SeqCst, Relaxed);
        }
    }

    /// Has a thread of ours run on every core that the process may use: see above. How many those
    /// are; none if the system refuses.
    ///
    /// All numbers are tried, and nobody is asked how many cores there are: the C library may
    /// answer with the cores of the calling thread, which may be a pinned worker (glibc where
    /// `/sys` and `/proc` are hidden, musl always), and numbers may have gaps.
    #[cold]
    fn visit_every_core() -> Option<usize> {
        let visit = || {
            let visits = (0..affinity::numbers()?).map(affinity::visit);
            // A core that the process may not use does not count, but it must be one at least.
            let count = |all: usize, visited: Option<bool>| match visited {
                Some(true) => Some(all + 1),
                Some(false) => None,
                None => Some(all),
            };
            visits.into_iter().try_fold(0, count).filter(|all| *all > 0)
        };
        let visitor = std::thread::Builder::new().name("seriatim-fence".to_owned()).spawn(visit).ok()?;
        visitor.join().ok().flatten()
    }

    pub fn fence_everywhere() {
        // The child of a `fork` may have to register anew.
        let again =
            || call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        match STATE.load(SeqCst) {
            UNKNOWN | OFF => {}
            ON if call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) || again() => {}
            _ => {
                // The process has lost the right to this call since (a filter that refuses it, and
                // not one that kills for it), or the system its memory. From now on everybody
                // passes fences of his own; the visit is for those who have just passed a light
                // one.
                let _ = STATE.compare_exchange(ON, LEAVING, SeqCst, Relaxed);
                fence(SeqCst);
                if visit_every_core().is_none() {
                    eprintln!(
                        "seriatim: a filter refuses membarrier and sched_setaffinity, which it did not when the first engine was made: \
                         allow one of them, or install the filter before"
                    );
                    std::thread::sleep(Duration::from_millis(10));
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

        /// Two sides write, pass a fence, and look: how often neither has seen the other.
        fn blind(rounds: u32, fences: [fn(); 2]) -> usize {
            let (written, arrived) = ([AtomicU32::new(0), AtomicU32::new(0)], [AtomicU32::new(0), AtomicU32::new(0)]);
            let side = |own: usize| -> Vec<bool> {
                let round = |round: u32| {
                    // Both start at once, as far as they can.
                    arrived[own].store(round, Release);
                    // Without its core after a moment: the other may need it.
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
            assert!(visited >= Some(cores.len()), "{visited:?} of {cores:?}");
        }

        /// Also if the visit stands in for the call, at the moment when that is lost.
        #[test]
        fn a_visit_of_every_core_is_a_fence_for_all() {
            let visit = || {
                fence(SeqCst);
                assert!(visit_every_core().is_some(), "the system refuses");
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

/// Where the system has no such call, or none that could be tried: macOS and other systems like
/// Unix, Windows, and the machines that check or simulate the code.
///
/// Both sides pass an ordinary SeqCst fence, and the light side pays for its own. Why that is
/// enough: all SeqCst fences have one order. If a read behind one fence misses a write before
/// another one, the first comes before the second in that order (C++20, [atomics.order], which is
/// Rust's memory model). If both sides missed each other, each fence would come before the other.
/// So one side sees the other, which is all that the users of the pair rely on: in each case both
/// sides pass their fence, and the models find the mistake if either is left out (the mutants named
/// `…-without-a-fence`). Linux takes this way too, in the state `OFF`: engines run in it in
/// `tests/faults/filters.rs`.
///
/// Windows has `FlushProcessWriteBuffers`, which would make the light side free there as well. It
/// is not used as long as no test runs there: a fence that is too weak loses wake-ups, one that is
/// too strong costs nanoseconds.
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
