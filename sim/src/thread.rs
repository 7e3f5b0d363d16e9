//! Threads of the machine, their thread-locals, and the mutex: what the engine uses instead of
//! `std::thread` and `std::sync::Mutex` in a simulation.

use crate::machine::{access, catch_up, pass, wait_until, with, Kind};
use std::cell::Cell;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, LockResult, MutexGuard, TryLockError, TryLockResult};
use std::time::Duration;

/// The number of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadId(usize);

/// A handle by which a thread is woken.
#[derive(Clone, Debug)]
pub struct Thread(ThreadId);

impl Thread {
    pub fn id(&self) -> ThreadId {
        self.0
    }

    /// Wakes the thread, or lets its next park return at once.
    pub fn unpark(&self) {
        catch_up();
        let ThreadId(id) = self.0;
        with(|machine| {
            let me = machine.current();
            let (wake, waking) = (machine.parameters.wake, machine.parameters.waking);
            machine.cores[id].token = true;
            if machine.cores[id].parked && !machine.cores[id].ended {
                let clock = machine.cores[me].clock;
                machine.rouse(id, clock + wake);
                machine.cores[me].clock += waking;
            } else {
                machine.cores[me].clock += machine.parameters.hit + machine.parameters.locked;
            }
        });
    }
}

/// Returns the calling thread.
pub fn current() -> Thread {
    Thread(ThreadId(with(|machine| machine.current()).unwrap_or(usize::MAX)))
}

/// Sleeps until another thread wakes the calling one.
pub fn park() {
    let mut slept = false;
    wait_until(|machine, me| {
        let token = std::mem::replace(&mut machine.cores[me].token, false);
        if !token && !slept {
            machine.cores[me].clock += machine.parameters.sleep;
        }
        slept = true;
        token
    });
}

/// Returns when the time has passed, whether or not the thread was woken meanwhile.
pub fn park_timeout(time: Duration) {
    pass(|parameters| parameters.sleep + time.as_nanos() as u64);
    catch_up();
    with(|machine| {
        let me = machine.current();
        machine.cores[me].token = false;
    });
}

/// Takes the time of a yield. No other thread wants the core, as every thread has its own.
pub fn yield_now() {
    pass(|parameters| parameters.yielding);
}

/// Starts threads.
#[derive(Default)]
pub struct Builder(());

type Result<T> = std::thread::Result<T>;

/// A handle by which the end of a thread is waited for.
pub struct JoinHandle<T> {
    id: usize,
    outcome: Arc<std::sync::Mutex<Option<Result<T>>>>,
}

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Ignores the name.
    pub fn name(self, _: String) -> Builder {
        self
    }

    /// Starts a thread on a core of its own.
    pub fn spawn<T: Send + 'static>(self, body: impl FnOnce() -> T + Send + 'static) -> std::io::Result<JoinHandle<T>> {
        let outcome = Arc::new(std::sync::Mutex::new(None));
        let place = Arc::clone(&outcome);
        let life = whole_life(move || {
            let value = catch_unwind(AssertUnwindSafe(body));
            if let Ok(mut place) = place.lock() {
                *place = Some(value);
            }
        });
        catch_up();
        let id = with(|machine| {
            let me = machine.current();
            let clock = machine.cores[me].clock;
            let spawn = machine.parameters.spawn;
            machine.cores[me].clock += spawn / 2;
            machine.add(clock + spawn, life)
        });
        let id = id.ok_or_else(|| std::io::Error::other("threads are started inside a simulation only"))?;
        Ok(JoinHandle { id, outcome })
    }
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread.
    pub fn join(self) -> Result<T> {
        let id = self.id;
        wait_until(|machine, me| {
            let ended = machine.cores[id].ended;
            if !ended && !machine.cores[id].joiners.contains(&me) {
                machine.cores[id].joiners.push(me);
            }
            ended
        });
        let outcome = self.outcome.lock().map_or(None, |mut outcome| outcome.take());
        outcome.unwrap_or_else(|| Err(Box::new("the thread has left nothing")))
    }
}

/// Returns the whole life of a thread: its body, then the end of its thread-locals.
pub fn whole_life(body: impl FnOnce() + 'static) -> impl FnOnce() + 'static {
    move || {
        body();
        // The value that was made last goes first. A value without a destructor stays usable.
        let next = || {
            with(|machine| {
                let me = machine.current();
                machine.cores[me].locals.iter_mut().rev().find_map(|(_, value)| value.take())
            })
            .flatten()
        };
        while let Some(value) = next() {
            drop(value);
        }
        catch_up();
        with(|machine| machine.end());
    }
}

/// A value for each thread.
pub struct LocalKey<T: 'static> {
    init: fn() -> T,
}

/// The error of an access to a value that is gone, because its thread ends.
#[derive(Debug)]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread-local is gone")
    }
}

impl<T: 'static> LocalKey<T> {
    pub const fn new(init: fn() -> T) -> LocalKey<T> {
        LocalKey { init }
    }

    fn find(&'static self) -> std::result::Result<*const T, AccessError> {
        let key = std::ptr::from_ref(self).addr();
        let known = with(|machine| {
            let locals = &machine.cores[machine.current()].locals;
            let (_, value) = locals.iter().find(|(known, _)| *known == key)?;
            Some(value.as_ref().and_then(|value| value.downcast_ref::<T>()).map(std::ptr::from_ref))
        })
        .flatten();
        match known {
            Some(Some(value)) => return Ok(value),
            Some(None) if std::mem::needs_drop::<T>() => return Err(AccessError),
            _ => {}
        }
        // The initialiser is not called inside `with`, since it may use other thread-locals.
        let value = Box::new((self.init)());
        let address: *const T = &raw const *value;
        with(|machine| {
            let me = machine.current();
            machine.cores[me].locals.retain(|(known, _)| *known != key);
            machine.cores[me].locals.push((key, Some(value)));
        })
        .ok_or(AccessError)?;
        Ok(address)
    }

    #[inline]
    pub fn try_with<R>(&'static self, look: impl FnOnce(&T) -> R) -> std::result::Result<R, AccessError> {
        let value = self.find()?;
        // SAFETY: the value is boxed, and lives until the calling thread ends. Only this thread
        // drops it, and not while it is in here, unless from a destructor of its own, as with
        // std's.
        Ok(look(unsafe { &*value }))
    }

    /// # Panics
    /// If the thread ends, or is none of a machine.
    #[inline]
    pub fn with<R>(&'static self, look: impl FnOnce(&T) -> R) -> R {
        self.try_with(look).expect("thread-locals are used inside a simulation, by threads that do not end")
    }
}

/// A mutex. Taking its lock is one access to its line; a thread that finds it taken tries again
/// after a hop.
#[derive(Default)]
pub struct Mutex<T> {
    word: Cell<u8>,
    inner: std::sync::Mutex<T>,
}

// SAFETY: the cell is never read or written: only its address is used.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { word: Cell::new(0), inner: std::sync::Mutex::new(value) }
    }

    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let place = std::panic::Location::caller();
        loop {
            access(self.word.as_ptr().addr(), Kind::Locked, place);
            match self.inner.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => pass(|parameters| parameters.hop),
            }
        }
    }

    #[track_caller]
    #[allow(dead_code)]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        access(self.word.as_ptr().addr(), Kind::Locked, std::panic::Location::caller());
        self.inner.try_lock()
    }
}
