//! Real-time priorities of threads. Called by `worker/scheduling.rs` for workers, and by
//! `engine/settings.rs`, which asks whether there are any.

use crate::sync::thread::JoinHandle;

/// Whether the system has priorities of this kind, and they are used here.
pub const HAS_FIFO: bool = cfg!(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))));

/// Gives a thread of this process the policy `SCHED_FIFO` with a priority, 1 to 99. Threads and
/// processes that it starts do not inherit that.
///
/// # Errors
/// What the system said.
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))))]
pub fn set_fifo(thread: &JoinHandle<()>, priority: u32) -> std::io::Result<()> {
    use std::os::unix::thread::JoinHandleExt;
    // SAFETY: plain numbers; zeros are a value of it on every C library.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority as libc::c_int;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the thread has not been joined, so its name is valid.
    match unsafe { libc::pthread_setschedparam(thread.as_pthread_t(), policy, &raw const parameter) } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

/// Elsewhere there is no such policy. The settings that ask for it are refused before.
#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation)))))]
pub fn set_fifo(_: &JoinHandle<()>, _: u32) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
