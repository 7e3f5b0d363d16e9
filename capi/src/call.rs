//! What C asks to be called: functions, and arguments that are deleted exactly once.

use crate::completion::SeriatimCompletion;
use crate::error::Failure;
use crate::error_object::SaidError;
use crate::input::null;
use crate::run_context::SeriatimRunContext;
use seriatim::{AsyncFunction, Completion, RunContext};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// What an operation does. It ends when the function returns: 0 if all went well; anything else
/// fails the operation, with the text of `seriatim_run_context_set_error()`. `run` is valid until
/// the function returns.
///
/// Called on a thread of the engine, or on one that pushes, waits or completes. Must not unwind.
pub type SeriatimFunction =
    Option<unsafe extern "C-unwind" fn(argument: *mut c_void, run: *const SeriatimRunContext) -> c_int>;

/// What an asynchronous operation does: it starts something, which calls
/// `seriatim_completion_complete()` or `seriatim_completion_fail()` when it is done, once, on any
/// thread, possibly before the function returns. `run` is valid until the function returns. Must
/// not unwind.
pub type SeriatimAsyncFunction = Option<
    unsafe extern "C-unwind" fn(
        argument: *mut c_void,
        run: *const SeriatimRunContext,
        completion: *mut SeriatimCompletion,
    ),
>;

/// Deletes an argument, such as `free`. Called exactly once, also for a null argument, on the
/// thread that used the argument last or found it unusable. Must not unwind, and must not wait for
/// the engine. So it must not delete what may be the engine's last handle: captures, GPUs, arrays
/// and adopted streams are handles of it as well.
pub type SeriatimDeleter = Option<unsafe extern "C" fn(argument: *mut c_void)>;

/// An argument, owned. Dropping it calls its deleter, so that Rust's rules of ownership see to it
/// that this happens exactly once.
pub struct Argument {
    pointer: *mut c_void,
    deleter: SeriatimDeleter,
}

// SAFETY: the thread that makes one promises that the argument may be used and deleted on any
// thread.
unsafe impl Send for Argument {}
// SAFETY: as above; operators promise that several uses may have the argument at once.
unsafe impl Sync for Argument {}

impl Argument {
    /// # Safety
    /// The argument may be used and deleted on any thread, by the functions that come with it,
    /// until the deleter is called.
    #[inline]
    pub unsafe fn new(pointer: *mut c_void, deleter: SeriatimDeleter) -> Argument {
        Argument { pointer, deleter }
    }

    /// A share of an argument, which is deleted with the last of them.
    fn shared(argument: Arc<Argument>) -> Argument {
        unsafe extern "C" fn give_up(share: *mut c_void) {
            // SAFETY: made below, and deleted once.
            drop(unsafe { Arc::from_raw(share.cast::<Argument>()) });
        }
        Argument { pointer: Arc::into_raw(argument).cast_mut().cast(), deleter: Some(give_up) }
    }

    /// What C gave.
    pub fn pointer(&self) -> *mut c_void {
        self.pointer
    }

    /// Whether it came with this deleter.
    pub fn has(&self, deleter: SeriatimDeleter) -> bool {
        self.deleter.map(|own| own as usize) == deleter.map(|other| other as usize)
    }
}

impl Drop for Argument {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: the deleter comes with the argument, and nobody has the argument any more.
            unsafe { deleter(self.pointer) }
        }
    }
}

/// A function that is given.
type Function = unsafe extern "C-unwind" fn(*mut c_void, *const SeriatimRunContext) -> c_int;

/// What the cost of a function is learned by: all calls are of one type in Rust, whatever their
/// functions do.
#[inline]
pub fn cost_key(function: Function) -> u64 {
    function as usize as u64
}

/// Why an operation failed: a [`SaidError`].
type Reason = Box<dyn std::error::Error + Send + Sync>;

/// The function of an operation, and its argument.
pub struct Call {
    function: Function,
    argument: Argument,
}

impl Call {
    #[inline]
    pub fn new(function: SeriatimFunction, argument: Argument) -> Result<Call, Failure> {
        let function = function.ok_or_else(|| null("function"))?;
        Ok(Call { function, argument })
    }

    #[inline]
    pub fn key(&self) -> u64 {
        cost_key(self.function)
    }

    #[inline]
    pub fn run(&self, run: &RunContext<'_>) -> Result<(), Reason> {
        let told = SeriatimRunContext::new(run);
        // SAFETY: the function comes with the argument, which lives as long as this call.
        match unsafe { (self.function)(self.argument.pointer, &told) } {
            0 => Ok(()),
            code => Err(said(told, code)),
        }
    }
}

/// What a function that failed has to say.
#[cold]
pub fn said(told: SeriatimRunContext<'_>, code: c_int) -> Reason {
    let said = told.into_error();
    Reason::from(said.unwrap_or_else(|| SaidError::new(format!("its function returned {code}"), None)))
}

/// The function of an asynchronous operation, and its argument: an [`Argument`] for one call, or an
/// `Arc` of one that each call shares.
pub struct AsyncCall<A> {
    function: unsafe extern "C-unwind" fn(*mut c_void, *const SeriatimRunContext, *mut SeriatimCompletion),
    argument: A,
}

impl AsyncCall<Argument> {
    #[inline]
    pub fn new(function: SeriatimAsyncFunction, argument: Argument) -> Result<AsyncCall<Argument>, Failure> {
        let function = function.ok_or_else(|| null("function"))?;
        Ok(AsyncCall { function, argument })
    }

    /// Calls the function.
    #[inline]
    pub fn run_once(self, run: &RunContext<'_>, completion: Completion) {
        let AsyncCall { function, argument } = self;
        AsyncCall { function, argument: () }.call((argument.pointer, argument), run, completion);
    }

    /// For any number of calls.
    pub fn shared(self) -> AsyncCall<Arc<Argument>> {
        AsyncCall { function: self.function, argument: Arc::new(self.argument) }
    }
}

impl<A> AsyncCall<A> {
    /// As [`cost_key`].
    #[inline]
    pub fn key(&self) -> u64 {
        self.function as usize as u64
    }
}

impl AsyncFunction for AsyncCall<Argument> {
    #[inline]
    fn key(&self) -> u64 {
        AsyncCall::key(self)
    }

    #[inline]
    fn start(self, run: &RunContext<'_>, completion: Completion) {
        self.run_once(run, completion);
    }
}

impl AsyncCall<Arc<Argument>> {
    pub fn run(&self, run: &RunContext<'_>, completion: Completion) {
        let share = Argument::shared(Arc::clone(&self.argument));
        AsyncCall { function: self.function, argument: () }.call((self.argument.pointer, share), run, completion);
    }
}

impl AsyncCall<()> {
    #[inline]
    fn call(self, (pointer, share): (*mut c_void, Argument), run: &RunContext<'_>, completion: Completion) {
        let told = SeriatimRunContext::new(run);
        let (frame, handle) = SeriatimCompletion::lend(completion, share);
        // SAFETY: as for `Call::run`; the handle is the function's.
        unsafe { (self.function)(pointer, &told, handle) }
        frame.returned();
    }
}
