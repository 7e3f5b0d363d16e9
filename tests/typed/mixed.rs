//! Random programs of typed operations, results, guards that are held over pushes, futures and
//! scopes, against the same steps on plain numbers. Miri runs small ones. `MIXED_SEED=7` runs the
//! program of one seed.

use crate::common::*;
use crate::executor::block_on;
use seriatim::{Engine, Error, ErrorKind, Pending, Value, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const STEPS: usize = if cfg!(miri) { 8 } else { 100 };
const VALUES: usize = 4;
/// The elements of an array.
const LENGTH: usize = 6;
const LONG: Duration = Duration::from_secs(60);

/// What an operation makes of two numbers, the same for both runs.
fn of(number: u64, one: u64, other: u64) -> u64 {
    mix(one ^ other.rotate_left(9)).wrapping_add(number)
}

fn fold(numbers: &[u64]) -> u64 {
    numbers.iter().fold(1, |sum, number| of(3, sum, *number))
}

/// Changes an array by operations of a scope: its halves beside each other, each in two steps, and
/// then the first half by the second one.
fn in_scope(engine: &Engine, number: u64, array: &mut [u64]) -> Result<(), Error> {
    let (left, right) = array.split_at_mut(LENGTH / 2);
    engine.scope(|s| {
        let (left, right) = (s.part(left), s.part(right));
        for half in [&left, &right, &left] {
            s.op("half").run(Write(half), move |half| half.iter_mut().for_each(|x| *x = of(number, *x, 5)))?;
        }
        s.op("both").run((Write(&left), &right), move |(left, right)| left[0] = of(number, left[0], fold(right)))
    })
}

/// The same without an engine.
fn alone(number: u64, array: &mut [u64]) {
    let (left, right) = array.split_at_mut(LENGTH / 2);
    for half in [0, 1, 0] {
        let half = if half == 0 { &mut *left } else { &mut *right };
        half.iter_mut().for_each(|x| *x = of(number, *x, 5));
    }
    left[0] = of(number, left[0], fold(right));
}

/// A program, and what its steps have made of plain numbers.
struct Program {
    engine: Engine,
    random: Random,
    values: Vec<Value<u64>>,
    array: Value<Vec<u64>>,
    numbers: Vec<u64>,
    elements: Vec<u64>,
    results: Vec<(Pending<u64>, u64)>,
    /// What futures have found, and should find.
    told: Arc<Mutex<Vec<(u64, u64)>>>,
    futures: usize,
}

impl Program {
    fn new(seed: u64) -> Program {
        let mut random = Random(seed);
        let builders = builders();
        let engine = builders[random.below(builders.len())].clone().build().unwrap();
        if cfg!(miri) {
            std::mem::forget(engine.clone()); // As in `programs.rs`.
        }
        let numbers: Vec<u64> = (0..VALUES as u64).collect();
        let values = numbers.iter().map(|number| engine.value(*number)).collect();
        let elements: Vec<u64> = (10..10 + LENGTH as u64).collect();
        let array = engine.value(elements.clone());
        let (results, told) = (Vec::new(), Arc::default());
        Program { engine, random, values, array, numbers, elements, results, told, futures: 0 }
    }

    /// The numbers of two different values.
    fn two(&mut self) -> (usize, usize) {
        let one = self.random.below(VALUES);
        (one, (one + 1 + self.random.below(VALUES - 1)) % VALUES)
    }

    /// A step that only pushes: also for a thread that has a guard.
    fn push(&mut self, number: u64) {
        let (from, to) = self.two();
        let (x, y) = (self.values[from].clone(), self.values[to].clone());
        let op = self.engine.op("step");
        let op = if self.random.chance(20) { op.short() } else { op };
        match self.random.below(6) {
            0 => {
                op.run((&x, Write(&y)), move |(x, y)| *y = of(number, *x, *y)).unwrap();
                self.numbers[to] = of(number, self.numbers[from], self.numbers[to]);
            }
            1 => {
                let result = op.compute_on((&x, Write(&y)), move |(x, y)| {
                    *y = of(number, *x, *y);
                    *x ^ *y
                });
                self.numbers[to] = of(number, self.numbers[from], self.numbers[to]);
                self.results.push((result.unwrap(), self.numbers[from] ^ self.numbers[to]));
            }
            2 => {
                let inside = self.engine.clone();
                op.run(Write(&self.array), move |array| in_scope(&inside, number, array)).unwrap();
                alone(number, &mut self.elements);
            }
            3 => {
                // A result of an operation that has a scope inside, in a copy of what it reads.
                let inside = self.engine.clone();
                let result = op.try_compute_on((&x, &self.array), move |(x, array)| {
                    let mut copy = array.clone();
                    in_scope(&inside, *x, &mut copy).map(|()| fold(&copy))
                });
                let mut copy = self.elements.clone();
                alone(self.numbers[from], &mut copy);
                self.results.push((result.unwrap(), fold(&copy)));
            }
            4 => {
                // A future that waits for the result of another operation.
                let result = op.compute_on(&x, move |x| of(number, *x, 1)).unwrap();
                let (told, expected) = (Arc::clone(&self.told), of(number, self.numbers[from], 1));
                let future = async move {
                    let found = result.await?;
                    told.lock().unwrap().push((found, expected));
                    Ok::<(), Error>(())
                };
                self.engine.op("future").writes([y.variable()]).push_future(future).unwrap();
                self.futures += 1;
            }
            _ => {
                // What fails, and what depends on it: the values that it leaves behind are its own.
                let spoilt = self.engine.value(0);
                let fails = op.try_compute_on((&x, Write(&spoilt)), |_| Err::<u64, _>("no paper")).unwrap();
                let behind = self.engine.op("behind").compute_on(&spoilt, |spoilt| *spoilt).unwrap();
                self.engine
                    .op("takes")
                    .push_future(async move {
                        // In this order: who takes an error takes it from the variables that it
                        // marks.
                        for outcome in [behind.await, fails.await] {
                            assert_failed(outcome.map(drop), "no paper");
                        }
                    })
                    .unwrap();
            }
        }
    }

    fn step(&mut self, number: u64) {
        let (from, to) = self.two();
        let (x, y) = (self.values[from].clone(), self.values[to].clone());
        match self.random.below(12) {
            0 => {
                // Guards that are held over pushes: what is pushed finds what they leave.
                let mut changed = match self.random.chance(50) {
                    true => y.write().unwrap(),
                    false => y.write_timeout(LONG).unwrap(),
                };
                let read = x.read().unwrap();
                assert_eq!((*read, *changed), (self.numbers[from], self.numbers[to]), "{number}");
                self.numbers[to] = of(number, *read, *changed);
                let left = self.numbers[to];
                for push in 0..1 + self.random.below(6) as u64 {
                    self.push(number.wrapping_mul(100) + push);
                }
                if self.random.chance(50) {
                    drop(read);
                    *changed = left;
                } else {
                    *changed = left;
                    drop(changed);
                }
            }
            1 => {
                // A guard that comes too late changes nothing. A child of this thread has it.
                let guard = y.write().unwrap();
                let late = std::thread::scope(|scope| {
                    scope.spawn(|| y.read_timeout(Duration::from_micros(1)).map(drop)).join().unwrap()
                });
                assert_says(&late.unwrap_err(), ErrorKind::TimedOut, &[]);
                drop(guard);
            }
            2 | 3 => {
                if self.results.is_empty() {
                    return;
                }
                let at = self.random.below(self.results.len());
                let (mut result, expected) = self.results.swap_remove(at);
                let found = match self.random.below(5) {
                    0 => return, // Its operation runs all the same.
                    1 => block_on(result),
                    2 => result.wait_timeout(LONG),
                    3 => result.try_take().unwrap_or_else(|| result.wait()),
                    _ => result.wait(),
                };
                assert_eq!(found.unwrap(), expected, "{number}");
            }
            4 => {
                // A scope on what this thread has, whose operations read values.
                let mut own = self.elements.clone();
                let expected: Vec<u64> = own.iter().map(|own| of(number, *own, self.numbers[from])).collect();
                self.engine
                    .scope(|s| {
                        let (left, right) = own.split_at_mut(LENGTH / 3);
                        for part in [s.part(left), s.part(right)] {
                            s.op("part").run((Write(&part), &x), move |(part, x)| {
                                part.iter_mut().for_each(|own| *own = of(number, *own, *x));
                            })?;
                        }
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(own, expected, "{number}");
            }
            5 => {
                block_on(self.engine.ready(&x)).unwrap();
                assert_eq!(*x.read_timeout(LONG).unwrap(), self.numbers[from], "{number}");
            }
            6 => assert_eq!(*self.array.read().unwrap(), self.elements, "{number}"),
            _ => self.push(number),
        }
    }

    fn check(self) {
        for (at, (result, expected)) in self.results.into_iter().enumerate() {
            assert_eq!(if at % 2 == 0 { result.wait() } else { block_on(result) }.unwrap(), expected);
        }
        for (value, expected) in self.values.iter().zip(&self.numbers) {
            assert_eq!(*value.read().unwrap(), *expected);
        }
        assert_eq!(*self.array.read().unwrap(), self.elements);
        block_on(self.engine.all_ended()).unwrap();
        let told = self.told.lock().unwrap();
        assert_eq!(told.len(), self.futures);
        assert!(told.iter().all(|(found, expected)| found == expected));
    }
}

#[test]
fn random_programs_of_results_guards_and_scopes_leave_what_plain_steps_leave() {
    let _watchdog = Watchdog::new(if cfg!(miri) { 100_000 } else { 300 }, "random programs of results and guards");
    let seed = std::env::var("MIXED_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let only = cfg!(miri).then(|| seed.unwrap_or_default()).or(seed);
    for seed in only.map_or(0..by_length(60, 2_000), |seed| seed..seed + 1) {
        let mut program = Program::new(seed);
        for number in 0..STEPS {
            program.step(number as u64);
        }
        program.check();
    }
}
