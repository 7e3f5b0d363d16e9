//! Random programs of all access modes, against a run without an engine. `MODES_SECONDS=600` runs
//! them for that long, and `MODES_SEED` one of them again.

use crate::common::*;
use seriatim::{Builder, Commute, Engine, Error, IdlePolicy, Kind, Reduce, Reduction, Value, Write};
use std::time::{Duration, Instant};

const PLAIN: usize = 3;
const COMMUTATIVE: usize = 3;
/// The copies of each ordered reduction.
const COPIES: [usize; 3] = [1, 3, 8];

/// One operation. Indices are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Changes a plain value, in order.
    Change(usize),
    /// Adds what a plain value says to one or two commutative ones.
    Add(usize, usize, usize),
    /// Looks at a commutative value, and at a plain one.
    Look(usize, usize),
    Double(usize),
    /// Adds what a plain value says to an ordered reduction, and to one that is not.
    Reduce(usize, usize),
    LookReduced(usize),
    Scale(usize),
    Wait(usize),
}

fn steps(seed: u64) -> Vec<Step> {
    let mut random = Random(seed);
    let r = &mut random;
    let weights = r.pick(&[[2, 8, 2, 1, 6, 1, 1, 1], [1, 20, 1, 0, 1, 0, 0, 0], [4, 3, 3, 2, 3, 2, 1, 0]]);
    let bag: Vec<usize> = weights.iter().enumerate().flat_map(|(kind, count)| vec![kind; *count]).collect();
    (0..if cfg!(miri) { 20 } else { r.pick(&[30, 200, 600]) })
        .map(|_| {
            let [a, b, c] = [r.below(6), r.below(6), r.below(6)];
            match r.pick(&bag) {
                0 => Step::Change(a),
                1 => Step::Add(a, b, c),
                2 => Step::Look(a, b),
                3 => Step::Double(a),
                4 => Step::Reduce(a, b),
                5 => Step::LookReduced(a),
                6 => Step::Scale(a),
                _ => Step::Wait(a),
            }
        })
        .collect()
}

/// A part whose order shows in the last bits.
fn part(of: u64) -> f64 {
    (mix(of) >> 11) as f64 * 2.0_f64.powi((of % 60) as i32 - 30)
}

/// All values of a program, as plain memory.
#[derive(Clone, Debug, PartialEq)]
struct Memory {
    plain: [u64; PLAIN],
    sums: [u64; COMMUTATIVE],
    /// The totals, and the copies of each; and whether there is anything in them.
    ordered: [f64; COPIES.len()],
    copies: [Vec<f64>; COPIES.len()],
    pushed: [usize; COPIES.len()],
    parted: [bool; COPIES.len()],
    any: u64,
    log: u64,
}

impl Memory {
    fn new() -> Memory {
        let copies = COPIES.map(|copies| vec![0.0; copies]);
        Memory {
            plain: [1; PLAIN],
            sums: [0; COMMUTATIVE],
            ordered: [0.0; COPIES.len()],
            copies,
            pushed: [0; COPIES.len()],
            parted: [false; COPIES.len()],
            any: 0,
            log: 0,
        }
    }

