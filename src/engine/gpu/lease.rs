//! Leases: who owns a buffer of a device, and for which variable; and the copies between them.
//!
//! Used by the arrays and copies of `src/api/`, on any thread. The variable of a buffer decides
//! which thread may touch it. Which buffer is used again is decided in `buffers.rs`.
//!
//! A [`Lease`] is the value of a `DeviceData` or `PinnedData` (`src/api/`). Its fields do not
//! change. Its drop gives the buffer back and deletes the variable. That is on the thread that
//! drops the last handle, or on one that drops the last closure with a share of the lease: mostly a
//! worker. At that moment the device may still use the buffer: its tickets are in the variable's
//! row, since each operation leaves its ticket before its closure is called, and the closure has
//! owned a share of the lease.

use crate::device::memory::MemoryKind;
use crate::device::raw::{DriverError, RawStream};
use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::gpu::admit;
use crate::engine::gpu::buffers::Buffer;
use crate::engine::gpu::devices::{Fleet, Gpu};
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
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A buffer that has an owner.
pub struct Lease {
    core: Arc<Core>,
    gpu: Arc<Gpu>,
    buffer: ManuallyDrop<Buffer>,
    /// How many bytes of it are used.
    bytes: usize,
    variable: Variable,
}

impl Lease {
    /// Takes a buffer of a device for a variable that no other thread knows.
    pub fn new(
        core: &Arc<Core>,
        context: Context,
        kind: MemoryKind,
        bytes: usize,
        variable: Variable,
    ) -> Result<Lease, Error> {
        let gpu = admit::find(core, context)?;
        let fleet = fleet(core);
        let buffer = gpu.take_buffer(fleet, kind, bytes)?;
        if buffer.owed.tickets().next().is_some() {
            fleet.rows.get_or_add(variable.index).begin(&buffer.owed);
        }
        let (core, gpu) = (Arc::clone(core), Arc::clone(gpu));
        Ok(Lease { core, gpu, buffer: ManuallyDrop::new(buffer), bytes, variable })
    }

    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Whether the processor may read the buffer now, or also change it: the device has come to the
    /// last write, or also to the reads since. For a caller that has borrowed the lease likewise.
    pub fn is_settled(&self, changes: bool) -> Result<bool, Error> {
        let fleet = fleet(&self.core);
        let Some(row) = fleet.rows.get(self.variable.index) else { return Ok(true) };
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
    /// is the closure of an operation that has declared both.
    pub fn copy_from(&self, from: &Lease, stream: RawStream) -> Result<(), Error> {
        let (source, target) = ((from.buffer.kind, from.buffer.memory), (self.buffer.kind, self.buffer.memory));
        let bytes = self.bytes.min(from.bytes);
        let memory = self.gpu.memory()?;
        // SAFETY: each buffer has at least the bytes of its lease. The operation has left its
        // ticket on both variables, which orders all other uses, and the next owners'.
        let queued = unsafe { memory.copy(stream, source, target, bytes) };
        self.finished(queued, stream)
    }

    /// Fills the buffer with zeros on a stream. The caller is as for [`Lease::copy_from`].
    pub fn zero(&self, stream: RawStream) -> Result<(), Error> {
        let memory = self.gpu.memory()?;
        // SAFETY: as in `copy_from`.
        let queued = unsafe { memory.zero(stream, self.buffer.memory, self.bytes) };
        self.finished(queued, stream)
    }

    /// What has become of a call that has queued something.
    fn finished(&self, queued: Result<(), DriverError>, stream: RawStream) -> Result<(), Error> {
        // The naive engine leaves no tickets: all is over before the caller's borrows end.
        let finish = || match self.core.settings.kind {
            // SAFETY: the stream is that of the operation that the caller is, and of this device.
            Kind::Naive => unsafe { self.gpu.finish(stream) },
            _ => Ok(()),
        };
        queued.and_then(|()| finish()).map_err(|refusal| {
            let kind = if refusal.is_lost() { ErrorKind::DeviceLost } else { ErrorKind::DeviceUnavailable };
            Error::with_source(kind, format!("{} refused a copy: {refusal}", self.gpu.backend.name()), refusal)
        })
    }
}

fn fleet(core: &Core) -> &Fleet {
    core.gpus.fleet.get().expect("a device was found")
}

impl Drop for Lease {
    fn drop(&mut self) {
        // SAFETY: the lease ends, and nothing uses the field after this.
        let mut buffer = unsafe { ManuallyDrop::take(&mut self.buffer) };
        if let Some(row) = fleet(&self.core).rows.get(self.variable.index) {
            row.owe(&mut buffer.owed);
        }
        self.gpu.buffers.give_back(buffer);
        let delete = |_: &RunContext<'_>| {};
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
