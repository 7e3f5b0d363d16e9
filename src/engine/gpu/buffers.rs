//! The memory of a device: buffers in size classes, which go from owner to owner.
//!
//! A buffer that is given back keeps the tickets of its last variable, and its next owner's
//! variable begins with them ([`Owed`]). So memory is used again at once, and the device keeps the
//! order; nobody waits. What the processor is to touch, a pinned buffer, is used again only when
//! the device has come there.
//!
//! Used by `lease.rs`, on any thread. The lists are behind a lock, which is held for a few steps;
//! the driver is asked outside of it, and not at all once there are enough buffers.

use crate::device::backend::{DriverError, RawMemory};
use crate::device::memory::{Memory, MemoryKind};
use crate::engine::gpu::devices::{Fleet, Gpu};
use crate::engine::gpu::rows::Owed;
use crate::error::{Error, ErrorKind};
use crate::sync::lock::Lock;
use std::collections::VecDeque;

/// The smallest class, as a power of two.
const SMALLEST: u32 = 9;
/// From this power of two on there are four classes to a power.
const FINE: u32 = 20;
const STEPS: usize = 4;
/// The largest class, as a power of two.
const LARGEST: u32 = 46;
const CLASSES: usize = (FINE - SMALLEST) as usize + 1 + (LARGEST - FINE) as usize * STEPS;

/// The kinds of memory, as places of an array.
const KINDS: usize = 2;

/// The number of the class for so many bytes, if there is one.
fn class_of(bytes: usize) -> Option<usize> {
    let last_whole = (FINE - SMALLEST) as usize;
    if bytes <= 1 << FINE {
        let power = bytes.max(1).next_power_of_two().ilog2().max(SMALLEST);
        return Some((power - SMALLEST) as usize);
    }
    // Above 2^power, and at most twice that; in quarters of it.
    let power = (bytes - 1).ilog2();
    let quarter = 1usize << (power - 2);
    let steps = (bytes - (1 << power)).div_ceil(quarter);
    (power < LARGEST).then(|| last_whole + (power - FINE) as usize * STEPS + steps)
}

/// The size of a class.
fn bytes_of(class: usize) -> usize {
    let last_whole = (FINE - SMALLEST) as usize;
    let Some(above) = class.checked_sub(last_whole + 1) else { return 1 << (SMALLEST as usize + class) };
    let power = FINE as usize + above / STEPS;
    (1 << power) + (above % STEPS + 1) * (1 << (power - 2))
}

/// Memory of a device, or pinned memory, without an owner's name.
pub struct Buffer {
    pub memory: RawMemory,
    pub kind: MemoryKind,
    class: usize,
    pub owed: Owed,
}

/// How much memory the engine has of a device, in bytes of whole buffers.
///
/// ```
/// let usage = seriatim::gpu::MemoryUsage::default();
/// assert_eq!((usage.in_use, usage.kept, usage.peak), (0, 0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// In buffers that have an owner.
    pub in_use: usize,
    /// In buffers that were given back and are kept for their next owner.
    pub kept: usize,
    /// The most that was ever in use.
    pub peak: usize,
}

/// The buffers of a device that have no owner, and what all buffers come to.
pub struct Buffers {
    /// The most that those on the device may come to.
    limit: usize,
    state: Lock<State>,
}

struct State {
    /// By kind and class, the oldest first.
    kept: [Vec<VecDeque<Buffer>>; KINDS],
    usage: [MemoryUsage; KINDS],
}

impl Buffers {
    pub fn new(limit: usize) -> Buffers {
        let lists = || (0..CLASSES).map(|_| VecDeque::new()).collect();
        Buffers { limit, state: Lock::new(State { kept: [lists(), lists()], usage: Default::default() }) }
    }

