//! The model with a hook: a test that is called in the middle of a call of the driver.

use crate::model::Model;
use seriatim::gpu::{Backend, Class, DeviceMemory, DriverError, Previous, RawMark, RawStream};
use std::sync::{Arc, Mutex};

/// A call at which the hook is called, before the model is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// With the number of the mark, by the order in which marks were made.
    Reached(usize),
    /// After the model has answered, and with what.
    Answered(usize, bool),
    Finish,
}

type Hook = Box<dyn FnMut(Call) + Send>;

pub struct Hooked {
    pub model: Arc<Model>,
    hook: Mutex<Option<Hook>>,
}

impl Hooked {
    pub fn new(model: &Arc<Model>) -> Arc<Hooked> {
        Arc::new(Hooked { model: Arc::clone(model), hook: Mutex::default() })
    }

    pub fn hook(&self, hook: impl FnMut(Call) + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    fn tell(&self, call: Call) {
        // One at a time: a call that comes meanwhile is not told of.
        if let Ok(mut hook) = self.hook.try_lock() {
            hook.iter_mut().for_each(|hook| hook(call));
        }
    }
}

// SAFETY: the model keeps the order.
unsafe impl Backend for Hooked {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn devices(&self) -> Result<usize, DriverError> {
        self.model.devices()
    }

    fn enter(&self, device: usize) -> Result<Previous, DriverError> {
        self.model.enter(device)
    }

    fn reenter(&self, device: usize) -> Result<(), DriverError> {
        self.model.reenter(device)
    }

    unsafe fn leave(&self, previous: Previous) {
        // SAFETY: the caller's contract is the model's, here and below.
        unsafe { self.model.leave(previous) }
    }

    fn stream(&self, device: usize, class: Class) -> Result<RawStream, DriverError> {
        self.model.stream(device, class)
    }

    fn mark(&self, device: usize) -> Result<RawMark, DriverError> {
        self.model.mark(device)
    }

    unsafe fn record(&self, mark: RawMark, stream: RawStream) -> Result<(), DriverError> {
        // SAFETY: as above.
        unsafe { self.model.record(mark, stream) }
    }

    unsafe fn wait(&self, stream: RawStream, mark: RawMark) -> Result<(), DriverError> {
        // SAFETY: as above.
        unsafe { self.model.wait(stream, mark) }
    }

    unsafe fn reached(&self, mark: RawMark) -> Result<bool, DriverError> {
        let number = mark.raw().addr() - 1;
        self.tell(Call::Reached(number));
        // SAFETY: as above.
        let answer = unsafe { self.model.reached(mark) };
        self.tell(Call::Answered(number, answer == Ok(true)));
        answer
    }

    unsafe fn finish(&self, stream: RawStream) -> Result<(), DriverError> {
        self.tell(Call::Finish);
        // SAFETY: as above.
        unsafe { self.model.finish(stream) }
    }

    unsafe fn drop_stream(&self, stream: RawStream) {
        // SAFETY: as above.
        unsafe { self.model.drop_stream(stream) }
    }

    unsafe fn drop_mark(&self, mark: RawMark) {
        // SAFETY: as above.
        unsafe { self.model.drop_mark(mark) }
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        self.model.memory()
    }
}
