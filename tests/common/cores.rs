//! Which cores the calling thread may run on.

#![allow(dead_code)] // Each test binary uses a part of it.

/// The cores that the calling thread may run on.
pub fn own_cores() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// Keeps this thread, and those that it makes from now on, on one core: the one that it is on.
#[cfg(target_os = "linux")]
pub fn stay_on_this_core() {
    // SAFETY: takes nothing and changes nothing.
    let id = unsafe { libc::sched_getcpu() } as usize;
    assert!(core_affinity::set_for_current(core_affinity::CoreId { id }));
}
