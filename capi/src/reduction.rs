//! Reductions: memory of the program's to which many operations add parts at once, each in a copy.
//!
//! `seriatim_reduction_new()` makes one of the engine's reductions of [`Part`]s, on any thread. A
//! part is a pointer of the program's, made by the program when an operation first needs it: a copy
//! that no operation has used costs no call. What goes wrong while parts are made or combined is
//! kept in the part, until an operation that uses it fails with it: a combination has nobody to
//! tell.

use crate::call::{said, Argument, SeriatimDeleter};
use crate::engine::SeriatimEngine;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::error_object::SaidError;
use crate::input::{borrow, list, null, produce, produce_handle, reclaim};
use crate::operation::{content, SeriatimOperation};
use crate::run_context::SeriatimRunContext;
use crate::variable::SeriatimVariable;
use seriatim::{Reduce, Reduction, RunContext, Write};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// Makes a part that adds nothing, such as a zero of a sum. Null says that there is no memory for
/// it: the operation that needs the part fails. Called on any thread, also on several at once. Must
/// not unwind, and must not wait for the engine.
pub type SeriatimIdentity = Option<unsafe extern "C-unwind" fn(argument: *mut c_void) -> *mut c_void>;

/// Adds `part` to `into`. The library deletes `part` afterwards. Returns 0 if all went well;
/// anything else fails the operation or the read that uses the value next, and `part` is missing
/// from the value then. Called by one thread at a time. Must not unwind, and must not wait for the
/// engine.
pub type SeriatimCombine =
    Option<unsafe extern "C-unwind" fn(argument: *mut c_void, into: *mut c_void, part: *mut c_void) -> c_int>;

/// What an operation on reductions does: as a `SeriatimFunction`, but it is given what its
/// `SeriatimReducing` names, in that order: the copies that it reduces, then the values that it
/// uses. They are the function's until it returns.
pub type SeriatimReducingFunction = Option<
    unsafe extern "C-unwind" fn(
        argument: *mut c_void,
        parts: *const *mut c_void,
        run: *const SeriatimRunContext,
    ) -> c_int,
>;

/// Looks at the value of a reduction. Must not unwind, and must not wait for the engine.
pub type SeriatimValueFunction = Option<unsafe extern "C-unwind" fn(argument: *mut c_void, value: *const c_void)>;

/// What the parts of a reduction are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SeriatimReducer {
    /// Makes a part that adds nothing.
    pub identity: SeriatimIdentity,
    /// Adds one part to another.
    pub combine: SeriatimCombine,
    /// Deletes a part, such as `free`; may be null.
    pub delete_part: SeriatimDeleter,
    /// What `identity` and `combine` are given.
    pub argument: *mut c_void,
    /// Deletes the argument, when the reduction and its parts are gone; may be null.
    pub deleter: SeriatimDeleter,
}

/// What an operation uses beside the variables of its `SeriatimOperation`. All zeros are nothing.
///
/// What it points to is copied during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SeriatimReducing {
    /// The reductions to whose copies it adds. One that is named twice gives two copies.
    pub reduces: *const *const SeriatimReduction,
    /// How many those are.
    pub reduce_count: usize,
    /// The reductions whose values it uses, also to change them.
    pub wholes: *const *const SeriatimReduction,
    /// How many those are.
    pub whole_count: usize,
    /// The commutative variables that it changes, as by `seriatim_push_commuting()`.
    pub commutes: *const SeriatimVariable,
    /// How many those are.
    pub commute_count: usize,
}

/// A value to which operations add parts at once, from `seriatim_reduction_new()`. Any thread may
/// use the handle, and several at once.
#[derive(Debug)]
pub struct SeriatimReduction(Reduction<Part>);

/// The functions of a reduction.
struct Reducer {
    identity: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    combine: unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int,
    delete_part: SeriatimDeleter,
    argument: Argument,
}

/// A part of the program's, which this owns.
struct Part {
    /// Null until an operation needs it.
    pointer: Cell<*mut c_void>,
    /// Why parts are missing from it.
    failure: Cell<Option<String>>,
    reducer: Arc<Reducer>,
}

// SAFETY: who makes a reduction promises that its parts may be used and deleted on any thread.
unsafe impl Send for Part {}

impl Part {
    fn none(reducer: &Arc<Reducer>) -> Part {
        Part { pointer: Cell::new(null_mut()), failure: Cell::default(), reducer: Arc::clone(reducer) }
    }

