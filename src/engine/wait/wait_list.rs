//! Wait lists: threads that wait for a condition of the whole engine. An engine has two: threads of
//! the list `Core::quiescence` wait until nothing is in flight, and those of `Core::below_bound`
//! until there is room under the bound.
//!
//! Waiting threads come from `wait/for_all.rs`, `engine/lifecycle.rs` and `engine/backpressure.rs`.
//! [`WaitList::notify`] is called by every thread that ends operations, the watchers of devices
//! too, and by a push that gives back its place under the bound. `engine/fork.rs` holds the lock
//! around a fork, and empties the list in the child.
//!
//! A waiter announces itself before it looks at the condition for the last time. The thread that
//! may have made it true looks for waiters after that. A fence on each side
//! ([`crate::platform::asymmetric_fence`]) rules out that both miss.
//!
//! The list is locked, but only while a thread waits: operations come and go without touching it.
//! A thread that ends an operation never waits for that lock, since the holder may be without its
//! core. It notes in `due` that the waiters are to be woken, and the holder wakes them once it has
//! unlocked the list. Each looks at what the other has written, after a fence: so one of the two
//! wakes the waiters.
//!
//! Futures that wait for the condition (`engine/future/all.rs`) count as waiters too. Their wakers
//! are in a list without a lock (`waker_list.rs`), since calling one is user code.

#![forbid(unsafe_code)]

use crate::engine::wait::waker_list::{WakerList, WakerPlace};
use crate::platform::asymmetric_fence::{heavy, light};
use crate::sync::lock::Lock;
use crate::sync::thread::{self, Thread, ThreadId};
use crate::sync::{fence, AtomicBool, AtomicUsize, MutexGuard, Ordering::*};
use crate::util::spin::{note_wake, Spin};
use crossbeam_utils::CachePadded;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The deadline of a timeout that is too long for the clock: a hundred years.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How long a waiter looks at its condition before it parks.
const LISTED_SPINS: Duration = Duration::from_micros(10);

/// Threads and futures waiting for one condition.
pub struct WaitList {
    /// How many there are.
    count: CachePadded<AtomicUsize>,
    /// Whether the waiters are to be woken. Set by a thread that ends operations, before it tries
    /// to lock the list; taken back by the one that has locked it.
    due: AtomicBool,
    threads: Lock<Vec<Thread>>,
    wakers: WakerList,
}

impl WaitList {
    pub fn new() -> WaitList {
        WaitList {
            count: CachePadded::new(AtomicUsize::new(0)),
            due: AtomicBool::new(false),
            threads: Lock::default(),
            wakers: WakerList::new(),
        }
    }

    /// Waits until `done` says so, which is asked again and again, or until the deadline. Returns
    /// the last answer. `rested` is called once, unless the first looks were enough: the thread may
    /// have been parked in between.
    pub fn wait(&self, deadline: Option<Instant>, mut done: impl FnMut() -> bool, rested: impl FnOnce()) -> bool {
        let mut spin = Spin::awake(remaining(deadline).map_or(LISTED_SPINS, |left| left.min(LISTED_SPINS)));
        while spin.pause() {
            if done() {
                return true;
            }
        }
        let in_time = self.announced(|| {
            // Heavy side of the asymmetric fence; the light side is in `notify`.
            heavy();
            loop {
                if done() {
                    break true;
                }
                match remaining(deadline) {
                    Some(Duration::ZERO) => break false,
                    Some(left) => thread::park_timeout(left),
                    None => thread::park(),
                }
            }
        });
        rested();
        in_time
    }

    /// Calls `waiting`, which may park. Until it returns, [`WaitList::notify`] unparks the calling
    /// thread whenever the condition may have become true. `waiting` must pass a [`heavy`] fence
    /// and then look at the condition before it parks.
    pub fn announced<T>(&self, waiting: impl FnOnce() -> T) -> T {
        let this = thread::current();
        let id = this.id();
        self.hold().push(this);
        self.count.fetch_add(1, Relaxed);
        let outcome = waiting();
        self.count.fetch_sub(1, Relaxed);
        self.forget(id);
        outcome
    }

    fn forget(&self, id: ThreadId) {
        let mut threads = self.hold();
        if let Some(index) = threads.iter().position(|thread| thread.id() == id) {
            threads.swap_remove(index);
        }
    }

    /// Wakes the waiters, if there are any and `worth` says that the condition may hold.
    #[inline]
    pub fn notify(&self, worth: impl FnOnce() -> bool) {
        // Light side of the asymmetric fence; the heavy side is in `wait`, or in what is passed to
        // `announced`. Either this thread sees the waiter counted, or the waiter sees what this
        // thread has done.
        light();
        if self.count.load(Relaxed) > 0 {
            self.wake(worth);
        }
    }

