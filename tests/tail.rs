//! What one call takes at worst, in steps and not in time: however much is left over from what was
//! in flight, no call handles more than a slice of it. `src/engine/README.md` has the table that
//! these bounds are from.

mod common;

use common::{eventually, hold, nothing, Watchdog};
use seriatim::testing::steps_taken;
use seriatim::{Completion, Context, Engine, Kind, Variable};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{mpsc, Arc};

/// Operations that are in flight at once.
const BACKLOG: usize = 300_000;

/// What a slice of sorting takes: 16 magazines from others, 16 from the reclaimer and 16 that stay
/// when the rest goes to the depot; two magazines of fewer than 96 blocks that go to the reclaimer
/// one by one; and then 16 from the depot, or a slab of 64.
const SLICE: u64 = 3 * 16 + 2 * 95 + 64;

/// A push sorts a slice if it finds no block, and two calls of it may have ended operations: its
/// own, and those that these made ready.
const PUSH: u64 = 3 * SLICE;
const COMPLETION: u64 = 2 * SLICE;

/// What it takes to show that something was counted.
const SOMETHING: u64 = 16;

/// The most steps that one of so many calls takes.
fn most(calls: usize, mut call: impl FnMut()) -> u64 {
    let steps = (0..calls).map(|_| {
        let before = steps_taken();
        call();
        steps_taken() - before
    });
    steps.max().unwrap_or(0)
}

fn write(engine: &Engine, variable: Variable) {
    engine.op("write").writes([variable]).push(nothing).unwrap();
}

/// A backlog of writes behind one that is held, which ends; and what the calls take that come
/// meanwhile and after it, those of the thread that has pushed it all.
fn a_backlog_comes_and_goes(engine: &Engine) {
    let x = engine.new_variable();
    let first = hold(engine, &[], &[x]);
    let pushing = most(BACKLOG, || write(engine, x));
    let mut first = Some(first);
    let completing = most(1, || first.take().into_iter().for_each(Completion::complete));
    eventually("everything is written", || engine.version(x).unwrap() == BACKLOG as u64 + 1);
    // What was sent home comes to rest.
    engine.wait_for_all().unwrap();
    let after = most(BACKLOG, || write(engine, x));
    let waiting = most(1, || engine.wait_for_all().unwrap());
    let making = most(100, || assert!(engine.version(engine.new_variable()).is_ok()));
    println!(
        "{}: pushing {pushing}, completing {completing}, pushing after it {after}, waiting {waiting}, making {making}",
        engine.kind()
    );
    assert!(pushing >= SOMETHING, "nothing was counted");
    for (what, steps, limit) in
        [("push", pushing.max(after), PUSH), ("completion", completing, COMPLETION), ("birth", making, 1)]
    {
        assert!(steps <= limit, "{}: a {what} takes {steps} steps", engine.kind());
    }
}

#[test]
fn a_call_sorts_a_slice_of_what_a_backlog_leaves() {
    let _watchdog = Watchdog::new(120, "backlogs");
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
        a_backlog_comes_and_goes(&engine);
        beside_another_reader(&engine, || a_backlog_comes_and_goes(&engine));
    }
}

/// Does something while another thread looks at tails as well, so that blocks go by way of the
/// reclaimer.
fn beside_another_reader(engine: &Engine, work: impl FnOnce()) {
    let (up, is_up) = mpsc::channel::<()>();
    let (down, is_down) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let pushes = move || {
            write(engine, engine.new_variable());
            drop(up);
            let _ = is_down.recv();
        };
        scope.spawn(pushes);
        let _ = is_up.recv();
        // Also when a check fails.
        let _down = down;
        work();
    });
}

/// A thread that ends what it has pushed, and then pushes no more.
#[test]
fn what_a_thread_frees_itself_is_sorted_a_slice_at_a_time() {
    let _watchdog = Watchdog::new(120, "what a thread frees itself");
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let x = engine.new_variable();
    beside_another_reader(&engine, || {
        let mut held: Vec<Completion> = (0..1000).map(|_| hold(&engine, &[], &[engine.new_variable()])).collect();
        held.push(hold(&engine, &[], &[x]));
        (0..BACKLOG).for_each(|_| write(&engine, x));
        let completing = most(held.len(), || held.pop().into_iter().for_each(Completion::complete));
        println!("completing {completing}");
        assert!((SOMETHING..=COMPLETION).contains(&completing), "a completion takes {completing} steps");
    });
}

