//! Keeps the engine's calls from spoiling a capture that the program makes. Used by `mod.rs`, when
//! a thread enters and leaves a device. The state is the thread's own. The engine's captures are in
//! `graphs.rs`.
//!
//! While any thread captures a stream in the driver's global mode, calls such as `cuEventQuery` are
//! refused on every thread, and spoil the capture. No call of the engine belongs to such a capture.
//! So a thread that enters a device changes to the relaxed mode, and back when it leaves. A worker
//! or a watcher never leaves its own device, and nested visits change no mode.

use crate::device::cuda::symbols::Symbols;
use cudarc::driver::sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
use std::cell::Cell;
use std::ffi::{c_int, c_uint};

std::thread_local! {
    /// How often the thread has entered without leaving, and its own mode.
    static ENTERED: Cell<(u32, c_uint)> = const { Cell::new((0, 0)) };
}

/// Changes to the relaxed mode, if the thread has entered no device yet. Returns the driver's code.
pub fn enter(symbols: &Symbols) -> c_int {
    let (depth, own) = ENTERED.get();
    let (code, mode) = match depth {
        0 => exchange(symbols, CU_STREAM_CAPTURE_MODE_RELAXED as c_uint),
        _ => (0, own),
    };
    ENTERED.set((depth + 1, mode));
    code
}

/// Changes back, if the thread leaves the first device that it has entered. Returns the driver's
/// code.
pub fn leave(symbols: &Symbols) -> c_int {
    let (depth, mode) = ENTERED.get();
    ENTERED.set((depth.saturating_sub(1), mode));
    if depth == 1 {
        exchange(symbols, mode).0
    } else {
        0
    }
}

/// Changes the thread's mode; returns the driver's code, and what the mode was. A driver that
/// refuses leaves it as it is.
fn exchange(symbols: &Symbols, mode: c_uint) -> (c_int, c_uint) {
    let mut mode = mode;
    // SAFETY: `mode` is ours, and a mode.
    let code = unsafe { (symbols.capture_mode)(&mut mode) };
    (code, mode)
}
