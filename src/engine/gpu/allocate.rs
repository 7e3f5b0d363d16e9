//! Allocates on a device and frees there: takes kept buffers, and asks the driver for new ones.
//!
//! Used by `lease.rs`, by `src/api/device_handle.rs` (`trim`), by `devices.rs` when a device is
//! dropped, and in parts by `entered.rs`, `foreign.rs` and `replay/device_graph.rs`, on any thread.
//! It keeps nothing itself: the kept buffers are in `buffers.rs`, behind a lock. The driver may
//! block; it is asked outside of that lock, and not at all once there are enough buffers.

use crate::device::memory::{DeviceMemory, MemoryKind};
use crate::device::raw::DriverError;
use crate::engine::gpu::buffers::{bytes_of, class_of, Buffer, Owes};
use crate::engine::gpu::devices::{Fleet, Gpu};
use crate::engine::gpu::rows::Owed;
use crate::error::{Error, ErrorKind};

impl Gpu {
    /// The memory of the device's back end.
    pub fn memory(&self) -> Result<&dyn DeviceMemory, Error> {
        self.backend.memory().ok_or_else(|| {
            let (name, context) = (self.backend.name(), self.context());
            Error::new(
                ErrorKind::DeviceUnavailable,
                format!(
                    "{name} has no memory for {context}: allocate and copy with what its operations call themselves"
                ),
            )
        })
    }

    /// Takes a buffer of at least so many bytes: a kept one, or else a new one.
    pub fn take_buffer(&self, fleet: &Fleet, kind: MemoryKind, bytes: usize) -> Result<Buffer, Error> {
        let memory = self.memory()?;
        if let Some(failure) = self.lost.get() {
            return Err(failure.error.clone());
        }
        let Some(class) = class_of(bytes) else { return Err(self.out_of_memory(kind, bytes, "no device has so much")) };
        if let Some(buffer) = self.buffers.reuse(kind, class, |owed| owes(owed, fleet)) {
            return Ok(buffer);
        }
        let size = bytes_of(class);
        if !self.buffers.reserve(kind, size) {
            self.trim(fleet);
            if !self.buffers.reserve(kind, size) {
                return Err(self.out_of_memory(kind, bytes, &format!("the limit is {} bytes", self.buffers.limit())));
            }
        }
        let allocate = || self.entered(|| memory.allocate(self.number, kind, size));
        let allocated = allocate().or_else(|refusal| {
            if refusal.is_lost() || self.trim(fleet) == 0 {
                return Err(refusal);
            }
            allocate()
        });
        match allocated {
            Ok(memory) => Ok(Buffer { memory, kind, class, owed: Owed::nothing(fleet.rows.timelines) }),
            Err(refusal) => {
                self.buffers.unreserve(kind, size);
                Err(self.out_of_memory(kind, bytes, &refusal.to_string()))
            }
        }
    }

    /// Frees the kept buffers that the device is done with; returns how many.
    pub fn trim(&self, fleet: &Fleet) -> usize {
        self.free(self.buffers.take_kept(|owed| owes(owed, fleet) == Owes::Nothing))
    }

    /// Frees all kept buffers. The device has done everything.
    pub fn free_kept(&self) {
        self.free(self.buffers.take_kept(|_| true));
    }

    fn free(&self, buffers: Vec<Buffer>) -> usize {
        let count = buffers.len();
        let Some(memory) = self.backend.memory().filter(|_| count > 0 && self.lost.get().is_none()) else { return 0 };
        let freed = self.entered(|| {
            for buffer in &buffers {
                // SAFETY: it was allocated so; it has no owner, and the device is done with it.
                unsafe { memory.free(buffer.kind, buffer.memory) };
            }
            Ok(count)
        });
        freed.unwrap_or(0)
    }

    /// Calls `call` with the device current.
    pub fn entered<T>(&self, call: impl FnOnce() -> Result<T, DriverError>) -> Result<T, DriverError> {
        let previous = self.backend.enter(self.number)?;
        let result = call();
        // SAFETY: `enter` has returned it just now.
        unsafe { self.backend.leave(previous) };
        result
    }

    #[cold]
    fn out_of_memory(&self, kind: MemoryKind, bytes: usize, why: &str) -> Error {
        let (usage, context) = (self.buffers.usage(kind), self.context());
        let place = if kind == MemoryKind::Device { "memory" } else { "pinned memory" };
        Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "there is no {place} for a buffer of {bytes} bytes on {context}: {why}; {} bytes are in use, and {} are kept \
                 that the device still uses: drop buffers, or wait for operations that use them",
                usage.in_use, usage.kept
            ),
        )
    }
}

/// What a buffer waits for.
fn owes(owed: &Owed, fleet: &Fleet) -> Owes {
    let unreached = owed.tickets().filter(|ticket| !fleet.is_reached(*ticket));
    unreached.fold(Owes::Nothing, |owes, ticket| match owes {
        Owes::Lost => owes,
        _ if fleet.of(ticket).0.lost.get().is_some() => Owes::Lost,
        _ => Owes::Work,
    })
}
