//! A thread that loses its core in the middle of a push holds up no memory: what other threads push
//! meanwhile is run, and its blocks are used again, however long the thread stays away.
//!
//! The thread stays at an instruction of its choice, by the traps of `stepped.rs`. The variables
//! are common, so that every push goes the long way, under a pin.

use crate::common::*;
use crate::freezer::{ask, frozen, is_one_frozen, this_thread};
use crate::stepped::{instructions, stay_at, take_traps};
use seriatim::{Engine, Kind, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

/// The most that the memory of the process grows while a thread stays away. Without a bound it
/// would grow by 128 bytes or more with each operation.
const MOST: usize = 32 << 20;
/// The instructions of a push at which the thread stays, spread over all of them.
const PLACES: usize = 8;
/// How often these are counted first.
const COUNTED: usize = 8;
/// Operations that others push meanwhile, at each place and once.
const OPERATIONS: usize = if cfg!(debug_assertions) { 250_000 } else { 500_000 };
const ALL: usize = 10_000_000;
/// Operations in flight at which the others wait.
const BACKLOG: usize = 1000;

#[test]
fn what_others_push_beside_a_thread_that_stays_away_takes_no_more_memory() {
    println!("{}", run_child_well(&mut child("growth beside a frozen thread")));
}

/// Two threads push so many operations to a common variable. They wait for what is in flight, but
/// not for long: on the naive engine a thread that pushes may have to look for operations that were
/// left to one that stays away.
fn push_many(engine: &Engine, variable: Variable, operations: usize) {
    let (pushed, ran) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let push_and_wait = |most: usize| {
        pushed.fetch_add(1, SeqCst);
        engine.op("step").writes([variable]).push(counting(&ran)).unwrap();
        let since = Instant::now();
        while pushed.load(SeqCst) > ran.load(SeqCst) + most && since.elapsed() < Duration::from_millis(1) {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|_| _ = scope.spawn(|| (0..operations / 2).for_each(|_| push_and_wait(BACKLOG))));
    });
    while ran.load(SeqCst) < pushed.load(SeqCst) {
        push_and_wait(0);
    }
}

/// Has a thread stay at each of so many instructions of a push, while others push. `apart`: they
/// push to another variable. Otherwise they come behind it.
fn stay_away(kind: Kind, apart: bool) {
    let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
    let (theirs, own) = (engine.new_variable(), engine.new_variable());
    let own = if apart { own } else { theirs };
    let ran = Arc::new(AtomicUsize::new(0));
    let ((go, goes), (say, said)) = (mpsc::channel::<usize>(), mpsc::channel());
    let stepper = std::thread::spawn({
        let (engine, ran) = (engine.clone(), Arc::clone(&ran));
        move || {
            this_thread(false);
            let push = || engine.op("stays").writes([own]).push(counting(&ran)).unwrap();
            for place in goes {
                match place {
                    0 => push(),
                    1 => say.send(instructions(push)).unwrap(),
                    place => _ = stay_at(place, push),
                }
            }
        }
    });
    // Both change hands until they are common.
    for pushed in 1..20 {
        go.send(0).unwrap();
        eventually("it is pushed", || ran.load(SeqCst) == pushed);
        engine.op("step").writes([own]).push(nothing).unwrap();
        engine.wait_for_all().unwrap();
    }
    push_many(&engine, theirs, 100_000);
    // How many there are depends on what the thread meets: at least so many.
    let counts = (0..COUNTED).map(|_| {
        go.send(1).unwrap();
        said.recv().unwrap()
    });
    let all = counts.min().unwrap_or(0);
    let mut grown = Vec::new();
    for number in 0..PLACES {
        let place = 2 + number * all / PLACES;
        ask();
        go.send(place).unwrap();
        eventually("it stays there", is_one_frozen);
        let frozen = frozen().expect("seen just now");
        let is_long = apart && number == PLACES / 2 && !cfg!(debug_assertions);
        let operations = if is_long { ALL } else { OPERATIONS };
        let (before, since) = (resident_memory(), Instant::now());
        push_many(&engine, theirs, operations);
        let more = resident_memory().saturating_sub(before);
        println!(
            "{kind}, apart {apart}: {operations} operations beside a thread at instruction {place} of {all}: {} KiB more, {:.1?}",
            more >> 10,
            since.elapsed()
        );
        grown.push(more);
        drop(frozen);
        eventually("it is back", || ran.load(SeqCst) == 19 + COUNTED + number + 1);
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(go);
    stepper.join().unwrap();
    engine.wait_for_all().unwrap();
    let most = grown.into_iter().max().unwrap_or(0);
    assert!(most <= MOST, "on the {kind} engine the memory grows by {most} bytes while a thread stays away");
}

pub fn beside_a_frozen_thread() {
    let _watchdog = Watchdog::new(300, "growth beside a frozen thread");
    take_traps();
    // The naive engine has no workers: what is behind a thread may be in its hands.
    stay_away(Kind::Naive, true);
    stay_away(Kind::PerDevice, true);
    stay_away(Kind::PerDevice, false);
}
