//! Handles of libraries, such as cuBLAS, that a GPU's worker keeps.

use crate::call::SeriatimDeleter;
use crate::error::{guard, SeriatimStatus};
use crate::input::{borrow, null, produce_pointer};
use crate::run_context::SeriatimRunContext;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Makes a handle of a library: puts it into `out` and returns 0, or returns something else. The
/// GPU is current on the calling thread. Must not unwind.
pub type SeriatimHandleFunction =
    Option<unsafe extern "C-unwind" fn(argument: *mut c_void, out: *mut *mut c_void) -> c_int>;

/// A handle that C has made. Belongs to its thread.
struct LibraryHandle {
    pointer: *mut c_void,
    destroy: SeriatimDeleter,
}

impl Drop for LibraryHandle {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: it comes with the handle, and nobody uses that any more.
            unsafe { destroy(self.pointer) }
        }
    }
}

/// A handle of a library, such as a `cublasHandle_t`, that belongs to the worker: made by `make`
/// when an operation of this worker first asks for one with this key, and given to those that come
/// later. `key` is an address of the program's own, such as that of `make`, and is not looked at;
/// `argument` is for `make` alone. The handle may be used until the function returns, and is not
/// sent to another thread.
///
/// The GPU is current where `make` runs, and where the handle is given to `destroy`: on its own
/// thread, when the worker ends, since the engine stops or ends, or the process forks; the last
/// that was made goes first. `destroy` may be null, and must not wait for the engine. Handles of a
/// GPU that is lost are not destroyed. On the naive engine, which has no workers, a handle is made
/// for the operation that asks, and destroyed at its end.
///
/// The operations of a worker come to all streams of its GPU: tell the library
/// `seriatim_run_context_stream()` first. If the library ties memory for its work to a handle,
/// there has to be one for each stream: the stream is a good key then.
///
/// An operation that is captured for a graph of the driver (`SeriatimOperation.device_graph`) gets
/// a handle that only the other operations of that graph get, so one is enough for it. When the
/// worker has ended, the next replay captures anew; on the naive engine each replay does. When the
/// graph is gone, the handle is destroyed before the worker captures another one, or at its end.
///
/// # Errors
/// `SERIATIM_STATUS_NO_STREAM` if the operation has none: on the processor, and for
/// `SERIATIM_PROPERTY_ASYNC`. `SERIATIM_STATUS_DEVICE_UNAVAILABLE` and
/// `SERIATIM_STATUS_DEVICE_LOST` if the function has made another GPU current and its own cannot be
/// made current again. `SERIATIM_STATUS_OPERATION_FAILED` if `make` does not return 0: the next
/// operation that asks makes the handle. `SERIATIM_STATUS_BORROW_CONFLICT` if `make` asks for the
/// same handle.
///
/// # Safety
/// `run` was given to the function that is running on this thread. `make` may be called with
/// `argument`, and `destroy` with what it has made. Each use of a key has the same `make` and
/// `destroy`. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_run_context_handle(
    run: *const SeriatimRunContext,
    key: *const c_void,
    make: SeriatimHandleFunction,
    argument: *mut c_void,
    destroy: SeriatimDeleter,
    out: *mut *mut c_void,
) -> SeriatimStatus {
    let find = || {
        // SAFETY: by the contract.
        let run = unsafe { borrow(run, "run") }?.run();
        let make = make.ok_or_else(|| null("make"))?;
        let made = || {
            let mut pointer = null_mut();
            // SAFETY: by the contract; the place is ours.
            match unsafe { make(argument, &mut pointer) } {
                0 => Ok(LibraryHandle { pointer, destroy }),
                code => Err(format!("the function that makes it returned {code}")),
            }
        };
        Ok(run.with_handle_of(key.addr(), made, |handle| handle.pointer)?)
    };
    // SAFETY: by the contract.
    guard(|| unsafe { produce_pointer(out, find) })
}