    /// The lock, for a fork.
    pub fn lock(&self) -> impl Sized + '_ {
        self.state.lock()
    }

    pub fn usage(&self, kind: MemoryKind) -> MemoryUsage {
        self.state.lock().usage[kind as usize]
    }

    /// Takes the oldest kept buffer of a class, if it can be used again. One that a lost device has
    /// used is left alone for good.
    fn reuse(&self, kind: MemoryKind, class: usize, fleet: &Fleet) -> Option<Buffer> {
        let mut state = self.state.lock();
        let State { kept, usage } = &mut *state;
        let (list, usage) = (&mut kept[kind as usize][class], &mut usage[kind as usize]);
        loop {
            let owes = Owes::of(&list.front()?.owed, fleet);
            if owes == Owes::Work && kind == MemoryKind::Pinned {
                return None;
            }
            let buffer = list.pop_front()?;
            usage.kept -= bytes_of(class);
            if owes != Owes::Lost {
                usage.begin(bytes_of(class));
                return Some(buffer);
            }
        }
    }

    /// Counts memory as in use that is to be allocated, if there is room within the limit.
    fn reserve(&self, kind: MemoryKind, bytes: usize) -> bool {
        let mut state = self.state.lock();
        let usage = &mut state.usage[kind as usize];
        let has_room = kind != MemoryKind::Device || (usage.in_use + usage.kept).saturating_add(bytes) <= self.limit;
        if has_room {
            usage.begin(bytes);
        }
        has_room
    }

    fn unreserve(&self, kind: MemoryKind, bytes: usize) {
        self.state.lock().usage[kind as usize].in_use -= bytes;
    }

    /// Keeps a buffer for its next owner.
    pub fn give_back(&self, buffer: Buffer) {
        let mut state = self.state.lock();
        let (kind, bytes) = (buffer.kind as usize, bytes_of(buffer.class));
        state.usage[kind].in_use -= bytes;
        state.usage[kind].kept += bytes;
        state.kept[kind][buffer.class].push_back(buffer);
    }

    /// Takes all kept buffers that `may` be freed.
    fn take_kept(&self, may: impl Fn(&Owed) -> bool) -> Vec<Buffer> {
        let mut state = self.state.lock();
        let mut taken = Vec::new();
        for kind in 0..KINDS {
            for class in 0..CLASSES {
                let all = std::mem::take(&mut state.kept[kind][class]);
                let (free, kept): (VecDeque<Buffer>, _) = all.into_iter().partition(|buffer| may(&buffer.owed));
                state.kept[kind][class] = kept;
                state.usage[kind].kept -= free.len() * bytes_of(class);
                taken.extend(free);
            }
        }
        taken
    }
}

impl MemoryUsage {
    fn begin(&mut self, bytes: usize) {
        self.in_use += bytes;
        self.peak = self.peak.max(self.in_use);
    }
}

impl Gpu {
    /// The memory of the device's back end.
    pub fn memory(&self) -> Result<&dyn Memory, Error> {
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
        if let Some(buffer) = self.buffers.reuse(kind, class, fleet) {
            return Ok(buffer);
        }
        let size = bytes_of(class);
        if !self.buffers.reserve(kind, size) {
            self.trim(fleet);
            if !self.buffers.reserve(kind, size) {
                return Err(self.out_of_memory(kind, bytes, &format!("the limit is {} bytes", self.buffers.limit)));
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
        self.free(self.buffers.take_kept(|owed| Owes::of(owed, fleet) == Owes::Nothing))
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

/// What a kept buffer waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owes {
    Nothing,
    /// Devices that have still to come to its last use.
    Work,
    /// Devices of which one is lost.
    Lost,
}

impl Owes {
    fn of(owed: &Owed, fleet: &Fleet) -> Owes {
        let unreached = owed.tickets().filter(|ticket| !fleet.is_reached(*ticket));
        unreached.fold(Owes::Nothing, |owes, ticket| match owes {
            Owes::Lost => owes,
            _ if fleet.of(ticket).0.lost.get().is_some() => Owes::Lost,
            _ => Owes::Work,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_smallest_that_holds_its_bytes() {
        let sizes: Vec<usize> = (0..CLASSES).map(bytes_of).collect();
        assert!(sizes.is_sorted_by(|one, next| one < next), "{sizes:?}");
        assert_eq!((sizes[0], sizes[11], sizes[12], sizes[CLASSES - 1]), (512, 1 << 20, 5 << 18, 1 << LARGEST));
        for (class, size) in sizes.iter().copied().enumerate() {
            assert_eq!(class_of(size), Some(class), "{size} bytes");
            assert_eq!(class_of(size + 1), (class + 1 < CLASSES).then_some(class + 1), "{size} bytes and one");
        }
        assert_eq!((class_of(0), class_of(usize::MAX)), (Some(0), None));
    }
}
