//! A group of two workers, without an engine around it: nothing is lost, run twice or left lying
//! beside a worker that has nothing to do.

#![cfg(loom)]

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use loom::sync::Notify;
use loom_tests::{explore, spawn, Blocks, Guarded, Places};
use seriatim::internals::block::{Block, FLAG_SHORT};
use seriatim::internals::group::{Group, GroupPlan, IdlePolicy, Placement};
use seriatim::internals::thread::{self, Thread};
use seriatim::internals::tickets::journals::{Journal, Journals};
use seriatim::internals::tickets::word::PUSHED;
use seriatim::internals::Host;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Runs operations: each has a number and a value of its own.
struct Numbered {
    ran: Vec<Guarded>,
    /// What is written before an operation is submitted: the thread that runs it sees it.
    left: Vec<Guarded>,
    blocks: Blocks,
    /// What an operation does beside counting.
    body: fn(&Numbered, usize),
    group: OnceLock<Arc<Group>>,
    begun: AtomicBool,
    beginning: Notify,
    opened: AtomicBool,
    gate: Notify,
    ended: AtomicUsize,
    end: Notify,
    /// The threads that work for the group until all have run.
    helper: OnceLock<Thread>,
}

impl Host for Numbered {
    unsafe fn run(self: &Arc<Self>, block: *mut Block, worker: Option<usize>) {
        assert!(worker.is_none_or(|worker| worker < 2));
        let number = self.blocks.iter().position(|known| *known == block.addr()).expect("one of ours");
        assert_eq!(self.left[number].get(), 1, "not as it was left");
        self.ran[number].step();
        (self.body)(self, number);
        if self.ended.fetch_add(1, AcqRel) + 1 == self.ran.len() {
            self.end.notify();
            if let Some(helper) = self.helper.get() {
                helper.unpark();
            }
        }
    }

    unsafe fn settle(&self, _: *mut Block) -> bool {
        true
    }

    fn depth(&self) -> u32 {
        0
    }

    fn idle(&self) {}
}

impl Numbered {
    fn submit(&self, number: usize, preferred: Option<usize>) {
        let block = self.blocks.pointer(number);
        self.left[number].set(1);
        // SAFETY: each operation is submitted once.
        unsafe { self.group.get().expect("set").submit(block, preferred.map_or(Placement::Any, Placement::Worker), 0) }
    }

    fn add_journal(&self) -> &Journal {
        self.group.get().expect("set").add_journal()
    }

    /// Puts an operation into the log of a journal for a worker. One thread at a time for each
    /// journal.
    fn log(&self, journal: &Journal, number: usize, worker: usize) {
        let block = self.blocks.pointer(number);
        self.left[number].set(1);
        // SAFETY: each operation is logged once, and has no uses.
        unsafe {
            Block::renew(block, 0, true);
            let operation = Places::new().enlist(block, 1, PUSHED);
            self.group.get().expect("set").log(journal, worker, operation);
        }
    }

    fn open(&self) {
        self.opened.store(true, Release);
        self.gate.notify();
    }

    fn pass(&self) {
        while !self.opened.load(Acquire) {
            self.gate.wait();
        }
    }
}

/// Workers that are up and asleep. How they come up is not explored; what comes after is.
fn workers(workers: usize, shared: bool, count: usize, body: fn(&Numbered, usize)) -> (Arc<Group>, Arc<Numbered>) {
    workers_with(false, workers, shared, count, body)
}

/// As [`workers`], with logs or without.
fn workers_with(
    logged: bool,
    workers: usize,
    shared: bool,
    count: usize,
    body: fn(&Numbered, usize),
) -> (Arc<Group>, Arc<Numbered>) {
    workers_of(GroupPlan { logged, workers, shared, ..plan() }, count, body)
}

fn plan() -> GroupPlan {
    GroupPlan {
        name: "",
        workers: 1,
        shared: false,
        logged: false,
        idle: IdlePolicy::Park,
        spin_for: Duration::ZERO,
        cores: Vec::new(),
        move_callers: false,
        fifo_priority: 0,
    }
}

