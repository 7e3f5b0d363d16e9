//! Looking at an engine: what it did, and what it is doing.

use crate::engine::SeriatimEngine;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{borrow, text};
use crate::text::give;
use std::ffi::c_char;
use std::fs::File;

/// Starts recording named operations: those that are pushed from now on, about a million in the
/// life of the engine. The table says how many were left out.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_profile_start(engine: *const SeriatimEngine) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { borrow(engine, "engine") }?.0.start_profiling();
        Ok(())
    })
}

/// Stops recording. What was recorded is kept.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_profile_stop(engine: *const SeriatimEngine) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { borrow(engine, "engine") }?.0.stop_profiling();
        Ok(())
    })
}

/// Writes what was recorded to a file, as a trace in Chrome's format, which Perfetto
/// (<https://ui.perfetto.dev>) opens.
///
/// # Errors
/// `SERIATIM_STATUS_INPUT_OUTPUT`; the text has the path and the system's reason.
///
/// # Safety
/// `engine` is a live handle. `path` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_profile_write_trace(
    engine: *const SeriatimEngine,
    path: *const c_char,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (engine, path) = unsafe { (borrow(engine, "engine")?, text(path, "path")?) };
        let profile = engine.0.profile();
        File::create(path).and_then(|file| profile.write_chrome_trace(file)).map_err(|error| {
            Failure::new(SeriatimStatus::InputOutput, format!("the trace cannot be written to '{path}': {error}"))
        })
    })
}

/// The statistics of what was recorded as a table for people, to be freed with
/// `seriatim_string_free()`.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_profile_table(
    engine: *const SeriatimEngine,
    out: *mut *mut c_char,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { give(out, || Ok(borrow(engine, "engine")?.0.profile().table())) })
}

/// The operations in flight as a Graphviz graph, to be freed with `seriatim_string_free()`. A look
/// at a moving engine, for people and not for programs.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_dump_dot(engine: *const SeriatimEngine, out: *mut *mut c_char) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { give(out, || Ok(borrow(engine, "engine")?.0.dump_dot())) })
}
