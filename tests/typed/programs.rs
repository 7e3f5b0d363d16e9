//! Random programs over typed values, against a serial run in push order; and pushers that share
//! values, which must find none in the middle of a change. Miri runs small ones
//! (`scripts/miri.sh`). `TYPED_SEED=7` runs the program of one seed.

use crate::common::*;
use seriatim::{Context, Engine, ErrorKind, Graph, Operator, Value, Write};
use std::time::Duration;

const STEPS: usize = if cfg!(miri) { 12 } else { 300 };
const VALUES: usize = 5;
const TILES: usize = 4;
/// The elements of a tile.
const LENGTH: usize = 2;

/// What an operation does to what it changes, by what it reads: the same for both runs.
fn step(number: u64, read: u64, changed: &mut u64) {
    *changed = mix(*changed ^ read.rotate_left(7)).wrapping_add(number);
}

/// The sum of a tile.
fn sum(tile: &[u64]) -> u64 {
    tile.iter().fold(0, |sum, cell| sum.rotate_left(1) ^ cell)
}

/// A graph and an operator with the numbers of the values that they use.
struct Reusable {
    graph: Graph,
    operator: Operator,
    from: usize,
    to: usize,
}

/// A program and what a serial run has in each value.
struct Program {
    engine: Engine,
    random: Random,
    values: Vec<Value<u64>>,
    tiles: Vec<Value<[u64]>>,
    numbers: Vec<u64>,
    cells: Vec<u64>,
    reusable: Option<Reusable>,
}

impl Program {
    fn new(seed: u64) -> Program {
        let mut random = Random(seed);
        let builders = builders();
        let engine = builders[random.below(builders.len())].clone().build().unwrap();
        let numbers: Vec<u64> = (0..VALUES as u64).collect();
        let values = numbers.iter().map(|number| engine.value(*number)).collect();
        let cells: Vec<u64> = (0..(TILES * LENGTH) as u64).collect();
        let tiles = engine.tiles(cells.clone(), LENGTH);
        keep_for_miri(&engine);
        Program { engine, random, values, tiles, numbers, cells, reusable: None }
    }

    /// The numbers of two different values.
    fn two(&mut self) -> (usize, usize) {
        let one = self.random.below(VALUES);
        (one, (one + 1 + self.random.below(VALUES - 1)) % VALUES)
    }

    fn cells(&mut self, tile: usize) -> &mut [u64] {
        &mut self.cells[tile * LENGTH..][..LENGTH]
    }

    fn step(&mut self, number: u64) {
        let ((from, to), tile) = (self.two(), self.random.below(TILES));
        let (x, y) = (self.values[from].clone(), self.values[to].clone());
        let op = self.engine.op("step").context(Context::cpu(self.random.below(2) as u32));
        let op = if self.random.chance(20) { op.short() } else { op };
        match self.random.below(12) {
            0 | 1 => {
                op.run((&x, Write(&y)), move |(x, y)| step(number, *x, y)).unwrap();
                let read = self.numbers[from];
                step(number, read, &mut self.numbers[to]);
            }
            2 => {
                // A handle is gone before the operation runs; captured bytes send it another way.
                let bytes = [number; 80];
                op.run([Write(&x), Write(&y)], move |[x, y]| {
                    step(bytes[79], *x, y);
                    step(bytes[0], *y, x);
                })
                .unwrap();
                let mut other = self.numbers[to];
                step(number, self.numbers[from], &mut other);
                step(number, other, &mut self.numbers[from]);
                self.numbers[to] = other;
            }
            3 => {
                let tiles = &self.tiles[..];
                op.run((tiles, Write(&y)), move |(tiles, y)| tiles.iter().for_each(|tile| step(number, sum(tile), y)))
                    .unwrap();
                for tile in 0..TILES {
                    let read = sum(self.cells(tile));
                    step(number, read, &mut self.numbers[to]);
                }
            }
            4 | 5 => {
                let changed = &self.tiles[tile..];
                op.run((Some(&x), Write(changed)), move |(x, mut tiles)| {
                    tiles.iter_mut().flatten().for_each(|cell| step(number, *x.unwrap(), cell));
                })
                .unwrap();
                let read = self.numbers[from];
                self.cells[tile * LENGTH..].iter_mut().for_each(|cell| step(number, read, cell));
            }
            6 => {
                let other = (tile + 1) % TILES;
                let resources = (&self.tiles[tile], Write(&self.tiles[other]), (&x, Write(&y)));
                op.run(resources, move |(read, changed, (x, y))| {
                    changed.iter_mut().for_each(|cell| step(number, sum(read), cell));
                    step(number, *x ^ changed[0], y);
                })
                .unwrap();
                let read = sum(self.cells(tile));
                self.cells(other).iter_mut().for_each(|cell| step(number, read, cell));
                let read = self.numbers[from] ^ self.cells(other)[0];
                step(number, read, &mut self.numbers[to]);
            }
            7 => {
                drop(op);
                assert_eq!(*x.read().unwrap(), self.numbers[from], "{number}");
                step(number, 0, &mut y.write().unwrap());
                step(number, 0, &mut self.numbers[to]);
            }
            8 => {
                drop(op);
                let found = self.tiles[tile].read().unwrap().to_vec();
                assert_eq!(found, self.cells(tile), "{number}");
            }
            9 => {
                // The old value is dropped when its last use is over.
                drop(op);
                self.reusable = None;
                self.values[to] = self.engine.value(number);
                self.numbers[to] = number;
            }
            10 => {
                drop(op);
                let record = |c: &mut seriatim::Capture| {
                    c.op("first").run((&x, Write(&y)), |(x, y)| step(1, *x, y))?;
                    c.op("second").run((&y, Write(&x)), |(y, x)| step(2, *y, x))
                };
                let (graph, ()) = self.engine.capture(record).unwrap();
                let of = |x: &u64, y: &mut u64| step(3, *x, y);
                let operator = self.engine.op("operator").operator_on((&x, Write(&y)), move |(x, y)| of(x, y)).unwrap();
                self.reusable = Some(Reusable { graph, operator, from, to });
            }
            _ => {
                drop(op);
                let Some(Reusable { graph, operator, from, to }) = &self.reusable else { return };
                graph.replay().unwrap();
                self.engine.push(operator, Context::cpu(0), 0).unwrap();
                let (mut x, mut y) = (self.numbers[*from], self.numbers[*to]);
                step(1, x, &mut y);
                step(2, y, &mut x);
                step(3, x, &mut y);
                (self.numbers[*from], self.numbers[*to]) = (x, y);
            }
        }
    }

