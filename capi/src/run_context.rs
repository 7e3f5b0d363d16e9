//! What an operation is told when it runs, and how it says why it failed.

use crate::call::Argument;
use crate::device::SeriatimContext;
use crate::error::{c_text, guard, guard_value, SeriatimStatus};
use crate::error_object::SaidError;
use crate::input::{borrow, error_text};
use seriatim::gpu::RawStream;
use seriatim::RunContext;
use std::cell::{OnceCell, RefCell};
use std::ffi::{c_char, c_void, CString};
use std::ptr::null_mut;

/// What an operation is told when it runs. Belongs to the thread that the function was called on,
/// and is valid until it returns.
pub struct SeriatimRunContext<'a> {
    run: &'a RunContext<'a>,
    /// Made when C asks for the name, or says an error: most functions do neither.
    texts: OnceCell<Box<Texts>>,
}

/// The texts of one call.
#[derive(Default)]
struct Texts {
    /// The name as C reads it.
    name: OnceCell<CString>,
    error: RefCell<Option<SaidError>>,
}

impl<'a> SeriatimRunContext<'a> {
    #[inline]
    pub(crate) fn new(run: &'a RunContext<'a>) -> SeriatimRunContext<'a> {
        SeriatimRunContext { run, texts: OnceCell::new() }
    }

    fn texts(&self) -> &Texts {
        self.texts.get_or_init(Box::default)
    }

    pub(crate) fn run(&self) -> &'a RunContext<'a> {
        self.run
    }

    /// Replaces what the function has said before. Without a text and an object it says nothing.
    pub(crate) fn set_error(&self, text: Option<String>, object: Option<Argument>) {
        let is_said = text.is_some() || object.is_some();
        let text = text.unwrap_or_else(|| "its function has not said why".to_owned());
        let before = self.texts().error.replace(is_said.then(|| SaidError::new(text, object)));
        // The deleter of its object runs when nothing is borrowed.
        drop(before);
    }

    pub(crate) fn into_error(self) -> Option<SaidError> {
        self.texts.into_inner().and_then(|texts| texts.error.into_inner())
    }
}

/// The name of the operation, empty if it has none. Valid as long as `run` is.
///
/// # Safety
/// `run` was given to the function that is running on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_run_context_name(run: *const SeriatimRunContext) -> *const c_char {
    guard_value(c"".as_ptr(), || {
        // SAFETY: by the contract.
        let run = unsafe { borrow(run, "run") }?;
        Ok(run.texts().name.get_or_init(|| c_text(run.run.name())).as_ptr())
    })
}

/// The context that the operation was pushed with.
///
/// # Safety
/// `run` was given to the function that is running on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_run_context_context(run: *const SeriatimRunContext) -> SeriatimContext {
    // SAFETY: by the contract.
    guard_value(SeriatimContext::default(), || Ok(unsafe { borrow(run, "run") }?.run.context().into()))
}

fn worker(run: &RunContext<'_>) -> i64 {
    run.worker().and_then(|worker| i64::try_from(worker).ok()).unwrap_or(-1)
}

/// The number of the worker within its group, or -1 on a thread that is not the engine's.
///
/// # Safety
/// `run` was given to the function that is running on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_run_context_worker(run: *const SeriatimRunContext) -> i64 {
    // SAFETY: by the contract.
    guard_value(-1, || Ok(worker(unsafe { borrow(run, "run") }?.run)))
}

/// The stream of an operation that runs on a GPU, such as a `CUstream`: what the function puts
/// there is a part of the operation. Null on the processor, and for `SERIATIM_PROPERTY_ASYNC`. The
/// stream is the engine's: do not wait for it, capture it or destroy it.
///
/// # Safety
/// `run` was given to the function that is running on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_run_context_stream(run: *const SeriatimRunContext) -> *mut c_void {
    // SAFETY: by the contract.
    guard_value(null_mut(), || Ok(unsafe { borrow(run, "run") }?.run.stream().map_or(null_mut(), RawStream::raw)))
}

/// How many threads the operation may use itself: the engine's setting `NESTED_THREADS`.
///
/// # Safety
/// `run` was given to the function that is running on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_run_context_nested_threads(run: *const SeriatimRunContext) -> usize {
    // SAFETY: by the contract.
    guard_value(1, || Ok(unsafe { borrow(run, "run") }?.run.nested_threads()))
}

/// Says why the operation is about to fail. The text counts if the function then returns something
/// other than 0; the last one does if there are several. A null pointer takes it back; bytes that
/// are not UTF-8 are replaced. Asynchronous operations say it with `seriatim_completion_fail()`
/// instead.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `run` was given to the function that is running on this thread. `text` is null or ends with a
/// zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_run_context_set_error(
    run: *const SeriatimRunContext,
    text: *const c_char,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (run, text) = unsafe { (borrow(run, "run")?, error_text(text)) };
        run.set_error(text, None);
        Ok(())
    })
}
