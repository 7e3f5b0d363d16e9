//! Leases: who owns a buffer of a device, and for which variable; and the copies between them.
//!
//! Used by the arrays and copies of `src/api/`, on any thread. The variable of a buffer decides
//! which thread may touch it. Which buffer is used again is decided in `buffers.rs`.
//!
//! A [`Lease`] is the value of a `DeviceData` or `PinnedData` (`src/api/`). Its fields do not
//! change, with two exceptions. The buffer of one that is *late* comes when the watcher has freed
//! memory. An operation that ends then is pushed in front of all others
//! (`src/api/device_array.rs`), and they find the buffer there. No thread waits. And an operation
//! that changes the variable may have the lease *grow*: it gets a larger buffer, and keeps the
//! outgrown one, which the device may still use, until it is dropped.
//!
//! The drop of a lease gives the buffer back and deletes the variable. That is on the thread that
//! drops the last handle, or on one that drops the last closure with a share of the lease: mostly a
//! worker. At that moment the device may still use the buffer. Its tickets are in the variable's
//! row: each operation leaves its ticket before its closure is called, and the closure has owned a
//! share of the lease. An operation that leaves none has the row borrowed (`borrow.rs`). Then the
//! deletion of the variable gives the buffer back, behind that operation.

use crate::device::memory::MemoryKind;
use crate::device::raw::{DriverError, RawMemory, RawStream};
use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::gpu::admit;
use crate::engine::gpu::allocate::Taken;
use crate::engine::gpu::buffers::{Buffer, Give};
use crate::engine::gpu::devices::{Fleet, Gpu};
use crate::engine::gpu::size_classes::bytes_of;
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::settings::Kind;
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::block::{FLAG_BEYOND, FLAG_DELETE};
use crate::operation::closure::sync_vtable;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::variable::handle::Variable;
use std::sync::{Arc, OnceLock};

/// A buffer that has an owner, or a promise of one.
pub struct Lease {
    core: Arc<Core>,
    gpu: Arc<Gpu>,
    /// The buffer, or why there is none. While it is empty, a buffer is promised.
    buffer: OnceLock<Result<Buffer, Error>>,
    kind: MemoryKind,
    /// The buffers before, of a lease that has grown.
    outgrown: Vec<Buffer>,
    /// The class of the buffer that was asked for.
    class: usize,
    /// How many bytes of it are used.
    bytes: usize,
    variable: Variable,
}

impl Lease {
    /// Takes a buffer of a device, of at least so many `bytes`, of which the first `used` are used,
    /// for a variable that no other thread knows. The memory may be late: then the caller pushes an
    /// operation that asks for it ([`Lease::asker`]).
    pub fn new(
        core: &Arc<Core>,
        context: Context,
        kind: MemoryKind,
        (used, bytes): (usize, usize),
        variable: Variable,
    ) -> Result<Lease, Error> {
        let gpu = admit::find(core, context)?;
        // The naive engine has no watcher.
        let may_wait = core.settings.kind != Kind::Naive;
        let taken = gpu.take_buffer(core, fleet(core), kind, bytes, may_wait)?;
        let class = match &taken {
            Taken::Now(buffer) => buffer.class,
            Taken::Later(class) => *class,
        };
        let (core, gpu) = (Arc::clone(core), Arc::clone(gpu));
        let lease =
            Lease { core, gpu, buffer: OnceLock::new(), kind, outgrown: Vec::new(), class, bytes: used, variable };
        if let Taken::Now(buffer) = taken {
            lease.settle(Ok(buffer));
        }
        Ok(lease)
    }

    /// Whether the memory is still to come.
    pub fn is_late(&self) -> bool {
        self.buffer.get().is_none()
    }

    /// Puts the buffer there, or why there is none, once. No operation has come to the variable.
    pub fn settle(&self, buffer: Result<Buffer, Error>) {
        if let Some(owed) = buffer.as_ref().ok().map(|buffer| &buffer.owed) {
            if owed.tickets().next().is_some() {
                fleet(&self.core).rows.get_or_add(self.variable.index).begin(owed);
            }
        }
        let _ = self.buffer.set(buffer);
    }