fn workers_of(plan: GroupPlan, count: usize, body: fn(&Numbered, usize)) -> (Arc<Group>, Arc<Numbered>) {
    loom::stop_exploring();
    let group = Arc::new(Group::new(plan));
    let host = Arc::new(Numbered {
        ran: (0..count).map(|_| Guarded::new()).collect(),
        left: (0..count).map(|_| Guarded::new()).collect(),
        blocks: Blocks::new(count),
        body,
        group: OnceLock::from(group.clone()),
        begun: AtomicBool::new(false),
        beginning: Notify::new(),
        opened: AtomicBool::new(false),
        gate: Notify::new(),
        ended: AtomicUsize::new(0),
        end: Notify::new(),
        helper: OnceLock::new(),
    });
    group.start(&host).unwrap();
    // Until all sleep.
    (0..20).for_each(|_| loom::thread::yield_now());
    loom::explore();
    (group, host)
}

/// `push` is explored with two workers, then everything must have run once.
fn two_workers(shared: bool, count: usize, body: fn(&Numbered, usize), push: impl FnOnce(&Arc<Numbered>)) {
    run_all(workers(2, shared, count, body), push);
}

/// `push` is explored with these workers, then everything must have run once.
fn run_all((group, host): (Arc<Group>, Arc<Numbered>), push: impl FnOnce(&Arc<Numbered>)) {
    let count = host.ran.len();
    push(&host);
    while host.ended.load(Acquire) < count {
        host.end.wait();
    }
    loom::stop_exploring();
    group.stop();
    assert!(host.ran.iter().all(|value| value.get() == 1), "an operation was lost or ran twice");
}

#[test]
fn two_operations_run_on_two_workers() {
    explore("two workers of one queue", 1, 10000, || {
        two_workers(true, 2, |_, _| (), |host| (0..2).for_each(|number| host.submit(number, None)));
    });
    explore("two workers with inboxes", 1, 8000, || {
        two_workers(false, 2, |_, _| (), |host| (0..2).for_each(|number| host.submit(number, Some(number))));
    });
}

#[test]
fn what_lies_in_the_inbox_of_a_worker_that_runs_something_is_stolen() {
    explore("stealing from an inbox", 1, 10000, || {
        // The first ends only when the second has run; both are sent to the first worker.
        let body = |host: &Numbered, number| if number == 0 { host.pass() } else { host.open() };
        two_workers(false, 2, body, |host| (0..2).for_each(|number| host.submit(number, Some(0))));
    });
}

#[test]
fn what_a_worker_makes_ready_is_run_by_the_other() {
    explore("stealing what a worker has lent", 1, 8000, || {
        // The first makes the second and the third ready, in its own queue. The second ends only
        // when the third has run.
        let body = |host: &Numbered, number| match number {
            0 => (1..3).for_each(|number| host.submit(number, None)),
            1 => host.pass(),
            _ => host.open(),
        };
        two_workers(false, 3, body, |host| host.submit(0, Some(0)));
    });
}

#[test]
fn workers_that_all_sleep_are_woken() {
    explore("two workers asleep", 1, 1500, || {
        // One after the other, so that both may sleep in between.
        let body = |host: &Numbered, _| host.open();
        two_workers(false, 2, body, |host| {
            host.submit(0, Some(0));
            host.pass();
            host.submit(1, Some(0));
        });
    });
}

/// A helper's wait may be over before the helper has run what it has taken.
#[test]
fn what_a_helper_takes_and_does_not_run_goes_back() {
    explore("a helper that takes something in vain", 2, 50, || {
        run_all(workers(1, false, 1, |_, _| ()), |host| {
            host.submit(0, Some(0));
            host.group.get().expect("set").help(host, || false);
        });
    });
}