    fn check(self) {
        for (value, expected) in self.values.iter().zip(&self.numbers) {
            assert_eq!(*value.read().unwrap(), *expected);
        }
        drop(self.reusable);
        // A graph may let go of its handles a moment after its deletion.
        self.engine.wait_for_all().unwrap();
        for (value, expected) in self.values.into_iter().zip(self.numbers) {
            match value.into_inner() {
                Ok(found) => assert_eq!(found, expected),
                Err(error) => assert_says(&error, ErrorKind::BorrowConflict, &["other handles"]),
            }
        }
        let found: Vec<u64> = self.tiles.iter().flat_map(|tile| tile.read().unwrap().to_vec()).collect();
        assert_eq!(found, self.cells);
    }
}

/// Miri finds fault with how crossbeam-epoch ends: there the engine is kept, and each thread uses
/// one.
fn keep_for_miri(engine: &Engine) {
    if cfg!(miri) {
        std::mem::forget(engine.clone());
    }
}

/// The one program to run.
fn seed() -> Option<u64> {
    std::env::var("TYPED_SEED").ok().and_then(|seed| seed.parse().ok())
}

#[test]
fn random_programs_leave_what_a_serial_run_leaves() {
    let _watchdog = Watchdog::new(if cfg!(miri) { 100_000 } else { 300 }, "random programs over typed values");
    let only = cfg!(miri).then(|| seed().unwrap_or_default()).or_else(seed);
    for seed in only.map_or(0..by_length(60, 2_000), |seed| seed..seed + 1) {
        let mut program = Program::new(seed);
        for number in 0..STEPS {
            program.step(number as u64);
        }
        program.check();
    }
}

/// Each change takes two steps, between which others have time to come.
#[test]
fn pushers_that_share_values_find_none_in_the_middle_of_a_change() {
    let rounds = if cfg!(miri) { 6 } else { by_length(300, 5_000) };
    let on_engines = |test: &dyn Fn(Engine)| match (cfg!(miri), builders()) {
        (false, _) => on_every_engine(test),
        (true, builders) => {
            test(builders[seed().unwrap_or_default() as usize % builders.len()].clone().build().unwrap())
        }
    };
    on_engines(&|engine| {
        keep_for_miri(&engine);
        let values: Vec<Value<(u64, u64)>> = (0..3).map(|_| engine.value((0, 0))).collect();
        std::thread::scope(|scope| {
            for pusher in 0..3 {
                let (engine, values) = (&engine, values.clone());
                scope.spawn(move || {
                    let mut random = Random(pusher);
                    for round in 0..rounds {
                        let (from, to) = (random.below(3), random.below(2));
                        let to = (from + 1 + to) % 3;
                        let resources = (&values[from], Write(&values[to]));
                        let change = move |(read, changed): (&(u64, u64), &mut (u64, u64))| {
                            assert_eq!(read.0, read.1, "a change was read half done");
                            assert_eq!(changed.0, changed.1, "two change it at once");
                            changed.0 += 1;
                            spin(Duration::from_nanos(if round % 8 == 0 { 2_000 } else { 0 }));
                            changed.1 += 1;
                        };
                        engine.op("change").run(resources, change).unwrap();
                        if round % 16 == 5 {
                            let pair = *values[from].read().unwrap();
                            assert_eq!(pair.0, pair.1, "a change was read half done");
                        }
                    }
                });
            }
        });
        let total: u64 = values.iter().map(|value| value.read().unwrap().1).sum();
        assert_eq!(total, 3 * rounds as u64);
    });
}
