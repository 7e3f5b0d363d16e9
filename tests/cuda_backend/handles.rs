//! The back end with its unsafe calls made safe for tests, which use handles as its contract asks:
//! of this back end, on a thread that has entered their device, and not after they were given back.
//! What the stand-in is given beside that is for it to refuse.

use seriatim::gpu::{Backend, Cuda, DeviceClock, DriverError, Previous, RawMark, RawStream};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

pub struct Driver(Arc<Cuda>);

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Driver {
    pub fn open() -> Result<Driver, DriverError> {
        Cuda::open().map(Driver)
    }

    pub fn leave(&self, previous: Previous) {
        // SAFETY: as the module says.
        unsafe { self.0.leave(previous) }
    }

    pub fn record(&self, mark: RawMark, stream: RawStream) -> Result<(), DriverError> {
        // SAFETY: as the module says.
        unsafe { self.0.record(mark, stream) }
    }

    pub fn wait(&self, stream: RawStream, mark: RawMark) -> Result<(), DriverError> {
        // SAFETY: as the module says.
        unsafe { self.0.wait(stream, mark) }
    }

    pub fn reached(&self, mark: RawMark) -> Result<bool, DriverError> {
        // SAFETY: as the module says.
        unsafe { self.0.reached(mark) }
    }

    pub fn finish(&self, stream: RawStream) -> Result<(), DriverError> {
        // SAFETY: as the module says.
        unsafe { self.0.finish(stream) }
    }

    pub fn elapsed(&self, from: RawMark, to: RawMark) -> Result<i64, DriverError> {
        // SAFETY: as the module says.
        unsafe { self.0.elapsed(from, to) }
    }

    pub fn drop_stream(&self, stream: RawStream) {
        // SAFETY: as the module says.
        unsafe { self.0.drop_stream(stream) }
    }

    pub fn drop_mark(&self, mark: RawMark) {
        // SAFETY: as the module says.
        unsafe { self.0.drop_mark(mark) }
    }
}

impl Deref for Driver {
    type Target = Cuda;

    fn deref(&self) -> &Cuda {
        &self.0
    }
}
