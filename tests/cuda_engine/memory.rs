//! Memory of the stand-in, in places of eight bytes: of the host, where kernels and processors come
//! by, and of a device. The stand-in judges every access.

use crate::client::{call, host_memory, memory, queue, queue_again, Standin};
use crate::common::mix;
use seriatim::gpu::{Backend, Cuda, Previous, RawStream};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// What a place has in it before the first write.
pub const FRESH: u64 = 0xA5A5_A5A5_A5A5_A5A5;
const BYTES: usize = 8;
/// Addresses of devices have this bit.
const DEVICE: u64 = 1 << 62;

/// The calling thread, with the first device current, as allocations ask for it.
pub struct Entered {
    cuda: Arc<Cuda>,
    before: Previous,
}

impl Entered {
    pub fn new(_: &Standin) -> Entered {
        let cuda = Cuda::open().expect("the stand-in is a driver");
        let before = cuda.enter(0).expect("there is a device");
        Entered { cuda, before }
    }

    /// For a device that is lost: this back end has not heard of it, and would give its context
    /// back.
    pub fn forget(self) {
        std::mem::forget(Arc::clone(&self.cuda));
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: `enter` has returned it on this thread.
        unsafe { self.cuda.leave(self.before) };
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u64);

impl Place {
    pub fn of_host(_: &Entered) -> Place {
        let mut at = 0;
        assert_eq!(call!(cuMemHostAlloc(&raw mut at => *mut u64, BYTES => usize, 0 => u32) -> i32), 0);
        Place(at)
    }

    pub fn of_device(_: &Entered) -> Place {
        let mut at = 0;
        assert_eq!(call!(cuMemAlloc_v2(&raw mut at => *mut u64, BYTES => usize) -> i32), 0);
        Place(at)
    }

    /// Reads the place, as the host. Another device's memory as well: it lies in this process.
    pub fn value(self, label: u64) -> Result<u64, String> {
        let found = word(host_memory(self.0, BYTES, false, label)).map(|word| word.load(Relaxed));
        found.ok_or_else(|| "memory may not be read".to_owned())
    }

    /// Frees memory of a device in the order of a stream.
    pub fn free(self, stream: RawStream) -> Result<(), String> {
        accepted(call!(cuMemFreeAsync(self.0 => u64, stream.raw() => *mut c_void) -> i32))
    }
}

/// A word of the stand-in's memory, which is never given back to the system.
fn word(at: *mut u8) -> Option<&'static AtomicU64> {
    // SAFETY: memory of the stand-in is aligned and leaked; if it is accessed by several threads at
    // once, which a test finds, then by this type.
    (!at.is_null()).then(|| unsafe { AtomicU64::from_ptr(at.cast()) })
}

/// What the driver's code says.
fn accepted(code: i32) -> Result<(), String> {
    match code {
        0 => Ok(()),
        code => Err(format!("the driver refuses work: {code}")),
    }
}

/// What operation `id` makes of what it uses.
pub fn mixed(id: u64, values: impl Iterator<Item = u64>) -> u64 {
    values.fold(mix(id), |sum, value| mix(sum ^ value).rotate_left(7))
}

/// Where an operation does its work.
#[derive(Clone, Copy)]
enum On {
    Host,
    Device,
}

/// Does the work of an operation; says whether all its memory is there.
fn apply(on: On, id: u64, reads: &[Place], writes: &[Place]) -> bool {
    let at = |place: &Place, write| match on {
        On::Host => word(host_memory(place.0, BYTES, write, id)),
        On::Device => word(memory(place.0, BYTES, write, id)),
    };
    let read: Option<Vec<_>> = reads.iter().map(|place| at(place, false)).collect();
    let written: Option<Vec<_>> = writes.iter().map(|place| at(place, true)).collect();
    let (Some(read), Some(written)) = (read, written) else { return false };
    let value = mixed(id, read.iter().chain(&written).map(|word| word.load(Relaxed)));
    written.iter().for_each(|word| word.store(value, Relaxed));
    true
}

/// Does the work of an operation on the processor.
pub fn compute(id: u64, reads: &[Place], writes: &[Place]) -> Result<(), String> {
    apply(On::Host, id, reads, writes).then_some(()).ok_or_else(|| "memory may not be used".to_owned())
}

/// Queues the work of an operation on a stream, as a kernel, and `then` at its end.
pub fn kernel(
    stream: RawStream,
    id: u64,
    reads: Vec<Place>,
    writes: Vec<Place>,
    then: impl FnOnce() + Send + 'static,
) -> Result<(), String> {
    let body = move || {
        let is_there = apply(On::Device, id, &reads, &writes);
        then();
        // An illegal address, by which the device is lost.
        if is_there {
            0
        } else {
            700
        }
    };
    accepted(queue(stream.raw(), body))
}

/// Queues the work of an operation on a stream that may be captured.
pub fn kernel_of_graph(stream: RawStream, id: u64, reads: Vec<Place>, writes: Vec<Place>) -> Result<(), String> {
    let body = move || if apply(On::Device, id, &reads, &writes) { 0 } else { 700 };
    accepted(queue_again(stream.raw(), body))
}

/// Queues a copy of one place to another, by the driver's call for these.
pub fn copy(stream: RawStream, from: Place, to: Place) -> Result<(), String> {
    let host = |place: Place| std::ptr::with_exposed_provenance_mut::<c_void>(place.0 as usize);
    let stream = stream.raw();
    accepted(match (from.0 & DEVICE != 0, to.0 & DEVICE != 0) {
        (false, true) => call!(cuMemcpyHtoDAsync_v2(
            to.0 => u64, host(from).cast_const() => *const c_void, BYTES => usize, stream => *mut c_void
        ) -> i32),
        (true, false) => call!(cuMemcpyDtoHAsync_v2(
            host(to) => *mut c_void, from.0 => u64, BYTES => usize, stream => *mut c_void
        ) -> i32),
        (true, true) => call!(cuMemcpyDtoDAsync_v2(
            to.0 => u64, from.0 => u64, BYTES => usize, stream => *mut c_void
        ) -> i32),
        (false, false) => return Err("there is no copy between two places of the host".to_owned()),
    })
}
