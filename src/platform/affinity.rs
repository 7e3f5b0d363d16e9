//! Pinning threads to cores, as far as the system goes.
//!
//! Used by `engine/settings.rs` (which cores there are), `worker/threads.rs` (`Group::start` says
//! which worker gets which core), `worker/pinning.rs` (pins it there, and moves it), and
//! `platform/asymmetric_fence.rs` (goes to every core in turn). Nothing is kept here: the cores of
//! a thread are known to the system. The calls change those of the calling thread; only
//! [`pin_other`] changes those of another one, a worker.

use core_affinity::CoreId;
pub use place::{current, is_pinned, move_off, own_id, pin_other};
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))))]
pub use place::{numbers, visit};

/// Threads can be pinned only to cores with numbers below this.
///
/// On Windows `core_affinity` shifts a bit by the number into a word, which is a mask of the cores
/// of one processor group; a larger number would come out as another core. On other systems
/// `core_affinity` aborts the process on numbers for which its set of cores has no room.
const CORES: usize = if cfg!(windows) { usize::BITS as usize } else { 1024 };

/// Whether the system pins threads at all. macOS and its relatives only take a tag, as a hint which
/// threads should share a cache, and not even that on their Arm processors. A pin there would be a
/// promise that is not kept.
const PINS: bool = !cfg!(target_vendor = "apple");

/// The outcome of moving the calling thread.
#[derive(PartialEq, Eq, Debug)]
pub enum Moved {
    /// The thread may use the same cores as before the call: it was moved and its cores were given
    /// back, or there was no core to move to.
    Back,
    /// The system did not give it back the cores that it might use before.
    Stuck,
}

/// Returns the numbers of the cores that the calling thread may use. Call it before any thread is
/// pinned: a pinned thread sees its own core only, and so do the threads that it starts.
pub fn cores() -> Vec<usize> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    cores.into_iter().map(|core| core.id).collect()
}

/// Pins the calling thread. `false` if the system refuses, or cannot.
pub fn pin(core: usize) -> bool {
    PINS && core < CORES && core_affinity::set_for_current(CoreId { id: core })
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))))]
mod place {
    use super::Moved;
    use libc::{cpu_set_t, CPU_CLR, CPU_EQUAL, CPU_SET, CPU_SETSIZE};
    use std::io;
    use std::mem::{size_of, zeroed};

    /// Returns the core that the calling thread runs on at this moment.
    #[inline]
    pub fn current() -> Option<usize> {
        // SAFETY: takes nothing and changes nothing.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// Returns the system's number of the calling thread.
    pub fn own_id() -> i32 {
        // SAFETY: takes nothing and changes nothing.
        unsafe { libc::syscall(libc::SYS_gettid) as i32 }
    }

    /// Returns the cores that a thread may use; thread 0 is the calling one.
    fn mask(thread: i32) -> Option<cpu_set_t> {
        // SAFETY: a set of cores is plain bits, of the size that the call is told.
        unsafe {
            let mut set: cpu_set_t = zeroed();
            (libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), &raw mut set) == 0).then_some(set)
        }
    }

    fn set_mask(thread: i32, set: &cpu_set_t) -> bool {
        // SAFETY: as in `mask`.
        unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), &raw const *set) == 0 }
    }

    fn only(core: usize) -> cpu_set_t {
        // SAFETY: a set of cores is plain bits. The core is one of the settings', below
        // `CPU_SETSIZE`.
        unsafe {
            let mut set: cpu_set_t = zeroed();
            CPU_SET(core, &mut set);
            set
        }
    }

    fn are_equal(one: &cpu_set_t, other: &cpu_set_t) -> bool {
        // SAFETY: reads two sets.
        unsafe { CPU_EQUAL(one, other) }
    }

    /// Returns whether a thread of this process may run on this core and on no other.
    pub fn is_pinned(thread: i32, core: usize) -> bool {
        mask(thread).is_some_and(|now| are_equal(&now, &only(core)))
    }

    /// Pins a thread of this process. `false` if the system refuses.
    pub fn pin_other(thread: i32, core: usize) -> bool {
        set_mask(thread, &only(core))
    }

    /// Returns how many numbers of cores there are to try. An error if the system may have more
    /// than the calls here can name.
    pub fn numbers() -> io::Result<usize> {
        // The call fails with a set that is shorter than the system's.
        mask(0).map(|_| CPU_SETSIZE as usize).ok_or_else(io::Error::last_os_error)
    }

    /// Moves the calling thread to this core, and leaves it there. Returns `false` if the process
    /// may not use the core. An error if the thread has not run there.
    pub fn visit(core: usize) -> io::Result<bool> {
        if !set_mask(0, &only(core)) {
            let refused = io::Error::last_os_error();
            let outside = refused.raw_os_error() == Some(libc::EINVAL);
            return if outside { Ok(false) } else { Err(refused) };
        }
        match current() {
            Some(now) if now == core => Ok(true),
            now => Err(io::Error::other(format!("a thread that moves to core {core} runs on {now:?}"))),
        }
    }

    /// Moves the calling thread to a core that is not `taken`, if it may run on one. Afterwards it
    /// may run where it might before. If other code has given it other cores meanwhile, it keeps
    /// those.
    #[cold]
    pub fn move_off(taken: impl Fn(usize) -> bool) -> Moved {
        let Some(may) = mask(0) else { return Moved::Back };
        let mut free = may;
        // SAFETY: the cores are below `CPU_SETSIZE`.
        (0..CPU_SETSIZE as usize).filter(|core| taken(*core)).for_each(|core| unsafe { CPU_CLR(core, &mut free) });
        // The system refuses an empty set.
        if !set_mask(0, &free) {
            return Moved::Back;
        }
        match mask(0) {
            Some(now) if are_equal(&now, &free) && !set_mask(0, &may) => Moved::Stuck,
            _ => Moved::Back,
        }
    }
}

/// The fallback for systems that do not tell on which core a thread is, or do not move it: workers
/// stay where they were pinned.
#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation)))))]
mod place {
    use super::Moved;

    pub fn current() -> Option<usize> {
        None
    }

    pub fn own_id() -> i32 {
        0
    }

    pub fn is_pinned(_: i32, _: usize) -> bool {
        false
    }

    pub fn pin_other(_: i32, _: usize) -> bool {
        false
    }

    pub fn move_off(_: impl Fn(usize) -> bool) -> Moved {
        Moved::Back
    }
}
