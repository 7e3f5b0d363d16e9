//! What the system's scheduler is told of threads: real-time priorities, and how punctual timers
//! are to be. Used by `worker/scheduling.rs` and `worker/run_loop.rs`, for workers, and by
//! `engine/settings.rs`, which asks whether there are priorities. Nothing is kept here: the thread
//! that starts workers sets their priorities, and a worker sets its own timers.

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

/// Has timers of the calling thread end when they are set to. Otherwise Linux lets them end up to
/// 50 µs later, to end several at once.
pub fn be_punctual() {
    // A refusal costs those 50 µs and nothing else.
    #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri, seriatim_simulation))))]
    // SAFETY: takes numbers, and changes the calling thread only.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
    }
}
