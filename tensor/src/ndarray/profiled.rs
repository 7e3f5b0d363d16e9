//! [`profiled`]: calls whose operations the engine records, while others go by unseen.
//!
//! Programs call it. `create.rs` and `operator/kernel_call.rs` ask for it as they push. Other
//! threads are not concerned: each has its own calls recorded.

#![forbid(unsafe_code)]

use std::cell::Cell;

thread_local! {
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
}

/// Sets back whether the thread's calls are recorded, also if a closure panics.
struct Before(bool);

impl Drop for Before {
    fn drop(&mut self) {
        ACTIVE.set(self.0);
    }
}

/// Has the engine record the operations of the closure's calls, whether its profiler is on or not
/// ([`OperationBuilder::profiled`](seriatim::OperationBuilder::profiled)). Each call is one event,
/// which [`Engine::profile`](seriatim::Engine::profile) shows. In a captured step it has no effect.
///
/// ```
/// use seriatim_tensor::{profiled, NDArray};
/// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
/// let y = profiled(|| x.square())?.exp()?;
/// y.wait_to_read()?;
/// let profile = x.runtime().engine().profile();
/// let names: Vec<_> = profile.events().iter().map(|event| event.name).collect();
/// assert_eq!(names, ["square"]);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn profiled<R>(calls: impl FnOnce() -> R) -> R {
    let _before = Before(ACTIVE.replace(true));
    calls()
}

/// Whether the thread's calls are recorded.
#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.get()
}