    /// The program's part, made if it is not there.
    fn lend(&self) -> Result<*mut c_void, SaidError> {
        if let Some(failure) = self.failure.take() {
            return Err(SaidError::new(failure, None));
        }
        if self.pointer.get().is_null() {
            // SAFETY: the function comes with the argument, which the reducer keeps.
            self.pointer.set(unsafe { (self.reducer.identity)(self.reducer.argument.pointer()) });
        }
        if self.pointer.get().is_null() {
            return Err(SaidError::new("the identity of a reduction has made no part".to_owned(), None));
        }
        Ok(self.pointer.get())
    }

    fn combine(&self, part: Part) {
        let earlier = self.failure.take().or(part.failure.take());
        let now = self.add(&part);
        self.failure.set(earlier.or(now));
    }

    /// Adds a part, or says why that failed.
    fn add(&self, part: &Part) -> Option<String> {
        if self.pointer.get().is_null() {
            self.pointer.set(part.pointer.replace(null_mut()));
        }
        if part.pointer.get().is_null() {
            return None;
        }
        let Reducer { combine, argument, .. } = &*self.reducer;
        // SAFETY: the function comes with the argument; both parts are there, and are this
        // thread's.
        let code = unsafe { combine(argument.pointer(), self.pointer.get(), part.pointer.get()) };
        (code != 0).then(|| format!("parts of a reduction are missing: its function that combines returned {code}"))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let (false, Some(deleter)) = (self.pointer.get().is_null(), self.reducer.delete_part) {
            // SAFETY: the deleter comes with the part, and nobody has the part any more.
            unsafe { deleter(self.pointer.get()) }
        }
    }
}

/// Makes a reduction, with these functions and so many copies; in any order for `None`.
///
/// # Safety
/// As [`seriatim_reduction_new`].
unsafe fn make(
    engine: *const SeriatimEngine,
    copies: Option<usize>,
    reducer: *const SeriatimReducer,
    out: *mut *mut SeriatimReduction,
) -> SeriatimStatus {
    // SAFETY: by the contract. It is the engine's from here on.
    let argument = unsafe { reducer.as_ref().map(|given| Argument::new(given.argument, given.deleter)) };
    guard(move || {
        let make = || {
            // SAFETY: by the contract.
            let (engine, given) = unsafe { (borrow(engine, "engine")?, borrow(reducer, "reducer")?) };
            let identity = given.identity.ok_or_else(|| null("identity"))?;
            let combine = given.combine.ok_or_else(|| null("combine"))?;
            let argument = argument.ok_or_else(|| null("reducer"))?;
            let reducer = Arc::new(Reducer { identity, combine, delete_part: given.delete_part, argument });
            let (none, add) = (move || Part::none(&reducer), |into: &mut Part, part| into.combine(part));
            match copies {
                Some(copies) => Ok(SeriatimReduction(engine.0.ordered_reduction(copies, none, add)?)),
                None => Ok(SeriatimReduction(engine.0.reduction(none, add))),
            }
        };
        // SAFETY: by the contract.
        unsafe { produce_handle(out, make) }
    })
}

/// Makes a reduction whose parts are combined in any order. Operations that reduce it are given one
/// of several copies, and add to what they find there; `seriatim_push_reducing()` pushes them. One
/// that uses the value comes behind all parts that were pushed before it, which are combined into
/// the value then. The parts may be used on any thread.
///
/// # Errors
/// Only those of every function. The reducer's deleter has then run.
///
/// # Safety
/// `engine` is a live handle. `reducer` points to functions that may be called, and deleted, as
/// they say. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_reduction_new(
    engine: *const SeriatimEngine,
    reducer: *const SeriatimReducer,
    out: *mut *mut SeriatimReduction,
) -> SeriatimStatus {
    // SAFETY: passed on.
    unsafe { make(engine, None, reducer, out) }
}

/// Makes a reduction whose value does not depend on the number of workers, to the last bit. The
/// *i*-th operation that reduces it is given copy *i* mod `copies`, in push order, and copies are
/// combined in a fixed tree. As many of them run at once as there are copies, say four for each
/// worker. Otherwise it is as one of `seriatim_reduction_new()`.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_SETTING` unless there are 1 to 65,536 copies. The reducer's deleter has
/// then run.
///
/// # Safety
/// As for `seriatim_reduction_new()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_reduction_new_ordered(
    engine: *const SeriatimEngine,
    copies: usize,
    reducer: *const SeriatimReducer,
    out: *mut *mut SeriatimReduction,
) -> SeriatimStatus {
    // SAFETY: passed on.
    unsafe { make(engine, Some(copies), reducer, out) }
}