#[test]
fn what_comes_to_a_worker_that_runs_something_is_run_by_a_helper() {
    explore("a helper that looks, sleeps and is woken", 1, 5000, || {
        // The first, which ends only when the second has run, lets the second be pushed. The only
        // worker is then at the first.
        let body = |host: &Numbered, number| {
            if number == 0 {
                host.begun.store(true, Release);
                host.beginning.notify();
                host.pass();
            } else {
                host.open();
            }
        };
        let (group, host) = workers(1, false, 2, body);
        host.submit(0, Some(0));
        while !host.begun.load(Acquire) {
            host.beginning.wait();
        }
        let helper = host.clone();
        let helper = loom::thread::spawn(move || {
            let _ = helper.helper.set(thread::current());
            let group = helper.group.get().expect("set");
            group.serve(&helper, &mut || true, &mut || helper.ended.load(Acquire) == 2);
        });
        host.submit(1, Some(0));
        helper.join().unwrap();
        loom::stop_exploring();
        group.stop();
        assert!(host.ran.iter().all(|value| value.get() == 1), "an operation was lost or ran twice");
    });
}

/// Its wait is over from the fourth time on that it asks: that is when it has said that it sleeps.
/// Nobody unparks it: the thread that has ended the wait may have looked for sleepers just before.
#[test]
fn a_helper_whose_wait_is_over_does_not_sleep() {
    explore("a helper whose wait is over when it falls asleep", 1, 2, || {
        let (group, host) = workers(1, false, 0, |_, _| ());
        let mut asked = 0;
        group.serve(&host, &mut || true, &mut || {
            asked += 1;
            asked > 3
        });
        loom::stop_exploring();
        group.stop();
    });
}

/// The only worker sleeps. A thread logs something for it, and may find the helper looking, which
/// then runs that or passes the call on.
#[test]
fn what_a_helper_is_called_for_is_run_though_its_wait_is_over() {
    explore("a helper that is called and leaves", 2, 100, || {
        // The inbox of all has no owner, so a thread that pushes to it calls any thread that looks.
        let (group, host) = workers_with(false, 1, true, 1, |_, _| ());
        let helper = host.clone();
        let helper = spawn(move || {
            let mut asked = 0;
            helper.group.get().expect("set").serve(&helper, &mut || true, &mut || {
                asked += 1;
                asked > 2
            });
        });
        run_all((group, host), |host| {
            host.submit(0, None);
            helper.join().unwrap();
        });
    });
}

#[test]
fn what_a_worker_has_lent_is_as_it_was_for_a_pusher_that_nobody_wakes() {
    explore("a pusher that takes what a worker has lent", 1, 50, || {
        // The first makes the others ready. The second ends only when the third has run, which is
        // lent by then.
        let body = |host: &Numbered, number| match number {
            0 => (1..3).for_each(|number| host.submit(number, None)),
            1 => host.pass(),
            _ => host.open(),
        };
        let (group, host) = workers(1, false, 3, body);
        // SAFETY: not submitted yet.
        unsafe { (*host.blocks.pointer(2)).flags = FLAG_SHORT };
        // Asks, so that the worker lends what it has.
        group.catch_up(&host);
        host.submit(0, Some(0));
        while !group.catch_up(&host) {
            loom::thread::yield_now();
        }
        while host.ended.load(Acquire) < 3 {
            host.end.wait();
        }
        loom::stop_exploring();
        group.stop();
        assert!(host.ran.iter().all(|value| value.get() == 1), "an operation was lost or ran twice");
    });
}

#[test]
fn a_pusher_that_catches_up_runs_what_is_lent_and_puts_back_what_is_not_short() {
    // The first makes the others ready, in its worker's queue; the last but one, which is in the
    // middle of what is lent, is not short.
    let catch_up = |others: usize| {
        let body = |host: &Numbered, number| {
            if number == 0 {
                (1..host.ran.len()).for_each(|number| host.submit(number, None));
            }
        };
        let (group, host) = workers(1, false, others + 1, body);
        for number in (1..others + 1).filter(|number| *number + 1 != others) {
            // SAFETY: not submitted yet.
            unsafe { (*host.blocks.pointer(number)).flags = FLAG_SHORT };
        }
        // Asks, so that the worker lends what it has.
        group.catch_up(&host);
        host.submit(0, Some(0));
        group.catch_up(&host);
        group.catch_up(&host);
        while host.ended.load(Acquire) < others + 1 {
            host.end.wait();
        }
        loom::stop_exploring();
        group.stop();
        assert!(host.ran.iter().all(|value| value.get() == 1), "an operation was lost or ran twice");
    };
    explore("a pusher that catches up", 1, 2000, move || catch_up(3));
}

