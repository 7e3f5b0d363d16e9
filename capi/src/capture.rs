//! Captures: operations that are recorded, to become a graph.

use crate::call::{Argument, AsyncCall, Call, SeriatimAsyncFunction, SeriatimDeleter, SeriatimFunction};
use crate::device::SeriatimContext;
use crate::engine::SeriatimEngine;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::graph::SeriatimGraph;
use crate::input::{borrow, borrow_mut, optional_name, produce, produce_handle, reclaim, taken};
use crate::operation::{described, SeriatimOperation};
use crate::operator::SeriatimOperator;
use crate::parameter::SeriatimParameter;
use crate::variable::SeriatimVariable;
use seriatim::Capture;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// A graph that is being captured. What is pushed into it is recorded, and not run. Used by one
/// thread at a time. It keeps its engine alive.
pub struct SeriatimCapture(pub(crate) Capture);

/// Begins the capture of a graph, which `seriatim_capture_end()` makes of what was pushed in
/// between. `name` is for profiles and for the texts of waits that run out of time; it may be null,
/// and the graph is then called "graph".
///
/// Other pushes and other captures go on as ever, also to the same variables.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is a live handle. `name` is null or ends with a zero byte. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_begin(
    engine: *const SeriatimEngine,
    name: *const c_char,
    out: *mut *mut SeriatimCapture,
) -> SeriatimStatus {
    let make = || {
        // SAFETY: by the contract.
        let (engine, text) = unsafe { (borrow(engine, "engine")?, optional_name(name, "the name of a graph")?) };
        let mut capture = engine.0.begin_capture();
        if !name.is_null() {
            capture.name(text);
        }
        Ok(SeriatimCapture(capture))
    };
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, make) })
}

/// Records an operation. In each replay it ends when its function returns. The function is called
/// once for each replay, always with this argument, and never by two replays at once. `deleter`
/// runs when the graph is deleted and its last replay is over.
///
/// # Errors
/// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
/// `SERIATIM_STATUS_PRIVATE_VARIABLE` for one of another graph, `SERIATIM_STATUS_UNKNOWN_DEVICE`,
/// `SERIATIM_STATUS_DEVICE_UNAVAILABLE`. The deleter then runs before the call returns, and the
/// capture goes on without the operation.
///
/// # Safety
/// `capture` is a live handle, which no other thread uses at the same time. `operation` points to
/// an operation whose pointers are as it describes them, and whose texts end with a zero byte.
/// `function` and `deleter` may be called with `argument` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_push(
    capture: *mut SeriatimCapture,
    operation: *const SeriatimOperation,
    function: SeriatimFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe {
        let (capture, call) = (borrow_mut(capture, "capture"), Call::new(function, Argument::new(argument, deleter)));
        described(capture, call, operation, |capture, call, content| {
            content.captured(&mut capture.0)?.push(move |run| call.run(run)).map_err(Failure::from)
        })
    }
}

/// Records an asynchronous operation. In each replay it ends when its completion was used and its
/// function has returned, whichever is later; each call gets a completion of its own. Otherwise as
/// `seriatim_capture_push()`.
///
/// # Errors
/// As `seriatim_capture_push()`.
///
/// # Safety
/// As for `seriatim_capture_push()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_push_async(
    capture: *mut SeriatimCapture,
    operation: *const SeriatimOperation,
    function: SeriatimAsyncFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe {
        let call = AsyncCall::new(function, Argument::new(argument, deleter)).map(AsyncCall::shared);
        described(borrow_mut(capture, "capture"), call, operation, |capture, call, content| {
            let recorded = move |run: &seriatim::RunContext<'_>, completion| call.run(run, completion);
            content.captured(&mut capture.0)?.push_async(recorded).map_err(Failure::from)
        })
    }
}

/// Records a use of an operator of the capture's engine. The graph keeps the operator alive.
///
/// # Errors
/// As `seriatim_capture_push()`, and `SERIATIM_STATUS_FOREIGN_OPERATOR`.
///
/// # Safety
/// `capture` and `operator_` are live handles; no other thread uses the capture at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_push_operator(
    capture: *mut SeriatimCapture,
    operator_: *const SeriatimOperator,
    context: SeriatimContext,
    priority: i32,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (capture, operator) = unsafe { (borrow_mut(capture, "capture")?, borrow(operator_, "operator")?) };
        capture.0.push(&operator.0, context.resolve()?, priority).map_err(Failure::from)
    })
}

