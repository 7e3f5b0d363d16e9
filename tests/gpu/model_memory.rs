//! The memory of the model: the processor's, with the device's copies done late and in order of its
//! streams, like other work. A buffer is a cell of the checker by its address.

use crate::model::Model;
use seriatim::gpu::{DeviceMemory, DriverError, MemoryKind, RawMemory, RawStream};
use std::alloc::{alloc, dealloc, Layout};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What is allocated, and what was asked.
#[derive(Default)]
pub struct Allocations {
    live: Mutex<HashMap<usize, (Layout, MemoryKind)>>,
    /// How often the driver was asked for memory, or given some back.
    pub calls: AtomicUsize,
    /// The most bytes that there are.
    pub most: AtomicUsize,
    /// The most bytes of devices that were ever allocated.
    pub peak: AtomicUsize,
    /// Whether a call that frees waits until the devices have done all that is queued, as that of
    /// CUDA may.
    pub frees_wait: AtomicBool,
    /// The names of the threads that have freed something.
    pub freed_by: Mutex<BTreeSet<String>>,
}

impl Allocations {
    /// How many pieces of memory were not given back.
    pub fn left(&self) -> usize {
        self.live.lock().unwrap().len()
    }

    fn bytes(&self, of: &[MemoryKind]) -> usize {
        let live = self.live.lock().unwrap();
        live.values().filter(|(_, kind)| of.contains(kind)).map(|(layout, _)| layout.size()).sum()
    }

    /// Whether only watchers of devices have freed anything.
    pub fn only_watchers_free(&self) -> bool {
        self.freed_by.lock().unwrap().iter().all(|name| name.starts_with("seriatim-watch"))
    }

    fn is_live(&self, address: usize) -> bool {
        self.live.lock().unwrap().contains_key(&address)
    }
}

/// Fills new memory, so that a read before the first write shows.
const NEW: u8 = 0xa5;

// SAFETY: the allocator's memory is the processor's, and aligned. Copies are done by the streams.
unsafe impl DeviceMemory for Model {
    fn allocate(&self, _: usize, kind: MemoryKind, bytes: usize) -> Result<RawMemory, DriverError> {
        self.allocations.calls.fetch_add(1, SeqCst);
        let most = self.allocations.most.load(SeqCst);
        if most > 0 && self.allocations.bytes(&[MemoryKind::Device, MemoryKind::Pinned]) + bytes > most {
            return Err(DriverError::refused("the model has no more memory"));
        }
        let layout = Layout::from_size_align(bytes, 64).unwrap();
        // SAFETY: the engine asks for at least 512 bytes.
        let memory = unsafe { alloc(layout) };
        assert!(!memory.is_null());
        // SAFETY: it has so many bytes.
        unsafe { memory.write_bytes(NEW, bytes) };
        self.allocations.live.lock().unwrap().insert(memory.addr(), (layout, kind));
        self.allocations.peak.fetch_max(self.allocations.bytes(&[MemoryKind::Device]), SeqCst);
        Ok(RawMemory::new(memory.cast()))
    }

    unsafe fn free(&self, _: MemoryKind, memory: RawMemory) {
        self.allocations.calls.fetch_add(1, SeqCst);
        let name = std::thread::current().name().unwrap_or("").to_owned();
        self.allocations.freed_by.lock().unwrap().insert(name);
        while self.allocations.frees_wait.load(SeqCst) && self.is_busy() {
            std::thread::yield_now();
        }
        let layout = self.allocations.live.lock().unwrap().remove(&memory.raw().addr());
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(memory.raw().cast(), layout.expect("what is freed was allocated").0) };
    }

    unsafe fn copy(
        &self,
        stream: RawStream,
        (_, from): (MemoryKind, RawMemory),
        (_, to): (MemoryKind, RawMemory),
        bytes: usize,
    ) -> Result<(), DriverError> {
        self.queue(stream, &[from], &[to], move || {
            // SAFETY: by the contract, both are there until the stream has come here.
            unsafe { from.raw().cast::<u8>().copy_to_nonoverlapping(to.raw().cast(), bytes) };
        })
    }

    unsafe fn zero(&self, stream: RawStream, memory: RawMemory, bytes: usize) -> Result<(), DriverError> {
        self.queue(stream, &[], &[memory], move || {
            // SAFETY: as in `copy`.
            unsafe { memory.raw().cast::<u8>().write_bytes(0, bytes) };
        })
    }
}

impl Model {
    /// Queues what uses memory.
    pub fn queue(
        &self,
        stream: RawStream,
        reads: &[RawMemory],
        writes: &[RawMemory],
        effect: impl Fn() + Send + Sync + 'static,
    ) -> Result<(), DriverError> {
        drop(self.call()?);
        let addresses = |list: &[RawMemory]| list.iter().map(|memory| memory.raw().addr()).collect::<Vec<_>>();
        let (reads, writes) = (addresses(reads), addresses(writes));
        let (used, allocations) = ([reads.clone(), writes.clone()].concat(), Arc::clone(&self.allocations));
        self.work(stream, reads, writes, move || {
            assert!(used.iter().all(|address| allocations.is_live(*address)), "a device uses memory that was freed");
            effect();
        });
        Ok(())
    }

    /// The processor uses pinned memory, from here to the drop of its borrow.
    pub fn host_uses(&self, address: usize, changes: bool) {
        let mut world = self.world();
        world.host_uses(address, changes);
    }
}
