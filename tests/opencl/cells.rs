//! The memory of programs, and how the processor uses it.

use crate::backend::{lock, Driver, OpenCl};
use crate::kernels::{Values, WORDS};
use crate::library::{made, Object, FILLED, MAP_READ, MAP_WRITE, READ_WRITE, TRUE};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

pub const BYTES: usize = WORDS * size_of::<u32>();

/// Where the words of a variable are.
pub enum Cell {
    Device(Buffer),
    /// Memory of the program, which copies go to and come from.
    Host(Arc<[AtomicU32]>),
}

/// Memory of the devices. The driver keeps it for as long as something queued uses it.
pub struct Buffer {
    driver: &'static Driver,
    pub memory: Object,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the buffer is ours.
        unsafe { (self.driver.library.call.release_memory)(self.memory) };
    }
}

impl Cell {
    /// The buffer, for a kernel.
    pub fn memory(&self) -> Object {
        match self {
            Cell::Device(buffer) => buffer.memory,
            Cell::Host(_) => panic!("kernels use cells of devices"),
        }
    }
}

impl OpenCl {
    /// A cell for kernels, full of zeros.
    pub fn cell(&self) -> Arc<Cell> {
        let (library, mut zeros) = (&self.driver.library, [0_u32; WORDS]);
        let memory = made("clCreateBuffer", |code| {
            let from = zeros.as_mut_ptr().cast();
            // SAFETY: the driver allocates the memory, and copies so many bytes there.
            unsafe { (library.call.create_buffer)(library.context, READ_WRITE | FILLED, BYTES, from, code) }
        });
        let memory = memory.expect("there is memory");
        Arc::new(Cell::Device(Buffer { driver: self.driver, memory }))
    }

    /// A cell of the host, full of zeros.
    pub fn host_cell(&self) -> Arc<Cell> {
        let words: Arc<[AtomicU32]> = (0..WORDS).map(|_| AtomicU32::new(0)).collect();
        lock(&self.kept).push(Arc::clone(&words));
        Arc::new(Cell::Host(words))
    }

    /// The words of a cell, for the processor.
    pub fn load(&self, cell: &Cell) -> Values {
        self.words(cell, MAP_READ, |words| std::array::from_fn(|index| words[index].load(Relaxed)))
    }

    /// Changes the words of a cell from the processor.
    pub fn store(&self, cell: &Cell, values: &Values) {
        self.words(cell, MAP_WRITE, |words| {
            words.iter().zip(values).for_each(|(word, value)| word.store(*value, Relaxed));
        });
    }

    /// Maps a cell. It does not wait for what is queued on streams: the engine has seen to that.
    fn words<R>(&self, cell: &Cell, access: u64, then: impl FnOnce(&[AtomicU32]) -> R) -> R {
        let memory = match cell {
            Cell::Host(words) => return then(words),
            Cell::Device(buffer) => buffer.memory,
        };
        let (call, own) = (&self.driver.library.call, lock(&self.own));
        // SAFETY: the buffer has so many bytes. The call returns when they are there.
        let mapped = made("clEnqueueMapBuffer", |code| unsafe {
            (call.map)(*own, memory, TRUE, access, 0, BYTES, 0, null(), null_mut(), code)
        });
        let mapped = mapped.expect("the driver maps buffers");
        // SAFETY: so many words are mapped. With a back end that has a bug, kernels may change them
        // meanwhile, which is why they are atomic.
        let result = then(unsafe { std::slice::from_raw_parts(mapped.cast::<AtomicU32>(), WORDS) });
        // SAFETY: it is mapped, and the words are not used after this.
        let code = unsafe { (call.unmap)(*own, memory, mapped, 0, null(), null_mut()) };
        assert_eq!(code, 0, "clEnqueueUnmapMemObject");
        // SAFETY: the queue is there.
        assert_eq!(unsafe { (call.finish)(*own) }, 0, "clFinish");
        result
    }
}