/// Makes a parameter of the graph: a value that its operations can read with
/// `seriatim_parameter_get()`, and that `seriatim_parameter_set()` replaces between replays.
/// `deleter` runs when the value is replaced or the handle of the parameter is deleted.
///
/// # Errors
/// Only those of every function. The deleter then runs before the call returns.
///
/// # Safety
/// `capture` is a live handle, which no other thread uses at the same time. `value` may be used and
/// deleted on any thread, and used by several at once. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_parameter(
    capture: *mut SeriatimCapture,
    value: *mut c_void,
    deleter: SeriatimDeleter,
    out: *mut *mut SeriatimParameter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let value = unsafe { Argument::new(value, deleter) };
    let make = move || {
        // SAFETY: by the contract.
        let capture = unsafe { borrow_mut(capture, "capture") }?;
        Ok(SeriatimParameter(capture.0.parameter(value)))
    };
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, make) })
}

/// Makes a variable that only operations of this graph can name. It orders them as any variable
/// does, but a replay does not claim it: the time of `seriatim_graph_replay()` does not grow with
/// it. It has no version, and nothing waits for it. It ends with the graph, or with the capture if
/// no graph is made; until then every call outside of the capture that is given it fails with
/// `SERIATIM_STATUS_PRIVATE_VARIABLE`. A failure that marks it stays for later replays until a wait
/// takes the failure.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `capture` is a live handle, which no other thread uses at the same time. `out` may be written
/// to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_private_variable(
    capture: *mut SeriatimCapture,
    out: *mut SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce(out, || Ok(borrow_mut(capture, "capture")?.0.private_variable().into())) })
}

/// Makes a variable private to this graph that was made outside, and that operations may have used.
/// From then on it is as one of `seriatim_capture_private_variable()`: it is refused everywhere
/// else, and it does not come back when the graph is deleted. Replays come after all operations
/// that use it and were pushed before. It waits for nothing.
///
/// # Errors
/// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
/// `SERIATIM_STATUS_PRIVATE_VARIABLE` if it is private already, `SERIATIM_STATUS_STOPPED`,
/// `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`. The variable is then as it
/// was.
///
/// # Safety
/// `capture` is a live handle, which no other thread uses at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_make_private(
    capture: *mut SeriatimCapture,
    variable: SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow_mut(capture, "capture") }?.0.make_private(variable).map_err(Failure::from))
}

/// Ends the capture and makes the graph. Time and memory proportional to the operations and their
/// variables.
///
/// # Errors
/// `SERIATIM_STATUS_ENGINE_FULL` for more than 500 million operations, or more than 8 million
/// variables in one graph of a driver.
/// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_PRIVATE_VARIABLE` if one of their variables
/// was deleted, or made private to another graph, after they were recorded. If variables were made
/// private by `seriatim_capture_make_private()`, also `SERIATIM_STATUS_STOPPED`,
/// `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`. The handle of the capture
/// is gone all the same.
///
/// # Safety
/// `capture` is a live handle, which is not used again. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_end(
    capture: *mut SeriatimCapture,
    out: *mut *mut SeriatimGraph,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let capture = unsafe { taken(capture, "capture") };
        // SAFETY: by the contract.
        unsafe { produce_handle(out, move || Ok(SeriatimGraph(Arc::new(capture?.0.finish()?)))) }
    })
}

