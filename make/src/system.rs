//! What the standard library has no call for: pipes, waiting for several of them, signals, and the
//! width of the terminal. Used by `process.rs`, `runner.rs` and `terminal.rs`. All unsafe code of
//! the package is here.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// A pipe: the end to read from, and the end to write to. No child has them unless it is given one.
///
/// # Errors
/// If there are no descriptors left.
pub fn pipe() -> io::Result<(File, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the call writes two descriptors to the array.
    if unsafe { make_pipe(&mut ends) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both are new, and nobody else has them.
    let [from, to] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    Ok((File::from(from), to))
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
unsafe fn make_pipe(ends: &mut [RawFd; 2]) -> i32 {
    // SAFETY: there is room for two descriptors.
    unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
unsafe fn make_pipe(ends: &mut [RawFd; 2]) -> i32 {
    // SAFETY: there is room for two descriptors.
    let result = unsafe { libc::pipe(ends.as_mut_ptr()) };
    if result == 0 {
        for end in ends {
            // SAFETY: a call that takes no memory.
            unsafe { libc::fcntl(*end, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    result
}

/// Waits until one of the descriptors can be read, or is closed at its other end, or a signal
/// comes. Returns for each whether it can.
///
/// # Errors
/// If the system refuses to wait.
pub fn wait_to_read(descriptors: &[RawFd]) -> io::Result<Vec<bool>> {
    let entry = |descriptor: &RawFd| libc::pollfd { fd: *descriptor, events: libc::POLLIN, revents: 0 };
    let mut entries: Vec<libc::pollfd> = descriptors.iter().map(entry).collect();
    // SAFETY: the pointer and the count are of one vector.
    let result = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, -1) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted {
            Ok(vec![false; descriptors.len()])
        } else {
            Err(error)
        };
    }
    Ok(entries.iter().map(|entry| entry.revents != 0).collect())
}

/// Sends a signal to a group of processes.
pub fn signal_group(leader: u32, signal: i32) {
    // SAFETY: a call that takes no memory.
    unsafe { libc::kill(-(leader as i32), signal) };
}

/// The signal that asked the program to stop; 0 if none did.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// The descriptor that a signal writes to; -1 before there is one.
static BELL: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(signal: libc::c_int) {
    ASKED.store(signal, SeqCst);
    let bell = BELL.load(SeqCst);
    if bell >= 0 {
        // SAFETY: a byte that is there; the call is allowed in a handler. If nobody has the
        // descriptor any more it fails, which does no harm.
        unsafe { libc::write(bell, [0u8].as_ptr().cast(), 1) };
    }
}

/// From now on the signals that ask a program to stop are noted, and write a byte to `bell`.
pub fn note_signals(bell: &impl AsRawFd) {
    BELL.store(bell.as_raw_fd(), SeqCst);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the structure is valid when all is zero, the handler does only what is allowed in
        // one, and no result is asked for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// From now on signals are only noted: what they wrote to is about to be closed.
pub fn forget_bell() {
    BELL.store(-1, SeqCst);
}

/// The signal that has asked the program to stop, if one has.
pub fn asked_to_stop() -> Option<i32> {
    Some(ASKED.load(SeqCst)).filter(|signal| *signal != 0)
}

/// Whether such a signal is what ended a process.
pub fn is_interrupt(signal: i32) -> bool {
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].contains(&signal)
}

/// The columns of the terminal that standard output is, if it is one.
pub fn columns() -> Option<usize> {
    // SAFETY: the structure is valid when all is zero.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes to the structure, which it knows by its number.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// How many processes were ready to run lately, of the last minute.
pub fn load_average() -> f64 {
    let mut load = [0.0];
    // SAFETY: there is room for one number.
    let known = unsafe { libc::getloadavg(load.as_mut_ptr(), 1) };
    if known == 1 {
        load[0]
    } else {
        0.0
    }
}