    /// What asks the watcher for the memory, if that is late. The first operation of the variable
    /// calls it, and ends when `give` is called.
    pub fn asker(&self) -> impl FnOnce(Give) + Send + 'static {
        let (core, gpu) = (Arc::clone(&self.core), Arc::clone(&self.gpu));
        let (kind, class, bytes) = (self.kind, self.class, self.bytes);
        // The device may have no threads yet. No stop ends them: the operation is in flight.
        move |give| match admit::admit(&core, gpu.context()) {
            Ok(()) => {
                gpu.buffers.wait(kind, class, bytes, give);
                gpu.wake_watcher();
            }
            Err(error) => {
                gpu.buffers.break_promise(kind, class);
                give(Err(error));
            }
        }
    }

    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the memory. Call it only in operations that come after the one that waited for the
    /// memory.
    ///
    /// # Errors
    /// The wait for the memory has failed, so there is none.
    pub fn memory(&self) -> Result<RawMemory, Error> {
        self.found().map(|buffer| buffer.memory)
    }

    fn found(&self) -> Result<&Buffer, Error> {
        match self.buffer.get() {
            Some(found) => found.as_ref().map_err(Error::clone),
            None => Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("there is no memory for {:?} on {}: it was not asked for", self.variable, self.gpu.context()),
            )),
        }
    }

    /// Returns memory for at least so many bytes: that of the lease, or of a larger buffer, which
    /// has nothing of what was in the smaller one. For an operation that runs and has declared to
    /// change the variable. What it owes the device, it has left there.
    ///
    /// # Errors
    /// Those of [`Lease::memory`], and of a request for memory.
    pub fn grow(&mut self, bytes: usize) -> Result<RawMemory, Error> {
        let found = self.found()?;
        let room = bytes_of(found.class);
        if bytes <= room {
            return Ok(found.memory);
        }
        let take = |bytes| self.gpu.take_idle_buffer(&self.core, fleet(&self.core), self.kind, bytes);
        // Outgrown buffers then come to no more than the last one.
        let buffer = take(bytes.max(2 * room)).or_else(|_| take(bytes))?;
        let memory = buffer.memory;
        self.outgrown.extend(self.buffer.take().and_then(Result::ok));
        // The row stays: it has the ticket of the operation, and the buffer owes nothing.
        let _ = self.buffer.set(Ok(buffer));
        Ok(memory)
    }

    /// The memory, if it is pinned, and there.
    pub fn pinned(&self) -> RawMemory {
        self.memory().expect("what borrows pinned memory has seen that it is there")
    }

    /// Whether the processor may read the buffer now, or also change it: the device has come to the
    /// last write, or also to the reads since, and no operation has it borrowed. For a caller that
    /// has borrowed the lease likewise.
    pub fn is_settled(&self, changes: bool) -> Result<bool, Error> {
        let fleet = fleet(&self.core);
        let Some(row) = fleet.rows.get(self.variable.index) else { return Ok(true) };
        if row.is_borrowed(changes) {
            return Ok(false);
        }
        for (ticket, wrote) in row.before(if changes { Mode::Write } else { Mode::Read }) {
            if fleet.is_reached(ticket) {
                continue;
            }
            match fleet.of(ticket).0.lost.get() {
                // Nobody knows what a lost device has written.
                Some(failure) if wrote => return Err(failure.error.clone()),
                Some(_) => {}
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Puts a copy of another buffer into this one on a stream. The caller has borrowed both, and
    /// is the closure of an operation that has declared both. If that is captured, it has noted
    /// both for the launches.
    pub fn copy_from(&self, from: &Lease, stream: RawStream) -> Result<(), Error> {
        let (source, target) = (from.found()?, self.found()?);
        let (source, target) = ((source.kind, source.memory), (target.kind, target.memory));
        let bytes = self.bytes.min(from.bytes);
        let memory = self.gpu.memory()?;
        // SAFETY: each buffer has at least the bytes of its lease. The operation has left its
        // ticket on both variables, or has borrowed both until the device is done. That orders all
        // other uses, and the next owners'.
        let queued = unsafe { memory.copy(stream, source, target, bytes) };
        queued.map_err(|refusal| self.refused(refusal))
    }

    /// Fills the buffer with zeros on a stream. The caller is as for [`Lease::copy_from`].
    pub fn zero(&self, stream: RawStream) -> Result<(), Error> {
        let (memory, target) = (self.gpu.memory()?, self.memory()?);
        // SAFETY: as in `copy_from`.
        let queued = unsafe { memory.zero(stream, target, self.bytes) };
        queued.map_err(|refusal| self.refused(refusal))
    }

    #[cold]
    fn refused(&self, refusal: DriverError) -> Error {
        let kind = if refusal.is_lost() { ErrorKind::DeviceLost } else { ErrorKind::DeviceUnavailable };
        Error::with_source(kind, format!("{} refused a copy: {refusal}", self.gpu.backend.name()), refusal)
    }
}

fn fleet(core: &Core) -> &Fleet {
    core.gpus.fleet.get().expect("a device was found")
}

/// A buffer that its drop gives back.
struct Returned(Arc<Gpu>, Option<Buffer>);

impl Drop for Returned {
    fn drop(&mut self) {
        self.1.take().into_iter().for_each(|buffer| self.0.buffers.give_back(buffer));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let outgrown = std::mem::take(&mut self.outgrown).into_iter().map(|mut buffer| {
            let row = fleet(&self.core).rows.get(self.variable.index);
            row.into_iter().for_each(|row| row.owe(&mut buffer.owed));
            Returned(Arc::clone(&self.gpu), Some(buffer))
        });
        let outgrown: Vec<Returned> = outgrown.collect();
        let mut behind = None;
        match self.buffer.take() {
            Some(Ok(mut buffer)) => {
                let row = fleet(&self.core).rows.get(self.variable.index);
                row.into_iter().for_each(|row| row.owe(&mut buffer.owed));
                let returned = Returned(Arc::clone(&self.gpu), Some(buffer));
                // Else it is given back here.
                behind = row.is_some_and(|row| row.is_borrowed(true)).then_some(returned);
            }
            // Its promise is broken.
            Some(Err(_)) => {}
            // It was not asked for: the engine has taken no operation that waits for it.
            None => self.gpu.buffers.break_promise(self.kind, self.class),
        }
        let delete = move |_: &RunContext<'_>| drop((behind, outgrown));
        let request = Request {
            property: Property::DeleteVar,
            flags: FLAG_DELETE | FLAG_BEYOND,
            ..Request::named(Name::from("delete variable"))
        };
        let claim = Claim { variable: self.variable, mode: Mode::Delete };
        // Refused if the program has deleted the variable, or the engine has ended: then there is
        // nothing to do.
        let _ = push(&self.core, &request, &[claim][..], sync_vtable(&delete), delete);
    }
}
