//! A pair of fences of which one costs nothing: for those who look now and then whether somebody waits, against those who are about to sleep.
//!
//! Both sides write something and then read what the other has written, and one of them must see the other's. Two sequentially consistent fences do
//! that; but who ends operations would pay for his at each of them. On Linux, [`heavy`] has the system make every running thread of the process pass a full
//! fence (`membarrier`, Desnoyers 2010; the technique is that of user-space RCU), so that [`light`] only has to keep the compiler from changing the order. Where there is no
//! such call, both are ordinary fences.

use crate::sync::{fence, Ordering::SeqCst};

/// Between a write and a read, on the side that runs all the time.
#[inline(always)]
pub fn light() {
    if asymmetric::is_on() {
        std::sync::atomic::compiler_fence(SeqCst);
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

/// Finds out what the system can do: a system call, which takes some milliseconds the first time if the process has other threads already. Before it, the fences
/// are heavier than they need be.
pub fn prepare() {
    asymmetric::prepare();
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))))]
mod asymmetric {
    use std::sync::atomic::{AtomicU8, Ordering::*};
    use std::time::Duration;

    const UNKNOWN: u8 = 0;
    const ON: u8 = 1;
    const OFF: u8 = 2;

    /// On the way from `ON` to `OFF`.
    const LEAVING: u8 = 3;

    /// Goes from `UNKNOWN` to `ON` or `OFF`, and from `ON` by `LEAVING` to `OFF`: ordinary fences on one side are never too little.
    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline(always)]
    pub fn is_on() -> bool {
        STATE.load(Relaxed) == ON
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

    pub fn fence_everywhere() {
        // The child of a `fork` may have to register anew.
        let again =
            || call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        match STATE.load(SeqCst) {
            UNKNOWN | OFF => {}
            ON if call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) || again() => {}
            _ => {
                // The process has lost the right to this call since (a filter that refuses it, and not one that kills for it), or the system its memory. From
                // now on everybody passes fences of his own; and what those have written who have just passed a light one is long out of their
                // processors when we go on.
                let _ = STATE.compare_exchange(ON, LEAVING, SeqCst, Relaxed);
                std::thread::sleep(Duration::from_millis(10));
                STATE.store(OFF, SeqCst);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::super::*;
        use std::sync::atomic::{AtomicU32, Ordering::*};

        /// One side writes and looks with a light fence between, the other with a heavy one: one of the two must see the other.
        #[test]
        fn of_two_who_write_and_look_one_sees_the_other() {
            prepare();
            const ROUNDS: u32 = 20_000;
            let (written, arrived) = ([AtomicU32::new(0), AtomicU32::new(0)], [AtomicU32::new(0), AtomicU32::new(0)]);
            let side = |own: usize, pass: fn()| -> Vec<bool> {
                let round = |round: u32| {
                    // Both start at once, as far as they can.
                    arrived[own].store(round, Release);
                    while arrived[1 - own].load(Acquire) < round {
                        std::hint::spin_loop();
                    }
                    written[own].store(round, Relaxed);
                    pass();
                    written[1 - own].load(Relaxed) >= round
                };
                (1..=ROUNDS).map(round).collect()
            };
            let (seen, others) = std::thread::scope(|scope| {
                let other = scope.spawn(|| side(1, light));
                (side(0, heavy), other.join().expect("it does not panic"))
            });
            let blind = seen.iter().zip(&others).filter(|(one, other)| !**one && !**other).count();
            assert_eq!(blind, 0, "both sides missed the other");
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation)))))]
mod asymmetric {
    #[inline(always)]
    pub fn is_on() -> bool {
        false
    }

    pub fn prepare() {}

    pub fn fence_everywhere() {}
}