/// Gives up a reduction. Operations that use it go on, and its parts are deleted behind the last of
/// them. Null is ignored.
///
/// # Safety
/// `reduction` was made by this library and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_reduction_delete(reduction: *mut SeriatimReduction) {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(reduction) };
        Ok(())
    });
}

/// The variable that stands for the value: what writes it comes behind all parts that were pushed
/// before, and what reads it only behind uses of the value. A part that fails leaves no mark there.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `reduction` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_reduction_variable(
    reduction: *const SeriatimReduction,
    out: *mut SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce(out, || Ok(borrow(reduction, "reduction")?.0.variable().into())) })
}

/// Waits until every part that was pushed before is added, and all are combined; then calls
/// `function` once, on this thread, with the value. Operations that use the value wait until the
/// function has returned.
///
/// # Errors
/// Those of `seriatim_wait_for_variable()`; the failure of an operation that was to add its part.
/// `SERIATIM_STATUS_OPERATION_FAILED` if `identity` or `combine` has failed, once: the next read
/// gets the value without what is missing. The function is then not called.
///
/// # Safety
/// `reduction` is a live handle. `function` may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_reduction_read(
    reduction: *const SeriatimReduction,
    function: SeriatimValueFunction,
    argument: *mut c_void,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (reduction, function) =
            (unsafe { borrow(reduction, "reduction") }?, function.ok_or_else(|| null("function"))?);
        let value = reduction.0.read()?;
        let lent = value.lend().map_err(|error| Failure::new(SeriatimStatus::OperationFailed, error.to_string()))?;
        // SAFETY: by the contract.
        unsafe { function(argument, lent) };
        Ok(())
    })
}

/// As `seriatim_push()`, but the operation also adds to reductions, or uses their values: its
/// function is given the parts. A copy or a value is the function's own while it is called.
///
/// # Errors
/// As `seriatim_push_commuting()`. `SERIATIM_STATUS_BORROW_CONFLICT` if the operation names one
/// reduction twice, and not only to reduce it, or is to reduce one of fewer copies more often than
/// those are. The operation fails if `identity` or `combine` does, and its function is not called
/// then.
///
/// # Safety
/// As for `seriatim_push()`. `reducing` points to lists that are as it describes them; the
/// reductions are live handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_push_reducing(
    engine: *const SeriatimEngine,
    operation: *const SeriatimOperation,
    reducing: *const SeriatimReducing,
    function: SeriatimReducingFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    guard(move || {
        let function = function.ok_or_else(|| null("function"))?;
        // SAFETY: by the contract.
        let (engine, content, given) =
            unsafe { (borrow(engine, "engine")?, content(operation)?, borrow(reducing, "reducing")?) };
        // SAFETY: by the contract.
        let (commutes, reduces, wholes) = unsafe {
            (
                list(given.commutes, given.commute_count, "what an operation commutes on")?,
                reductions(given.reduces, given.reduce_count, "the reductions that an operation reduces")?,
                reductions(given.wholes, given.whole_count, "the reductions whose values an operation uses")?,
            )
        };
        let reduces: Vec<_> = reduces.into_iter().map(Reduce).collect();
        let wholes: Vec<_> = wholes.into_iter().map(Write).collect();
        let call = move |run: &RunContext<'_>, (copies, values): (Vec<&mut Part>, Vec<&mut Part>)| {
            let parts = copies.into_iter().chain(values).map(|part| part.lend()).collect::<Result<Vec<_>, _>>()?;
            let told = SeriatimRunContext::new(run);
            // SAFETY: the function comes with the argument, and the parts live as long as this
            // call.
            match unsafe { function(argument.pointer(), parts.as_ptr(), &told) } {
                0 => Ok(()),
                code => Err(said(told, code)),
            }
        };
        content.commuting(engine, commutes)?.run_with((reduces, wholes), call)?;
        Ok(())
    })
}

/// A list of reductions, none of them null.
///
/// # Safety
/// As [`list`]; what is not null is a live handle.
unsafe fn reductions<'a>(
    pointer: *const *const SeriatimReduction,
    count: usize,
    what: &str,
) -> Result<Vec<&'a Reduction<Part>>, Failure> {
    // SAFETY: by the contract.
    let handles = unsafe { list(pointer, count, what) }?;
    // SAFETY: as above.
    handles.iter().map(|handle| Ok(&unsafe { borrow(*handle, "a reduction") }?.0)).collect()
}
