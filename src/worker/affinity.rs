//! Pinning threads to cores.

use core_affinity::CoreId;
pub use place::{current, move_off};

/// The library aborts the process on larger core numbers.
const CORES: usize = 1024;

/// The cores that the calling thread may use, by number. Read it before anything is pinned: a pinned thread sees its own core
/// only, and so do the threads that it starts.
pub fn cores() -> Vec<usize> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    cores.into_iter().map(|core| core.id).collect()
}

/// Pins the calling thread. `false` if the system refuses.
pub fn pin(core: usize) -> bool {
    core < CORES && core_affinity::set_for_current(CoreId { id: core })
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))))]
mod place {
    use std::mem::{size_of, zeroed};

    /// The core that the calling thread runs on just now.
    #[inline]
    pub fn current() -> Option<usize> {
        // SAFETY: takes nothing and changes nothing.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// Has the system move the calling thread to a core that is not `taken`, if it may run on such a one. Afterwards it may run where it might before.
    #[cold]
    pub fn move_off(taken: impl Fn(usize) -> bool) {
        // SAFETY: a set of cores is plain bits, of the size that the calls are told; a place in it is below `CPU_SETSIZE`.
        unsafe {
            let mut may: libc::cpu_set_t = zeroed();
            if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut may) != 0 {
                return;
            }
            let mut free = may;
            (0..libc::CPU_SETSIZE as usize).filter(|core| taken(*core)).for_each(|core| libc::CPU_CLR(core, &mut free));
            if libc::CPU_COUNT(&free) > 0
                && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const free) == 0
            {
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const may);
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation)))))]
mod place {
    pub fn current() -> Option<usize> {
        None
    }

    pub fn move_off(_: impl Fn(usize) -> bool) {}
}
