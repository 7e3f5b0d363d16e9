//! Stands in for the C library's `syscall`, by which std and parking_lot call futexes. The file
//! that has this as a module also has `called`, which is told of each call. A program has it once.

use super::called;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The linker binds calls to this function, because it comes before the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn syscall(
    number: libc::c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> libc::c_long {
    type Real = extern "C" fn(libc::c_long, usize, usize, usize, usize, usize, usize) -> libc::c_long;
    static REAL: AtomicUsize = AtomicUsize::new(0);
    called(number, b);
    let mut real = REAL.load(Relaxed);
    if real == 0 {
        // SAFETY: the name ends in a zero.
        real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) }.expose_provenance();
        assert!(real != 0, "the C library has the function");
        REAL.store(real, Relaxed);
    }
    // SAFETY: it is the C library's function. It takes further arguments as a variadic function
    // does, which for integers is the same here.
    let real: Real = unsafe { std::mem::transmute(std::ptr::with_exposed_provenance::<()>(real)) };
    real(number, a, b, c, d, e, f)
}
