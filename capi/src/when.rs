//! Waits that hold no thread: they call a function, or write to an eventfd, when they are over.
//!
//! The latter are operations. Each of the former is a future of the engine that is polled here: on
//! the thread that begins the wait, and then on those that wake it, which end operations. One
//! thread at a time polls: `state` says which, and a wake-up during a poll has the same thread poll
//! again. So the function is called once.

use crate::call::{Argument, SeriatimDeleter};
use crate::engine::SeriatimEngine;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{bad, borrow, null};
use crate::variable::SeriatimVariable;
use seriatim::{Engine, Error, Property};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering::*};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// What a wait that holds no thread calls when it is over, once: with
/// `SERIATIM_STATUS_OK`, or with the failure, whose text `seriatim_last_error()` has on this thread
/// until the function returns.
///
/// Called on a thread of the engine, or on one that pushes, waits or completes; or inside the call
/// that begins the wait, if it is over already. It should be short: the thread has other things to
/// do. It must not wait for the engine, so it must not delete what may be its last handle. It must
/// not unwind. It may push.
pub type SeriatimReadyFunction = Option<unsafe extern "C" fn(argument: *mut c_void, status: SeriatimStatus)>;

/// Calls `function` when the operations that change `variable` and were pushed before this call are
/// complete, as `seriatim_wait_for_variable()` waits, and waits itself for nobody. Running readers
/// do not hold it up. The wait keeps its place in push order: what is pushed later is not waited
/// for. If the variable is marked, the function gets the failure, which is thereby cleared
/// everywhere.
///
/// # Errors
/// None that is not also given to `function`: `SERIATIM_STATUS_VARIABLE_DELETED`,
/// `SERIATIM_STATUS_FOREIGN_VARIABLE`, `SERIATIM_STATUS_PRIVATE_VARIABLE`, and those of operations,
/// are given to it, and the call succeeds. `SERIATIM_STATUS_NULL_POINTER` if `function` is null:
/// then nothing is called but the deleter.
///
/// # Safety
/// `engine` is a live handle. `function` and `deleter` may be called with `argument` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_when_ready(
    engine: *const SeriatimEngine,
    variable: SeriatimVariable,
    function: SeriatimReadyFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe { call_when(engine, (function, argument, deleter), |engine| Box::pin(engine.ready(variable))) }
}

/// As `seriatim_when_ready()`, but also waits for the operations that read `variable`, as
/// `seriatim_wait_until_unused()` does: then what it stands for may be freed.
///
/// # Errors
/// Those of `seriatim_when_ready()`.
///
/// # Safety
/// `engine` is a live handle. `function` and `deleter` may be called with `argument` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_when_unused(
    engine: *const SeriatimEngine,
    variable: SeriatimVariable,
    function: SeriatimReadyFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe { call_when(engine, (function, argument, deleter), |engine| Box::pin(engine.unused(variable))) }
}

/// Calls `function` when nothing is in flight, as `seriatim_wait_for_all()` waits, and waits itself
/// for nobody. Inside an operation of the engine the function gets
/// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` at once.
///
/// # Errors
/// Those of `seriatim_when_ready()`.
///
/// # Safety
/// `engine` is a live handle. `function` and `deleter` may be called with `argument` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_when_all_ended(
    engine: *const SeriatimEngine,
    function: SeriatimReadyFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe { call_when(engine, (function, argument, deleter), |engine| Box::pin(engine.all_ended())) }
}

/// Adds 1 to an eventfd when the operations that change `variable` and were pushed before this call
/// are complete: for programs that wait in `poll()` or `epoll_wait()`. A pipe does as well: it gets
/// the eight bytes of that number. What the write returns is ignored. No failure is taken: call
/// `seriatim_wait_for_variable()` then, which returns at once, and has it.
///
/// It is an operation that reads `variable`, and runs even if that is marked by a failure. It
/// writes exactly once, on some thread: also if the call is refused, or after a shutdown.
///
/// # Errors
/// As `seriatim_push()`. `SERIATIM_STATUS_BAD_ARGUMENT` if `descriptor` is negative, or the system
/// has none.
///
/// # Safety
/// `engine` is a live handle. `descriptor` is open until it was written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_when_ready_write(
    engine: *const SeriatimEngine,
    variable: SeriatimVariable,
    descriptor: c_int,
) -> SeriatimStatus {
    guard(|| {
        if cfg!(not(unix)) || descriptor < 0 {
            return Err(bad(format!("{descriptor} is no descriptor that can be written to")));
        }
        let written = WrittenAtTheEnd::new(descriptor);
        // SAFETY: by the contract.
        let engine = &unsafe { borrow(engine, "engine") }?.0;
        let tell = engine.op("tell a descriptor").read(variable).property(Property::NoSkip);
        tell.push(move |_| drop(written)).map_err(Failure::from)
    })
}

