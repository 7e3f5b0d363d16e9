//! The memory of a device: buffers in size classes, which go from owner to owner.
//!
//! A buffer that is given back keeps the tickets of its last variable, and its next owner's
//! variable begins with them ([`Owed`]). So memory is used again at once, and the device keeps the
//! order; nobody waits. A pinned buffer, which the processor touches, is used again only when the
//! device has come there.
//!
//! An array that has room once kept buffers are freed gets a *promise*: its bytes count as in use
//! from then on. It waits in a queue, and the watcher of the device frees buffers and gives it
//! memory (`allocate.rs`). While there are promises, arrays of the same kind that come later wait
//! behind: so what is kept is not taken by others, and the first of the queue waits only for what
//! the device has been given already. What a program trims *leaves*: it goes to no other array, and
//! the watcher frees it.
//!
//! Used by `allocate.rs`, and by `lease.rs` when a buffer is given back or asked for, on any
//! thread. `admit.rs` makes the lists, `devices.rs` has them, `watch.rs` asks whether an array
//! waits, and `src/api/device_handle.rs` tells what is in them and trims them. They are behind a
//! lock, which a thread holds for a few steps; one that forks keeps it until the fork is over
//! (`engine/fork.rs`). A [`Buffer`] that has an owner is in no list, but in its `Lease`
//! (`lease.rs`).

use crate::device::memory::MemoryKind;
use crate::device::raw::{DriverError, RawMemory};
use crate::engine::gpu::rows::Owed;
use crate::engine::gpu::size_classes::{bytes_of, CLASSES};
use crate::error::Error;
use crate::sync::lock::Lock;
use crate::sync::{AtomicUsize, Ordering::*};
use std::collections::VecDeque;
use std::ops::DerefMut;

/// The kinds of memory, as places of an array.
const KINDS: usize = 2;

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
/// assert_eq!((usage.in_use, usage.kept, usage.peak, usage.allocations), (0, 0, 0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// In buffers that have an owner, and of arrays that wait for theirs.
    pub in_use: usize,
    /// In buffers that were given back: kept for their next owner, or being freed.
    pub kept: usize,
    /// The most that was ever in use.
    pub peak: usize,
    /// How many buffers the driver has given. Others were used again.
    pub allocations: usize,
}

/// The buffers of a device that have no owner, and what all buffers come to.
pub struct Buffers {
    /// The most that those on the device may come to.
    limit: usize,
    lists: Lock<Lists>,
    /// How many arrays wait for memory.
    waiting: AtomicUsize,
    /// How many calls have trimmed since the watcher has freed what leaves.
    trims: AtomicUsize,
}

/// The buffers that have no owner, and the arrays that have no buffer.
pub struct Lists {
    /// By kind and class, the oldest first.
    kept: [Vec<VecDeque<Buffer>>; KINDS],
    usage: [MemoryUsage; KINDS],
    /// How much of what is in use is promised, and not allocated.
    promised: [usize; KINDS],
    /// The arrays that wait for memory, the oldest first. Each has a promise.
    waiting: VecDeque<Waiting>,
    /// What no array gets any more, and the watcher frees. It counts as kept.
    leaving: Vec<Buffer>,
    /// What to call when that is done.
    trimmed: Vec<Trimmed>,
    /// How often something was freed.
    freed: u64,
}

/// Gives an array its memory, or says why there is none. Called once, without the lock.
pub type Give = Box<dyn FnOnce(Result<Buffer, Error>) + Send>;

/// Hears that what was to leave is freed. Called once, without the lock.
pub type Trimmed = Box<dyn FnOnce() + Send>;

/// An array that waits for memory.
pub struct Waiting {
    pub kind: MemoryKind,
    pub class: usize,
    /// How many bytes were asked for.
    pub bytes: usize,
    pub give: Give,
    /// How often something had been freed when the driver had no more memory, and what it said.
    pub refused: Option<(u64, DriverError)>,
}

/// What [`Buffers::reserve`] has found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// There is room. The memory counts as in use.
    Now,
    /// There is room once kept buffers are freed. The memory is promised.
    Later,
    /// There is no room.
    No,
}

/// What is to be done for the array that has waited longest.
pub enum First {
    /// There is no such array.
    Nobody,
    /// It gets a buffer that was kept.
    Kept(Buffer),
    /// There is room for a buffer of this kind and class. So often something has been freed.
    HasRoom(MemoryKind, usize, u64),
    /// Something kept has to be freed first.
    Waits,
    /// The driver has no more memory, and nothing is left that could be freed.
    Over,
}

