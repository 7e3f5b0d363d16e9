//! The device and the stream of the operation that the calling thread runs. Each thread has its
//! own, which no other thread touches. `src/engine/gpu/call.rs` and
//! `src/engine/replay/device_graph.rs` set it for the time of a call;
//! [`RunContext`](crate::RunContext), `handles.rs`, `src/api/device_array.rs` and
//! `src/engine/gpu/foreign.rs` read it within that call.

use crate::device::backend::Backend;
use crate::device::borrows::Borrows;
use crate::device::raw::{DriverError, RawStream};
use std::cell::{Cell, RefCell};
use std::ptr::null;
use std::sync::Arc;

/// Where an operation runs.
pub struct Here<'a> {
    pub backend: &'a dyn Backend,
    pub device: usize,
    pub stream: Option<RawStream>,
    /// What it is captured for, if it is captured.
    pub capture: Option<&'a InCapture<'a>>,
}

/// A graph of the driver that operations are captured for, and what is noted of them.
pub struct InCapture<'a> {
    /// What is there as long as the graph.
    pub graph: &'a Arc<()>,
    /// The arrays that they use.
    pub borrows: RefCell<Borrows>,
    /// Whether they have asked for handles of libraries.
    pub has_handles: Cell<bool>,
}

std::thread_local! {
    /// That of the innermost operation. It lies on the stack of the caller of [`within`].
    static HERE: Cell<*const Here<'static>> = const { Cell::new(null()) };
}

/// Gives `look` the place of the innermost operation that [`within`] runs.
fn here<R>(look: impl FnOnce(&Here<'_>) -> R) -> Option<R> {
    let here = HERE.try_with(Cell::get).ok()?;
    // SAFETY: `within` borrows it, and has put the outer one back before it returns.
    unsafe { here.as_ref() }.map(look)
}

/// The stream of the innermost operation that [`within`] runs.
pub fn stream() -> Option<RawStream> {
    here(|here| here.stream).flatten()
}

/// Whether the thread calls the closure of an operation on a device.
pub fn is_inside() -> bool {
    here(|_| ()).is_some()
}

/// Gives `note` what the innermost operation is captured for, if it is.
pub fn captured<R>(note: impl FnOnce(&InCapture<'_>) -> R) -> Option<R> {
    here(|here| here.capture.map(note)).flatten()
}

/// Makes the device of the innermost operation current again, if it is not.
pub fn reenter() -> Result<(), DriverError> {
    here(|here| here.backend.reenter(here.device)).unwrap_or(Ok(()))
}

/// Calls `run`, which does not unwind, as an operation there.
pub fn within<R>(here: &Here<'_>, run: impl FnOnce() -> R) -> R {
    let before = HERE.try_with(|current| current.replace(std::ptr::from_ref(here).cast()));
    let result = run();
    if let Ok(before) = before {
        let _ = HERE.try_with(|current| current.set(before));
    }
    result
}
