//! The queue of operations that are ready, and the sleep of the runners.
//!
//! Used by `shared.rs`: any attached thread pushes, runners pop and sleep. Operations of priority 0
//! go through a queue without a lock. The others go through a heap, whose lock is held for one
//! insertion or removal, and which runners look at only while it has something.
//!
//! **No ready operation stays while all runners sleep.** Who pushes queues, then looks for
//! sleepers; who goes to sleep says so, then looks at the queue. Between the two steps of each is a
//! `SeqCst` fence, so one sees the other. Who pushes wakes nobody while a runner is *on its way*:
//! woken, and not yet at the queue. That runner clears the mark before it looks, and wakes another
//! if it leaves something. So a crowd of pushes wakes one runner, and runners wake each other while
//! there is work.

use crate::operation::Entry;
use crossbeam_queue::SegQueue;
use std::collections::BinaryHeap;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long a runner looks for more before it sleeps.
const LOOKS: Duration = Duration::from_micros(30);

#[derive(Default)]
struct Seat {
    thread: OnceLock<Thread>,
    is_asleep: AtomicBool,
}

pub struct Queue {
    plain: SegQueue<Entry>,
    ranked: Mutex<BinaryHeap<Entry>>,
    /// How many are in `ranked`, and the highest priority is above 0.
    ranked_count: AtomicUsize,
    urgent_count: AtomicUsize,
    seats: Box<[Seat]>,
    is_one_on_its_way: AtomicBool,
    pub wakes: AtomicU64,
}

impl Queue {
    pub fn new(runners: usize) -> Queue {
        Queue {
            plain: SegQueue::new(),
            ranked: Mutex::default(),
            ranked_count: AtomicUsize::new(0),
            urgent_count: AtomicUsize::new(0),
            seats: (0..runners).map(|_| Seat::default()).collect(),
            is_one_on_its_way: AtomicBool::new(false),
            wakes: AtomicU64::new(0),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.ranked_count.load(Acquire) == 0
    }

    pub fn len(&self) -> usize {
        self.plain.len() + self.ranked_count.load(Relaxed)
    }

    /// Queues an operation, and wakes a runner if that is needed.
    pub fn push(&self, entry: Entry) {
        match entry.priority() {
            0 => self.plain.push(entry),
            priority => {
                let mut ranked = self.ranked.lock().unwrap_or_else(PoisonError::into_inner);
                ranked.push(entry);
                self.urgent_count.fetch_add(usize::from(priority > 0), Release);
                self.ranked_count.fetch_add(1, Release);
            }
        }
        self.call_one();
    }

    fn pop_ranked(&self) -> Option<Entry> {
        let mut ranked = self.ranked.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = ranked.pop()?;
        self.urgent_count.fetch_sub(usize::from(entry.priority() > 0), Release);
        self.ranked_count.fetch_sub(1, Release);
        Some(entry)
    }

    /// The next operation: the highest priority first, and of equal ones the first that was ready.
    pub fn pop(&self) -> Option<Entry> {
        if self.urgent_count.load(Acquire) != 0 {
            if let Some(entry) = self.pop_ranked() {
                return Some(entry);
            }
        }
        self.plain.pop().or_else(|| (self.ranked_count.load(Acquire) != 0).then(|| self.pop_ranked()).flatten())
    }

    /// Wakes a runner, if one sleeps and none is on its way.
    pub fn call_one(&self) {
        fence(SeqCst); // With the fence in `sleep`.
        if self.is_one_on_its_way.load(Relaxed) || !self.seats.iter().any(|seat| seat.is_asleep.load(Relaxed)) {
            return;
        }
        if self.is_one_on_its_way.swap(true, SeqCst) {
            return;
        }
        if !self.seats.iter().any(|seat| self.wake(seat)) {
            // The sleepers woke meanwhile: they look at the queue themselves.
            self.is_one_on_its_way.store(false, SeqCst);
        }
    }

    fn wake(&self, seat: &Seat) -> bool {
        let was_asleep = seat.is_asleep.load(Relaxed) && seat.is_asleep.swap(false, AcqRel);
        if was_asleep {
            self.wakes.fetch_add(1, Relaxed);
            if let Some(thread) = seat.thread.get() {
                thread.unpark();
            }
        }
        was_asleep
    }

    /// Wakes all runners, to have them look whether the engine ends.
    pub fn call_all(&self) {
        fence(SeqCst);
        self.seats.iter().for_each(|seat| _ = self.wake(seat));
    }

    /// A runner has come to the queue.
    pub fn arrive(&self) {
        if self.is_one_on_its_way.load(Relaxed) {
            self.is_one_on_its_way.store(false, SeqCst);
            fence(SeqCst); // With the fence in `call_one`: who saw the mark has queued before this.
        }
    }

    /// Sleeps until there is something, or `is_over`. The caller is detached.
    pub fn sleep(&self, seat: usize, is_over: impl Fn() -> bool) {
        let began = Instant::now();
        while began.elapsed() < LOOKS {
            if !self.is_empty() || is_over() {
                return;
            }
            std::hint::spin_loop();
        }
        let seat = &self.seats[seat];
        seat.thread.get_or_init(std::thread::current);
        seat.is_asleep.store(true, Relaxed);
        fence(SeqCst); // With the fence in `call_one`.
        if !self.is_empty() || is_over() {
            // Another thread was faster and has woken this one: it is on its way.
            seat.is_asleep.store(false, Relaxed);
            return;
        }
        while seat.is_asleep.load(Acquire) {
            std::thread::park();
        }
    }
}
