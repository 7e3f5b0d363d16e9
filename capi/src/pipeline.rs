//! Pipelines: captured once, and pushed operation by operation, so that replays overlap.

use crate::capture::SeriatimCapture;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{borrow, borrow_mut, produce, produce_handle, reclaim, taken};
use seriatim::Pipeline;

/// A captured pipeline. Each replay pushes the captured operations one by one, so that an operation
/// runs as soon as those of the replay before have let go of its variables. It may outlive the
/// other handles of its engine. When those are gone, its replays fail with
/// `SERIATIM_STATUS_STOPPED`.
pub struct SeriatimPipeline(pub(crate) Pipeline);

/// Ends a capture as `seriatim_capture_end()` does, but makes a pipeline, whose replays overlap.
///
/// # Errors
/// `SERIATIM_STATUS_PRIVATE_VARIABLE` if the capture has private variables, or if one of its
/// variables was made private to a graph after it was recorded; `SERIATIM_STATUS_VARIABLE_DELETED`.
/// The capture is gone then, too.
///
/// # Safety
/// `capture` is a live handle, which is not used again. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_end_pipeline(
    capture: *mut SeriatimCapture,
    out: *mut *mut SeriatimPipeline,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let capture = unsafe { taken(capture, "capture") };
        // SAFETY: by the contract.
        unsafe { produce_handle(out, move || Ok(SeriatimPipeline(capture?.0.finish_pipeline()?))) }
    })
}

/// Pushes all operations of a pipeline, in the order in which they were captured, and does not wait
/// for them. Each push may wait for room under a bound, and on a naive engine runs its operation.
/// Operations that other threads push may come between them.
///
/// An operation that fails marks the variables that it changes, and is skipped in later replays, as
/// is what depends on it, until a wait takes the failure.
///
/// # Errors
/// `SERIATIM_STATUS_STOPPED`, or `SERIATIM_STATUS_DEVICE_LOST` if one of its devices is lost,
/// before anything is pushed. Otherwise as `seriatim_push()`: the operations before the one that is
/// refused are pushed, and the text says which that is.
///
/// # Safety
/// `pipeline` is a live handle, which no other thread uses at the same time. No function that runs
/// inside the call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_pipeline_replay(pipeline: *mut SeriatimPipeline) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow_mut(pipeline, "pipeline") }?.0.replay().map_err(Failure::from))
}

/// How many operations the pipeline has.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `pipeline` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_pipeline_length(
    pipeline: *const SeriatimPipeline,
    out: *mut usize,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce(out, || Ok(borrow(pipeline, "pipeline")?.0.len())) })
}

/// Deletes a pipeline; a null pointer is fine. Operations in flight go on. The deleters of its
/// arguments run after the last of them.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `pipeline` is null or a live handle, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_pipeline_delete(pipeline: *mut SeriatimPipeline) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(pipeline) };
        Ok(())
    })
}
