//! The lock around the world, held by a call of the driver.

use crate::world::World;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

static WORLD: OnceLock<Mutex<World>> = OnceLock::new();
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// Whether this thread runs a command of a stream, where no driver call is allowed.
    pub static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The context that is current on this thread: the number of its device and one, or 0.
    pub static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The world, which this thread has for itself.
pub struct Held(Option<MutexGuard<'static, World>>);

impl Held {
    pub fn take() -> Held {
        let world = WORLD.get_or_init(Mutex::default);
        Held(Some(world.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Calls a function of a test, without the lock.
    pub fn outside<T>(&mut self, call: impl FnOnce() -> T) -> T {
        self.0 = None;
        INSIDE.set(true);
        let outcome = call();
        INSIDE.set(false);
        *self = Held::take();
        outcome
    }

    /// Waits until another thread may have changed something; says whether one has.
    pub fn wait(&mut self) -> bool {
        let guard = self.0.take().expect("it is held");
        let waited = CHANGED.wait_timeout(guard, Duration::from_secs(20)).unwrap_or_else(PoisonError::into_inner);
        self.0 = Some(waited.0);
        !waited.1.timed_out()
    }

    pub fn changed(&self) {
        CHANGED.notify_all();
    }
}

impl Deref for Held {
    type Target = World;

    fn deref(&self) -> &World {
        self.0.as_ref().expect("it is held")
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut World {
        self.0.as_mut().expect("it is held")
    }
}