type Wait = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// What is called when a wait is over.
struct Told(unsafe extern "C" fn(*mut c_void, SeriatimStatus), Argument);

/// Begins a wait that calls a function.
///
/// # Safety
/// `engine` is a live handle, and the function comes with its argument.
unsafe fn call_when(
    engine: *const SeriatimEngine,
    (function, argument, deleter): (SeriatimReadyFunction, *mut c_void, SeriatimDeleter),
    wait: impl FnOnce(&Engine) -> Wait,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    guard(move || {
        // SAFETY: by the contract.
        let engine = &unsafe { borrow(engine, "engine") }?.0;
        let function = function.ok_or_else(|| null("function"))?;
        Notice::begin(wait(engine), Told(function, argument));
        Ok(())
    })
}

/// Nobody polls.
const RESTS: u8 = 0;
/// A thread polls; and it has to poll again, since the wait was woken meanwhile.
const POLLED: u8 = 1;
const AGAIN: u8 = 2;

/// A wait under way.
struct Notice {
    state: AtomicU8,
    /// Until it is over.
    content: UnsafeCell<Option<(Wait, Told)>>,
}

// SAFETY: `state` gives the content to one thread at a time, and it may be sent.
unsafe impl Sync for Notice {}
// SAFETY: as above.
unsafe impl Send for Notice {}

impl Notice {
    fn begin(wait: Wait, told: Told) {
        let content = UnsafeCell::new(Some((wait, told)));
        let notice = Arc::new(Notice { state: AtomicU8::new(POLLED), content });
        notice.poll();
    }

    /// Polls the wait until nobody has woken it meanwhile, for a thread that has the content.
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        loop {
            self.state.store(POLLED, Relaxed);
            // SAFETY: the state says that this thread has the content.
            let content = unsafe { &mut *self.content.get() };
            let Some((wait, _)) = content else { return };
            if let Poll::Ready(outcome) = wait.as_mut().poll(&mut Context::from_waker(&waker)) {
                // The state stays as it is: a late wake-up finds nothing to do.
                if let Some((wait, told)) = content.take() {
                    drop(wait);
                    told.tell(outcome);
                }
                return;
            }
            // Release: pairs with the acquire in `wake`, for the thread that polls next. Acquire,
            // on failure: what the thread that has woken did is seen by the next poll.
            if self.state.compare_exchange(POLLED, RESTS, Release, Acquire).is_ok() {
                return;
            }
        }
    }
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        // Whatever it was. AcqRel: as in `poll`.
        if self.state.swap(AGAIN, AcqRel) == RESTS {
            self.poll();
        }
    }
}

impl Told {
    fn tell(self, outcome: Result<(), Error>) {
        let Told(function, argument) = self;
        let status = guard(|| outcome.map_err(Failure::from));
        // SAFETY: the function comes with its argument, which is deleted afterwards.
        unsafe { function(argument.pointer(), status) };
    }
}

/// A descriptor that is written to when this is dropped.
struct WrittenAtTheEnd {
    #[cfg(unix)]
    descriptor: c_int,
}

#[cfg(unix)]
impl WrittenAtTheEnd {
    fn new(descriptor: c_int) -> WrittenAtTheEnd {
        WrittenAtTheEnd { descriptor }
    }
}

#[cfg(unix)]
impl Drop for WrittenAtTheEnd {
    fn drop(&mut self) {
        unsafe extern "C" {
            fn write(descriptor: c_int, bytes: *const c_void, count: usize) -> isize;
        }
        let one = 1_u64;
        // SAFETY: eight bytes, which live until the call returns. The program keeps the descriptor
        // open.
        let _ = unsafe { write(self.descriptor, (&raw const one).cast(), size_of::<u64>()) };
    }
}

/// Nothing: the caller has refused every descriptor.
#[cfg(not(unix))]
impl WrittenAtTheEnd {
    fn new(_: c_int) -> WrittenAtTheEnd {
        WrittenAtTheEnd {}
    }
}

#[cfg(not(unix))]
impl Drop for WrittenAtTheEnd {
    fn drop(&mut self) {}
}
