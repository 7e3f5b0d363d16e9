//! A thread that pushes random operations of every form.

use crate::common::Random;
use crate::graphs;
use crate::world::{Guarded, World, SLOTS};
use seriatim::{Context, Engine, Error, ErrorKind, Operator, Property, Variable};

/// Operations that a pusher pushes in one world.
const OPERATIONS: usize = 300;

/// What a pusher got through.
pub struct Accepted {
    pub operations: u64,
    /// Changes of each value.
    pub changes: [u64; SLOTS],
}

/// The values of one operation, by their places.
#[derive(Clone)]
pub struct Choice {
    reads: Vec<usize>,
    writes: Vec<usize>,
}

impl Choice {
    pub fn random(random: &mut Random) -> Choice {
        // Most operations are small; a few exceed what fits the smallest block.
        let (reads, writes) = if random.chance(4) { (8, 4) } else { (random.below(4), random.between(1, 2)) };
        let mut places: Vec<usize> = (0..SLOTS).collect();
        let mut draw = |count| (0..count).map(|_| places.swap_remove(random.below(places.len()))).collect();
        Choice { reads: draw(reads), writes: draw(writes) }
    }

    pub fn slots(&self, world: &World) -> (Vec<Guarded>, Vec<Guarded>) {
        let of = |places: &[usize]| places.iter().map(|place| world.slots[*place]).collect();
        (of(&self.reads), of(&self.writes))
    }
}

pub fn variables(slots: &[Guarded]) -> Vec<Variable> {
    slots.iter().map(|slot| slot.variable).collect()
}

/// What most operations do.
pub fn touch(reads: &[Guarded], writes: &[Guarded]) {
    // SAFETY: the caller is an operation that has declared exactly these.
    unsafe {
        reads.iter().for_each(|slot| assert_ne!(slot.read(), u64::MAX));
        writes.iter().for_each(|slot| slot.change());
    }
}

/// Whether an operation was pushed. Only what the shape allows may keep it from that.
pub fn accepted(world: &World, outcome: Result<(), Error>) -> bool {
    let Err(error) = outcome else { return true };
    match error.kind() {
        ErrorKind::Stopped if world.shape.stops => std::thread::yield_now(),
        ErrorKind::EngineFull => std::thread::yield_now(),
        _ => panic!("{error} in {:?}", world.shape),
    }
    false
}

fn operator(world: &'static World, random: &mut Random) -> (Operator, Choice) {
    let choice = Choice::random(random);
    let (reads, writes) = choice.slots(world);
    let builder = world.engine.op("reused").reads(variables(&reads)).writes(variables(&writes));
    let operator = if random.chance(50) {
        builder.operator(move |_| touch(&reads, &writes))
    } else {
        builder.async_operator(move |_, completion| {
            touch(&reads, &[]);
            world.completer.give(completion, writes.clone());
        })
    };
    (operator.expect("the variables are alive"), choice)
}

pub fn work(world: &'static World, mut random: Random) -> Accepted {
    let mut done = Accepted { operations: 0, changes: [0; SLOTS] };
    let mut operators: Vec<_> = (0..2).map(|_| operator(world, &mut random)).collect();
    let mut graph = graphs::capture(world, &mut random, &operators);
    for _ in 0..OPERATIONS {
        let (pushed, choice) = match random.below(100) {
            0..15 => {
                let (operator, choice) = &operators[random.below(operators.len())];
                let pushed = world.engine.push(operator, Context::default(), random.between(0, 2) as i32);
                let pushed = accepted(world, pushed);
                done.add(pushed, choice);
                if random.chance(10) {
                    // The old one may still be in flight.
                    let (old, _) = operators.swap_remove(0);
                    world.engine.delete_operator(old);
                    operators.push(self::operator(world, &mut random));
                }
                continue;
            }
            15..35 => asynchronous(world, &mut random),
            35..45 => nested(world, &mut random),
            45..52 => {
                graph.replay(world, &mut random, &mut done);
                if random.chance(20) {
                    // The old one may still be in flight.
                    graph = graphs::capture(world, &mut random, &operators);
                }
                continue;
            }
            52..60 => {
                short_life(world, &mut random);
                continue;
            }
            _ => plain(world, &mut random),
        };
        done.add(pushed, &choice);
    }
    done
}

impl Accepted {
    pub fn add(&mut self, pushed: bool, choice: &Choice) {
        if pushed {
            self.operations += 1;
            choice.writes.iter().for_each(|place| self.changes[*place] += 1);
        }
    }
}

fn plain(world: &'static World, random: &mut Random) -> (bool, Choice) {
    let choice = Choice::random(random);
    let (reads, writes) = choice.slots(world);
    let properties = [Property::Normal, Property::Normal, Property::CpuPrioritized, Property::Async, Property::NoSkip];
    let builder = world.engine.op("plain").reads(variables(&reads)).writes(variables(&writes));
    let builder = builder.property(random.pick(&properties)).priority(random.below(3) as i32);
    (accepted(world, builder.push(move |_| touch(&reads, &writes))), choice)
}

fn asynchronous(world: &'static World, random: &mut Random) -> (bool, Choice) {
    let choice = Choice::random(random);
    let (reads, writes) = choice.slots(world);
    let builder = world.engine.op("asynchronous").reads(variables(&reads)).writes(variables(&writes));
    let builder = builder.property(random.pick(&[Property::Normal, Property::Async]));
    let pushed = builder.push_async(move |_, completion| {
        touch(&reads, &[]);
        world.completer.give(completion, writes);
    });
    (accepted(world, pushed), choice)
}

/// An operation that does its work in a second one, which it pushes.
fn nested(world: &'static World, random: &mut Random) -> (bool, Choice) {
    let choice = Choice::random(random);
    let (reads, writes) = choice.slots(world);
    let outer = world.engine.op("outer").reads(variables(&reads));
    let pushed = outer.push(move |_| {
        touch(&reads, &[]);
        world.engine.op("inner").writes(variables(&writes)).push(move |_| touch(&[], &writes))
    });
    (accepted(world, pushed), choice)
}

/// A variable of its own from birth to deletion, whose deleter frees the value.
fn short_life(world: &'static World, random: &mut Random) {
    let slot = Guarded::new(&world.engine);
    let mut expected = 0;
    for _ in 0..random.between(1, 6) {
        let other = random.pick(&world.slots);
        let builder = world.engine.op("short").reads([other.variable]);
        let pushed = if random.chance(50) {
            let pushed = builder.writes([slot.variable]).push(move |_| touch(&[other], &[slot]));
            expected += u64::from(pushed.is_ok());
            pushed
        } else {
            builder.reads([slot.variable]).push(move |_| touch(&[other, slot], &[]))
        };
        accepted(world, pushed);
    }
    let delete = |engine: &Engine| {
        let deleter = move |_: &seriatim::RunContext<'_>| {
            // SAFETY: the deletion of a variable runs after everything that uses it, and nothing
            // comes after it.
            unsafe {
                assert_eq!(slot.read(), expected);
                slot.free();
            }
        };
        engine.delete_variable(deleter, Context::cpu(0), slot.variable)
    };
    while !accepted(world, delete(&world.engine)) {}
}
