//! The memory of a device: buffers in size classes, which go from owner to owner.
//!
//! A buffer that is given back keeps the tickets of its last variable, and its next owner's
//! variable begins with them ([`Owed`]). So memory is used again at once, and the device keeps the
//! order; nobody waits. What the processor is to touch, a pinned buffer, is used again only when
//! the device has come there.
//!
//! Used by `allocate.rs`, and by `lease.rs` when a buffer is given back, on any thread. `admit.rs`
//! makes the lists, `devices.rs` has them, and `src/api/device_handle.rs` tells what is in them.
//! They are behind a lock, which a thread holds for a few steps; one that forks keeps it until the
//! fork is over (`engine/fork.rs`). A [`Buffer`] that has an owner is in no list, but in its
//! `Lease` (`lease.rs`).

use crate::device::memory::MemoryKind;
use crate::device::raw::RawMemory;
use crate::engine::gpu::rows::Owed;
use crate::sync::lock::Lock;
use std::collections::VecDeque;
use std::ops::DerefMut;

/// The smallest class, as a power of two.
const SMALLEST: u32 = 9;
/// From this power of two on there are four classes to a power.
const FINE: u32 = 20;
const STEPS: usize = 4;
/// The largest class, as a power of two: more than any device has, if addresses are that long.
const LARGEST: u32 = if usize::BITS < 64 { usize::BITS - 1 } else { 46 };
const CLASSES: usize = (FINE - SMALLEST) as usize + 1 + (LARGEST - FINE) as usize * STEPS;

/// The kinds of memory, as places of an array.
const KINDS: usize = 2;

/// The number of the class for so many bytes, if there is one.
pub fn class_of(bytes: usize) -> Option<usize> {
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
pub fn bytes_of(class: usize) -> usize {
    let last_whole = (FINE - SMALLEST) as usize;
    let Some(above) = class.checked_sub(last_whole + 1) else { return 1 << (SMALLEST as usize + class) };
    let power = FINE as usize + above / STEPS;
    (1 << power) + (above % STEPS + 1) * (1 << (power - 2))
}

/// Memory of a device, or pinned memory, without an owner's name.
pub struct Buffer {
    pub memory: RawMemory,
    pub kind: MemoryKind,
    /// The class of its size.
    pub class: usize,
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
    lists: Lock<Lists>,
}

/// The buffers that have no owner.
pub struct Lists {
    /// By kind and class, the oldest first.
    kept: [Vec<VecDeque<Buffer>>; KINDS],
    usage: [MemoryUsage; KINDS],
}

impl Buffers {
    pub fn new(limit: usize) -> Buffers {
        let lists = || (0..CLASSES).map(|_| VecDeque::new()).collect();
        Buffers { limit, lists: Lock::new(Lists { kept: [lists(), lists()], usage: Default::default() }) }
    }

    /// The lists, locked. Also called for a fork.
    pub fn lists(&self) -> impl DerefMut<Target = Lists> + '_ {
        self.lists.lock()
    }

    /// The most that buffers on the device may come to.
    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn usage(&self, kind: MemoryKind) -> MemoryUsage {
        self.lists().usage[kind as usize]
    }

    /// Takes the oldest kept buffer of a class, if it can be used again. One that a lost device has
    /// used is left alone for good.
    pub fn reuse(&self, kind: MemoryKind, class: usize, owes: impl Fn(&Owed) -> Owes) -> Option<Buffer> {
        let mut lists = self.lists();
        let Lists { kept, usage } = &mut *lists;
        let (list, usage) = (&mut kept[kind as usize][class], &mut usage[kind as usize]);
        loop {
            let owes = owes(&list.front()?.owed);
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
    pub fn reserve(&self, kind: MemoryKind, bytes: usize) -> bool {
        let mut lists = self.lists();
        let usage = &mut lists.usage[kind as usize];
        let has_room = kind != MemoryKind::Device || (usage.in_use + usage.kept).saturating_add(bytes) <= self.limit;
        if has_room {
            usage.begin(bytes);
        }
        has_room
    }

    pub fn unreserve(&self, kind: MemoryKind, bytes: usize) {
        self.lists().usage[kind as usize].in_use -= bytes;
    }

    /// Keeps a buffer for its next owner.
    pub fn give_back(&self, buffer: Buffer) {
        let mut lists = self.lists();
        let (kind, bytes) = (buffer.kind as usize, bytes_of(buffer.class));
        lists.usage[kind].in_use -= bytes;
        lists.usage[kind].kept += bytes;
        lists.kept[kind][buffer.class].push_back(buffer);
    }

    /// Takes all kept buffers that `may` be freed.
    pub fn take_kept(&self, may: impl Fn(&Owed) -> bool) -> Vec<Buffer> {
        let mut lists = self.lists();
        let mut taken = Vec::new();
        for kind in 0..KINDS {
            for class in 0..CLASSES {
                let all = std::mem::take(&mut lists.kept[kind][class]);
                let (free, kept): (VecDeque<Buffer>, _) = all.into_iter().partition(|buffer| may(&buffer.owed));
                lists.kept[kind][class] = kept;
                lists.usage[kind].kept -= free.len() * bytes_of(class);
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

/// What a kept buffer waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Owes {
    Nothing,
    /// Devices that have still to come to its last use.
    Work,
    /// Devices of which one is lost.
    Lost,
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
