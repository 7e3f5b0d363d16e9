//! The whole engine with 8 to 16 threads, under random schedules.
//!
//! Shuttle knows sequential consistency only: what weaker orders allow is for loom, with fewer
//! threads.

#![cfg(shuttle)]

use loom_tests::{schedules, Guarded};
use seriatim::{Completion, Context, Engine, ErrorKind, Kind, Property, RunContext, Variable, WhenFull};
use shuttle::thread;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const KINDS: [Kind; 3] = [Kind::Naive, Kind::Pooled, Kind::PerDevice];

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }
}

/// A variable, its value, and the operations that changed it, in their order.
#[derive(Clone)]
struct Cell {
    variable: Variable,
    value: Guarded,
    writers: Arc<Mutex<Vec<usize>>>,
}

impl Cell {
    fn new(engine: &Engine) -> Cell {
        Cell { variable: engine.new_variable(), value: Guarded::new(), writers: Arc::default() }
    }

    fn write(&self, operation: usize) {
        self.value.step();
        self.writers.lock().unwrap().push(operation);
    }
}

fn cells(engine: &Engine, count: usize) -> Vec<Cell> {
    (0..count).map(|_| Cell::new(engine)).collect()
}

/// Spawns `count` threads and waits for them.
fn threads(count: usize, body: impl Fn(usize) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let body = Arc::clone(&body);
            thread::spawn(move || body(number))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Any two operations that changed two common variables changed them in the same order; each
/// pusher's writes come in its order.
fn check_orders(cells: &[Cell]) -> Vec<usize> {
    let orders: Vec<Vec<usize>> = cells.iter().map(|cell| cell.writers.lock().unwrap().clone()).collect();
    for (index, one) in orders.iter().enumerate() {
        for other in &orders[..index] {
            let common: Vec<usize> = one.iter().copied().filter(|writer| other.contains(writer)).collect();
            let again: Vec<usize> = other.iter().copied().filter(|writer| one.contains(writer)).collect();
            assert_eq!(common, again, "two variables were changed in different orders");
        }
        for pusher in 0..16 {
            let own: Vec<usize> = one.iter().copied().filter(|writer| writer / 1000 == pusher).collect();
            assert!(own.is_sorted(), "a pusher's operations ran out of order: {own:?}");
        }
    }
    orders.concat()
}

/// Pushes one operation over up to three of the variables; returns how many it changes.
fn push_some(engine: &Engine, cells: &[Cell], random: &mut Random, operation: usize, ran: &Arc<AtomicUsize>) -> usize {
    let mut uses: Vec<(usize, bool)> = Vec::new();
    for _ in 0..1 + random.below(3) {
        let cell = random.below(cells.len());
        if uses.iter().all(|(known, _)| *known != cell) {
            uses.push((cell, random.below(2) == 0));
        }
    }
    let list = |writes: bool| {
        uses.iter()
            .filter(move |(_, write)| *write == writes)
            .map(|(cell, _)| cells[*cell].variable)
            .collect::<Vec<_>>()
    };
    let property = [Property::Normal, Property::CpuPrioritized, Property::CopyToGpu][random.below(3)];
    let builder =
        engine.op("").reads(list(false)).writes(list(true)).property(property).priority(random.below(3) as i32);
    let changed = list(true).len();
    let (mine, ran, used) = (cells.to_vec(), Arc::clone(ran), uses.clone());
    let body = move || {
        for (cell, write) in &used {
            match write {
                true => mine[*cell].write(operation),
                false => drop(mine[*cell].value.get()),
            }
        }
        ran.fetch_add(1, SeqCst);
    };
    match random.below(4) {
        0 => builder.push_async(move |_, completion| {
            thread::spawn(move || {
                body();
                completion.complete();
            });
        }),
        1 => builder.push_async(move |_, completion: Completion| {
            body();
            completion.complete();
        }),
        _ => builder.push(move |_| body()),
    }
    .expect("the engine runs and the variables are alive");
    changed
}

#[test]
fn many_pushers_of_random_operations_on_every_engine() {
    for kind in KINDS {
        let workers = if kind == Kind::Naive { 1 } else { 4 };
        schedules(&format!("eight pushers, {kind}"), 8 + workers, 4000, move || {
            let engine = Engine::builder().kind(kind).cpu_workers(workers).priority_workers(1).build().unwrap();
            let cells = cells(&engine, 4);
            let (ran, changed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (pushed, mine) = ((engine.clone(), ran.clone(), changed.clone()), cells.clone());
            threads(8, move |pusher| {
                let (engine, ran, changed) = &pushed;
                let mut random = Random(pusher as u64);
                for number in 0..4 {
                    let operation = 1000 * pusher + number;
                    changed.fetch_add(push_some(engine, &mine, &mut random, operation, ran), SeqCst);
                    if number == 2 {
                        engine.wait_for_var(mine[pusher % 4].variable).unwrap();
                    }
                }
            });
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 8 * 4, "an operation was lost or ran twice");
            let versions: u64 = cells.iter().map(|cell| engine.version(cell.variable).unwrap()).sum();
            assert_eq!(versions as usize, changed.load(SeqCst), "a version is wrong");
            check_orders(&cells)
        });
    }
}

#[test]
fn variables_come_and_go_under_their_users() {
    for kind in [Kind::Naive, Kind::PerDevice] {
        schedules(&format!("deletions among twelve threads, {kind}"), 14, 4000, move || {
            let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
            let cells = cells(&engine, 3);
            let counts: Arc<[AtomicUsize; 2]> = Arc::default();
            let (theirs, mine, tally) = (engine.clone(), cells.clone(), counts.clone());
            threads(12, move |pusher| {
                let cell = &mine[pusher % 3];
                let (tally, value) = (tally.clone(), cell.value.clone());
                // One of four deletes; the others write, before it or not at all.
                if pusher / 3 == 1 {
                    let delete = move |_: &RunContext<'_>| value.set(100 + value.get());
                    theirs.delete_variable(delete, Context::cpu(0), cell.variable).unwrap();
                    let again = theirs.new_variable();
                    theirs.op("").writes([again]).push(|_| ()).unwrap();
                    theirs.wait_for_var(again).unwrap();
                    assert_eq!(theirs.version(again).unwrap(), 1);
                    return;
                }
                let write = move |_: &RunContext<'_>| {
                    assert!(value.get() < 100, "used after its deletion");
                    value.step();
                    tally[0].fetch_add(1, SeqCst);
                };
                match theirs.op("").writes([cell.variable]).push(write) {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::VariableDeleted),
                }
            });
            engine.wait_for_all().unwrap();
            let left: Vec<usize> = cells.iter().map(|cell| cell.value.get()).collect();
            assert!(left.iter().all(|value| *value >= 100), "a deletion did not run");
            assert_eq!(left.iter().sum::<usize>() - 300, counts[0].load(SeqCst));
            left
        });
    }
}

