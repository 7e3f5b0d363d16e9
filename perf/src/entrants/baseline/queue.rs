//! The queue that a pool of workers sleeps on.

use std::collections::{BinaryHeap, VecDeque};

use parking_lot::{Condvar, Mutex};

/// In which order a queue hands out what is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// First in, first out, whatever the priority: the original's pool for a device.
    Fifo,
    /// Highest priority first: the original's pool for prioritised operations.
    Priority,
}

enum Items<T> {
    Fifo(VecDeque<T>),
    Priority(BinaryHeap<Prioritized<T>>),
}

struct Prioritized<T> {
    priority: i32,
    item: T,
}

struct State<T> {
    items: Items<T>,
    /// Consumers asleep, so that a push knows whether anybody is there to wake.
    sleeping: usize,
    closed: bool,
}

/// Any number of producers and consumers around one mutex.
pub(super) struct BlockingQueue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

impl<T> BlockingQueue<T> {
    pub(super) fn new(order: Order) -> BlockingQueue<T> {
        let items = match order {
            Order::Fifo => Items::Fifo(VecDeque::new()),
            Order::Priority => Items::Priority(BinaryHeap::new()),
        };
        BlockingQueue { state: Mutex::new(State { items, sleeping: 0, closed: false }), filled: Condvar::new() }
    }

    pub(super) fn push(&self, item: T, priority: i32) {
        let wake = {
            let mut state = self.state.lock();
            match &mut state.items {
                Items::Fifo(items) => items.push_back(item),
                Items::Priority(items) => items.push(Prioritized { priority, item }),
            }
            state.sleeping != 0
        };
        if wake {
            self.filled.notify_one();
        }
    }

    /// The next item, sleeping until there is one; none once the queue is closed.
    pub(super) fn pop(&self) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            let item = match &mut state.items {
                Items::Fifo(items) => items.pop_front(),
                Items::Priority(items) => items.pop().map(|top| top.item),
            };
            if item.is_some() {
                return item;
            }
            state.sleeping += 1;
            self.filled.wait(&mut state);
            state.sleeping -= 1;
        }
    }

    /// Sends every consumer away, now and later.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_all();
    }
}

impl<T> PartialEq for Prioritized<T> {
    fn eq(&self, other: &Self) -> bool {
        self.priority == other.priority
    }
}

impl<T> Eq for Prioritized<T> {}

impl<T> PartialOrd for Prioritized<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Prioritized<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.priority.cmp(&other.priority)
    }
}
