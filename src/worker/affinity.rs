//! Pinning threads to cores.

#![forbid(unsafe_code)]

use core_affinity::CoreId;

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
