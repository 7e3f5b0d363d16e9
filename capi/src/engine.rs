//! Engines: made, stopped, started, deleted.

use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{borrow, list, produce_handle, reclaim, text};
use crate::text::give;
use seriatim::Engine;
use std::ffi::c_char;

/// An engine. Several handles may be the same engine: see `seriatim_engine_clone()`.
pub struct SeriatimEngine(pub(crate) Engine);

/// A setting: its name and its value, as an environment variable has them. The names are those of the environment variables, with
/// or without `SERIATIM_` in front: `ENGINE` (`naive`, `pooled`, `per-device`), `CPU_WORKERS`, `PRIORITY_WORKERS`, `GPU_WORKERS`,
/// `GPU_COPY_WORKERS`, `PIN` (`on`, `off`), `CORES` (such as `0,2-5`), `IDLE` (`spin`, `spin-then-park`, `park`), `BOUND`,
/// `WHEN_FULL` (`block`, `help`, `would-block`), `BULK_SIZE`, `WAITERS_HELP` (`on`, `off`), `NESTED_THREADS`, `INFO` (`on`, `off`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SeriatimSetting {
    /// The name.
    pub key: *const c_char,
    /// The value.
    pub value: *const c_char,
}

/// Makes an engine with `count` settings; the last one counts if a name comes twice, and those that are not named have their
/// defaults. `settings` may be null if `count` is 0. The engine's threads start when they are first needed.
///
/// # Safety
/// `settings` points to `count` settings, whose texts end with a zero byte. `out` may be written to.
#[no_mangle]
pub unsafe extern "C" fn seriatim_engine_new(
    settings: *const SeriatimSetting,
    count: usize,
    out: *mut *mut SeriatimEngine,
) -> SeriatimStatus {
    let make = || {
        let mut builder = Engine::builder();
        // SAFETY: by the contract.
        for setting in unsafe { list(settings, count, "settings") }? {
            // SAFETY: by the contract.
            let (key, value) =
                unsafe { (text(setting.key, "the key of a setting")?, text(setting.value, "the value of a setting")?) };
            builder = builder.set(key, value)?;
        }
        Ok(SeriatimEngine(builder.build()?))
    };
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, make) })
}

/// Makes an engine with the settings of the environment. A variable that starts with `SERIATIM_` and is not a setting is refused.
///
/// # Safety
/// `out` may be written to.
#[no_mangle]
pub unsafe extern "C" fn seriatim_engine_from_environment(out: *mut *mut SeriatimEngine) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, || Ok(SeriatimEngine(Engine::from_env()?))) })
}

/// A handle to the engine of the process, which is made from the environment when it is first asked for, and which never ends: wait
/// for it before `main` returns, or what is in flight then is lost.
///
/// # Safety
/// `out` may be written to.
#[no_mangle]
pub unsafe extern "C" fn seriatim_engine_global(out: *mut *mut SeriatimEngine) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, || Ok(SeriatimEngine(Engine::global()?.clone()))) })
}

/// Another handle to the same engine, so that parts of a program can own it together.
///
/// # Safety
/// `engine` is a live handle. `out` may be written to.
#[no_mangle]
pub unsafe extern "C" fn seriatim_engine_clone(
    engine: *const SeriatimEngine,
    out: *mut *mut SeriatimEngine,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, || Ok(SeriatimEngine(borrow(engine, "engine")?.0.clone()))) })
}

/// Deletes a handle; a null pointer is fine. With the last one the engine ends: it runs what is in flight, asynchronous operations
/// included, then ends its threads, and only then does the call return. Inside one of the engine's own operations, where that would
/// wait for itself, the call returns at once and the engine ends by itself. Errors that nobody has waited for are lost.
///
/// # Safety
/// `engine` is null or a live handle, which no call is using any more and which is not used again. An operation that deletes the
/// handle with which it was pushed may run inside that very push: give it a clone.
#[no_mangle]
pub unsafe extern "C" fn seriatim_engine_delete(engine: *mut SeriatimEngine) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(engine) };
        Ok(())
    })
}

/// Runs what is in flight, then ends the threads. Pushes are refused until `seriatim_engine_start()`, but for those of operations
/// that still run. Stopping twice is harmless.
///
/// # Safety
/// `engine` is a live handle.
#[no_mangle]
pub unsafe extern "C" fn seriatim_engine_stop(engine: *const SeriatimEngine) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow(engine, "engine") }?.0.stop().map_err(Failure::from))
}

/// Starts a stopped engine. Starting twice is harmless.
///
/// # Safety
/// `engine` is a live handle.
#[no_mangle]
pub unsafe extern "C" fn seriatim_engine_start(engine: *const SeriatimEngine) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow(engine, "engine") }?.0.start().map_err(Failure::from))
}

/// Says that the process is about to end: from now on operations complete without running, but for deletions. Deleters run as ever.
///
/// # Safety
/// `engine` is a live handle.
#[no_mangle]
pub unsafe extern "C" fn seriatim_engine_notify_shutdown(engine: *const SeriatimEngine) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { borrow(engine, "engine") }?.0.notify_shutdown();
        Ok(())
    })
}

/// What did not go as the settings asked and was not worth an error, such as pins that the system refused: a line each, to be freed
/// with `seriatim_string_free()`.
///
/// # Safety
/// `engine` is a live handle. `out` may be written to.
#[no_mangle]
pub unsafe extern "C" fn seriatim_engine_warnings(
    engine: *const SeriatimEngine,
    out: *mut *mut c_char,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { give(out, || Ok(borrow(engine, "engine")?.0.warnings().join("\n"))) })
}
