//! A group of two or three workers under random schedules: what takes more steps than loom can
//! explore.

#![cfg(shuttle)]

use loom_tests::{schedules, Blocks, Places};
use seriatim::internals::block::{Block, FLAG_SHORT};
use seriatim::internals::group::{Group, GroupPlan, IdlePolicy, Placement};
use seriatim::internals::tickets::journals::Journal;
use seriatim::internals::tickets::word::PUSHED;
use seriatim::internals::Host;
use shuttle::rand::Rng;
use shuttle::sync::{Condvar, Mutex};
use std::sync::{Arc, Mutex as Plain, OnceLock};
use std::time::Duration;

/// Runs three operations, of which some end only when the third has run.
struct Gate {
    /// Those which end only then.
    held: std::ops::Range<usize>,
    blocks: Blocks,
    group: OnceLock<Arc<Group>>,
    open: Mutex<bool>,
    opened: Condvar,
    ended: Mutex<usize>,
    end: Condvar,
    order: Plain<Vec<usize>>,
}

impl Host for Gate {
    unsafe fn run(self: &Arc<Self>, block: *mut Block, worker: Option<usize>) {
        let number = self.blocks.iter().position(|known| *known == block.addr()).expect("one of ours");
        // A pusher that catches up counts as worker 9.
        self.order.lock().unwrap().push(10 * number + worker.unwrap_or(9));
        if number == 2 {
            *self.open.lock().unwrap() = true;
            self.opened.notify_all();
        } else if self.held.contains(&number) {
            let mut open = self.open.lock().unwrap();
            while !*open {
                open = self.opened.wait(open).unwrap();
            }
        }
        *self.ended.lock().unwrap() += 1;
        self.end.notify_all();
    }

    unsafe fn settle(&self, _: *mut Block) -> bool {
        true
    }

    fn depth(&self) -> u32 {
        0
    }

    fn idle(&self) {}
}
/// A group of two workers and its host, which `push` gives the operations; in which order they ran,
/// and where. The second operation is held.
fn two_workers(logged: bool, push: impl FnOnce(&Arc<Gate>)) -> Vec<usize> {
    workers(2, logged, 1..2, push)
}

fn workers(workers: usize, logged: bool, held: std::ops::Range<usize>, push: impl FnOnce(&Arc<Gate>)) -> Vec<usize> {
    let group = Arc::new(Group::new(GroupPlan {
        name: "",
        workers,
        shared: false,
        logged,
        idle: IdlePolicy::Park,
        spin_for: Duration::ZERO,
        cores: Vec::new(),
        move_callers: false,
        fifo_priority: 0,
    }));
    let host = Arc::new(Gate {
        held,
        blocks: Blocks::new(3),
        group: OnceLock::from(group.clone()),
        open: Mutex::new(false),
        opened: Condvar::new(),
        ended: Mutex::new(0),
        end: Condvar::new(),
        order: Plain::default(),
    });
    group.start(&host).unwrap();
    push(&host);
    let mut ended = host.ended.lock().unwrap();
    while *ended < 3 {
        ended = host.end.wait(ended).unwrap();
    }
    drop(ended);
    group.stop();
    let order = host.order.lock().unwrap().clone();
    let mut ran: Vec<usize> = order.iter().map(|entry| entry / 10).collect();
    ran.sort_unstable();
    assert_eq!(ran, [0, 1, 2], "an operation was lost or ran twice");
    order
}

#[test]
fn what_comes_while_a_worker_takes_something_else_is_not_forgotten() {
    schedules("an operation that comes to a worker which is stealing", 3, 60_000, || {
        two_workers(false, |host| {
            for (number, worker) in [(0, 0), (1, 1), (2, 0)] {
                // SAFETY: each operation is submitted once.
                unsafe {
                    host.group.get().expect("set").submit(host.blocks.pointer(number), Placement::Worker(worker), 0)
                };
            }
        })
    });
}

/// Logs operations for the first worker, in a journal of the caller's own.
fn log(host: &Gate, numbers: std::ops::Range<usize>) {
    let journal = host.group.get().expect("set").add_journal();
    numbers.for_each(|number| log_for(host, journal, 0, number));
}