/// Gives a capture up; a null pointer is fine. What was recorded is deleted, and parameters are
/// refused from now on.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `capture` is null or a live handle, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_delete(capture: *mut SeriatimCapture) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(capture) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{seriatim_graph_delete, seriatim_graph_replay};
    use crate::run_context::SeriatimRunContext;
    use seriatim::gpu::{Backend, Class, DeviceGraphs, DriverError, Previous, RawGraph, RawMark, RawStream};
    use std::ffi::c_int;
    use std::ptr::{null, null_mut};
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::sync::Arc;

    /// A device on which everything ends at once, and which counts the launches of its graphs.
    #[derive(Default)]
    struct Launching(AtomicU32);

    const NONE: *mut c_void = null_mut();

    // SAFETY: everything is done at once, so it is in order.
    unsafe impl Backend for Launching {
        fn name(&self) -> &str {
            "launching"
        }
        fn devices(&self) -> Result<usize, DriverError> {
            Ok(1)
        }
        fn enter(&self, _: usize) -> Result<Previous, DriverError> {
            Ok(Previous::new(NONE))
        }
        unsafe fn leave(&self, _: Previous) {}
        fn stream(&self, _: usize, _: Class) -> Result<RawStream, DriverError> {
            Ok(RawStream::new(NONE))
        }
        fn mark(&self, _: usize) -> Result<RawMark, DriverError> {
            Ok(RawMark::new(NONE))
        }
        unsafe fn record(&self, _: RawMark, _: RawStream) -> Result<(), DriverError> {
            Ok(())
        }
        unsafe fn wait(&self, _: RawStream, _: RawMark) -> Result<(), DriverError> {
            Ok(())
        }
        unsafe fn reached(&self, _: RawMark) -> Result<bool, DriverError> {
            Ok(true)
        }
        unsafe fn finish(&self, _: RawStream) -> Result<(), DriverError> {
            Ok(())
        }
        unsafe fn drop_stream(&self, _: RawStream) {}
        unsafe fn drop_mark(&self, _: RawMark) {}
        fn graphs(&self) -> Option<&dyn DeviceGraphs> {
            Some(self)
        }
    }

    // SAFETY: nothing is ever captured.
    unsafe impl DeviceGraphs for Launching {
        unsafe fn begin(&self, _: RawStream) -> Result<(), DriverError> {
            Ok(())
        }
        unsafe fn end(&self, _: RawStream) -> Result<RawGraph, DriverError> {
            Ok(RawGraph::new(NONE))
        }
        unsafe fn launch(&self, _: RawGraph, _: RawStream) -> Result<(), DriverError> {
            self.0.fetch_add(1, SeqCst);
            Ok(())
        }
        unsafe fn drop_graph(&self, _: RawGraph) {}
    }

    unsafe extern "C-unwind" fn counted(argument: *mut c_void, _: *const SeriatimRunContext) -> c_int {
        // SAFETY: the argument is a counter, which outlives the engine.
        unsafe { &*argument.cast::<AtomicU32>() }.fetch_add(1, SeqCst);
        0
    }

    /// Two that ask for it are captured once, and launched as one; others are called each time.
    #[test]
    fn operations_that_ask_for_it_are_launched_as_one_graph() {
        for (device_graph, calls, launches) in [(0, 6, 0), (1, 2, 3)] {
            let (backend, count) = (Arc::new(Launching::default()), AtomicU32::new(0));
            let engine = seriatim::Engine::builder().cpu_workers(1).gpus(Arc::clone(&backend) as _).build().unwrap();
            let (variable, engine) = (SeriatimVariable::from(engine.new_variable()), SeriatimEngine(engine));
            let gpu = SeriatimContext { device: crate::device::SeriatimDevice::Gpu as u32, id: 0 };
            let operation = SeriatimOperation {
                context: gpu,
                writes: &variable,
                write_count: 1,
                device_graph,
                ..SeriatimOperation::default()
            };
            let (mut capture, mut graph) = (null_mut(), null_mut());
            // SAFETY: the handles live until they are deleted, and the counter outlives the engine.
            unsafe {
                assert_eq!(seriatim_capture_begin(&engine, null(), &mut capture), SeriatimStatus::Ok);
                for _ in 0..2 {
                    let argument = std::ptr::from_ref(&count).cast_mut().cast();
                    let pushed = seriatim_capture_push(capture, &operation, Some(counted), argument, None);
                    assert_eq!(pushed, SeriatimStatus::Ok);
                }
                assert_eq!(seriatim_capture_end(capture, &mut graph), SeriatimStatus::Ok);
                (0..3).for_each(|_| assert_eq!(seriatim_graph_replay(graph, 0), SeriatimStatus::Ok));
                engine.0.wait_for_all().unwrap();
                assert_eq!(seriatim_graph_delete(graph), SeriatimStatus::Ok);
            }
            assert_eq!((count.load(SeqCst), backend.0.load(SeqCst)), (calls, launches));
        }
    }
}
