//! A small executor: one future on the calling thread, or one poll of it; and wakers that count.

use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

/// A waker that unparks a thread, and counts its calls.
pub struct Unparks {
    thread: Thread,
    is_woken: AtomicBool,
    pub calls: AtomicUsize,
}

impl Unparks {
    pub fn new() -> Arc<Unparks> {
        Arc::new(Unparks { thread: thread::current(), is_woken: AtomicBool::new(false), calls: AtomicUsize::new(0) })
    }
}

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(1, SeqCst);
        self.is_woken.store(true, SeqCst);
        self.thread.unpark();
    }
}

/// Runs a future to its end on the calling thread, which sleeps meanwhile. It is polled only when
/// it was woken.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let unparks = Unparks::new();
    let waker = Waker::from(Arc::clone(&unparks));
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while !unparks.is_woken.swap(false, SeqCst) {
            assert!(Instant::now() < deadline, "nobody wakes the future");
            thread::park_timeout(Duration::from_secs(1));
        }
    }
}

/// One poll, with this waker.
pub fn poll<F: Future + Unpin>(future: &mut F, waker: &Arc<Unparks>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(waker))))
}

/// Something that a future waits for, and that is opened from outside. It notes which threads look.
#[derive(Clone, Default)]
pub struct Door(Arc<DoorState>);

#[derive(Default)]
struct DoorState {
    is_open: AtomicBool,
    waker: Mutex<Option<Waker>>,
    looked: Mutex<Vec<ThreadId>>,
}

impl Door {
    /// Ready once the door is open.
    pub fn pass(&self) -> Passing {
        Passing(self.clone())
    }

    /// Opens the door, and wakes the future that waits.
    pub fn open(&self) {
        self.0.is_open.store(true, SeqCst);
        self.wake();
    }

    /// Wakes the future that waits, for nothing.
    pub fn wake(&self) {
        let waker = self.0.waker.lock().unwrap().clone();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether a future has come here.
    pub fn is_reached(&self) -> bool {
        self.0.waker.lock().unwrap().is_some()
    }

    /// The threads that have polled, one for each poll.
    pub fn threads(&self) -> Vec<ThreadId> {
        self.0.looked.lock().unwrap().clone()
    }

    /// Drops the waker, so that nobody can wake the future.
    pub fn forget(&self) {
        drop(self.0.waker.lock().unwrap().take());
    }
}

pub struct Passing(Door);

impl Future for Passing {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Door(state) = &self.0;
        state.looked.lock().unwrap().push(thread::current().id());
        *state.waker.lock().unwrap() = Some(context.waker().clone());
        match state.is_open.load(SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// Counts how often it is dropped.
pub struct Counted(pub Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}
