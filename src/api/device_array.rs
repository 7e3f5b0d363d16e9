//! What `DeviceData` and `PinnedData` have in common: a lease of memory, what a copy has to know of
//! it, and the rule for its address. Only an operation that runs on the array's own device and has
//! declared its variable gets the address. If the operation is captured, what was captured uses the
//! array at each launch, and the address is noted for that.
//!
//! Used by `device_data.rs`, `pinned_data.rs` and `copy.rs`, on any thread; the addresses are asked
//! for in closures, on the device's workers. There is no state here: a `Data` guards the lease.
//! `copy.rs` pushes the copies. Sizes are rounded, and memory is kept for the next array, in
//! `engine/gpu/buffers.rs`.

#![forbid(unsafe_code)]

use crate::api::data::{Again, Data};
use crate::api::device_handle::DeviceHandle;
use crate::api::graph::delete_own_variable;
use crate::device::borrows::StandingBorrow;
use crate::device::current;
use crate::device::memory::{MemoryKind, Plain};
use crate::device::raw::RawMemory;
use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::gpu::lease::Lease;
use crate::engine::nesting::inside;
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::async_closure::async_vtable;
use crate::operation::block::FLAG_BEYOND;
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::variable::handle::Variable;
use std::sync::Arc;

/// An array that [`Engine::copy`](crate::Engine::copy) copies from and to:
/// [`DeviceData`](crate::gpu::DeviceData) or [`PinnedData`](crate::gpu::PinnedData).
///
/// ```
/// use seriatim::gpu::{Array, DeviceData, Immediate, Plain};
/// use seriatim::{Context, Engine};
///
/// fn doubled<T: Plain>(engine: &Engine, from: &impl Array<T>, to: [&impl Array<T>; 2]) -> Result<(), seriatim::Error> {
///     to.into_iter().try_for_each(|to| engine.copy(from, to))
/// }
///
/// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let gpu = engine.device(Context::gpu(0))?;
/// let [x, y, z] = [(); 3].map(|()| DeviceData::<u8>::zeros(&gpu, 3));
/// doubled(&engine, &x?, [&y?, &z?])?;
/// engine.wait_for_all()?;
/// # Ok::<(), seriatim::Error>(())
/// ```
pub trait Array<T>: OfDevice {}

/// Seals [`Array`]: only the two types have it.
pub trait OfDevice {
    /// What a copy has to know.
    #[doc(hidden)]
    fn end(&self) -> End<'_>;
}

/// One end of a copy.
#[derive(Debug)]
pub struct End<'a> {
    pub(crate) data: &'a Data<Lease>,
    pub(crate) length: usize,
    pub(crate) context: Context,
    pub(crate) is_on_device: bool,
}

/// So many elements in bytes.
///
/// # Errors
/// [`OutOfMemory`](ErrorKind::OutOfMemory).
pub(crate) fn bytes_of<T>(length: usize) -> Result<usize, Error> {
    length.checked_mul(size_of::<T>()).ok_or_else(|| {
        let message = format!("an array of {length} elements of {} bytes cannot be addressed", size_of::<T>());
        Error::new(ErrorKind::OutOfMemory, message)
    })
}

/// The lease of an array of `length` elements in a buffer with room for at least so many, and
/// whether its memory is late: an operation waits for it.
pub(crate) fn lease<T: Plain>(
    device: &DeviceHandle,
    kind: MemoryKind,
    length: usize,
    room: usize,
) -> Result<(Data<Lease>, bool), Error> {
    let core = device.engine().core();
    let (used, bytes) = (bytes_of::<T>(length)?, bytes_of::<T>(room.max(length))?);
    let variable = device.engine().new_variable();
    match Lease::new(core, device.context(), kind, (used, bytes), variable) {
        Ok(lease) if lease.is_late() => Ok((wait_for_memory(core, lease, variable)?, true)),
        Ok(lease) => Ok((Data::of(variable, lease), false)),
        Err(error) => {
            // A stopped engine refuses it: then the variable stays until the engine ends.
            let _ = delete_own_variable(core, variable, |_| ());
            Err(error)
        }
    }
}

