//! Operations: described, and pushed once.

use crate::call::{Argument, AsyncCall, Call, SeriatimAsyncFunction, SeriatimDeleter, SeriatimFunction};
use crate::device::SeriatimContext;
use crate::engine::SeriatimEngine;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{bad, borrow, list, optional_name};
use crate::variable::SeriatimVariable;
use seriatim::{Capture, CaptureBuilder, Listed, Name, OperationBuilder, Property};
use std::ffi::{c_char, c_void};
use std::ptr::null;

/// What kind of work an operation is, which decides where it runs.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeriatimProperty {
    /// Computes on the workers of its device.
    Normal = 0,
    /// Copies from a GPU: runs on the copy worker of its device, or on the engine's I/O worker if
    /// its context is the processor.
    CopyFromGpu = 1,
    /// Copies to a GPU: as the one before.
    CopyToGpu = 2,
    /// Computes on the pool of workers kept for prioritised operations.
    CpuPrioritized = 3,
    /// Computes on a GPU before its other operations.
    GpuPrioritized = 4,
    /// Only starts something: runs on the pushing thread when it is ready at once.
    Async = 5,
    /// Deletes a variable: as `Async`, and runs even after `seriatim_engine_notify_shutdown()`.
    DeleteVar = 6,
    /// Runs even when what it uses is marked by a failure.
    NoSkip = 7,
    /// Computes for well under a microsecond, and waits for nothing that its pushing thread does
    /// later: its push may run it. Of an asynchronous operation this is meant of its function,
    /// which its push may call; its completion may be used at any time.
    Short = 8,
    /// Reads or writes a file, or blocks otherwise, on the processor: runs on the engine's I/O
    /// worker.
    Io = 9,
}

/// An operation, but for its function. All zeros are an unnamed one without variables, on any
/// worker of the processor.
///
/// What it points to is copied during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SeriatimOperation {
    /// The name, for errors and profiles; may be null. Each text is kept for the life of the
    /// process, and found again under a lock: use few names, and none or an operator where every
    /// nanosecond counts.
    pub name: *const c_char,
    /// Where it runs. Not looked at when an operator is made: each use says it.
    pub context: SeriatimContext,
    /// The variables that it reads. Repeats are harmless, and one that it also changes counts as
    /// changed.
    pub reads: *const SeriatimVariable,
    /// How many those are.
    pub read_count: usize,
    /// The variables that it changes.
    pub writes: *const SeriatimVariable,
    /// How many those are.
    pub write_count: usize,
    /// A `SeriatimProperty`. A plain number, so that a wrong one can be refused.
    pub property: u32,
    /// Among ready operations, greater priorities run first; equal ones in push order. Not looked
    /// at when an operator is made.
    pub priority: i32,
    /// Not 0: records this operation as `seriatim_profile_start()` records all, whether the
    /// profiler is on or not, if the operation has a name. That takes some 300 ns more. In a
    /// captured graph it has no effect.
    pub profiled: u32,
    /// Not 0: an operation of a graph, recorded by `seriatim_capture_push()`, that may be launched
    /// with others as one graph of the driver. What asks for it and lies on one GPU between two
    /// operations of the processor is then launched as a whole. Such a function is called in the
    /// first replay, and in the next after a `seriatim_parameter_set()`, while its stream is
    /// captured: it puts its work on `seriatim_run_context_stream()`, and does nothing else. What
    /// it puts there is done in each replay, or nothing of the whole if one of the functions fails.
    /// No effect elsewhere, and without graphs of the driver, as before CUDA 11.4.
    pub device_graph: u32,
}

/// All zeros.
impl Default for SeriatimOperation {
    fn default() -> SeriatimOperation {
        SeriatimOperation {
            name: null(),
            context: SeriatimContext::default(),
            reads: null(),
            read_count: 0,
            writes: null(),
            write_count: 0,
            property: 0,
            priority: 0,
            profiled: 0,
            device_graph: 0,
        }
    }
}

#[inline]
fn property(number: u32) -> Result<Property, Failure> {
    u8::try_from(number).ok().and_then(Property::from_number).ok_or_else(|| no_property(number))
}

#[cold]
fn no_property(number: u32) -> Failure {
    let last = SeriatimProperty::Io as u32;
    bad(format!("{number} is not a property: they go from 0 to {last}"))
}

/// What C describes, checked.
pub struct Content<'a> {
    name: Name,
    reads: &'a [SeriatimVariable],
    writes: &'a [SeriatimVariable],
    property: Property,
    context: SeriatimContext,
    priority: i32,
    is_profiled: bool,
    joins: bool,
}

/// Checks an operation.
///
/// # Safety
/// `operation` is null or points to an operation whose pointers are null or as it describes them.
#[inline(always)]
pub unsafe fn content<'a>(operation: *const SeriatimOperation) -> Result<Content<'a>, Failure> {
    // SAFETY: by the contract.
    let operation = unsafe { borrow(operation, "operation") }?;
    // SAFETY: by the contract.
    let (name, reads, writes) = unsafe {
        (
            optional_name(operation.name, "the name of an operation")?,
            list(operation.reads, operation.read_count, "the reads of an operation")?,
            list(operation.writes, operation.write_count, "the writes of an operation")?,
        )
    };
    let (property, context, priority) = (property(operation.property)?, operation.context, operation.priority);
    let (is_profiled, joins) = (operation.profiled != 0, operation.device_graph != 0);
    Ok(Content { name, reads, writes, property, context, priority, is_profiled, joins })
}

