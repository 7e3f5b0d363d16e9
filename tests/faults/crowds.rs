//! Many engines at once, and many threads that use what is not theirs.

use crate::common::*;
use seriatim::{Context, Engine, ErrorKind, Kind, Operator, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Barrier, Mutex, RwLock};

const ENGINES: usize = 64;
const THREADS: usize = 4;

#[test]
fn engines_come_and_go_at_once_while_each_ends_operations_of_another() {
    println!("{}", run_child_well(&mut child("crowd of engines")));
}

/// In a process of its own, to count threads and memory.
pub fn crowd_of_engines() {
    let _watchdog = Watchdog::new(100, "a crowd of engines");
    let others = thread_count();
    let mut settled = 0;
    for round in 0..8 {
        crowd(round);
        eventually("all took their threads along", || thread_count() == others);
        if round == 3 {
            settled = resident_memory();
        }
    }
    let grown = resident_memory().saturating_sub(settled);
    println!("{grown} bytes more after four more rounds");
    assert!(grown < 16 << 20, "{ENGINES} engines a round, four rounds, left {grown} bytes behind");
}

/// Several threads make, use and drop all engines at once. Engine `n` has an operation that an
/// operation of another engine ends.
fn crowd(round: u64) {
    let slots: Arc<Vec<Mutex<Option<Engine>>>> = Arc::new((0..ENGINES).map(|_| Mutex::new(None)).collect());
    let (ran, pushed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let barrier = Arc::new(Barrier::new(THREADS));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (slots, barrier) = (Arc::clone(&slots), Arc::clone(&barrier));
            let (ran, pushed) = (Arc::clone(&ran), Arc::clone(&pushed));
            std::thread::spawn(move || {
                let mut random = Random(round * 100 + thread as u64);
                let own = || (thread..ENGINES).step_by(THREADS);
                for number in own() {
                    let kind = random.pick(&[Kind::Naive, Kind::Pooled, Kind::PerDevice]);
                    let engine = Engine::builder().kind(kind).cpu_workers(random.between(1, 2)).pin(false).build();
                    *slots[number].lock().unwrap() = Some(engine.unwrap());
                }
                barrier.wait();
                for number in own() {
                    let engine = slots[number].lock().unwrap().clone().unwrap();
                    let x = engine.new_variable();
                    let held = hold(&engine, &[], &[x]);
                    for _ in 0..20 {
                        engine.op("behind").writes([x]).push(counting(&ran)).unwrap();
                    }
                    let other = slots[random.below(ENGINES)].lock().unwrap().clone().unwrap();
                    let fails = random.chance(20);
                    let count = counting(&ran);
                    let end = move |run: &seriatim::RunContext<'_>| {
                        count(run);
                        match fails {
                            true => held.fail("as it was meant to"),
                            false => held.complete(),
                        }
                    };
                    other.op("ends it").push(end).unwrap();
                    pushed.fetch_add(if fails { 1 } else { 21 }, SeqCst);
                }
                barrier.wait();
                // Not one's own: the thread that made an engine has state of its own for it that
                // outlives it a little.
                for number in (0..ENGINES).filter(|number| number % THREADS == (thread + 1) % THREADS) {
                    drop(slots[number].lock().unwrap().take());
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // Every engine was drained before its last handle was gone.
    assert_eq!(ran.load(SeqCst), pushed.load(SeqCst));
    assert_eq!(Arc::strong_count(&ran), 1);
}

#[test]
fn deleted_and_foreign_handles_are_typed_errors_from_any_number_of_threads() {
    let _watchdog = Watchdog::new(100, "wrong handles from several threads");
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engines: [Engine; 2] =
            std::array::from_fn(|_| Engine::builder().kind(kind).cpu_workers(2).build().unwrap());
        let variables: Arc<RwLock<Vec<(usize, Variable)>>> =
            Arc::new(RwLock::new((0..16).map(|number| (number % 2, engines[number % 2].new_variable())).collect()));
        let (ran, accepted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let operators: Vec<Operator> = engines
            .iter()
            .map(|engine| engine.op("step").writes([engine.new_variable()]).operator(counting(&ran)).unwrap())
            .collect();
        let kinds: Arc<[AtomicUsize; 4]> = Arc::default();
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (engines, operators) = (engines.clone(), operators.clone());
                let (variables, kinds) = (Arc::clone(&variables), Arc::clone(&kinds));
                let (ran, accepted) = (Arc::clone(&ran), Arc::clone(&accepted));
                std::thread::spawn(move || {
                    let mut random = Random(thread);
                    for _ in 0..20_000 {
                        let engine = random.below(2);
                        // Of either engine, alive or dead.
                        let (place, [(owner, x), (_, y)]) = {
                            let variables = variables.read().unwrap();
                            let place = random.below(variables.len());
                            (place, [variables[place], random.pick(&variables)])
                        };
                        let this = &engines[engine];
                        let (outcome, runs) = match random.below(100) {
                            0..=49 => (this.op("use").reads([x]).writes([y]).push(counting(&ran)), 1),
                            50..=59 => {
                                let count = counting(&ran);
                                let body = move |run: &seriatim::RunContext<'_>, completion: seriatim::Completion| {
                                    count(run);
                                    completion.complete();
                                };
                                (this.op("use").writes([x, y]).push_async(body), 1)
                            }
                            60..=69 => (this.push(&operators[random.below(2)], Context::cpu(0), 0), 1),
                            70..=79 => (this.wait_for_var(x), 0),
                            80..=89 => (this.version(x).map(|_| ()), 0),
                            _ => (this.delete_variable(counting(&ran), Context::cpu(0), x), 1),
                        };
                        let said = match outcome.map_err(|error| error.kind()) {
                            Ok(()) => {
                                accepted.fetch_add(runs, SeqCst);
                                0
                            }
                            Err(ErrorKind::VariableDeleted) => {
                                // Others may still use the dead handle; later ones find a new one
                                // most of the time.
                                if random.chance(50) {
                                    variables.write().unwrap()[place] = (owner, engines[owner].new_variable());
                                }
                                1
                            }
                            Err(ErrorKind::ForeignVariable) => 2,
                            Err(ErrorKind::ForeignOperator) => 3,
                            Err(other) => panic!("an error of kind {other:?}"),
                        };
                        kinds[said].fetch_add(1, Relaxed);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        engines.iter().for_each(|engine| engine.wait_for_all().unwrap());
        assert_eq!(ran.load(SeqCst), accepted.load(SeqCst));
        let said: Vec<usize> = kinds.iter().map(|count| count.load(Relaxed)).collect();
        assert!(said.iter().all(|count| *count > 100), "every outcome was seen: {said:?}");
    }
}
