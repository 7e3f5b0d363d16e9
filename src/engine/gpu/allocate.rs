//! Allocates on a device and frees there: takes kept buffers, and asks the driver for new ones.
//!
//! The driver may block, until the device is done with what it has to do, mostly where it frees. So
//! an array for which memory has to be freed first waits in the queue of `buffers.rs`, and the
//! device's watcher frees and allocates for it ([`Gpu::serve`]). It also frees what a program
//! trims. No thread waits for the watcher. The calling thread itself asks the driver for memory if
//! there is room without that. It frees only where there is no watcher: on an engine that is naive,
//! or stopped.
//!
//! Used by `lease.rs`, by `watch.rs` (`serve`), by `src/api/device_handle.rs` (`trim`), by
//! `devices.rs` when a device is dropped, and in parts by `entered.rs`, `foreign.rs` and
//! `replay/device_graph.rs`, on any thread. It keeps nothing itself: the kept buffers are in
//! `buffers.rs`, behind a lock. The driver is asked outside of that lock, and not at all once there
//! are enough buffers.

use crate::device::memory::{DeviceMemory, MemoryKind};
use crate::device::raw::DriverError;
use crate::engine::core::Core;
use crate::engine::gpu::buffers::{Buffer, First, Owes, Reserved};
use crate::engine::gpu::devices::{Fleet, Gpu};
use crate::engine::gpu::loss::{insist, AGAIN};
use crate::engine::gpu::rows::Owed;
use crate::engine::gpu::size_classes::{bytes_of, class_of};
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

    /// Takes a buffer of at least so many bytes: a kept one, or else a new one. If something kept
    /// has to be freed first and the caller `may_wait`, it is to ask the watcher
    /// ([`Buffers::wait`]); otherwise that is freed here.
    ///
    /// [`Buffers::wait`]: crate::engine::gpu::buffers::Buffers::wait
    pub fn take_buffer(
        &self,
        core: &Core,
        fleet: &Fleet,
        kind: MemoryKind,
        bytes: usize,
        may_wait: bool,
    ) -> Result<Taken, Error> {
        self.memory()?;
        if let Some(failure) = self.lost.get() {
            return Err(failure.error.clone());
        }
        let Some(class) = class_of(bytes) else { return Err(self.out_of_memory(kind, bytes, "no device has so much")) };
        if let Some(buffer) = self.buffers.reuse(kind, class, |owed| owes(owed, fleet)) {
            return Ok(Taken::Now(buffer));
        }
        let size = bytes_of(class);
        let mut room = self.buffers.reserve(kind, size, may_wait);
        if room == Reserved::No && !may_wait {
            self.trim(fleet);
            room = self.buffers.reserve(kind, size, may_wait);
        }
        match room {
            Reserved::Now => {}
            Reserved::Later => return Ok(Taken::Later(class)),
            Reserved::No => return Err(self.beyond_limit(kind, bytes)),
        }
        let allocated = self.allocate(fleet, kind, class).map(Taken::Now).or_else(|refusal| match may_wait {
            _ if refusal.is_lost() => Err(refusal),
            true => self.buffers.promise(kind, size).then_some(Taken::Later(class)).ok_or(refusal),
            false if self.trim(fleet) > 0 => self.allocate(fleet, kind, class).map(Taken::Now),
            false => Err(refusal),
        });
        allocated.map_err(|refusal| {
            self.buffers.unreserve(kind, size);
            if refusal.is_lost() {
                return Error::of_call(core.refused(self, &refusal));
            }
            self.out_of_memory(kind, bytes, &refusal.to_string())
        })
    }

    /// Takes a buffer that the device is done with, for an operation that runs: what it would come
    /// after otherwise is settled. What has to be freed for it is freed here, so this may wait for
    /// the device.
    pub fn take_idle_buffer(
        &self,
        core: &Core,
        fleet: &Fleet,
        kind: MemoryKind,
        bytes: usize,
    ) -> Result<Buffer, Error> {
        let mut busy = Vec::new();
        let found = loop {
            match self.take_buffer(core, fleet, kind, bytes, false) {
                Ok(Taken::Now(buffer)) if owes(&buffer.owed, fleet) == Owes::Nothing => break Ok(buffer),
                Ok(Taken::Now(buffer)) => busy.push(buffer),
                Ok(Taken::Later(_)) => unreachable!("nobody waits"),
                Err(error) => break Err(error),
            }
        };
        busy.into_iter().for_each(|buffer| self.buffers.give_back(buffer));
        found
    }

    /// Asks the driver for a buffer.
    fn allocate(&self, fleet: &Fleet, kind: MemoryKind, class: usize) -> Result<Buffer, DriverError> {
        let memory = self.backend.memory().expect("it was asked before");
        let memory = self.entered(|| memory.allocate(self.number, kind, bytes_of(class)))?;
        self.buffers.count_allocation(kind);
        Ok(Buffer { memory, kind, class, owed: Owed::nothing(fleet.rows.timelines) })
    }

    /// Frees what was trimmed. Gives memory to the arrays that wait for some, in their order, and
    /// frees what is kept as far as it is needed and the device is done with it. Says whether the
    /// wait of any is over. The driver may wait for the device meanwhile. An error says that the
    /// device is lost. For the watcher.
    pub fn serve(&self, fleet: &Fleet) -> Result<bool, DriverError> {
        if !self.buffers.is_any_waiting() {
            return Ok(false);
        }
        let (leaving, trimmed) = self.buffers.take_leaving();
        self.free(leaving);
        let mut any = !trimmed.is_empty();
        trimmed.into_iter().for_each(|trimmed| trimmed());
        while self.buffers.is_any_waiting() {
            let lost = self.lost.get().map(|failure| failure.error.clone());
            let memory = match self.buffers.first(|owed| owes(owed, fleet)) {
                First::Nobody => break,
                First::Kept(buffer) => Ok(buffer),
                _ if lost.is_some() => Err(lost),
                First::HasRoom(kind, class, freed) => match self.allocate(fleet, kind, class) {
                    Ok(buffer) => Ok(buffer),
                    Err(refusal) if refusal.is_lost() => return Err(refusal),
                    Err(refusal) => {
                        self.buffers.refuse_first(freed, refusal);
                        continue;
                    }
                },
                First::Waits if self.trim(fleet) > 0 => continue,
                First::Waits => break,
                First::Over => Err(None),
            };
            let Some(first) = self.buffers.end_first(memory.is_ok()) else { break };
            (first.give)(memory.map_err(|lost| {
                lost.unwrap_or_else(|| match &first.refused {
                    Some((_, refusal)) => self.out_of_memory(first.kind, first.bytes, &refusal.to_string()),
                    None => self.beyond_limit(first.kind, first.bytes),
                })
            }));
            any = true;
        }
        Ok(any)
    }

    /// Has the watcher free the kept buffers that the device is done with; returns how many. The
    /// caller tells it afterwards ([`Buffers::tell`]).
    ///
    /// [`Buffers::tell`]: crate::engine::gpu::buffers::Buffers::tell
    pub fn leave(&self, fleet: &Fleet) -> usize {
        self.buffers.leave(|owed| owes(owed, fleet))
    }

    /// Frees the kept buffers that the device is done with; returns how many. The driver may wait
    /// for the device meanwhile.
    pub fn trim(&self, fleet: &Fleet) -> usize {
        self.free(self.buffers.take_kept(|owed| owes(owed, fleet)))
    }

    /// Frees all kept buffers. The device has done everything.
    pub fn free_kept(&self) {
        self.free(self.buffers.take_kept(|_| Owes::Nothing));
    }

    fn free(&self, buffers: Vec<Buffer>) -> usize {
        let count = buffers.len();
        if count == 0 {
            return 0;
        }
        let memory = self.backend.memory().filter(|_| self.lost.get().is_none());
        let freed = memory.map(|memory| {
            self.entered(|| {
                for buffer in &buffers {
                    // SAFETY: it was allocated so; it has no owner, and the device is done with it.
                    unsafe { memory.free(buffer.kind, buffer.memory) };
                }
                Ok(count)
            })
        });
        // After the driver's calls: until then there is no room.
        self.buffers.freed(&buffers);
        freed.and_then(Result::ok).unwrap_or(0)
    }

    /// Calls `call` with the device current. If the driver refuses, the call is made again: most
    /// callers give something back, which would be left there.
    pub fn entered<T>(&self, call: impl FnOnce() -> Result<T, DriverError>) -> Result<T, DriverError> {
        let previous = insist(AGAIN, || self.backend.enter(self.number))?;
        let result = call();
        // SAFETY: `enter` has returned it just now.
        unsafe { self.backend.leave(previous) };
        result
    }

    #[cold]
    fn beyond_limit(&self, kind: MemoryKind, bytes: usize) -> Error {
        self.out_of_memory(kind, bytes, &format!("the limit is {} bytes", self.buffers.limit()))
    }

    #[cold]
    fn out_of_memory(&self, kind: MemoryKind, bytes: usize, why: &str) -> Error {
        let (usage, context) = (self.buffers.usage(kind), self.context());
        let place = if kind == MemoryKind::Device { "memory" } else { "pinned memory" };
        Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "there is no {place} for a buffer of {bytes} bytes on {context}: {why}; {} bytes are in use, and {} are kept: \
                 drop buffers, or wait for operations that use them",
                usage.in_use, usage.kept
            ),
        )
    }
}

/// What [`Gpu::take_buffer`] has found.
pub enum Taken {
    Now(Buffer),
    /// There will be one of this class, which is promised.
    Later(usize),
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