impl<'a> Content<'a> {
    /// An operation of an engine: the engine reads the variables where C has them.
    #[inline(always)]
    pub fn listed(&self) -> Result<Listed<'a, SeriatimVariable>, Failure> {
        let Content { name, reads, writes, property, context, priority, is_profiled, .. } = *self;
        Ok(Listed { name, context: context.resolve()?, property, priority, is_profiled, reads, writes })
    }

    /// An operation of an engine that also commutes on variables.
    pub fn commuting<'e>(
        self,
        engine: &'e SeriatimEngine,
        commutes: &[SeriatimVariable],
    ) -> Result<OperationBuilder<'e>, Failure> {
        let (context, priority) = (self.context.resolve()?, self.priority);
        Ok(self.reusable(engine).context(context).priority(priority).commutes(commutes.iter().copied()))
    }

    /// An operation whose context and priority each use says.
    pub fn reusable<'e>(self, engine: &'e SeriatimEngine) -> OperationBuilder<'e> {
        let builder = engine.0.op(self.name).reads(self.reads.iter().copied()).writes(self.writes.iter().copied());
        let builder = builder.property(self.property);
        if self.is_profiled {
            builder.profiled()
        } else {
            builder
        }
    }

    /// An operation of a graph.
    pub fn captured(self, capture: &mut Capture) -> Result<CaptureBuilder<'_>, Failure> {
        let context = self.context.resolve()?;
        let builder = capture.op(self.name).reads(self.reads.iter().copied()).writes(self.writes.iter().copied());
        let builder = builder.property(self.property).context(context).priority(self.priority);
        Ok(if self.joins { builder.device_graph() } else { builder })
    }
}

/// Pushes or records an operation, if all that describes it can be used. On an error the deleter of
/// the call has run when this returns.
///
/// # Safety
/// As [`content`].
#[inline(always)]
pub unsafe fn described<H, C>(
    handle: Result<H, Failure>,
    call: Result<C, Failure>,
    operation: *const SeriatimOperation,
    push: impl FnOnce(H, C, Content<'_>) -> Result<(), Failure>,
) -> SeriatimStatus {
    guard(move || {
        let (call, handle) = (call?, handle?);
        // SAFETY: passed on.
        push(handle, call, unsafe { content(operation) }?)
    })
}

/// Pushes an operation that ends when its function returns. `deleter` then runs before the
/// operation ends, so a wait that returns has seen both. On a GPU it runs when the function has
/// returned as well, and what that has put on the stream is done later: nothing on the stream may
/// use what the deleter frees.
///
/// # Errors
/// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
/// `SERIATIM_STATUS_PRIVATE_VARIABLE`, `SERIATIM_STATUS_UNKNOWN_DEVICE`,
/// `SERIATIM_STATUS_DEVICE_UNAVAILABLE`, `SERIATIM_STATUS_DEVICE_LOST`,
/// `SERIATIM_STATUS_ENGINE_FULL` at the bound with `WHEN_FULL` set to `would-block`, or for more
/// than 8 million variables, `SERIATIM_STATUS_STOPPED`. The push that finds workers missing starts
/// them: then also `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`. The
/// function is then not called, and the deleter runs before the call returns; but if another thread
/// deletes a variable during the call, it may run later, when the other variables are free.
///
/// # Safety
/// `engine` is a live handle. `operation` points to an operation whose pointers are as it describes
/// them, and whose texts end with a zero byte. `function` and `deleter` may be called with
/// `argument` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_push(
    engine: *const SeriatimEngine,
    operation: *const SeriatimOperation,
    function: SeriatimFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    guard(move || {
        let call = Call::new(function, argument)?;
        // SAFETY: by the contract.
        let (engine, content) = unsafe { (borrow(engine, "engine")?, content(operation)?) };
        engine.0.push_listed(&content.listed()?, call.key(), move |run| call.run(run)).map_err(Failure::from)
    })
}

/// Pushes an operation that ends when its completion says so. `deleter` runs when the function has
/// returned and the completion has been used, whichever is later; on a GPU that may be before the
/// operation ends (`seriatim_completion_complete_after()`).
///
/// # Errors
/// As `seriatim_push()`.
///
/// # Safety
/// As for `seriatim_push()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_push_async(
    engine: *const SeriatimEngine,
    operation: *const SeriatimOperation,
    function: SeriatimAsyncFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    guard(move || {
        let call = AsyncCall::new(function, argument)?;
        // SAFETY: by the contract.
        let (engine, content) = unsafe { (borrow(engine, "engine")?, content(operation)?) };
        engine.0.push_listed_async(&content.listed()?, call).map_err(Failure::from)
    })
}
