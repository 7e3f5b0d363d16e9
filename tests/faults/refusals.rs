//! A system that refuses threads when the test says so: limits such as `RLIMIT_NPROC` do not bind
//! the superuser, and no limit names the one thread of several that is refused.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::transmute;

thread_local! {
    /// How many threads the calling thread may still start before the refusals begin, and how many
    /// refusals there are.
    static PLAN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// From now on the calling thread is granted so many threads, then refused so many, then granted
/// all again.
pub fn refuse_after(granted: usize, refused: usize) {
    PLAN.set((granted, refused));
}

/// Refusals that have not happened yet.
pub fn refusals_left() -> usize {
    PLAN.get().1
}

type Create = unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Main, *mut c_void) -> libc::c_int;
type Main = extern "C" fn(*mut c_void) -> *mut c_void;

/// Stands before the system's function of this name in the whole test binary, and refuses as the
/// system would.
///
/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    main: Main,
    argument: *mut c_void,
) -> libc::c_int {
    match PLAN.get() {
        (0, 0) => {}
        (0, refused) => {
            PLAN.set((0, refused - 1));
            return libc::EAGAIN;
        }
        (granted, refused) => PLAN.set((granted - 1, refused)),
    }
    // SAFETY: the name is a C string; the next function of this name is the system's, whose type
    // this is.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
        assert!(!next.is_null(), "there is no pthread_create");
        transmute::<*mut c_void, Create>(next)(thread, attributes, main, argument)
    }
}
