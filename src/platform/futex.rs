//! How one thread sleeps on an atomic pointer until another has changed it. `worker/wake_word.rs`
//! keeps a [`Sleeper`] for each inbox. Workers and watchers sleep there; who changes the pointer,
//! and when, is said there, too.
//!
//! On Linux this is the system's own call (Franke, Russell and Kirkwood, *Fuss, Futexes and
//! Furwocks*, 2002). Std's `unpark` is not enough: of two threads that unpark a third, the second
//! calls the system only if the first has not begun to. If the first loses its core in that moment,
//! nobody wakes the third. [`Sleeper::wake`] always calls the system. Elsewhere, and on 32 bits,
//! where the system has two such calls, a thread leaves its handle and parks. There the fault of
//! std's remains, and a waker that has taken the handle may be late as well.

pub use system::Sleeper;

// Miri knows no access to half of an atomic.
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(any(loom, shuttle, miri, seriatim_simulation))))]
mod system {
    use std::ptr;
    use std::sync::atomic::AtomicPtr;
    use std::time::Duration;

    /// The system knows who sleeps.
    pub struct Sleeper;

    impl Sleeper {
        pub fn new() -> Sleeper {
            Sleeper
        }

        /// Sleeps while the lower half of the pointer is that of `seen`: until a
        /// [`wake`](Sleeper::wake) that follows a change, or until the time is over. May return
        /// earlier. One thread at a time sleeps here.
        pub fn wait<T>(&self, word: &AtomicPtr<T>, seen: *mut T, timeout: Option<Duration>) {
            let timeout = timeout.map(|time| libc::timespec {
                tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
                tv_nsec: time.subsec_nanos() as _, // below a billion
            });
            let until = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
            // SAFETY: the word and the time live during the call. Whatever it returns, a signal
            // and the end of the time included, the caller looks again.
            unsafe { libc::syscall(libc::SYS_futex, lower_half(word), WAIT, seen.addr() as u32, until) };
        }

        /// Wakes the thread that sleeps, after the caller or another thread has changed the word.
        pub fn wake<T>(&self, word: &AtomicPtr<T>) {
            // SAFETY: the word lives during the call, which writes no memory of this process.
            unsafe { libc::syscall(libc::SYS_futex, lower_half(word), WAKE, 1) };
        }
    }

    /// The system compares 32 bits.
    fn lower_half<T>(word: &AtomicPtr<T>) -> *mut u32 {
        let halves: *mut u32 = word.as_ptr().cast();
        halves.wrapping_add(usize::from(cfg!(target_endian = "big")))
    }

    const WAIT: libc::c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    const WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
}

/// A message is there until it is taken, so a wake-up that comes before the sleep is not lost.
#[cfg(loom)]
mod system {
    use crate::sync::{channel, thread, AtomicPtr, Receiver, Sender};
    use std::time::Duration;

    pub struct Sleeper(Sender<()>, Receiver<()>);

    // SAFETY: only the thread that sleeps receives.
    unsafe impl Sync for Sleeper {}

    impl Sleeper {
        pub fn new() -> Sleeper {
            let (sender, receiver) = channel();
            Sleeper(sender, receiver)
        }

        pub fn wait<T>(&self, _: &AtomicPtr<T>, _: *mut T, timeout: Option<Duration>) {
            match timeout {
                Some(time) => thread::park_timeout(time),
                None => self.1.recv().expect("the sender is here"),
            }
        }

        pub fn wake<T>(&self, _: &AtomicPtr<T>) {
            self.0.send(()).expect("the receiver is here");
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            // Loom wants no message left.
            while self.1.try_recv().is_ok() {}
        }
    }
}

#[cfg(not(any(
    loom,
    all(target_os = "linux", target_pointer_width = "64", not(any(shuttle, miri, seriatim_simulation)))
)))]
mod system {
    use crate::sync::thread::{self, Thread};
    use crate::sync::{AtomicPtr, Ordering::*};
    use std::ptr::null_mut;
    use std::time::Duration;

    /// The handle of the thread that sleeps or has slept, in a box; or null.
    pub struct Sleeper(AtomicPtr<Thread>);

    impl Sleeper {
        pub fn new() -> Sleeper {
            Sleeper(AtomicPtr::new(null_mut()))
        }

        pub fn wait<T>(&self, word: &AtomicPtr<T>, seen: *mut T, timeout: Option<Duration>) {
            self.exchange(Box::into_raw(Box::new(thread::current())));
            // If a waker's exchange came before this thread's, this thread sees what had been
            // changed then. Otherwise the waker finds the handle.
            if word.load(Acquire) == seen {
                match timeout {
                    Some(time) => thread::park_timeout(time),
                    None => thread::park(),
                }
            }
        }

        pub fn wake<T>(&self, _: &AtomicPtr<T>) {
            if let Some(thread) = self.exchange(null_mut()) {
                thread.unpark();
            }
        }

        #[allow(clippy::unnecessary_box_returns)] // it was in a box
        fn exchange(&self, new: *mut Thread) -> Option<Box<Thread>> {
            // AcqRel: the exchanges have one order, and each sees what was done before the earlier.
            let old = self.0.swap(new, AcqRel);
            // SAFETY: what is in here came out of a box, and only this exchange has taken it out.
            (!old.is_null()).then(|| unsafe { Box::from_raw(old) })
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.exchange(null_mut());
        }
    }
}