/// Logs an operation in a journal of the caller's own.
fn log_for(host: &Gate, journal: &Journal, worker: usize, number: usize) {
    let block = host.blocks.pointer(number);
    // SAFETY: each operation is logged once, and has no uses; no other thread has the journal.
    unsafe {
        Block::renew(block, 0, true);
        let operation = Places::new().enlist(block, 1, PUSHED);
        host.group.get().expect("set").log(journal, worker, operation);
    }
}

#[test]
fn what_any_pusher_has_logged_is_stolen() {
    schedules("two pushers that log for a worker which runs something", 4, 30_000, || {
        two_workers(true, |host| {
            let theirs = host.clone();
            let other = shuttle::thread::spawn(move || log(&theirs, 0..2));
            log(host, 2..3);
            other.join().unwrap();
        })
    });
}

/// Three operations come to three workers, each into a log or an inbox of any of them, in all ways.
/// Two of them end only when the third has run, so each needs a worker of its own.
#[test]
fn nothing_stands_still_behind_an_operation_while_a_worker_sleeps() {
    const WORKERS: usize = 3;
    schedules("operations that come to three workers in any way", 1 + WORKERS, 400_000, || {
        workers(WORKERS, true, 0..2, |host| {
            let group = host.group.get().expect("set");
            let journal = group.add_journal();
            let mut random = shuttle::rand::thread_rng();
            let order = [[0, 1, 2], [0, 2, 1], [2, 0, 1]][random.gen_range(0..3)];
            for number in order {
                let worker = random.gen_range(0..WORKERS);
                if random.gen_range(0..2) == 0 {
                    log_for(host, journal, worker, number);
                } else {
                    // SAFETY: each operation is submitted once.
                    unsafe { group.submit(host.blocks.pointer(number), Placement::Worker(worker), 0) };
                }
                if number == order[0] {
                    // Until a worker is in it, and others sleep.
                    (0..15).for_each(|_| shuttle::thread::yield_now());
                }
            }
        })
    });
}

/// The third is logged for a worker, which it wakes. The second, which is pushed into the inbox of
/// that worker meanwhile, ends only when the third has run.
#[test]
fn what_a_worker_was_woken_for_does_not_wait_behind_what_is_pushed_to_it() {
    schedules("a push to a worker that is woken for something in its log", 3, 30_000, || {
        two_workers(true, |host| {
            let group = host.group.get().expect("set");
            // SAFETY: each operation is submitted once.
            let submit = |number| unsafe { group.submit(host.blocks.pointer(number), Placement::Worker(0), 0) };
            submit(0);
            // Until the workers sleep.
            (0..20).for_each(|_| shuttle::thread::yield_now());
            log(host, 2..3);
            submit(1);
        })
    });
}

/// All come to one worker, which lends the second and the third, and is in the first until the
/// third has run. The pusher takes the two and puts the third back, which is not short; the other
/// worker may look meanwhile, find nothing, and fall asleep.
#[test]
fn what_a_pusher_puts_back_does_not_stand_still_beside_a_worker_that_sleeps() {
    schedules("a pusher that puts back what a worker has missed", 3, 100_000, || {
        workers(2, false, 0..1, |host| {
            let group = host.group.get().expect("set");
            // SAFETY: not submitted yet; each operation is submitted once.
            unsafe {
                (*host.blocks.pointer(1)).flags = FLAG_SHORT;
                (0..3).for_each(|number| group.submit(host.blocks.pointer(number), Placement::Worker(0), 0));
            }
            while !group.catch_up(host) && *host.ended.lock().unwrap() == 0 {
                shuttle::thread::yield_now();
            }
        })
    });
}

/// As above, but it is a helper that takes the second, which is as long as the first.
#[test]
fn what_a_helper_puts_back_does_not_stand_still_beside_a_worker_that_sleeps() {
    schedules("a helper that puts back what a worker has missed", 3, 100_000, || {
        workers(2, false, 0..2, |host| {
            let group = host.group.get().expect("set");
            // SAFETY: each operation is submitted once.
            unsafe { (0..3).for_each(|number| group.submit(host.blocks.pointer(number), Placement::Worker(0), 0)) };
            // Until the first runs, so what comes behind it is lent.
            while host.order.lock().unwrap().is_empty() {
                shuttle::thread::yield_now();
            }
            while !group.help(host, || true) && *host.ended.lock().unwrap() == 0 {
                shuttle::thread::yield_now();
            }
        })
    });
}