#[test]
fn nobody_sleeps_beside_a_log_with_something_in_it() {
    explore("a log beside a worker that falls asleep", 2, 100, || {
        let workers = workers_with(true, 1, false, 2, |_, _| ());
        run_all(workers, |host| {
            let journal = host.add_journal();
            (0..2).for_each(|number| host.log(journal, number, 0));
        });
    });
}

#[test]
fn a_worker_that_gets_up_by_itself_misses_nothing() {
    explore("a log beside a worker that gets up by itself", 1, 100, || {
        let idle = IdlePolicy::SpinThenPark;
        let workers = workers_of(GroupPlan { logged: true, idle, spin_for: Duration::MAX, ..plan() }, 2, |_, _| ());
        run_all(workers, |host| {
            let journal = host.add_journal();
            (0..2).for_each(|number| host.log(journal, number, 0));
        });
    });
}

#[test]
fn two_pushers_wake_a_worker_that_sleeps() {
    explore("two pushers, each with a journal of its own", 1, 2000, || {
        let (group, host) = workers_with(true, 1, false, 2, |_, _| ());
        let theirs = host.clone();
        let other = spawn(move || theirs.log(theirs.add_journal(), 1, 0));
        run_all((group, host), |host| {
            host.log(host.add_journal(), 0, 0);
            other.join().unwrap();
        });
    });
}

#[test]
fn journals_that_two_pushers_add_at_once_are_both_found() {
    explore("two journals added at once", 2, 5, || {
        let journals = Arc::new(Journals::new(1));
        let theirs = journals.clone();
        let other = spawn(move || _ = theirs.add());
        journals.add();
        other.join().unwrap();
        assert_eq!(journals.iter().count(), 2, "a journal is lost");
    });
}

#[test]
fn nobody_sleeps_beside_a_row_with_something_in_it() {
    explore("the older of two journals beside a worker that falls asleep", 2, 100, || {
        run_all(workers_with(true, 1, false, 2, |_, _| ()), |host| {
            let [older, newer] = [host.add_journal(), host.add_journal()];
            host.log(newer, 0, 0);
            host.log(older, 1, 0);
        });
    });
    explore("a journal that is added while a worker falls asleep", 2, 100, || {
        run_all(workers_with(true, 1, false, 2, |_, _| ()), |host| {
            (0..2).for_each(|number| host.log(host.add_journal(), number, 0));
        });
    });
}

#[test]
fn a_thief_finds_what_any_pusher_has_logged() {
    explore("taking from the older of two journals", 1, 100, || {
        // The first, which ends only when the second has run, lets the second be logged. The only
        // worker is then at the first.
        let body = |host: &Numbered, number| {
            if number == 0 {
                host.begun.store(true, Release);
                host.beginning.notify();
                host.pass();
            } else {
                host.open();
            }
        };
        run_all(workers_with(true, 1, false, 2, body), |host| {
            let [older, newer] = [host.add_journal(), host.add_journal()];
            host.log(newer, 0, 0);
            while !host.begun.load(Acquire) {
                host.beginning.wait();
            }
            host.log(older, 1, 0);
            let helper = host.group.get().expect("set");
            assert!(helper.help(host, || true), "an operation is lost to who would take it");
        });
    });
}

#[test]
fn a_pusher_that_has_logged_much_does_not_hold_up_another() {
    explore("a journal with much in it beside one with little", 1, 50, || {
        // The first ends when all have been logged. The fifth is the last of the full journal, the
        // last is that of the other pusher, whose journal is older: a worker begins with the
        // newest.
        let body = |host: &Numbered, number| match number {
            0 => host.pass(),
            4 => assert_eq!(host.ran[5].get(), 1, "the pusher of one operation is held up"),
            _ => {}
        };
        run_all(workers_with(true, 1, false, 6, body), |host| {
            let [other, full] = [host.add_journal(), host.add_journal()];
            (0..5).for_each(|number| host.log(full, number, 0));
            host.log(other, 5, 0);
            host.open();
        });
    });
}