/// Replays of one graph, each of which waits for the one before it.
#[test]
fn replays_that_wait_are_sorted_a_slice_at_a_time() {
    const REPLAYS: usize = 10_000;
    let _watchdog = Watchdog::new(120, "replays that wait");
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
        let x = engine.new_variable();
        let (graph, ()) = engine.capture(|c| c.op("write").writes([x]).push(nothing)).unwrap();
        let mut first = Some(hold(&engine, &[], &[x]));
        let pushing = most(REPLAYS, || graph.replay().unwrap());
        let completing = most(1, || first.take().into_iter().for_each(Completion::complete));
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), REPLAYS as u64 + 1);
        let after = most(REPLAYS, || graph.replay().unwrap());
        println!("{kind}: pushing {pushing}, completing {completing}, pushing after it {after}");
        assert!(pushing >= SOMETHING, "nothing was counted");
        assert!(pushing.max(after) <= PUSH, "{kind}: a replay takes {} steps", pushing.max(after));
        assert!(completing <= COMPLETION, "{kind}: a completion takes {completing} steps");
        engine.wait_for_all().unwrap();
    }
}

/// The slots of any number of deleted variables become free in one step, and a table of any size
/// grows in one.
#[test]
fn a_birth_does_not_pay_for_all_deletions() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    for _ in 0..2 {
        let mut variables = Vec::with_capacity(BACKLOG);
        let making = most(BACKLOG, || variables.push(engine.new_variable()));
        let mut left = variables.into_iter();
        let deleting = most(BACKLOG, || {
            let variable = left.next().unwrap();
            engine.delete_variable(|_| (), Context::cpu(0), variable).unwrap();
        });
        println!("making {making}, deleting {deleting}");
        // A step for the slots, if there are any; none for the table.
        assert!(making <= 1 && deleting <= PUSH, "{making} steps to make a variable, {deleting} to delete one");
    }
}

/// Failures that nobody takes, or that are taken through their variables: the next one does not pay
/// for all of them.
#[test]
fn a_failure_does_not_pay_for_all_failures() {
    const FAILURES: usize = 50_000;
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let x = engine.new_variable();
    let fail = || engine.op("fail").writes([x]).property(seriatim::Property::NoSkip).push(|_| Err("no")).unwrap();
    let steps = most(FAILURES, fail);
    println!("failing {steps}");
    assert!((1..=8 + PUSH).contains(&steps), "a failure takes {steps} steps");
    assert!(engine.wait_for_all().is_err());
    assert!(engine.wait_for_all().is_ok());
}

/// What a worker does between two operations besides taking what has come: others may take all that
/// it has, and that costs it nothing.
#[test]
fn a_worker_lends_all_that_it_has_in_a_few_steps() {
    a_worker_takes_few_steps(|_| 0);
}

/// Also if what it has is in no order: it does not sort all of it.
#[test]
fn a_worker_lends_any_mixture_in_a_few_steps() {
    a_worker_takes_few_steps(|number| number as i32 % 5 - 2);
}

fn a_worker_takes_few_steps(priority: impl Fn(usize) -> i32) {
    let _watchdog = Watchdog::new(120, "what a worker lends");
    /// What a thief takes at most.
    const STOLEN: u64 = 32;
    // It may steal, lose that to other thieves, and steal again, and sort in between.
    const MOST: u64 = 4 * STOLEN + SLICE;
    // A thief that loses its core with a row in its hands puts it back beside a new one, and the
    // worker adds the shorter of the two to the longer: so another try may be needed.
    let worst: Vec<u64> = (0..5).map(|_| worst_of_a_worker(&priority)).take_while(|steps| *steps > MOST).collect();
    assert!(worst.len() < 5, "{worst:?} steps between two operations");
}

/// The most steps that a worker takes between two operations.
fn worst_of_a_worker(priority: &impl Fn(usize) -> i32) -> u64 {
    let engine = Engine::builder().kind(Kind::Pooled).cpu_workers(3).waiters_help(false).build().unwrap();
    let x = engine.new_variable();
    let (worst, counted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let first = hold(&engine, &[], &[x]);
    thread_local!(static BEFORE: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) });
    for number in 0..BACKLOG {
        let (worst, counted) = (Arc::clone(&worst), Arc::clone(&counted));
        let look = move |_: &seriatim::RunContext<'_>| {
            let now = steps_taken();
            if let Some(before) = BEFORE.replace(Some(now)) {
                worst.fetch_max(now - before, Relaxed);
                counted.fetch_or(now > before, Relaxed);
            }
        };
        engine.op("look").reads([x]).priority(priority(number)).push(look).unwrap();
    }
    first.complete();
    engine.wait_for_all().unwrap();
    let worst = worst.load(Relaxed);
    println!("between two operations {worst}");
    assert!(counted.load(Relaxed), "nothing was counted");
    worst
}