    fn combine(&mut self, which: usize) {
        if !std::mem::take(&mut self.parted[which]) {
            return;
        }
        // The tree, written down another way: level by level.
        let mut level: Vec<f64> = self.copies[which].iter_mut().map(std::mem::take).collect();
        while level.len() > 1 {
            level = level.chunks(2).map(|pair| if pair.len() == 2 { pair[0] + pair[1] } else { pair[0] }).collect();
        }
        self.ordered[which] += level[0];
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Change(a) => self.plain[a % PLAIN] = mix(self.plain[a % PLAIN]),
            Step::Add(a, b, c) => {
                let add = self.plain[a % PLAIN] >> 20;
                self.sums[b % COMMUTATIVE] = self.sums[b % COMMUTATIVE].wrapping_add(add);
                if b % COMMUTATIVE != c % COMMUTATIVE {
                    self.sums[c % COMMUTATIVE] = self.sums[c % COMMUTATIVE].wrapping_add(add);
                }
            }
            Step::Look(a, b) => self.log = mix(self.log ^ self.sums[a % COMMUTATIVE] ^ self.plain[b % PLAIN]),
            Step::Double(a) => self.sums[a % COMMUTATIVE] = self.sums[a % COMMUTATIVE].wrapping_mul(3),
            Step::Reduce(a, b) => {
                let which = b % COPIES.len();
                self.any = self.any.wrapping_add(self.plain[a % PLAIN]);
                let copy = self.pushed[which] % COPIES[which];
                self.copies[which][copy] += part(self.plain[a % PLAIN]);
                self.pushed[which] += 1;
                self.parted[which] = true;
            }
            Step::LookReduced(a) => {
                self.combine(a % COPIES.len());
                self.log = mix(self.log ^ self.ordered[a % COPIES.len()].to_bits() ^ self.any);
            }
            Step::Scale(a) => {
                self.combine(a % COPIES.len());
                self.ordered[a % COPIES.len()] /= 3.0;
            }
            Step::Wait(_) => {}
        }
    }
}

/// The same in an engine.
struct World {
    plain: Vec<Value<u64>>,
    sums: Vec<Value<(u64, bool)>>,
    ordered: Vec<Reduction<f64>>,
    any: Reduction<u64>,
    log: Value<u64>,
}

/// Adds to a sum, and finds another thread that does the same.
fn add((sum, is_busy): &mut (u64, bool), part: u64) {
    let is_busy: *mut bool = is_busy;
    // SAFETY: a valid pointer. Volatile, so that both are done.
    unsafe {
        assert!(!is_busy.read_volatile(), "two commute at once");
        is_busy.write_volatile(true);
        (0..part % 64).for_each(|_| std::hint::spin_loop());
        *sum = sum.wrapping_add(part);
        is_busy.write_volatile(false);
    }
}

impl World {
    fn new(engine: &Engine) -> World {
        World {
            plain: (0..PLAIN).map(|_| engine.value(1)).collect(),
            sums: (0..COMMUTATIVE).map(|_| engine.commutative((0, false))).collect(),
            ordered: COPIES
                .map(|copies| engine.ordered_reduction(copies, || 0.0, |sum, part| *sum += part).unwrap())
                .into(),
            any: engine.reduction(|| 0, |sum: &mut u64, part| *sum = sum.wrapping_add(part)),
            log: engine.value(0),
        }
    }

    fn push(&self, engine: &Engine, step: Step) -> Result<(), Error> {
        let plain = |at: usize| &self.plain[at % PLAIN];
        let sum = |at: usize| &self.sums[at % COMMUTATIVE];
        let reduced = |at: usize| &self.ordered[at % COPIES.len()];
        match step {
            Step::Change(a) => engine.op("change").run(Write(plain(a)), |x| *x = mix(*x)),
            Step::Add(a, b, c) => {
                let other = (b % COMMUTATIVE != c % COMMUTATIVE).then(|| Commute(sum(c)));
                engine.op("add").run((plain(a), Commute(sum(b)), other), |(x, sum, other)| {
                    add(sum, *x >> 20);
                    if let Some(other) = other {
                        add(other, *x >> 20);
                    }
                })
            }
            Step::Look(a, b) => engine.op("look").run((sum(a), plain(b), Write(&self.log)), |(sum, x, log)| {
                *log = mix(*log ^ sum.0 ^ x);
            }),
            Step::Double(a) => engine.op("double").run(Write(sum(a)), |sum| sum.0 = sum.0.wrapping_mul(3)),
            Step::Reduce(a, b) => {
                let uses = (plain(a), Reduce(&self.any), Reduce(reduced(b)));
                engine.op("reduce").run(uses, |(x, any, sum)| {
                    *any = any.wrapping_add(*x);
                    *sum += part(*x);
                })
            }
            Step::LookReduced(a) => {
                engine.op("look").run((reduced(a), &self.any, Write(&self.log)), |(sum, any, log)| {
                    *log = mix(*log ^ sum.to_bits() ^ any);
                })
            }
            Step::Scale(a) => engine.op("scale").run(Write(reduced(a)), |sum| *sum /= 3.0),
            Step::Wait(a) if a % 2 == 0 => sum(a).read().map(drop),
            Step::Wait(a) => engine.wait_for_var(sum(a).variable()),
        }
    }