#[test]
fn no_more_than_the_bound_is_in_flight() {
    for when_full in [WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock] {
        schedules(&format!("a bound of three and ten pushers, {when_full}"), 12, 4000, move || {
            let engine =
                Engine::builder().kind(Kind::Pooled).cpu_workers(2).bound(3).when_full(when_full).build().unwrap();
            // Running, the most that ever were, ran, refused.
            let counts: Arc<[AtomicUsize; 4]> = Arc::default();
            let (theirs, tally) = (engine.clone(), counts.clone());
            threads(10, move |_| {
                for _ in 0..2 {
                    let tally = tally.clone();
                    let count = tally.clone();
                    let body = move |_: &RunContext<'_>| {
                        tally[1].fetch_max(tally[0].fetch_add(1, SeqCst) + 1, SeqCst);
                        thread::yield_now();
                        tally[0].fetch_sub(1, SeqCst);
                        tally[2].fetch_add(1, SeqCst);
                    };
                    if let Err(error) = theirs.op("").push(body) {
                        assert_eq!(error.kind(), ErrorKind::EngineFull);
                        count[3].fetch_add(1, SeqCst);
                    }
                }
            });
            engine.wait_for_all().unwrap();
            let count = |index: usize| counts[index].load(SeqCst);
            assert_eq!(count(2) + count(3), 20);
            assert!(count(1) <= 3 && (count(3) == 0 || when_full == WhenFull::WouldBlock));
            vec![count(1), count(3)]
        });
    }
}

