//! The memory of the model: the processor's, with the device's copies done late and in order of its
//! streams, like other work. A buffer is a cell of the checker by its address.

use crate::model::Model;
use seriatim::gpu::{DeviceMemory, DriverError, MemoryKind, RawMemory, RawStream};
use std::alloc::{alloc, dealloc, Layout};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What is allocated, and what was asked.
#[derive(Default)]
pub struct Allocations {
    live: Mutex<HashMap<usize, Layout>>,
    /// How often the driver was asked for memory, or given some back.
    pub calls: AtomicUsize,
    /// The most bytes that there are.
    pub most: AtomicUsize,
}

impl Allocations {
    /// How many pieces of memory were not given back.
    pub fn left(&self) -> usize {
        self.live.lock().unwrap().len()
    }

    fn bytes(&self) -> usize {
        self.live.lock().unwrap().values().map(Layout::size).sum()
    }

    fn is_live(&self, address: usize) -> bool {
        self.live.lock().unwrap().contains_key(&address)
    }
}

/// Fills new memory, so that a read before the first write shows.
const NEW: u8 = 0xa5;

// SAFETY: the allocator's memory is the processor's, and aligned. Copies are done by the streams.
unsafe impl DeviceMemory for Model {
    fn allocate(&self, _: usize, _: MemoryKind, bytes: usize) -> Result<RawMemory, DriverError> {
        self.allocations.calls.fetch_add(1, SeqCst);
        let most = self.allocations.most.load(SeqCst);
        if most > 0 && self.allocations.bytes() + bytes > most {
            return Err(DriverError::refused("the model has no more memory"));
        }
        let layout = Layout::from_size_align(bytes, 64).unwrap();
        // SAFETY: the engine asks for at least 512 bytes.
        let memory = unsafe { alloc(layout) };
        assert!(!memory.is_null());
        // SAFETY: it has so many bytes.
        unsafe { memory.write_bytes(NEW, bytes) };
        self.allocations.live.lock().unwrap().insert(memory.addr(), layout);
        Ok(RawMemory::new(memory.cast()))
    }

    unsafe fn free(&self, _: MemoryKind, memory: RawMemory) {
        self.allocations.calls.fetch_add(1, SeqCst);
        let layout = self.allocations.live.lock().unwrap().remove(&memory.raw().addr());
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(memory.raw().cast(), layout.expect("what is freed was allocated")) };
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