    /// The part of `notify` with waiters. It is out of line so that `notify` is small enough to be
    /// inlined wherever operations end.
    #[cold]
    #[inline(never)]
    fn wake(&self, worth: impl FnOnce() -> bool) {
        // Pairs with the same fence of another thread: if two threads end the last two operations
        // at once, one of them must see that both have ended.
        fence(SeqCst);
        if worth() {
            // The fence above releases. A swap and not a store: the thread that clears the flag
            // then sees what every thread that has set it did before.
            self.due.swap(true, Relaxed);
            self.wake_if_due();
            self.wakers.wake_all();
            note_wake();
        }
    }

    /// A place for a future that waits, which counts as a waiter until [`WaitList::leave`]. The
    /// future stores its waker there, passes a [`heavy`] fence, and then looks at the condition.
    pub fn join(&self) -> Arc<WakerPlace> {
        self.count.fetch_add(1, Relaxed);
        self.wakers.join()
    }

    /// Gives back a place that [`WaitList::join`] gave.
    pub fn leave(&self, place: &WakerPlace) {
        place.give_back();
        self.count.fetch_sub(1, Relaxed);
    }

    /// Wakes the waiters if that is due, unless another thread has the list, which then does it.
    /// Called after `due` was set, and after the list was let go of. Another round follows if it
    /// became due while this thread had the list. That may happen again and again, but each time
    /// only if another end of an operation falls into the moments in which this thread wakes.
    fn wake_if_due(&self) {
        loop {
            // Either this thread sees `due`, set by a thread that found the list locked; or that
            // thread, which passes the same fence, finds the list free.
            fence(SeqCst);
            if !self.due.load(Relaxed) {
                return;
            }
            let Some(threads) = self.threads.try_lock() else { return };
            if self.due.swap(false, Acquire) {
                threads.iter().for_each(Thread::unpark);
            }
        }
    }

    /// Locks the list. `engine/fork.rs` does so around a fork.
    pub fn hold(&self) -> HeldList<'_> {
        HeldList { list: self, threads: Some(self.threads.lock()) }
    }
}

/// A locked list. Dropping it unlocks the list, and wakes the waiters if that has become due.
pub struct HeldList<'a> {
    list: &'a WaitList,
    /// `None` while this is dropped.
    threads: Option<MutexGuard<'a, Vec<Thread>>>,
}

#[cfg(all(unix, not(any(loom, shuttle))))]
impl HeldList<'_> {
    /// For the child of a fork, where only the calling thread is left: it waits if it has forked
    /// inside an operation that it ran in its wait. Nobody is woken.
    pub fn forget_other_threads(mut self) {
        let own = thread::current().id();
        self.retain(|thread| thread.id() == own);
        self.list.count.store(self.len() + self.list.wakers.taken(), Relaxed);
        self.list.due.store(false, Relaxed);
    }
}

impl Deref for HeldList<'_> {
    type Target = Vec<Thread>;

    fn deref(&self) -> &Vec<Thread> {
        self.threads.as_ref().expect("it is locked until it is dropped")
    }
}

impl DerefMut for HeldList<'_> {
    fn deref_mut(&mut self) -> &mut Vec<Thread> {
        self.threads.as_mut().expect("it is locked until it is dropped")
    }
}

impl Drop for HeldList<'_> {
    fn drop(&mut self) {
        self.threads = None;
        self.list.wake_if_due();
    }
}

/// The time left until the deadline; `None` without one.
pub fn remaining(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}

/// The deadline of a timeout; `None` if there is no timeout.
pub fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    // A time that the clock does not reach is a limit all the same: with a limit a wait does not
    // help.
    timeout.map(|timeout| {
        let now = Instant::now();
        now.checked_add(timeout).unwrap_or_else(|| now + FAR)
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// The thread that has the list may be without its core for long.
    #[test]
    fn who_ends_an_operation_waits_for_no_lock_and_the_waiter_is_woken() {
        let list = Arc::new(WaitList::new());
        let over = Arc::new(AtomicBool::new(false));
        let (own, done) = (Arc::clone(&list), Arc::clone(&over));
        let waiter = thread::spawn(move || own.wait(None, || done.load(SeqCst), || ()));
        while list.hold().is_empty() || list.count.load(SeqCst) == 0 {
            thread::yield_now();
        }
        let (theirs, done) = (Arc::clone(&list), Arc::clone(&over));
        let held = list.hold();
        let ender = thread::spawn(move || {
            done.store(true, SeqCst);
            theirs.notify(|| true);
        });
        let began = Instant::now();
        while !ender.is_finished() {
            assert!(began.elapsed() < Duration::from_secs(20), "it waits for the thread that has the list");
            thread::yield_now();
        }
        drop(held);
        assert!(waiter.join().unwrap());
    }
}
