//! Builders: engines with settings from several places, and with somebody who is told of errors.

use crate::call::{Argument, SeriatimDeleter};
use crate::engine::{apply, SeriatimEngine, SeriatimSetting};
use crate::error::{c_text, guard, Failure, SeriatimStatus};
use crate::input::{borrow_mut, null, produce_handle, reclaim, taken};
use seriatim::gpu::Immediate;
use seriatim::{Builder, Engine, Error};
use std::ffi::{c_char, c_void};

/// The settings of an engine to be made. Used by one thread at a time.
pub struct SeriatimBuilder(Builder);

/// Is told of an error that nobody has waited for: what kind it is of, the name of the operation
/// (null if it has none), and the text. Both texts are valid until it returns. It must not unwind.
pub type SeriatimErrorHook = Option<
    unsafe extern "C-unwind" fn(
        argument: *mut c_void,
        status: SeriatimStatus,
        operation: *const c_char,
        text: *const c_char,
    ),
>;

/// Begins with the defaults.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_builder_new(out: *mut *mut SeriatimBuilder) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, || Ok(SeriatimBuilder(Engine::builder()))) })
}

/// Begins with the settings of the environment; what is set afterwards overrides them. An engine
/// that is made without a builder, by `seriatim_engine_new()`, does not look at the environment.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_SETTING` for an unknown variable that starts with `SERIATIM_`, or for a
/// value that is not valid; the text names both, and lists what is valid.
///
/// # Safety
/// `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_builder_from_environment(out: *mut *mut SeriatimBuilder) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, || Ok(SeriatimBuilder(Builder::from_env()?))) })
}

/// Changes `count` settings; the last one counts if a name comes twice. After an error none of them
/// is changed.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_SETTING`; the text lists what is valid.
///
/// # Safety
/// `builder` is a live handle, which no other thread uses at the same time. `settings` points to
/// `count` settings, whose texts end with a zero byte; it may be null if `count` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_builder_set(
    builder: *mut SeriatimBuilder,
    settings: *const SeriatimSetting,
    count: usize,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let builder = unsafe { borrow_mut(builder, "builder") }?;
        // SAFETY: by the contract.
        builder.0 = unsafe { apply(builder.0.clone(), settings, count) }?;
        Ok(())
    })
}

/// Gives the engine `count` GPUs that are the processor: what a function of theirs does is done
/// when it returns, and their memory is the processor's. For programs that are written or tested
/// where there is no GPU. Their only stream is null.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `builder` is a live handle, which no other thread uses at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_builder_immediate_gpus(
    builder: *mut SeriatimBuilder,
    count: usize,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let builder = unsafe { borrow_mut(builder, "builder") }?;
        builder.0 = builder.0.clone().gpus(Immediate::new(count));
        Ok(())
    })
}

/// Chooses who is told of an error that nobody waited for; without it a line on standard error is.
/// A second call replaces the first.
///
/// `hook` is called when the engine ends, which is when its last handle is deleted: once for each
/// operation that failed and whose error no wait has returned or passed over, in the order of the
/// pushes, on the thread that deletes the handle, or on one of its own if that is inside an
/// operation of the engine. At most 16 errors are told so; one more call then says how many there
/// are besides. `seriatim_engine_stop()` calls nothing, as the errors can still be waited for.
/// `deleter` runs when the engine, its graphs and its parameters are gone.
///
/// # Errors
/// Only those of every function. The deleter then runs before the call returns.
///
/// # Safety
/// `builder` is a live handle, which no other thread uses at the same time. `hook` and `deleter`
/// may be called with `argument` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_builder_on_error(
    builder: *mut SeriatimBuilder,
    hook: SeriatimErrorHook,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    guard(move || {
        let hook = hook.ok_or_else(|| null("hook"))?;
        // SAFETY: by the contract.
        let builder = unsafe { borrow_mut(builder, "builder") }?;
        let told = move |error: &Error| {
            let operation = error.operation().filter(|name| !name.is_empty()).map(c_text);
            let operation = operation.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
            let (status, text) = (SeriatimStatus::of(error.kind()), c_text(&error.to_string()));
            // SAFETY: the hook comes with its argument, which lives as long as this closure; the
            // texts live until it returns.
            unsafe { hook(argument.pointer(), status, operation, text.as_ptr()) }
        };
        let told = builder.0.clone().on_error(told);
        // The deleter of an earlier hook runs behind the exchange: it may use the builder.
        let before = std::mem::replace(&mut builder.0, told);
        drop(before);
        Ok(())
    })
}

/// Makes the engine. Its threads start when they are first needed. The handle of the builder is
/// gone afterwards, also if the call fails.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_SETTING` if the settings do not go together; the text says which.
/// `SERIATIM_STATUS_ENGINES_EXHAUSTED`. `SERIATIM_STATUS_MEMORY_LOCK_REFUSED` and
/// `SERIATIM_STATUS_PRIORITY_REFUSED` for settings that the system does not follow.
///
/// # Safety
/// `builder` is a live handle, which is not used again. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_builder_build(
    builder: *mut SeriatimBuilder,
    out: *mut *mut SeriatimEngine,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let builder = unsafe { taken(builder, "builder") };
        // SAFETY: by the contract.
        unsafe { produce_handle(out, move || Ok(SeriatimEngine(builder?.0.build().map_err(Failure::from)?))) }
    })
}

/// Deletes a builder without making an engine; a null pointer is fine.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `builder` is null or a live handle, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_builder_delete(builder: *mut SeriatimBuilder) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(builder) };
        Ok(())
    })
}