#[test]
fn stops_and_starts_lose_nothing_of_what_was_accepted() {
    for kind in KINDS {
        schedules(&format!("stop and start against nine pushers, {kind}"), 12, 4000, move || {
            let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
            let cell = Cell::new(&engine);
            let accepted = Arc::new(AtomicUsize::new(0));
            let (theirs, mine, count) = (engine.clone(), cell.clone(), accepted.clone());
            threads(10, move |number| {
                if number == 0 {
                    theirs.stop().unwrap();
                    let before = mine.value.get();
                    thread::yield_now();
                    assert_eq!(mine.value.get(), before, "an operation ran on a stopped engine");
                    theirs.start().unwrap();
                    return;
                }
                let writer = mine.clone();
                match theirs.op("").writes([mine.variable]).push(move |_| writer.write(1000 * number)) {
                    Ok(()) => drop(count.fetch_add(1, SeqCst)),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Stopped),
                }
            });
            engine.wait_for_all().unwrap();
            assert_eq!(cell.value.get(), accepted.load(SeqCst));
            check_orders(&[cell])
        });
    }
}

#[test]
fn every_failure_reaches_one_wait() {
    for kind in KINDS {
        schedules(&format!("failures among ten threads, {kind}"), 12, 4000, move || {
            let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
            let cells = cells(&engine, 2);
            // Failed, errors that waits returned, ran well.
            let counts: Arc<[AtomicUsize; 3]> = Arc::default();
            let (theirs, mine, tally) = (engine.clone(), cells.clone(), counts.clone());
            threads(10, move |number| {
                let cell = &mine[number % 2];
                let (count, value) = (tally.clone(), cell.value.clone());
                let builder = theirs.op("").writes([cell.variable]);
                match number % 5 {
                    0 => builder.push_async(move |_, completion| {
                        count[0].fetch_add(1, SeqCst);
                        thread::spawn(move || drop(completion));
                    }),
                    1 => builder.push(move |_| {
                        count[0].fetch_add(1, SeqCst);
                        Err("on purpose")
                    }),
                    2 => {
                        let outcome = theirs.wait_for_var(cell.variable);
                        tally[1].fetch_add(usize::from(outcome.is_err()), SeqCst);
                        return;
                    }
                    _ => builder.push(move |_| {
                        value.step();
                        count[2].fetch_add(1, SeqCst);
                    }),
                }
                .unwrap();
            });
            let last = engine.wait_for_all().is_err();
            engine.wait_for_all().unwrap();
            let count = |index: usize| counts[index].load(SeqCst);
            let taken = count(1) + usize::from(last);
            assert!(count(0) >= 1 && taken >= 1 && taken <= count(0), "{} failed, {taken} taken", count(0));
            assert_eq!(cells.iter().map(|cell| cell.value.get()).sum::<usize>(), count(2), "a skipped one ran");
            vec![count(0), count(1), count(2)]
        });
    }
}

#[test]
fn the_last_of_many_handles_ends_the_engine() {
    for kind in KINDS {
        schedules(&format!("ten threads drop their handles, {kind}"), 14, 4000, move || {
            let engine = Engine::builder().kind(kind).cpu_workers(3).build().unwrap();
            let cell = Cell::new(&engine);
            let handles = Mutex::new((0..10).map(|_| engine.clone()).collect::<Vec<_>>());
            drop(engine);
            let mine = cell.clone();
            threads(10, move |number| {
                let engine = handles.lock().unwrap().pop().unwrap();
                let (inner, writer, again) = (engine.clone(), mine.clone(), mine.clone());
                let variable = mine.variable;
                engine
                    .op("")
                    .writes([variable])
                    .push(move |_| {
                        writer.write(1000 * number);
                        inner.op("").writes([variable]).push(move |_| again.write(1000 * number + 1)).unwrap();
                    })
                    .unwrap();
            });
            // A handle that went inside an operation ends the engine on a thread of its own.
            while cell.writers.lock().unwrap().len() < 20 {
                thread::yield_now();
            }
            check_orders(&[cell])
        });
    }
}

/// No wait at the end: a pusher that has run its share leaves the rest only to a thread that will
/// run it.
#[test]
fn what_pushers_hand_over_to_each_other_has_run_when_the_last_of_them_returns() {
    schedules("pushers that take over from each other", 6, 2000, || {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let cells = Arc::new(cells(&engine, 2));
        let (own, written) = (engine.clone(), Arc::clone(&cells));
        threads(6, move |pusher| {
            for step in 0..5 {
                let cell = written[(pusher + step) % 2].clone();
                let body = move |_: &RunContext<'_>| cell.write(1000 * pusher + step);
                own.op("").writes([written[(pusher + step) % 2].variable]).push(body).unwrap();
            }
        });
        let order = check_orders(&cells);
        assert_eq!(order.len(), 30, "operations were lost");
        order
    });
}