/// Has all operations of an array wait for its memory: pushes an operation that ends when there is
/// some, or there is none. It only reads the variable, so it is no version of it; a lack of memory
/// is the failure of the operation that comes first behind it, which fills the array.
fn wait_for_memory(core: &Arc<Core>, lease: Lease, variable: Variable) -> Result<Data<Lease>, Error> {
    let (asker, data) = (lease.asker(), Data::of(variable, lease));
    let late = data.clone();
    let own = Arc::clone(core);
    let ask = move |_: &RunContext<'_>, completion: Completion| {
        asker(Box::new(move |memory| {
            // Nobody has borrowed it to change it: operations that do are behind this one, and the
            // processor borrows a pinned array when it has come.
            if let Ok(lease) = late.read() {
                lease.settle(memory);
            }
            // If no other handle is left, this drops the array: before the operation ends, and so
            // before the variable does. It counts as inside the operation, which a stop and a fork
            // wait for: so the deletion is not refused, and does not wait for them.
            inside(own.local(), || drop(late));
            completion.complete();
        }));
    };
    let request =
        Request { property: Property::Async, flags: FLAG_BEYOND, ..Request::named(Name::from("wait for memory")) };
    push(core, &request, &[Claim { variable, mode: Mode::Read }][..], async_vtable(&ask), ask)?;
    Ok(data)
}

/// Checks that an operation that uses a lease by its address runs on the lease's device.
fn check_device(lease: &Lease, run: &RunContext<'_>) -> Result<(), Error> {
    if run.context() == lease.gpu().context() {
        return Ok(());
    }
    let message = format!(
        "operation '{}' runs on {} and uses memory of {}: push it with the context of its memory, or copy what it needs",
        run.name(),
        run.context(),
        lease.gpu().context()
    );
    Err(Error::new(ErrorKind::BufferMismatch, message))
}

/// A launch borrows the array as an operation does that is called.
impl StandingBorrow for Again<Lease> {
    fn what(&self) -> (usize, bool) {
        Again::what(self)
    }

    fn take(&mut self) -> Result<(), Error> {
        Again::take(self)
    }

    fn end(&mut self) {
        Again::end(self);
    }
}

/// Notes that the calling operation uses a lease by its address, if it is being captured.
///
/// # Errors
/// The thread does not call the operation's closure, which may be captured.
pub(crate) fn note(data: &Data<Lease>, changes: bool, run: &RunContext<'_>) -> Result<(), Error> {
    if run.graph != 0 && !current::is_inside() {
        let message = format!(
            "operation '{}' of a graph asks for memory on another thread than the one that calls its closure: ask there, and \
             hand on the address",
            run.name()
        );
        return Err(Error::new(ErrorKind::NoStream, message));
    }
    current::captured(|capture| capture.borrows.borrow_mut().note(Box::new(Again::new(data, changes))));
    Ok(())
}

/// The memory of a lease, for an operation of its device that has declared to read it.
pub(crate) fn read_on(data: &Data<Lease>, run: &RunContext<'_>) -> Result<RawMemory, Error> {
    let lease = data.read()?;
    check_device(&lease, run)?;
    note(data, false, run)?;
    lease.memory()
}

/// The memory of a lease, for an operation of its device that has declared to change it.
pub(crate) fn write_on(data: &Data<Lease>, run: &RunContext<'_>) -> Result<RawMemory, Error> {
    let lease = data.write()?;
    check_device(&lease, run)?;
    note(data, true, run)?;
    lease.memory()
}

/// The same, of at least so many bytes. If there are not so many, the lease gets other memory.
pub(crate) fn grow_on(data: &Data<Lease>, bytes: usize, run: &RunContext<'_>) -> Result<RawMemory, Error> {
    let mut lease = data.write()?;
    check_device(&lease, run)?;
    note(data, true, run)?;
    lease.grow(bytes)
}