impl Buffers {
    pub fn new(limit: usize) -> Buffers {
        let kept = || (0..CLASSES).map(|_| VecDeque::new()).collect();
        let lists = Lists {
            kept: [kept(), kept()],
            usage: Default::default(),
            promised: Default::default(),
            waiting: VecDeque::new(),
            leaving: Vec::new(),
            trimmed: Vec::new(),
            freed: 0,
        };
        Buffers { limit, lists: Lock::new(lists), waiting: AtomicUsize::new(0), trims: AtomicUsize::new(0) }
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

    /// Counts a buffer that the driver has given.
    pub fn count_allocation(&self, kind: MemoryKind) {
        self.lists().usage[kind as usize].allocations += 1;
    }

    /// Takes the oldest kept buffer of a class, if it can be used again and no array of the kind
    /// waits.
    pub fn reuse(&self, kind: MemoryKind, class: usize, owes: impl Fn(&Owed) -> Owes) -> Option<Buffer> {
        let mut lists = self.lists();
        if lists.promised[kind as usize] > 0 {
            return None;
        }
        let buffer = lists.take_oldest(kind, class, owes)?;
        lists.usage[kind as usize].begin(bytes_of(class));
        Some(buffer)
    }

    /// Counts memory as in use that is to be allocated, if there is room within the limit; or
    /// promises it if there will be, and the array `may_wait`.
    pub fn reserve(&self, kind: MemoryKind, bytes: usize, may_wait: bool) -> Reserved {
        let mut lists = self.lists();
        let Lists { usage, promised, .. } = &mut *lists;
        let (usage, promised) = (&mut usage[kind as usize], &mut promised[kind as usize]);
        let in_use = usage.in_use.saturating_add(bytes);
        // The limit is one of the device's memory.
        let limit = if kind == MemoryKind::Device { self.limit } else { usize::MAX };
        let room = match *promised == 0 && in_use.saturating_add(usage.kept) <= limit {
            true => Reserved::Now,
            false if may_wait && in_use <= limit => Reserved::Later,
            false => Reserved::No,
        };
        if room != Reserved::No {
            usage.begin(bytes);
        }
        if room == Reserved::Later {
            *promised += bytes;
        }
        room
    }

    /// Takes back what `reserve` has counted, and the driver has refused.
    pub fn unreserve(&self, kind: MemoryKind, bytes: usize) {
        self.lists().usage[kind as usize].in_use -= bytes;
    }

    /// Promises memory that `reserve` has counted, and the driver has refused: if something is left
    /// that can be freed.
    pub fn promise(&self, kind: MemoryKind, bytes: usize) -> bool {
        let mut lists = self.lists();
        let is_promised = lists.promised[kind as usize] > 0 || lists.is_any_kept();
        if is_promised {
            lists.promised[kind as usize] += bytes;
        }
        is_promised
    }

    /// Takes a promise back. The array does not wait.
    pub fn break_promise(&self, kind: MemoryKind, class: usize) {
        self.lists().break_promise(kind, class);
    }

    /// Has an array with a promise wait for its memory. The watcher is woken afterwards.
    pub fn wait(&self, kind: MemoryKind, class: usize, bytes: usize, give: Give) {
        self.lists().waiting.push_back(Waiting { kind, class, bytes, give, refused: None });
        // Relaxed: the lock passes on what is in the queue. A watcher that does not see the number
        // is woken.
        self.waiting.fetch_add(1, Relaxed);
    }

    /// Whether an array waits for memory, or something is to be freed. For the watcher, which is
    /// woken after each one.
    pub fn is_any_waiting(&self) -> bool {
        self.waiting.load(Relaxed) > 0 || self.trims.load(Relaxed) > 0
    }

    /// Has the kept buffers leave that owe nothing; returns how many. Then [`Buffers::tell`], or
    /// [`Buffers::take_kept`] takes them as well.
    pub fn leave(&self, owes: impl Fn(&Owed) -> Owes) -> usize {
        let mut lists = self.lists();
        let taken = lists.take_kept(owes);
        let count = taken.len();
        lists.leaving.extend(taken);
        count
    }

    /// Has the watcher free what leaves, and call `trimmed` then. It is woken afterwards.
    pub fn tell(&self, trimmed: Trimmed) {
        let mut lists = self.lists();
        lists.trimmed.push(trimmed);
        // Relaxed: as in `wait`. Under the lock, so that it is not counted down before.
        self.trims.fetch_add(1, Relaxed);
    }

    /// Takes what leaves, and what to call when it is freed. For the watcher.
    pub fn take_leaving(&self) -> (Vec<Buffer>, Vec<Trimmed>) {
        let mut lists = self.lists();
        let trimmed = std::mem::take(&mut lists.trimmed);
        self.trims.fetch_sub(trimmed.len(), Relaxed);
        (std::mem::take(&mut lists.leaving), trimmed)
    }

    /// What is to be done for the array that has waited longest. For the watcher, as what follows.
    pub fn first(&self, owes: impl Fn(&Owed) -> Owes) -> First {
        let mut lists = self.lists();
        let Some(Waiting { kind, class, refused, .. }) = lists.waiting.front() else { return First::Nobody };
        let (kind, class, freed) = (*kind, *class, lists.freed);
        let is_refused = refused.as_ref().is_some_and(|(at, _)| *at == freed);
        if let Some(buffer) = lists.take_oldest(kind, class, owes) {
            return First::Kept(buffer);
        }
        let usage = lists.usage[kind as usize];
        let allocated = usage.in_use - lists.promised[kind as usize] + usage.kept;
        let has_room = kind == MemoryKind::Pinned || allocated.saturating_add(bytes_of(class)) <= self.limit;
        match !is_refused && has_room {
            true => First::HasRoom(kind, class, freed),
            // Also what leaves and is not freed yet.
            false if lists.is_any_kept() => First::Waits,
            false => First::Over,
        }
    }

    /// Notes that the driver had no memory for the first array when something had been `freed` so
    /// often.
    pub fn refuse_first(&self, freed: u64, refusal: DriverError) {
        if let Some(first) = self.lists().waiting.front_mut() {
            first.refused = Some((freed, refusal));
        }
    }

    /// Ends the wait of the first array: whether it has its memory or gets none.
    pub fn end_first(&self, has_memory: bool) -> Option<Waiting> {
        let mut lists = self.lists();
        let first = lists.waiting.pop_front()?;
        match has_memory {
            true => lists.promised[first.kind as usize] -= bytes_of(first.class),
            false => lists.break_promise(first.kind, first.class),
        }
        self.waiting.fetch_sub(1, Relaxed);
        Some(first)
    }

    /// Keeps a buffer for its next owner.
    pub fn give_back(&self, buffer: Buffer) {
        let mut lists = self.lists();
        let (kind, bytes) = (buffer.kind as usize, bytes_of(buffer.class));
        lists.usage[kind].in_use -= bytes;
        lists.usage[kind].kept += bytes;
        lists.kept[kind][buffer.class].push_back(buffer);
    }

    /// Takes what leaves, and all kept buffers that owe nothing. They count as kept until
    /// [`Buffers::freed`]. Those that a lost device has used are left alone for good.
    pub fn take_kept(&self, owes: impl Fn(&Owed) -> Owes) -> Vec<Buffer> {
        let mut lists = self.lists();
        let mut taken = std::mem::take(&mut lists.leaving);
        taken.extend(lists.take_kept(owes));
        taken
    }

    /// Says that buffers are freed that [`Buffers::take_kept`] has taken.
    pub fn freed(&self, buffers: &[Buffer]) {
        let mut lists = self.lists();
        for buffer in buffers {
            lists.usage[buffer.kind as usize].kept -= bytes_of(buffer.class);
        }
        lists.freed += 1;
    }
}

impl Lists {
    /// Takes the oldest kept buffer of a class, if it can be used again. One that a lost device has
    /// used is left alone for good.
    fn take_oldest(&mut self, kind: MemoryKind, class: usize, owes: impl Fn(&Owed) -> Owes) -> Option<Buffer> {
        let (list, usage) = (&mut self.kept[kind as usize][class], &mut self.usage[kind as usize]);
        loop {
            let owes = owes(&list.front()?.owed);
            if owes == Owes::Work && kind == MemoryKind::Pinned {
                return None;
            }
            let buffer = list.pop_front()?;
            usage.kept -= bytes_of(class);
            if owes != Owes::Lost {
                return Some(buffer);
            }
        }
    }

    fn take_kept(&mut self, owes: impl Fn(&Owed) -> Owes) -> Vec<Buffer> {
        let mut taken = Vec::new();
        for (kept, usage) in self.kept.iter_mut().zip(&mut self.usage) {
            for list in kept.iter_mut().filter(|list| !list.is_empty()) {
                for buffer in std::mem::take(list) {
                    match owes(&buffer.owed) {
                        Owes::Nothing => taken.push(buffer),
                        Owes::Work => list.push_back(buffer),
                        Owes::Lost => usage.kept -= bytes_of(buffer.class),
                    }
                }
            }
        }
        taken
    }

    fn is_any_kept(&self) -> bool {
        self.usage.iter().any(|usage| usage.kept > 0)
    }

    fn break_promise(&mut self, kind: MemoryKind, class: usize) {
        self.usage[kind as usize].in_use -= bytes_of(class);
        self.promised[kind as usize] -= bytes_of(class);
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