    fn check(&self, mut expected: Memory, what: &str) {
        (0..COPIES.len()).for_each(|which| expected.combine(which));
        let plain: Vec<u64> = self.plain.iter().map(|value| *value.read().unwrap()).collect();
        let sums: Vec<u64> = self.sums.iter().map(|value| value.read().unwrap().0).collect();
        let ordered: Vec<u64> = self.ordered.iter().map(|sum| sum.read().unwrap().to_bits()).collect();
        assert_eq!(plain, expected.plain, "{what}");
        assert_eq!(sums, expected.sums, "{what}");
        assert_eq!(ordered, expected.ordered.map(f64::to_bits), "{what}");
        assert_eq!((*self.any.read().unwrap(), *self.log.read().unwrap()), (expected.any, expected.log), "{what}");
    }
}

fn engines() -> Vec<Builder> {
    let mut all = builders();
    all.push(Engine::builder().kind(Kind::Pooled).cpu_workers(8).idle(IdlePolicy::Park));
    all.push(Engine::builder().cpu_workers(2).bound(5));
    all
}

/// Runs the program of a seed from one thread, which must be as without an engine.
fn one_pusher(engine: &Engine, seed: u64, what: &str) {
    let (world, mut memory) = (World::new(engine), Memory::new());
    for step in steps(seed) {
        memory.step(step);
        world.push(engine, step).unwrap();
    }
    world.check(memory, what);
}

/// Runs the program of a seed from several threads: the sums are those of any order.
fn several_pushers(engine: &Engine, seed: u64, what: &str) {
    let (world, mut memory) = (World::new(engine), Memory::new());
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let all =
                steps(seed + thread).into_iter().filter(|step| !matches!(step, Step::Double(_) | Step::Change(_)));
            let all: Vec<Step> = all.collect();
            all.iter().for_each(|step| memory.step(*step));
            let world = &world;
            scope.spawn(move || all.into_iter().for_each(|step| world.push(engine, step).unwrap()));
        }
    });
    let sums: Vec<u64> = world.sums.iter().map(|value| value.read().unwrap().0).collect();
    assert_eq!((sums, *world.any.read().unwrap()), (memory.sums.to_vec(), memory.any), "{what}");
    engine.wait_for_all().unwrap();
}

#[test]
fn random_programs_of_all_modes_run_as_without_an_engine() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let (only, seconds, begin) = (number("MODES_SEED"), number("MODES_SECONDS"), Instant::now());
    let engines: Vec<Engine> = engines().into_iter().map(|builder| builder.build().unwrap()).collect();
    let goes_on = |round: u64| match seconds {
        Some(seconds) => begin.elapsed() < Duration::from_secs(seconds),
        None => round < if cfg!(miri) { 1 } else { by_length(12, 60) },
    };
    let mut rounds = 0;
    while goes_on(rounds) {
        let seed = only.unwrap_or(rounds * 10);
        let _watchdog = Watchdog::new(100, format!("the program of MODES_SEED={seed}"));
        for engine in &engines {
            let what = format!("MODES_SEED={seed}, {engine:?} of {} workers", engine.settings().cpu_workers);
            one_pusher(engine, seed, &what);
            several_pushers(engine, seed, &what);
        }
        rounds += 1;
    }
    println!("modes: {rounds} programs on {} engines", engines.len());
}
