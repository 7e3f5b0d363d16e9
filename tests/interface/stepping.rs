//! Counting instructions: a process runs step by step under the eyes of the one that forked it.
//!
//! Unlike a time, this is the same on a busy machine and on a quiet one. Caches and predictors do
//! not show.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::arch::asm;

/// What the thread did between two marks.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    pub instructions: usize,
    /// Calls into the system.
    pub calls: usize,
}

/// The most instructions that are counted between two marks.
const MOST: usize = 300_000;
const MARK: u8 = 0xCC;

/// Where the count begins or ends, by turns.
#[inline(never)]
pub fn mark() {
    // SAFETY: a breakpoint. The process that watches this one takes the signal; nothing else comes
    // here.
    unsafe { asm!("int3") };
}

/// Runs `work` in a fork of this process, and counts what its first thread does between each pair
/// of marks. None if the system does not let a process watch its child. For child processes of
/// tests only.
pub fn count(work: impl FnOnce()) -> Option<Vec<Walk>> {
    // SAFETY: as in `fork_and`: nobody holds a lock in this process.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "the system refused to fork");
    if pid == 0 {
        // SAFETY: this process asks to be watched, and ends without its parent's destructors.
        unsafe {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
                libc::_exit(77);
            }
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            libc::_exit(i32::from(outcome.is_err()));
        }
    }
    let mut walks = Vec::new();
    loop {
        match go_on(pid, libc::PTRACE_CONT, walks.is_empty()) {
            Stop::Ended(77) => return None,
            Stop::Ended(code) => {
                assert_eq!(code, 0, "the process that was watched failed");
                return Some(walks);
            }
            Stop::Trapped => walks.push(walk(pid)),
        }
    }
}

enum Stop {
    Ended(i32),
    Trapped,
}

/// Lets the process run on, unless it was only just made, and waits until it stops.
fn go_on(pid: libc::pid_t, how: libc::c_uint, is_new: bool) -> Stop {
    let mut signal = 0;
    let mut is_new = is_new;
    loop {
        let mut status = 0;
        // SAFETY: `pid` is our child, stopped or new, and `status` is ours.
        unsafe {
            if !is_new {
                assert_eq!(libc::ptrace(how, pid, 0, signal), 0, "{}", std::io::Error::last_os_error());
            }
            assert_eq!(libc::waitpid(pid, &mut status, libc::__WALL), pid);
        }
        is_new = false;
        if !libc::WIFSTOPPED(status) {
            assert!(libc::WIFEXITED(status), "the process that was watched ended with {status:#x}");
            return Stop::Ended(libc::WEXITSTATUS(status));
        }
        match libc::WSTOPSIG(status) {
            libc::SIGTRAP => return Stop::Trapped,
            other => signal = other,
        }
    }
}

/// Counts from one mark, where the process stands, to the next.
fn walk(pid: libc::pid_t) -> Walk {
    let mut walk = Walk { instructions: 0, calls: 0 };
    loop {
        let code = next_code(pid);
        if code[0] == MARK {
            // The process goes over it, and stops behind.
            assert!(matches!(go_on(pid, libc::PTRACE_CONT, false), Stop::Trapped));
            return walk;
        }
        walk.instructions += 1;
        walk.calls += usize::from(code[..2] == [0x0F, 0x05]);
        assert!(walk.instructions < MOST, "no mark for so long: {walk:?}");
        assert!(matches!(go_on(pid, libc::PTRACE_SINGLESTEP, false), Stop::Trapped));
    }
}

/// The next instruction's first bytes.
fn next_code(pid: libc::pid_t) -> [u8; 8] {
    let place = std::mem::offset_of!(libc::user, regs) + std::mem::offset_of!(libc::user_regs_struct, rip);
    // SAFETY: the process stands still. Its counter points to an instruction, and so to memory that
    // can be read.
    let word = unsafe {
        let counter = libc::ptrace(libc::PTRACE_PEEKUSER, pid, place, 0);
        libc::ptrace(libc::PTRACE_PEEKTEXT, pid, counter, 0)
    };
    word.to_ne_bytes()
}
